# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines, wishes and runs of the tests of the planner of the scratch."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.plan import choose
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import Identity

sys.path.insert(0, str(Path(__file__).parent))
from scratch_model import MODEL, Drive, Machine

OURS = "a" * 32
OLDER = "b" * 32
FOREIGN = "c" * 32
VOLUME = "1" * 32
OLD_VOLUME = "2" * 32
SINGLE_VOLUME = "3" * 32
IDENTITIES = [Identity("d{0:031x}".format(n), "e{0:031x}".format(n)) for n in range(40)]


def plan(state, desired, identity):
    """The decision alone, without tools and boot unit."""
    return choose(state, desired, identity)[1]


_WANTED = {}


def wanted(**options):
    """A wish cannot be changed, so that equal ones are made once."""
    key = repr(sorted(options.items()))
    if key not in _WANTED:
        _WANTED[key] = of(Desired, dict({"models": [MODEL], "mount_point": "/mnt/scratch"}, **options))
    return _WANTED[key]


def converge(machine, desired, identity=IDENTITIES[0], first=None):
    """One run; gives the plan, ``first`` where it is known. The plan against the new state has to be empty."""
    machine.consented = desired.rebuild or not desired.present
    first = first or plan(machine.observe(), desired, identity)
    for action in first.actions:
        machine.apply(action)
    if desired.rebuild:
        desired = dataclasses.replace(desired, rebuild=False)
    rest = plan(machine.observe(), desired, identity)
    assert rest.refusals == first.refusals
    assert [action.describe() for action in rest.actions] == []
    return first


def kinds(actions):
    return [type(action).__name__ for action in actions]


def blank(count):
    return Machine([Drive("S{0}".format(n)) for n in range(count)])


def built(count=3, **options):
    machine = blank(count)
    converge(machine, wanted(**options), IDENTITIES[20])
    return machine


def says(result, *parts):
    text = " ".join(str(refusal) for refusal in result.refusals)
    assert result.refusals and not result.actions
    for part in parts:
        assert part in text, text
    # A play knows the variables of the role only.
    for option in ("rebuild: true", "overwrite_serials: ["):
        assert text.count(option) == text.count("nvme_scratch_" + option.partition(":")[0]), text
    return text

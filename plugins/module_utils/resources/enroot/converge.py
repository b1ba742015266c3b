# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring enroot on this node to what is wanted."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Dict

from ...core import managed_files
from ...core.host import Host
from ...core.node_packages import InstallPackages
from ...core.resource import NodeError, Outcome, Plan, converge
from ...slurm.user_folders import SECTION
from . import texts
from .apply import apply
from .observe import observe
from .plan import after, plan, until_installed
from .types import Desired, State


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Two runs at once take turns.

    :raises NodeError: one sentence; a refusal changed nothing.
    """
    if check_mode:
        return _converged(host, desired, True)
    if os.geteuid() != 0:
        raise NodeError("enroot", "only root may set it up", "run it as root (become: true)")
    with host.lock(SECTION, timeout_seconds=1800.0):
        return _converged(host, desired, False)


def _converged(host: Host, desired: Desired, check_mode: bool) -> Outcome[State]:
    """Packages come in a round of their own: what they bring (hooks, an AppArmor profile) decides about the rest."""
    found = [observe(host, desired)]

    def look() -> State:
        return found.pop() if found else observe(host, desired)

    def round_of(planned: Callable[[State], Plan]) -> Outcome[State]:
        return converge(look, planned, lambda action: apply(host, action), check_mode)

    if check_mode or not any(isinstance(one, InstallPackages) for one in plan(found[0], desired).actions):
        return round_of(lambda state: plan(state, desired))
    first = round_of(lambda state: until_installed(plan(state, desired)))
    rest = round_of(lambda state: plan(state, desired))
    whole = dataclasses.replace(rest.plan, actions=first.plan.actions + rest.plan.actions)
    return Outcome(first.before, rest.after, whole, changed=True)


def facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    state = after(outcome.before, outcome.plan.actions) if outcome.changed else outcome.after
    managing = desired.present and outcome.plan.skipped is None
    found = state.packages.installed("enroot")
    return {
        "version": None if found is None else found.version,
        "user_folders": [
            {"purpose": one.purpose, "path": one.path, "remove": one.remove}
            for one in (texts.folders(state, desired) if managing else ())
        ],
        "settings": texts.values(state, desired) if managing else {},
        "nvidia_container_cli": state.nvidia_container_cli,
    }


def text(outcome: Outcome[State], planned: bool) -> str:
    """The files, packages and settings of the kernel as diff mode shows them; ``planned``: as they will be."""
    state = after(outcome.before, outcome.plan.actions) if planned else outcome.before
    packages = "".join("package {0} {1}\n".format(one.name, one.version) for one in state.packages.found)
    links = "".join("{0} -> {1}\n".format(one.path, one.target) for one in state.links if one.kind == "ours")
    values = "".join("{0} = {1}\n".format(key, value) for key, value in sorted(state.kernel.values.items()))
    return packages + links + values + managed_files.text(state.files)

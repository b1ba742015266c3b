# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drain for an event is nobody else's: neither a hook nor the gate ends it or gives it another reason."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import plan as gate
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import History
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import drain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode

DRAINED = SlurmNode(frozenset(("IDLE", "DRAIN")), "gpu_node: event: Reboot e1 at 2027-01-15T08:15:00Z")


@pytest.mark.parametrize("finding", [None, "scratch: it is gone"])
def test_a_hook_leaves_it(finding):
    found = drain.decide(DRAINED, finding)
    assert found.action == drain.LEAVE and "cloud_events" in found.why


def test_the_gate_leaves_it():
    assert gate.decide(DRAINED, History(), Settings(), 0.0, "boot").action == drain.LEAVE


def test_whose_it_is():
    assert drain.is_for_event(DRAINED) and drain.is_ours(DRAINED) and not drain.is_for_health(DRAINED)
    assert not drain.is_for_event(SlurmNode(frozenset(("IDLE",)), DRAINED.reason))
    assert not drain.is_for_event(SlurmNode(DRAINED.flags, "gpu_node: health: event: x"))

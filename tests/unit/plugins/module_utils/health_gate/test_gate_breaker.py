# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many nodes fall ill at once: however their calls to slurmctld fall, no more than the share stays drained.

A model of slurmctld with a clock of whole seconds, and of nodes that look, drain, wait and look again, as the gate
does it; hypothesis draws who falls ill, when, and how long each call takes.
"""

from __future__ import annotations

import heapq

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health_gate import cluster, gate, plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health_gate.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_job.drain import DRAIN
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_job.types import SlurmNode
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health_gate.gate_states import (
    FAIL,
    NOW,
    history,
)

SETTINGS = Settings()


class Controller:
    def __init__(self, size):
        self.nodes = {
            name: cluster.Node(name, SlurmNode(frozenset({"IDLE"})), ("gpu",))
            for name in ("gpu{0:03}".format(number) for number in range(size))
        }

    def look(self, name):
        return cluster.partitions_of(self.nodes.values(), name)

    def drain(self, name, reason, time):
        since = "2026-01-31T12:{0:02}:{1:02}".format(int(time) // 60, int(time) % 60)
        self.nodes[name] = cluster.Node(name, SlurmNode(frozenset({"IDLE", "DRAIN"}), reason), ("gpu",), since)

    def resume(self, name):
        self.nodes[name] = cluster.Node(name, SlurmNode(frozenset({"IDLE"})), ("gpu",))

    @property
    def drained(self):
        return sum(1 for one in self.nodes.values() if one.ours)


def fall_ill(controller, delays, pause=gate.SETTLE_SECONDS):
    """``delays``: for each sick node when it looks, when it drains after that, and what its second look takes."""
    pending = [(delay[0], number, "look") for number, delay in enumerate(delays)]
    heapq.heapify(pending)
    names = list(controller.nodes)
    while pending:
        now, number, step = heapq.heappop(pending)
        name, delay = names[number], delays[number]
        if step == "look":
            decision = plan.decide(controller.nodes[name].state, history(FAIL), controller.look(name), SETTINGS, NOW)
            if decision.action == DRAIN:
                heapq.heappush(pending, (now + delay[1], number, decision.reason))
        elif step == "again":
            if plan.taken_back(name, controller.look(name), SETTINGS) is not None:
                controller.resume(name)
        else:
            controller.drain(name, step, now)
            heapq.heappush(pending, (now + pause + delay[2], number, "again"))


DELAYS = st.tuples(st.floats(0, 3), st.floats(0, 3), st.floats(0, 3))


@settings(max_examples=150)
@given(st.integers(2, 40).flatmap(lambda size: st.tuples(st.just(size), st.lists(DELAYS, min_size=1, max_size=size))))
def test_however_calls_fall_the_share_is_kept(case):
    size, delays = case
    controller = Controller(size)
    fall_ill(controller, delays)
    limit = max(1, size // 5)
    assert controller.drained <= limit
    # Once more, one after the other, as at the next interval: then it is exactly the share.
    fall_ill(controller, [(10.0 * number, 0.0, 0.0) for number in range(len(delays))])
    assert controller.drained == min(limit, len(delays))


def test_when_sixty_percent_fall_ill_in_the_same_second_the_breaker_holds():
    controller = Controller(100)
    fall_ill(controller, [(0.0, 0.1, 0.0)] * 60)
    assert controller.drained == 20


def test_without_the_pause_it_would_not_hold():
    """That the model can fail: a node that looks before the others of its second are drained keeps its drain."""
    controller = Controller(10)
    # Slurm's seconds tell no order within one; the names do, and the last one to drain comes first by name.
    fall_ill(controller, [(0.0, 0.9 - 0.1 * number, 0.0) for number in range(8)], pause=0.0)
    assert controller.drained > 2

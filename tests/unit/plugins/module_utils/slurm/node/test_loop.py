# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop of a node, with a scheduler whose answers are given."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.loop import DrainStands, Loop
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.types import (
    Decision,
    Drain,
    Outcome,
    Owner,
    Undrain,
)

WISH = SimpleNamespace(name="n1", drained=True, wait_seconds=30.0, failed=False)
NOBODY = SimpleNamespace(owner=Owner.NOBODY)
READY = Decision(outcome=Outcome.READY, why="it is drained by us")


def broken(words):
    return NodeError("scheduler", words, "look at it")


class Scheduler(Loop):
    """``decisions`` come one after the other; ``looks``, ``does``: what the first ones of them end with, None for
    success."""

    OUT, BACK = Drain, Undrain

    def __init__(self, decisions, looks=(), does=(), back=False):
        self.pauses = []
        super().__init__(WISH, 5.0, False, self.pauses.append)
        self._decisions, self._looks, self._does, self._back = iter(decisions), iter(looks), iter(does), back

    def look(self):
        error = next(self._looks, None)
        if error is not None:
            raise error
        return NOBODY

    def decide(self, state, time_left):
        return next(self._decisions)

    def apply(self, state, action):
        found = next(self._does, True)
        if isinstance(found, NodeError):
            raise found
        return found

    def is_refused(self, error):
        return error.reason == "refused"

    def unsteady(self, state):
        return broken("unsteady")

    def taken_back(self):
        return self._back


def test_who_is_acted_against_all_the_time_gives_up():
    loop = Scheduler([Decision(Drain(str(number))) for number in range(9)])
    with pytest.raises(DrainStands, match="unsteady") as failed:
        loop.whole()
    assert len(loop.actions) == 4 and "our drain of the node may stand" in str(failed.value)


def test_an_action_that_came_too_late_is_none():
    loop = Scheduler([Decision(Drain("a")), Decision(Drain("b")), READY], does=[False, True])
    assert loop.whole().actions == (Drain("b"),)


@pytest.mark.parametrize(
    "words, back, stands", [("refused", False, False), ("no answer", False, True), ("no answer", True, False)]
)
def test_a_drain_stands_only_where_it_may_be_there(words, back, stands):
    loop = Scheduler([Decision(Drain("a"))], does=[broken(words)], back=back)
    with pytest.raises(NodeError, match=words) as failed:
        loop.whole()
    assert isinstance(failed.value, DrainStands) == stands


def test_a_scheduler_that_is_away_for_a_moment_ends_no_wait():
    loop = Scheduler([Decision(), READY], looks=[None, broken("away"), broken("away"), None])
    assert loop.whole().outcome is Outcome.READY and len(loop.pauses) == 3

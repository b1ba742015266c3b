# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The convergence loop: what it does, and what it refuses to call done."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import (
    Action,
    NodeError,
    Plan,
    Refusal,
    Refused,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import converge


@dataclasses.dataclass(frozen=True)
class SetValue(Action):
    value: int

    def describe(self) -> str:
        return "set the value to {0}".format(self.value)


class Machine:
    """A resource of one number, with the wish 5."""

    def __init__(self, value: int, works: bool = True) -> None:
        self.value = value
        self.works = works
        self.applied: list = []

    def plan(self, value: int) -> Plan:
        if value < 0:
            return Plan(refusals=(Refusal("value {0}".format(value), "it is negative", "make it positive"),))
        return Plan() if value == 5 else Plan((SetValue(5),))

    def apply(self, action: Action) -> None:
        self.applied.append(action)
        if self.works:
            self.value = action.value

    def run(self, check_mode: bool = False):
        return converge(lambda: self.value, self.plan, self.apply, check_mode)


def test_a_difference_is_applied_once_and_the_second_run_changes_nothing():
    machine = Machine(1)
    assert machine.run().changed
    assert machine.value == 5
    assert not machine.run().changed
    assert machine.applied == [SetValue(5)]


def test_check_mode_plans_and_applies_nothing():
    machine = Machine(1)
    outcome = machine.run(check_mode=True)
    assert outcome.changed and outcome.plan.actions == (SetValue(5),)
    assert machine.value == 1 and machine.applied == []


def test_an_action_that_did_not_help_fails_with_what_is_still_missing():
    with pytest.raises(NodeError, match="still differs from what was asked: set the value to 5"):
        Machine(1, works=False).run()


def test_a_refusal_stops_everything_and_says_all_three_parts():
    machine = Machine(-1)
    with pytest.raises(Refused) as caught:
        machine.run()
    assert str(caught.value) == "value -1: it is negative; make it positive."
    assert machine.applied == []


def test_a_plan_cannot_act_and_refuse_at_once():
    with pytest.raises(ValueError):
        Plan((SetValue(1),), refusals=(Refusal("a", "b", "c"),))
    with pytest.raises(ValueError):
        Plan((SetValue(1),), skipped="nothing here")


def test_an_error_is_one_line_with_one_full_stop():
    error = NodeError("disk X", "it has a\n  partition table.", "wipe it;")
    assert str(error) == "disk X: it has a partition table; wipe it."


def test_an_action_tells_its_name_its_fields_and_its_text():
    assert SetValue(3).to_dict() == {"action": "set_value", "value": 3, "description": "set the value to 3"}

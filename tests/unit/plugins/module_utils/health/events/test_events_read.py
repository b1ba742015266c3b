# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading what a cloud or a program says: an entry that cannot be understood costs itself, and the proof that others
are gone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events import read
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events.types import TYPES
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.events.azure_stand_in import (
    ID,
    OTHER_ID,
    event,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
FIELDS = (
    "EventId",
    "EventStatus",
    "EventType",
    "Resources",
    "NotBefore",
    "Description",
    "EventSource",
    "DurationInSeconds",
)


def answer(*events, **more):
    return read.azure(json.dumps(dict({"DocumentIncarnation": 1, "Events": list(events)}, **more)).encode(), "azure")


@pytest.mark.parametrize("kind", ["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"])
def test_each_type_is_known(kind):
    assert [one.type for one in answer(event(kind)).events] == [kind.lower()]


def test_a_type_of_tomorrow_is_an_event_all_the_same():
    (one,) = answer(event("Hibernate")).events
    assert (one.type, one.word) == ("other", "Hibernate")


@pytest.mark.parametrize(
    "wrong",
    [
        {"EventId": ""},
        {"EventId": "a b"},
        {"EventId": "a'; scontrol"},
        {"EventId": "x" * 65},
        {"EventId": 7},
        {"EventStatus": "Completed"},
        {"EventStatus": None},
        {"EventType": ""},
        {"EventType": "Reboot now"},
        {"Resources": "vm"},
        {"Resources": [1]},
        {"NotBefore": "soon"},
        {"NotBefore": 7},
    ],
)
def test_one_that_cannot_be_understood_is_passed_over_and_told(wrong):
    found = answer(event("Reboot", **wrong), event("Freeze", name=OTHER_ID))
    assert [one.id for one in found.events] == [OTHER_ID] and not found.whole and len(found.notes) == 1


def test_texts_are_one_printable_line():
    (one,) = answer(event("Reboot", Description="a\x1b[31m\nb" * 100, EventSource=["x"])).events
    assert one.description.isprintable() and len(one.description) <= 200 and one.source == ""


def test_twice_the_same_is_the_worse_of_both():
    for pair in ([event("Reboot", "Started"), event("Reboot")], [event("Reboot"), event("Reboot", "Started")]):
        (one,) = answer(*pair).events
        assert one.started


def test_more_than_a_machine_can_have_is_not_whole():
    many = [event("Reboot", name="e{0}".format(number)) for number in range(read.MOST_EVENTS + 1)]
    found = answer(*many)
    assert len(found.events) == read.MOST_EVENTS and not found.whole
    assert answer(*many[:-1]).whole


@given(JSON)
def test_nothing_but_an_error_in_one_sentence_comes_of_any_document(content):
    for reads in (read.azure, read.program):
        try:
            reads(json.dumps(content).encode(), "it")
        except NodeError:
            pass


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_no_field_is_trusted(fields):
    found = answer(event("Reboot", **fields))
    for one in found.events:
        assert one.type in TYPES and one.id.isprintable() and " " not in one.id and json.dumps(one.to_dict())
    assert found.whole == bool(found.events)


@pytest.mark.parametrize("when", [1800000000, 1800000000.0, "2027-01-15T08:00:00Z"])
def test_a_program_may_write_times_as_it_likes(when):
    (one,) = read.program(json.dumps([{"id": ID, "type": "Redeploy", "not_before": when}]).encode(), "it").events
    assert (one.not_before, one.type, one.word) == (1800000000.0, "redeploy", "Redeploy")


@pytest.mark.parametrize(
    "entry",
    [
        7,
        {},
        {"id": ID},
        {"id": ID, "type": "reboot", "status": "over"},
        {"id": ID, "type": "reboot", "not_before": "now"},
    ],
)
def test_an_odd_event_of_a_program_is_told(entry):
    found = read.program(json.dumps([entry]).encode(), "it")
    assert not found.events and not found.whole and len(found.notes) == 1

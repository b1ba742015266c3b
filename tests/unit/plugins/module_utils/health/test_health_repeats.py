# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule about links that fail again and again: what counts as a failure, and what is one event of the fabric."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import registry, repeats
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import repeat_offender
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.repeats import REPEATS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.journal import FAULT, Event
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parts import NODE, Part
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

NOW = 1.8e9
PORTS = tuple(Part("port", "b859:9f03:0001:000{0}".format(number)) for number in range(8))
PORT = PORTS[0]
TOGETHER = next(one.together for one in REPEATS if one.code == "port_failures")


def down(before, part=PORT, check="ib_ports", code="link_down", node="gpu07", lasted=0.0):
    """A failure of a link that began so many seconds ago."""
    begin = NOW - before
    return Event(FAULT, part, begin, begin + lasted, "b1", check, code, "look", node=node)


def counts(events, part=PORT):
    return [one.count for one in repeats.of_part(part, events, NOW)]


@pytest.mark.parametrize(
    ("check", "code", "counted"),
    [
        ("ib_ports", "link_down", True),
        ("ib_flaps", "link_downed", True),
        ("network_flaps", "carrier", True),
        ("ib_ports", "not_active", False),  # no subnet manager
        ("ib_ports", "rate", False),
        ("ib_pcie", "width", False),
        ("ib_pcie", "link_down", False),
        ("ib_bandwidth", "slow", False),
        ("ib_errors", "symbol_errors", False),
        ("", "", False),
    ],
)
def test_only_what_ends_a_link_is_a_failure_of_it(check, code, counted):
    events = [down(before, check=check, code=code) for before in (3000, 2000, 1000)]
    assert counts(events) == ([3] if counted else [])


def test_the_rule_names_checks_that_there_are():
    known = {one.id for one in registry.checks(Cost.ACTIVE)}
    assert {check for rule in REPEATS for check in rule.checks} <= known


def test_another_fault_of_the_port_makes_no_third_failure_of_its_link():
    assert counts([down(3000), down(2000), down(1000, check="ib_pcie", code="width")]) == []


@pytest.mark.parametrize(
    ("moments", "found"),
    [
        ((3000, 2000, 1000), [3]),
        ((1500, 1350, 1200), []),  # a switch that restarts
        ((3000, 2850, 2000, 1000), [3]),
        ((3000, 2850, 2700, 1000), []),
        ((2000, 2000 - TOGETHER, 2000 - 2 * TOGETHER), []),
        ((2000, 1999 - TOGETHER, 1998 - 2 * TOGETHER), [3]),
    ],
)
def test_failures_of_one_port_that_follow_each_other_closely_are_one(moments, found):
    assert counts([down(one) for one in moments]) == found


def test_the_ports_of_a_node_that_fail_together_have_one_event_each():
    """Each port fails three times in seven minutes, and one of them between the others."""
    leaf = [down(2000 - 10 * number - 200 * time, part) for number, part in enumerate(PORTS) for time in range(3)]
    assert [counts(leaf, part) for part in PORTS] == [[]] * len(PORTS)
    # Failures of its own 500 s apart are three, unless another port has failed in between.
    own = [down(before) for before in (3000, 2500, 2000)]
    assert counts(own) == [3]
    between = [down(before, PORTS[1]) for before in (2750, 2250)]
    assert counts(own + between) == [] and counts(own + between, PORTS[1]) == []
    # What befell another node, where this port was, or another kind of part, says nothing of this fabric.
    assert counts(own + [replaced(one, node="gpu08") for one in between]) == [3]
    assert counts(own + [replaced(one, part=NODE) for one in between]) == [3]
    assert counts(own + [replaced(one, check="ib_pcie") for one in between]) == [3]


def test_a_port_that_stays_down_hides_no_other():
    assert counts([down(9000, PORTS[1], lasted=9000), *(down(before) for before in (3000, 2000, 1000))]) == [3]


def test_the_finding_holds_for_a_day_after_the_last_failure_has_ended():
    past = [down(before) for before in (91000, 90000)]
    assert counts([*past, down(89000)]) == [] and counts([*past, down(89000, lasted=5000)]) == [3]
    assert counts([*past, down(89100), down(89000, lasted=5000)]) == [3]


def test_the_check_looks_at_all_ports_of_the_node():
    own = [down(before) for before in (3000, 2500, 2000)]
    between = [down(before, PORTS[1]) for before in (2750, 2250)]
    expected = type("Expected", (), {"now": NOW, "node": "gpu07"})
    for events, codes in ((own, ["port_failures"]), (own + between, [])):
        seen = repeat_offender.Seen(tuple(events), ((PORT, "0101:00:00.0"),))
        assert [one.code for one in repeat_offender.judge(seen, expected).findings] == codes


@pytest.mark.parametrize(
    ("observe", "codes"),
    [
        ((), ["port_failures"]),
        (("ib_ports",), []),
        (("*",), []),
        (("ib_ports/link_down",), []),
        (("ib_flaps",), ["port_failures"]),
        (("*", "!ib_ports"), ["port_failures"]),
    ],
)
def test_what_is_only_observed_is_counted_by_no_rule(observe, codes):
    """It is in the journal all the same, and is told as a figure."""
    own = tuple(down(before) for before in (3000, 2500, 2000))
    expected = type("Expected", (), {"now": NOW, "node": "gpu07"})
    judged = repeat_offender.judge(repeat_offender.Seen(own, ((PORT, "0101:00:00.0"),), observe), expected)
    assert [one.code for one in judged.findings] == codes
    assert [one.value for one in judged.measured if one.name == repeat_offender.FAULTS] == [3]


FAILURES = st.builds(
    down,
    st.floats(0, 3500),
    st.sampled_from(PORTS[:3]),
    st.sampled_from(("ib_ports", "ib_ports", "ib_pcie")),
    node=st.sampled_from(("gpu07", "gpu07", "gpu08")),
    lasted=st.floats(0, 3500),
)


@given(st.lists(FAILURES, max_size=25), st.lists(FAILURES, max_size=5), st.randoms())
@examples(200)
def test_events_of_the_fabric_count_once_however_they_come(events, more, dice):
    shuffled = dice.sample(events, len(events))
    for part in PORTS[:3]:
        (found,) = counts(events, part) or [0]
        own = sorted((one.node, one.time) for one in events if one.part == part and one.check == "ib_ports")
        assert counts(shuffled, part) == counts(events, part)
        # No more than its failures, and none for those that follow each other closely.
        apart = [
            later
            for before, later in zip([("", 0.0), *own], own)
            if later[0] != before[0] or later[1] - before[1] > TOGETHER
        ]
        assert found <= len(apart)
        # What befalls other ports makes no event more of this one.
        others = [one for one in more if one.part != part]
        assert (counts(events + others, part) or [0])[0] <= found


@given(st.floats(300, 3000), st.lists(st.tuples(st.floats(0, TOGETHER), st.sampled_from(PORTS)), max_size=30))
@examples(100)
def test_what_falls_into_five_minutes_never_makes_an_offender(begin, failures):
    events = [down(begin - later, part) for later, part in failures]
    earlier = down(begin + 400)
    assert [counts([earlier, *events], part) for part in PORTS] == [[]] * len(PORTS)

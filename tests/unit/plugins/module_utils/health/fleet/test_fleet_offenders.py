# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that fail again, out of verdicts as they lie in JSON: a GPU that moved keeps its history, and no node's word
breaks the report or speaks for another node."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import plain, replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import repeats
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import repeat_offender
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet import offenders as fleet
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.offenders import offenders
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.formats import prometheus
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.journal import (
    CLEARED,
    FAULT,
    REMEDY,
    Event,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parts import NODE, Part
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    result,
    verdict,
)

NOW = 1.8e9
HOUR, DAY = 3600.0, 86400.0
GPU, OTHER, DISK = Part("gpu", "GPU-5b3c"), Part("gpu", "GPU-0000"), Part("disk", "S5XYZ")


def faults(part, node, *hours_ago, code="lost", what=FAULT):
    return [
        Event(what, part, NOW - ago * HOUR, NOW - ago * HOUR, "b", "gpu_lost", code, "reboot", node=node)
        for ago in hours_ago
    ]


def judged(name, here, events, now=NOW):
    seen = repeat_offender.Seen(tuple(events), (*((part, "0000:0b:00.0") for part in here), (NODE, "")))
    return repeat_offender.judge(seen, type("Expected", (), {"now": now, "node": name}))


def told(name, here, events, now=NOW):
    """The verdict of a node as it comes to the controller."""
    one = replaced(result("repeat_offender"), measured=judged(name, here, events, now).measured)
    return json.loads(json.dumps(plain(replaced(verdict(one), node=name))))


def sentences(verdicts, now=NOW):
    return ["{0}: {1}".format(one.host, one.sentence(now)) for one in offenders(verdicts, now)]


def test_a_gpu_that_failed_on_one_node_is_told_on_the_node_that_it_came_to():
    verdicts = {
        "gpu07": told("gpu07", [OTHER], faults(GPU, "gpu07", 100, 80, 60, 40)),
        "gpu12": told("gpu12", [GPU], faults(GPU, "gpu12", 10)),
        "gpu13": told("gpu13", [DISK], []),
    }
    assert sentences(verdicts) == [
        "gpu12: GPU GPU-5b3c: 5 faults within 30 days, one each 22 h, the last 10 h ago; "
        "it failed 4 times on gpu07 before it came to gpu12"
    ]
    # Also before its first fault there.
    verdicts["gpu12"] = told("gpu12", [GPU], [])
    (one,) = offenders(verdicts, NOW)
    assert (one.host, one.faults, one.between) == ("gpu12", 4, 20 * HOUR)
    # And one fault is enough then, which is none otherwise.
    verdicts["gpu07"] = told("gpu07", [], faults(GPU, "gpu07", 100))
    assert "it failed 1 time on gpu07 before it came to gpu12" in sentences(verdicts)[0]
    assert sentences({"gpu07": told("gpu07", [GPU], faults(GPU, "gpu07", 100))}) == []


def test_what_came_by_the_folder_of_the_site_counts_once_and_under_the_host_of_the_run():
    events = faults(GPU, "gpu07", 50, 40, 30)
    verdicts = {
        "gpu07.rack1": told("gpu07", [], events),
        "gpu12.rack1": told("gpu12", [GPU], events + faults(GPU, "gpu12", 5)),
    }
    (one,) = offenders(verdicts, NOW)
    assert one.faults == 4 and "3 times on gpu07.rack1 before it came to gpu12.rack1" in one.sentence(NOW)
    # The node is gone: what others know of it stays.
    del verdicts["gpu07.rack1"]
    (one,) = offenders(verdicts, NOW)
    assert one.faults == 4 and "3 times on gpu07 before it came to gpu12.rack1" in one.sentence(NOW)


def test_a_part_that_is_nowhere_and_what_stays_where_it_is():
    verdicts = {
        "a": told("a", [], faults(GPU, "a", 5, 6)),
        "b": told("b", [], faults(NODE, "b", 5, 6) + faults(NODE, "b", 4, what=REMEDY)),
        "c": told("c", [], faults(Part("gpu", "at 0000:0b:00.0"), "old name of c", 5, 6)),
    }
    assert sorted(sentences(verdicts)) == [
        ": GPU GPU-5b3c: 2 faults within 30 days, one each 60 min, the last 5 h ago; "
        "it failed 2 times on a, and is on none of these nodes now",
        "b: this node: 2 faults within 30 days, one each 60 min, the last 5 h ago, 1 remedy tried",
        "c: GPU at 0000:0b:00.0: 2 faults within 30 days, one each 60 min, the last 5 h ago",
    ]


def test_what_says_nothing_of_a_part_does_not_count():
    events = faults(GPU, "a", 5, 6, 7, code="xid_31") + faults(GPU, "a", 5, 6, what=CLEARED)
    events += faults(GPU, "a", 24 * 31, 24 * 32) + faults(GPU, "a", -5, -6)
    assert repeats.tallies(GPU, events, NOW) == ()
    assert sentences({"a": told("a", [GPU], events)}) == []


def test_all_nodes_of_one_name_are_told_apart():
    verdicts = {
        host: told("localhost", [part], faults(part, "localhost", 5, 6)) for host, part in (("a", GPU), ("b", OTHER))
    }
    assert [one.split(":")[0] for one in sentences(verdicts)] == ["a", "b"]
    assert not any("came to" in one for one in sentences(verdicts))


def test_events_of_an_older_version_are_of_the_node_that_tells_them():
    old = faults(GPU, "", 50, 40)
    assert offenders({"a": told("a", [GPU], old + faults(GPU, "a", 5))}, NOW)[0].places[0].faults == 3
    both = {"a": told("a", [], old), "b": told("b", [GPU], old)}
    (one,) = offenders(both, NOW)
    assert one.faults == 2 and "2 times on a node whose name is not known" in one.sentence(NOW)


def test_a_node_that_lies_speaks_for_no_other():
    honest = {"a": told("a", [GPU], faults(GPU, "a", 5))}
    liar = told("z", [], faults(GPU, "a", *range(1, 30)))
    assert sentences(dict(honest, z=liar)) == []
    # Who says that he has it, too, takes nothing away and adds nothing.
    verdicts = {"a": told("a", [GPU], faults(GPU, "a", 5, 6)), "z": told("z", [GPU], faults(GPU, "z", 1, 2, 3))}
    found = {one.host: one for one in offenders(verdicts, NOW)}
    assert found["a"].faults == 2 and found["a"].also == ("z",)
    assert "z say that they have it too, so nothing is joined" in found["a"].sentence(NOW)


def test_a_clock_in_the_future_costs_the_times_and_not_the_faults():
    ahead = NOW + 400 * DAY
    events = [replaced(one, time=one.time + 400 * DAY, last=one.last + 400 * DAY) for one in faults(GPU, "a", 5, 6)]
    assert sentences({"a": told("a", [GPU], events, now=ahead)}) == [
        "a: GPU GPU-5b3c: 2 faults within 30 days, the last at an unknown time"
    ]


BAD = (None, True, "x", -1, 10**400, 1e308, float("nan"), float("inf"), [], {}, "\x1b[31m" * 50, "x" * 10**6)


@pytest.mark.parametrize("name", ["name", "value", "key", "labels", "kind", "seen_on", "present", "node", "measured"])
def test_no_value_breaks_it_and_no_control_character_comes_through(name):
    for bad in BAD:
        one = told("a", [GPU], faults(GPU, "a", 5, 6) + faults(DISK, "b", 7, 8))
        if name == "node":
            one["node"] = bad
        for row in one["results"]:
            if name == "measured":
                row["measured"] = bad
                continue
            for figure in row["measured"]:
                (figure["labels"] if name in ("kind", "seen_on", "present") else figure)[name] = bad
        for text in sentences({"a": one, "b": told("b", [GPU], [])}):
            assert text.isprintable() and len(text) < 1000


def test_a_flood_is_bounded():
    flood = told("a", [GPU], faults(GPU, "a", 5, 6))
    row = next(one for one in flood["results"][0]["measured"] if one["name"] == "part_faults")
    flood["results"][0]["measured"] = [dict(row, key="GPU-{0}".format(at), value=1e300) for at in range(200000)]
    begun = time.monotonic()
    found = offenders({"a": flood}, NOW)
    assert len(found) == 2000 and max(one.faults for one in found) == 1000
    assert time.monotonic() - begun < 5


class Counted(dict):
    gone_through = 0

    def items(self):
        Counted.gone_through += 1
        return super().items()


def test_all_nodes_are_gone_through_once_and_not_for_each_part(monkeypatch):
    """A fleet of 4,096 renamed nodes took 17 s."""
    named = fleet._named
    monkeypatch.setattr(fleet, "_named", lambda verdicts: Counted(named(verdicts)))
    parts = [Part("gpu", "GPU-{0}".format(at)) for at in range(20)]
    events = [one for part in parts for one in faults(part, "an old name", 5, 6)]
    assert len(offenders({"a": told("a", parts, events), "b": told("b", [], [])}, NOW)) == 20
    assert Counted.gone_through == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
ROW = st.fixed_dictionaries(
    {
        "name": st.sampled_from(("part_faults", "part_last_fault_timestamp_seconds")) | JSON,
        "value": st.floats() | JSON,
        "key": st.sampled_from(("GPU-a", "")) | JSON,
        "labels": st.fixed_dictionaries(
            {"kind": st.just("gpu") | JSON, "seen_on": st.just("a") | JSON, "present": st.just("true") | JSON}
        )
        | JSON,
    }
)
RESULT = st.fixed_dictionaries({"id": st.just("repeat_offender"), "measured": st.lists(ROW | JSON, max_size=6) | JSON})


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.fixed_dictionaries({"results": st.lists(RESULT | JSON), "node": JSON}) | JSON
    )
)
@examples(200)
def test_whatever_nodes_send_it_ends_in_sentences(verdicts):
    assert all(one.isprintable() for one in sentences(verdicts))


def test_what_a_node_tells_is_bounded_and_the_parts_that_are_here_come_first():
    gone = [one for at in reversed(range(300)) for one in faults(Part("gpu", "GPU-{0}".format(at)), "a", at + 1)]
    rows = judged("a", [GPU], gone + faults(GPU, "a", 600)).measured
    counted = [one for one in rows if one.name == "part_faults"]
    assert len(counted) == 64 and counted[0].key == GPU.name and counted[1].key == "GPU-0"


def test_the_metrics_have_how_often_and_when():
    one = replaced(
        result("repeat_offender"), measured=judged("gpu12", [GPU, DISK], faults(GPU, "gpu07", 5, 6)).measured
    )
    text = prometheus.render(replaced(verdict(one), node="gpu12"))
    labels = '{kind="gpu",seen_on="gpu07",present="true",window="30d",check="repeat_offender",key="GPU-5b3c"}'
    assert "gpu_node_health_figure_part_faults{0} 2\n".format(labels) in text
    assert 'gpu_node_health_figure_part_faults{kind="disk",seen_on="gpu12",' in text
    assert "gpu_node_health_figure_part_last_fault_timestamp_seconds" in text

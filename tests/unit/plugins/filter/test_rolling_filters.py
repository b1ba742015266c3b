# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a node fared in rolling.yml, and what the run came to."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.filter.rolling import rolling_batch, rolling_outcome, rolling_tally

READY, BUSY = {"outcome": "ready"}, {"outcome": "busy", "why": "jobs run on it (MIXED)"}
AWAY = {"unreachable": True, "msg": "Failed to connect:\n timed out"}


@pytest.mark.parametrize(
    "first, failure, back, outcome",
    [
        (READY, None, {"outcome": "in_service", "why": "it is in service"}, ("converged", "")),
        (READY, None, {"outcome": "left", "why": "anna"}, ("converged", "stays out of service: anna")),
        (READY, "GPU 3\nis lost", None, ("failed", "GPU 3 is lost")),
        (READY, None, None, ("failed", "it did not come to its end, see above")),
        (READY, None, AWAY, ("failed", "it did not come to its end, see above")),
        (BUSY, None, None, ("busy", "jobs run on it (MIXED)")),
        ({"outcome": "left", "why": "no machine"}, None, None, ("left", "no machine")),
        (AWAY, None, None, ("unreachable", "Failed to connect: timed out")),
        ({"failed": True}, "slurmctld: it does not answer", None, ("failed", "slurmctld: it does not answer")),
        ({}, None, None, ("failed", "it did not come to its end, see above")),
    ],
)
def test_outcome(first, failure, back, outcome):
    found = rolling_outcome(first, failure, back)
    assert (found["outcome"], found["why"]) == outcome


@pytest.mark.parametrize("owner, drained", [("rolling", True), ("nobody", False), ("somebody", False)])
def test_a_busy_node_tells_whether_our_drain_stands(owner, drained):
    assert rolling_outcome(dict(BUSY, owner=owner))["drained"] is drained


@pytest.mark.parametrize("drained, most, stop", [("ab", 2, True), ("ab", 3, False), ("abc", 2, True), ("", 1, False)])
def test_a_run_does_not_drain_the_whole_cluster(drained, most, stop):
    outcomes = {host: {"outcome": "busy", "why": "", "drained": host in drained} for host in "abc"}
    tally = rolling_tally(outcomes, HOSTS, HOSTS, 0, most)
    assert tally["stop"] is stop and not rolling_tally(outcomes, HOSTS, HOSTS, 0)["stop"]
    if stop:
        text = "stopped: {0} nodes are drained and wait, as many as a batch has; run it again later; not begun: "
        assert tally["lines"][-1] == text.format(len(drained)) + "d, e, f"
    assert not rolling_tally(dict(outcomes, **told(**dict.fromkeys("def", "converged"))), HOSTS, HOSTS, 0, 1)["stop"]


REBOOT = {"for": "a reboot", "why": "reboot the node"}
UNREAD = {"for": "slurmd", "why": "restart slurmd"}
RESET = {"for": "a GPU reset", "why": "reset the GPU"}


@pytest.mark.parametrize(
    "waits, outcome, why",
    [
        ([REBOOT], "waits for a reboot", "reboot the node"),
        ([UNREAD], "waits for slurmd", "restart slurmd"),
        ([RESET], "waits for a GPU reset", "reset the GPU"),
        ([REBOOT, UNREAD], "waits for a reboot", "reboot the node; restart slurmd"),
    ],
)
def test_a_node_that_waits_for_something_has_an_outcome_of_its_own_and_is_not_done(waits, outcome, why):
    skipped = {"skipped": True}
    found = rolling_outcome(READY, None, skipped, waits)
    assert found == {"outcome": outcome, "why": why, "drained": True}
    tally = rolling_tally({"a": found}, ["a"], ["a"], 0)
    assert tally["not_done"] == ["a"] and not tally["stop"] and tally["failed"] == []
    assert tally["lines"][0] == "1 of 1 nodes: 1 " + outcome and tally["lines"][1].endswith(": a: " + why)
    assert tally["lines"][1].startswith("converged and drained, " + outcome) and tally[outcome] == ["a"]
    assert rolling_tally({"a": found}, ["a", "b"], ["a", "b"], 0, 1)["stop"]
    assert rolling_outcome(READY, "GPU 3 is lost", None, waits)["outcome"] == "failed"
    assert rolling_outcome(BUSY, None, None, waits)["outcome"] == "busy"


def told(**outcomes):
    return {host: {"outcome": outcome, "why": "why"} for host, outcome in outcomes.items()}


HOSTS = ["a", "b", "c", "d", "e", "f"]


def test_a_run_that_is_over_lists_everybody():
    outcomes = told(a="converged", b="busy", c="left", d="failed", e="unreachable")
    outcomes["a"]["why"] = ""
    tally = rolling_tally(outcomes, HOSTS, HOSTS[:-1], "100%")  # Ansible lost f in the middle
    assert not tally["stop"] and tally["not_done"] == ["b", "c", "d", "e", "f"]
    assert tally["lines"] == [
        "6 of 6 nodes: 1 converged, 1 busy, 1 left, 2 failed, 1 unreachable",
        "converged: a",
        "busy, left for later: b: why",
        "out of service by others, left alone: c: why",
        "failed: d: why",
        "failed: f: it was lost in the middle, see above",
        "not reachable; a drain of this run may stand: e: why",
    ]


@pytest.mark.parametrize(
    "failed, most, stop",
    [
        ("a", 0, True),
        ("a", "0%", True),
        ("a", 1, False),
        ("ab", "1", True),
        ("a", "16%", True),
        ("a", "17%", False),
        ("abc", "50 %", False),
        ("abcd", "50%", True),
        ("", 0, False),
        ("abcdef", 0, False),  # nobody is left who could be spared
    ],
)
def test_it_stops_when_more_failed_than_may(failed, most, stop):
    tally = rolling_tally(told(**dict.fromkeys(failed, "failed")), HOSTS, HOSTS, most)
    assert tally["stop"] is stop
    assert ("not begun: " in tally["lines"][-1]) is stop


def test_what_is_not_reachable_or_busy_stops_nothing():
    assert not rolling_tally(told(a="unreachable", b="busy", c="left"), HOSTS, HOSTS, 0)["stop"]


@pytest.mark.parametrize("most", ["many", "", "-1", "101%", None, "5.5"])
def test_a_limit_that_is_none(most):
    with pytest.raises(AnsibleFilterError, match="give 3 or '5%'"):
        rolling_tally({}, HOSTS, HOSTS, most)


def test_ten_thousand_converged_are_one_line():
    hosts = ["gpu{0:05}".format(number) for number in range(10000)]
    tally = rolling_tally({host: {"outcome": "converged", "why": ""} for host in hosts}, hosts, hosts, "5%")
    assert len(tally["lines"]) == 2 and tally["lines"][1].endswith("gpu00019 and 9980 more") and not tally["not_done"]


OUTCOMES = st.dictionaries(
    st.sampled_from(HOSTS), st.sampled_from(("converged", "busy", "left", "failed", "unreachable"))
)


@given(OUTCOMES, st.sets(st.sampled_from(HOSTS)), st.integers(0, 6))
def test_everybody_is_counted_once(outcomes, alive, most):
    tally = rolling_tally(told(**outcomes), HOSTS, sorted(alive), most)
    names = [host for key in ("converged", "busy", "left", "failed", "unreachable", "waiting") for host in tally[key]]
    assert sorted(names) == HOSTS
    assert sorted(tally["not_done"] + tally["converged"]) == HOSTS
    assert tally["stop"] == (len(tally["failed"]) > most and bool(tally["waiting"]))


@pytest.mark.parametrize(
    "wanted, hosts, forks, size",
    [("10%", 100, 50, 10), ("10%", 1000, 50, 50), (20, 1000, 5, 5), ("3", 2, 5, 3), ("10%", 5, 5, 1), ("1%", 5, 5, 1)],
)
def test_a_batch_has_no_more_nodes_than_ansible_works_on(wanted, hosts, forks, size):
    assert rolling_batch(wanted, hosts, forks) == size


@pytest.mark.parametrize(
    "wanted, reason",
    [(word, "is neither a number of nodes nor percent") for word in ("many", "", "-1", None)]
    + [("110%", "is more than all nodes"), (0, "is a batch without nodes"), ("0%", "is a batch without nodes")]
    + [([1, "10%"], "is a list, and one value holds for the whole run")],
)
def test_a_batch_that_cannot_be_is_told_by_its_variable_and_why(wanted, reason):
    with pytest.raises(AnsibleFilterError) as caught:
        rolling_batch(wanted, 10, 5)
    assert str(caught.value) == "gpu_node_rolling_batch: {0!r} {1}; give 3 or '5%'.".format(str(wanted), reason)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only active checks found: when a remedy is tried for it, and when it is not any more."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.attempts import Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import history, kept, owing
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import record as record_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import Debt, Fault
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.kept import Active, Kept
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.remedies.plan import decide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    Certainty,
    Cost,
    Outcome,
    Remedy,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    result,
    verdict,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.remedies.remedy_states import (
    BOOT,
    NOW,
    RESET,
    attempt,
    cluster,
    finding,
    settings,
    state,
    tried,
)

PEERS = "gpu_peer_bandwidth"
SLOW = finding(Remedy.RESET_GPU, code="low_peer")
FOUND = ((PEERS, SLOW),)
OWED = Debt((Fault(PEERS, "low_peer", "reset_gpu"),))
KNOWN = Active("m", BOOT, (Kept(PEERS, NOW - 300, SLOW),))

NONE = Record()


def clean(**changes):
    """A node of which a passive look tells nothing."""
    return replaced(state(outcome=Outcome.PASS), **dict({"findings": (), "kept": FOUND}, **changes))


def counting(known=KNOWN, debt=OWED, record=NONE, section=None, machine="m", boot=BOOT, now=NOW):
    return kept.counting(known, debt, record, section or {}, "gpu00", machine, boot, now)


# The plan -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.PASS, Outcome.WARN])
def test_what_only_an_active_check_found_is_tried_as_any_other(outcome):
    planned = decide(clean(outcome=outcome), settings("reset_gpu"))
    assert planned == decide(state((PEERS, SLOW)), settings("reset_gpu")) and planned.remedy == "reset_gpu"
    assert not decide(clean(outcome=outcome, kept=()), settings("reset_gpu")).remedy


def test_nothing_is_tried_where_its_remedy_is_off_and_no_guess_moves_anything():
    assert "no remedy is on" in decide(clean(), Settings()).why
    assert "it is not on" in decide(clean(), settings("restart_service")).why
    guess = replaced(SLOW, certainty=Certainty.POSSIBLE)
    look = replaced(SLOW, action=Remedy.LOOK)
    for one in (guess, look, replaced(SLOW, outcome=Outcome.WARN)):
        assert not decide(clean(kept=((PEERS, one),)), settings()).remedy


def test_caps_breaker_and_the_stronger_remedy_are_the_same():
    twice = tried(attempt(hours=30), attempt(hours=20))
    assert decide(clean(record=twice), settings("reset_gpu", "reboot")).remedy == "reboot"
    assert "tried 2 times within 7 days" in decide(clean(record=twice), settings("reset_gpu")).why
    four = tried(*(attempt(hours=hours) for hours in (9, 8, 7, 6)))
    planned = decide(clean(record=four), settings(remedy_attempts=9))
    assert not planned.remedy and "4 remedies were tried on this node within a day" in planned.latch
    full = cluster(remedied=("gpu01", "gpu02"), size=20)
    assert decide(clean(cluster=full), settings()).latch
    assert "is latched" in decide(clean(record=Record(latched="x")), settings()).why
    assert "ended less than" in decide(clean(record=tried(replaced(attempt(), ended=NOW - 60))), settings()).why
    for other in (cluster(reason="anna: memory"), cluster(("MIXED", "DRAIN")), cluster(jobs="job 7 is on it"), None):
        planned = decide(clean(cluster=other), settings())
        assert not planned.remedy and not planned.latch


def test_of_both_looks_the_strongest_counts():
    reboot = ((PEERS, replaced(SLOW, action=Remedy.REBOOT)),)
    assert decide(state(RESET, kept=reboot), settings()).remedy == "reboot"
    assert decide(state(RESET, kept=FOUND), settings()).remedy == "reset_gpu"


NO_PROOF = "no proof would follow (health_gate_proof, health_gate_resume)"


@pytest.mark.parametrize(
    "changes, options, why",
    [
        ({}, {"proof": False}, NO_PROOF),
        ({}, {"resume": False}, NO_PROOF),
        ({"proofs": 3}, {}, "the proof was tried 3 times; a person must look at it"),
        ({"proofs": 1}, {"proof_attempts": 1}, "the proof was tried 1 times; a person must look at it"),
        ({"outcome": Outcome.UNKNOWN}, {}, "what a passive look tells is not known"),
    ],
)
def test_none_is_tried_for_it_where_no_proof_would_follow(changes, options, why):
    assert decide(clean(proofs=2), settings()).remedy == "reset_gpu"
    planned = decide(clean(**changes), settings(**options))
    assert not planned.remedy and not planned.steps and not planned.latch and why in planned.why
    # Nor is the remedy for what a passive look tells a stronger one by it.
    reboot = ((PEERS, replaced(SLOW, action=Remedy.REBOOT)),)
    sick = state(RESET, kept=reboot, **{name: value for name, value in changes.items() if name != "outcome"})
    assert decide(sick, settings(**options)).remedy == ("reboot" if "outcome" in changes else "reset_gpu")


# Which count --------------------------------------------------------------------------------------------


def test_it_counts_while_it_is_owed_and_nothing_was_tried_since():
    assert [one.finding for one in counting()] == [SLOW]
    # After a remedy only a new measurement tells whether the fault is still there, whoever released what.
    for one in (attempt(hours=0.05), attempt(hours=0.05, counts=False), attempt("reboot", "node", hours=0.05)):
        assert counting(record=tried(one)) == ()
    assert counting(record=tried(attempt(hours=1)))
    # What was measured while it ran is not from after it.
    running = replaced(attempt(hours=0.1), ended=NOW - 299)
    assert counting(record=tried(running)) == () and counting(record=tried(replaced(running, ended=NOW - 301)))
    again = Active("m", BOOT, (Kept(PEERS, NOW - 10, SLOW),))
    assert counting(again, record=tried(attempt(hours=0.05)))


@pytest.mark.parametrize(
    "changes",
    [
        {"debt": Debt()},  # a person resumed it, or the gate
        {"debt": Debt(OWED.faults, passed=(PEERS,))},
        {"debt": Debt((Fault(PEERS, "another", "reset_gpu"),))},
        {"boot": "boot-3"},
        {"boot": "", "known": Active("m", "", KNOWN.faults)},
        {"machine": "another"},
        {"now": NOW + 86400},
        {"now": NOW - 301},  # a clock that was set back
        {"section": {"without": ["gpu_peer*"]}},
        {"section": {"observe": [PEERS]}},
        {
            "section": {
                "silences": [{"finding": PEERS + "/*", "until": "2100-01-01", "owner": "anna", "reason": "known"}]
            }
        },
    ],
)
def test_one_thing_is_enough_for_it_to_count_no_more(changes):
    assert counting() and counting(**changes) == ()


def test_what_a_section_has_of_a_wrong_kind_breaks_nothing():
    for section in ({"without": 7}, {"without": [7]}, {"observe": 7}, {"silences": 7}, {"silences": [7]}):
        assert counting(section=section)


# What is kept -------------------------------------------------------------------------------------------


def active(*results, time=NOW, level=Cost.ACTIVE, seconds=0.0):
    return replaced(verdict(*results, time=time, level=level), seconds=seconds)


def test_a_check_that_was_made_again_replaces_what_it_said_and_one_without_a_result_does_not():
    ib = replaced(SLOW, key="0101:00:00.0")
    known = kept.updated(Active(), active(result(PEERS, SLOW), result("gpu_xid", SLOW)), "m", "b")
    assert known == Active("m", "b", (Kept(PEERS, NOW, SLOW),))  # what a passive look tells is not kept
    both = kept.updated(known, active(result("ib_bandwidth", ib), time=NOW + 9), "m", "b")
    assert [one.check for one in both.faults] == [PEERS, "ib_bandwidth"]
    assert [one.check for one in kept.updated(both, active(result(PEERS)), "m", "b").faults] == ["ib_bandwidth"]
    unknown = replaced(SLOW, outcome=Outcome.UNKNOWN)
    assert kept.updated(known, active(result(PEERS, unknown)), "m", "b").faults == known.faults
    warned = replaced(SLOW, outcome=Outcome.WARN)
    assert kept.updated(known, active(result(PEERS, warned)), "m", "b").faults == ()
    # By the begin of the run of checks, for a remedy may have run beside it.
    (one,) = kept.updated(Active(), active(result(PEERS, SLOW), seconds=300.0), "m", "b").faults
    assert one.time == NOW - 300
    # Another start, or another machine.
    after = kept.updated(both, active(result("ib_bandwidth", ib)), "m", "c")
    assert [one.check for one in after.faults] == ["ib_bandwidth"]
    assert kept.updated(both, active(result("gpu_compute")), "n", "b").faults == ()


@pytest.fixture
def host(tmp_path):
    for path, text in (
        ("proc/sys/kernel/random/boot_id", BOOT),
        ("sys/class/dmi/id/product_uuid", "6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01"),
        ("etc/gpu_node/node.json", "{}"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "var/lib/gpu_node/health").mkdir(parents=True)
    return Host(str(tmp_path))


def test_a_passive_run_keeps_what_an_active_one_found(host):
    assert record_files.keep(host, active(result(PEERS, SLOW))) == ()
    assert os.stat(host.path(kept.PATH)).st_mode & 0o777 == 0o600
    record_files.keep(host, active(result("gpu_lost"), level=Cost.PASSIVE, time=NOW + 300))
    (one,) = kept.read(host).faults
    assert one == Kept(PEERS, NOW, SLOW)
    # It counts from when the gate has it.
    assert kept.now_counting(host, "gpu00", {}, Record(), NOW + 300) == ()
    owing.tell(host, active(result(PEERS, SLOW)))
    assert kept.now_counting(host, "gpu00", {}, Record(), NOW + 300) == (one,)
    owing.tell(host, active(result(PEERS), time=NOW + 600))
    assert kept.read(host).faults == () and history.read(host).debt.passed == (PEERS,)
    assert kept.PATH in record_files.STATE_FILES


def test_a_healthy_node_keeps_nothing(host):
    record_files.keep(host, active(result(PEERS)))
    assert not host.exists(kept.PATH)


def test_what_was_edited_counts_for_nothing(host):
    record_files.keep(host, active(result(PEERS, SLOW)))
    with open(host.path(kept.PATH), encoding="utf-8") as stream:
        good = json.load(stream)

    def put(content):
        with open(host.path(kept.PATH), "w", encoding="utf-8") as stream:
            stream.write(content if isinstance(content, str) else json.dumps(content))
        return kept.read(host).faults

    assert put(good)
    for text in ("", "{", "null", "[]", "{}", "[" * 100000, "9" * 10000, "x" * (1 << 21)):
        assert put(text) == ()
    for bad in (None, True, 7, [], {}, "x" * 1000, 10**400, float("nan")):
        for name in ("check", "time", "finding"):
            found = put(dict(good, faults=[dict(good["faults"][0], **{name: bad})]))
            assert found == () or name == "time"
        for name in good["faults"][0]["finding"]:
            one = good["faults"][0]
            assert put(dict(good, faults=[dict(one, finding=dict(one["finding"], **{name: bad}))])) == ()
    (one,) = good["faults"]
    assert put(dict(good, faults=[dict(one, check="gpu_xid")])) == ()  # no active check
    assert len(put(dict(good, faults=[one] * 1000))) == 64


@given(st.text(max_size=600), st.text(max_size=600))
def test_what_is_written_is_read(text, key):
    long = replaced(SLOW, reason=text, key=key)
    known = kept.updated(Active(), active(result(PEERS, long)), "m", "b")
    assert kept.FILE.parse(kept.FILE.text(known)) == (known, "")

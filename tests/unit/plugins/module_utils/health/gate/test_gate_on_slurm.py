# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate before a slurmctld that is a script: what it asks, what it changes, and what stays when things go wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import safe_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import gate, history
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import breaker, drain
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    DARK,
    HEALTHY,
    LOST,
    result,
    verdict,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.slurm_stand_in import Cluster

SICK, UNSEEN = verdict(result("gpu_xid", LOST)), verdict(result("nvme_smart", DARK))
REASON = "gpu_node: health: replace: GPU 3 (0000:0b:00.0): it has fallen off the bus (Xid 79)"
IS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
BOOTS = {"first": "0a6a3e1c-0000-4000-8000-000000000001", "second": "0a6a3e1c-0000-4000-8000-000000000002"}
HOUR_LATER = dataclasses.replace(HEALTHY, time=HEALTHY.time + 3600)


class Slurm(Cluster):
    def __init__(self, folder, size):
        super().__init__(folder / "slurm", ["gpu{0:02}".format(number) for number in range(size)])
        self.roots = folder

    def boot(self, name, boot="first", machine="6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01", seconds_ago=3600.0):
        for path, text in (
            ("proc/stat", "btime {0:.0f}".format(time.time() - seconds_ago)),
            ("proc/sys/kernel/random/boot_id", BOOTS[boot]),
            ("sys/class/dmi/id/product_uuid", machine),
        ):
            (self.roots / name / path).parent.mkdir(parents=True, exist_ok=True)
            (self.roots / name / path).write_text(text + "\n")

    def host(self, name, **declared):
        root = self.roots / name
        (root / "etc/gpu_node").mkdir(parents=True, exist_ok=True)
        # Without the proof of test_gate_proof.py.
        section = dict({"proof": False}, **declared, scontrol=str(self.folder / "scontrol"))
        (root / "etc/gpu_node/node.json").write_text(json.dumps({"health_gate": section}))
        return Host(str(root))

    def gate(self, name, told=None, pause=lambda seconds: None, **declared):
        tell = (lambda text: None) if told is None else told.append
        return gate.Gate(self.host(name, **declared), name, tell, pause)


@pytest.fixture
def slurm(tmp_path):
    return Slurm(tmp_path, 10)


def test_a_sick_node_is_drained_and_comes_back_after_three_clean_verdicts(slurm):
    done = slurm.gate("gpu00").settle(SICK)
    assert done.decision.action == "drain" and done.in_service is False
    assert slurm.node("gpu00") == ("IDLE+DRAIN", REASON)
    actions = [slurm.gate("gpu00").settle(one).decision.action for one in (SICK, HEALTHY, UNSEEN, HEALTHY, HEALTHY)]
    assert actions == ["leave"] * 5 and slurm.drained == ["gpu00"]
    done = slurm.gate("gpu00").settle(HEALTHY)
    assert done.decision.action == "resume" and done.in_service is True and slurm.drained == []


def test_a_healthy_node_asks_slurmctld_once_an_hour_and_about_itself_only(slurm):
    assert all(slurm.gate("gpu00").settle(HEALTHY).decision.action == "leave" for dummy in range(5))
    (call,) = slurm.calls
    # scontrol has slurmctld send all nodes, also for "show node NAME" (seen in its source up to 26.05).
    assert call.startswith("sinfo -h --local -a -N -n gpu00 -O ")
    # Somebody drained it for us from elsewhere: it is seen within the hour.
    slurm.set("gpu00", "IDLE+DRAIN", REASON)
    assert slurm.gate("gpu00").settle(HOUR_LATER).decision.why == "1 of 3 clean verdicts in a row"
    assert all(" -n gpu00 " in call or call.startswith("scontrol update NodeName=gpu00") for call in slurm.calls)


def test_a_clock_that_was_set_back_does_not_keep_a_node_from_asking(slurm):
    slurm.gate("gpu00").settle(HOUR_LATER)
    slurm.set("gpu00", "IDLE+DRAIN", REASON)
    assert [slurm.gate("gpu00").settle(HEALTHY).decision.action for dummy in range(3)] == ["leave", "leave", "resume"]


def test_a_run_that_is_killed_while_it_drains_is_looked_at_again(slurm, monkeypatch):
    """Slurm has the drain, and nobody came to write that down afterwards."""
    slurm.gate("gpu00").settle(HEALTHY)  # nobody would ask within the hour

    def killed(*given):
        drained(*given)
        raise KeyboardInterrupt

    one = slurm.gate("gpu00")
    drained = one._slurm.drain
    monkeypatch.setattr(one._slurm, "drain", killed)
    with pytest.raises(KeyboardInterrupt):
        one.settle(SICK)
    assert slurm.drained == ["gpu00"] and history.read(one.host).entries[-1].action == "drain"
    actions = [slurm.gate("gpu00").settle(HEALTHY).decision.action for dummy in range(3)]
    assert actions == ["leave", "leave", "resume"] and slurm.drained == []


def test_only_who_is_about_to_drain_asks_about_the_others(slurm):
    slurm.gate("gpu00").settle(SICK)
    asked = [call for call in slurm.calls if call.startswith("sinfo") and " -n " not in call]
    assert len(asked) == 4 and all(" -p gpu " in call for call in asked)
    slurm.gate("gpu00").settle(SICK)
    assert all(" -n gpu00 " in call for call in slurm.calls)


@pytest.mark.parametrize(
    "state, reason",
    [("IDLE+DRAIN", "anna: new memory"), ("DOWN", "Not responding"), ("IDLE+DRAIN", "gpu_node: scratch: gone")],
)
def test_a_node_that_others_took_out_of_service_is_never_touched(slurm, state, reason):
    slurm.set("gpu00", state, reason)
    for one in (SICK, HEALTHY, HEALTHY, HEALTHY, HEALTHY, SICK):
        assert slurm.gate("gpu00").settle(one).decision.action == "leave"
    assert slurm.node("gpu00") == (state, reason)
    assert all(call.startswith("sinfo") for call in slurm.calls)


def test_a_history_that_was_lost_resumes_nothing_too_early(slurm):
    slurm.set("gpu00", "IDLE+DRAIN", REASON)
    assert [slurm.gate("gpu00").settle(HEALTHY).decision.action for dummy in range(3)] == ["leave", "leave", "resume"]


def test_the_breaker_holds_when_sixty_percent_fall_ill_at_once(slurm):
    """Six of ten, each in a thread of its own; the real pause stands between the two looks of each."""
    told, barrier = [], threading.Barrier(6)

    def fall_ill(name):
        barrier.wait()
        told.append(gate.Gate(slurm.host(name), name, lambda text: None).settle(SICK).decision)

    threads = [threading.Thread(target=fall_ill, args=("gpu{0:02}".format(number),)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(slurm.drained) == 2 and len(told) == 6
    assert sum(1 for one in told if one.action == "drain") == 2
    assert sum(1 for one in told if one.person and "a person must decide" in one.why) == 4


def test_a_node_that_cannot_look_again_withdraws(slurm):
    """A slurmctld that is asked by many at once may not tell of all nodes in time, and still take an update."""
    sinfo = slurm.folder / "sinfo"
    real = sinfo.read_text()

    def busy(dummy):
        sinfo.write_text("#!/bin/sh\necho timed out >&2; exit 1\n")

    with pytest.raises(NodeError, match="timed out"):
        slurm.gate("gpu00", pause=busy).settle(SICK)
    assert slurm.drained == []
    sinfo.write_text(real)
    assert slurm.gate("gpu00").settle(SICK).decision.action == "drain" and slurm.drained == ["gpu00"]


def test_a_drain_that_a_person_took_over_meanwhile_stays(slurm, monkeypatch):
    monkeypatch.setattr(breaker, "surplus", lambda *dummy: "too many are drained")
    slurm.gate("gpu00", pause=lambda seconds: slurm.set("gpu00", "IDLE+DRAIN", "fan replaced")).settle(SICK)
    assert slurm.node("gpu00") == ("IDLE+DRAIN", "fan replaced")


def test_when_slurmctld_does_not_answer_the_verdict_is_kept_and_it_is_asked_again(slurm):
    slurm.down()
    with pytest.raises(NodeError, match="Unable to contact slurm controller"):
        slurm.gate("gpu00").settle(SICK)
    known = history.read(slurm.host("gpu00"))
    assert known.entries[-1].outcome is Outcome.FAIL and known.drained is None
    slurm.down(False)
    assert slurm.gate("gpu00").settle(SICK).decision.action == "drain"


def test_a_node_of_another_name_is_told(slurm):
    with pytest.raises(NodeError, match="slurmctld has no node of this name"):
        slurm.gate("other").settle(SICK)


def test_what_keeps_a_machine_alive_runs_once_and_may_fail(slurm):
    mark, told = slurm.folder / "kept_alive", []
    slurm.gate("gpu00", told, keepalive=["tee", "-a", str(mark)]).settle(SICK)
    assert mark.exists() and told == []
    slurm.gate("gpu01", told, keepalive=["false"]).settle(SICK)
    assert len(told) == 1 and slurm.drained == ["gpu00", "gpu01"]


def test_a_node_that_may_not_be_drained_stays_in_service(slurm):
    done = slurm.gate("gpu00", drain=False).settle(SICK)
    assert (done.decision.action, done.in_service) == ("leave", True) and slurm.drained == []


# What Slurm does with a reason --------------------------------------------------------------------------

EPILOG = "Epilog error"


def test_a_reason_that_slurm_keeps_is_ours_no_more_once_the_node_is_back(slurm):
    slurm.change(keeps_reasons=True)
    for one in (SICK, HEALTHY, HEALTHY, HEALTHY):
        slurm.gate("gpu00").settle(one)
    assert slurm.node("gpu00") == ("IDLE", drain.RESUMED) and drain.read(drain.RESUMED) is None
    # Weeks later Slurm drains it, and its own words find the place taken.
    slurm.drains("gpu00", EPILOG)
    for _look in range(4):
        slurm.gate("gpu00").settle(HOUR_LATER)
    assert slurm.node("gpu00") == ("IDLE+DRAIN", drain.RESUMED)


@pytest.mark.parametrize("state, reason", [("IDLE", REASON), ("MIXED", "gpu_node: event: Reboot 3 at any time")])
def test_a_reason_of_ours_in_service_is_overwritten(slurm, state, reason):
    """A person, or an older version of this, put it back."""
    slurm.set("gpu00", state, reason)
    slurm.gate("gpu00").settle(HEALTHY)
    assert slurm.node("gpu00") == (state, drain.RESUMED)
    slurm.calls  # noqa: B018
    slurm.gate("gpu00").settle(HOUR_LATER)
    assert not [call for call in slurm.calls if "update" in call]


def test_who_drains_it_while_the_gate_looks_is_not_overwritten(slurm, monkeypatch):
    """Before a drain of ours, before the end of one, and before a reason of ours is taken out."""
    for name, state, verdicts in (("gpu00", "IDLE", [SICK]), ("gpu01", "IDLE+DRAIN", [HEALTHY] * 3)):
        slurm.set(name, state, REASON if state != "IDLE" else "")
        for one in verdicts[:-1]:
            slurm.gate(name).settle(one)
        done = meddled(slurm, name, verdicts[-1])
        assert (done.decision.action, done.in_service) == ("leave", False)
        assert slurm.node(name) == ("IDLE+DRAIN", "anna: new memory")
    slurm.set("gpu02", "IDLE", REASON)
    meddled(slurm, "gpu02", HEALTHY)
    assert slurm.node("gpu02") == ("IDLE+DRAIN", "anna: new memory")


def meddled(slurm, name, verdict):
    """Settled, with a drain of a person just after the first look."""
    one = slurm.gate(name)
    look, looks = one._slurm.look, []

    def meddle():
        found = look()
        if not looks:
            slurm.set(name, "IDLE+DRAIN", "anna: new memory")
        looks.append(found)
        return found

    one._slurm.look = meddle
    return one.settle(verdict)


def test_a_drain_that_a_person_took_over_stays_also_where_the_others_are_not_told(slurm, monkeypatch):
    def taken(seconds):
        slurm.set("gpu00", "IDLE+DRAIN", "anna: new memory")
        monkeypatch.setattr(breaker, "surplus", silent)

    def silent(*dummy):
        raise NodeError("sinfo", "timed out", "ask again")

    with pytest.raises(NodeError, match="timed out"):
        slurm.gate("gpu00", pause=taken).settle(SICK)
    assert slurm.node("gpu00") == ("IDLE+DRAIN", "anna: new memory")


# A debt, and the registration -------------------------------------------------------------------------------


@pytest.mark.parametrize("state, reason", [("IDLE+DRAIN", "anna: new memory"), ("DOWN", "Not responding")])
def test_a_debt_outlives_the_time_that_others_have_the_node_out(slurm, state, reason):
    slurm.gate("gpu00").settle(SICK)
    slurm.set("gpu00", state, reason)
    for _look in range(3):
        slurm.gate("gpu00").settle(HEALTHY)
    assert history.read(slurm.host("gpu00")).debt.faults
    slurm.set("gpu00", "IDLE")
    slurm.gate("gpu00").settle(HEALTHY)
    assert not history.read(slurm.host("gpu00")).debt.faults


def test_a_fault_in_service_is_forgotten_with_the_next_clean_verdict(slurm):
    for one in (HEALTHY, SICK, HEALTHY):
        slurm.gate("gpu00", drain_after=2).settle(one)
    assert not history.read(slurm.host("gpu00")).debt.faults
    slurm.calls  # noqa: B018
    slurm.gate("gpu00").settle(HEALTHY)
    assert slurm.calls == []


GRES = "gres/gpu count reported lower than configured (7 < 8)"


@pytest.mark.parametrize("words", [GRES, "Low RealMemory (reported:1 < 100.00% of configured:2)", "CoreSpec differ"])
def test_a_node_that_registered_with_too_little_comes_back_by_its_verdicts(slurm, words):
    """As 23.02 and newer do it: a GPU that is off the bus is one too few for Slurm."""
    slurm.boot("gpu00")
    slurm.gate("gpu00").settle(SICK)
    slurm.registers("gpu00", words)
    assert slurm.node("gpu00") == ("IDLE+DRAIN+INVALID_REG", words)
    for one in (SICK, HEALTHY):
        assert slurm.gate("gpu00").settle(one).decision.action == "leave"
    assert slurm.node("gpu00")[1] == words and history.read(slurm.host("gpu00")).drained is True
    slurm.boot("gpu00", "second")
    slurm.registers("gpu00")
    assert slurm.node("gpu00") == ("IDLE+DRAIN", words)
    slurm.gate("gpu00").settle(HEALTHY)
    assert slurm.node("gpu00") == ("IDLE+DRAIN", REASON) and history.read(slurm.host("gpu00")).debt.faults
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "resume"
    assert slurm.node("gpu00") == ("IDLE", "")


@pytest.mark.parametrize("reason", [GRES, "Low on coffee, anna", "anna: new memory"])
@pytest.mark.parametrize("ours", [True, False])
def test_whose_drain_is_given_back(slurm, reason, ours):
    """None that was not ours, and none under other words."""
    slurm.gate("gpu00").settle(SICK if ours else HEALTHY)
    slurm.set("gpu00", "IDLE+DRAIN", reason)
    for _look in range(5):
        slurm.gate("gpu00").settle(HOUR_LATER)
    assert slurm.node("gpu00") == (("IDLE", "") if ours and reason == GRES else ("IDLE+DRAIN", reason))


# A start that takes too long ---------------------------------------------------------------------------------


def test_a_start_that_took_too_long_leaves_the_node_out(slurm):
    """22.05 clears the drain at ResumeTimeout and sets the node down; it comes back when it registers."""
    slurm.boot("gpu00")
    slurm.gate("gpu00").settle(SICK)
    slurm.set("gpu00", "DOWN", REASON + " : reboot issued")
    slurm.boot("gpu00", "second")
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "leave"
    assert slurm.node("gpu00")[0] == "DOWN"
    slurm.set("gpu00", "IDLE", REASON)
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "drain"
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "resume"


def test_a_node_that_has_not_registered_yet_has_not_been_resumed(slurm):
    slurm.boot("gpu00")
    slurm.gate("gpu00").settle(SICK)
    slurm.set("gpu00", "UNKNOWN", REASON)
    slurm.gate("gpu00").settle(HEALTHY)
    assert slurm.node("gpu00") == ("UNKNOWN", REASON)
    slurm.set("gpu00", "IDLE", REASON)
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "drain"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "state, boot, reason, ends",
    [
        ("DOWN+DRAIN", "second", REASON + " : reboot issued", True),
        ("DOWN+DRAIN", "first", REASON, False),  # a person, or its slurmd
        ("DOWN+DRAIN+NOT_RESPONDING", "second", REASON, False),
        ("DOWN+DRAIN+REBOOT_ISSUED", "second", REASON, False),
        ("DOWN+DRAIN+FAIL", "second", REASON, False),
        ("DOWN+DRAIN", "second", "anna: mine", False),
        ("DOWN", "second", REASON, False),
    ],
)
def test_a_node_that_is_down_by_its_restart_comes_back(slurm, state, boot, reason, ends):
    """ReturnToService is 0 or 1, and it came back after ResumeTimeout."""
    slurm.boot("gpu00")
    slurm.gate("gpu00").settle(SICK)
    slurm.boot("gpu00", boot)
    slurm.set("gpu00", state, reason)
    actions = [slurm.gate("gpu00").settle(HEALTHY).decision.action for _look in range(4)]
    assert ("resume" in actions) == ends
    assert slurm.node("gpu00") == (("IDLE", "") if ends else (state, reason))


# Machines that Slurm powers down ------------------------------------------------------------------------


def test_a_sick_machine_that_comes_back_stays_out_until_it_has_proved_well(slurm):
    """As CycleCloud sets it (idle_on_node_suspend), Slurm forgets the drain when it powers the node down."""
    slurm.boot("gpu00")
    slurm.gate("gpu00").settle(SICK)
    slurm.set("gpu00", "IDLE+CLOUD+POWERED_DOWN", REASON)
    slurm.set("gpu00", "IDLE+CLOUD")
    slurm.boot("gpu00", "second")
    # Nothing is found any more: the kernel log is a new one.
    done = slurm.gate("gpu00").settle(HEALTHY)
    assert (done.decision.action, done.in_service) == ("drain", False)
    assert slurm.node("gpu00") == ("IDLE+CLOUD+DRAIN", REASON)
    actions = [slurm.gate("gpu00").settle(HEALTHY).decision.action for dummy in range(2)]
    assert actions == ["leave", "resume"] and slurm.drained == []


def cut(path):
    path.write_text(path.read_text()[:200])


def empty(path):
    path.write_text("")


def foreign(path):
    os.chown(str(path), 1001, 1001)


def moved(path):
    """As a command of root moves a record of another user before it reads it."""
    safe_files.set_aside(str(path), history.PATH, "")


def age(path):
    """It was written a minute ago."""
    for one in (path, path.with_name(path.name + safe_files.DAMAGED)):
        if one.exists():
            os.utime(str(one), (time.time() - 60, time.time() - 60))


DAMAGES = [cut, empty, pytest.param(foreign, marks=IS_ROOT), moved]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_record_that_a_power_cut_damaged_requires_validation_if_slurm_forgot_the_drain(slurm, damage):
    slurm.boot("gpu00")
    slurm.gate("gpu00", proof=True).settle(SICK)
    slurm.set("gpu00", "IDLE+CLOUD")
    damage(slurm.roots / "gpu00" / history.PATH[1:])
    age(slurm.roots / "gpu00" / history.PATH[1:])
    slurm.boot("gpu00", "second", seconds_ago=30.0)
    done = slurm.gate("gpu00", proof=True).settle(HEALTHY)
    assert (done.decision.action, done.in_service) == ("drain", False)
    looks = [slurm.gate("gpu00", proof=True).settle(HEALTHY).decision for dummy in range(3)]
    assert {one.action for one in looks} == {"leave"} and looks[-1].owes
    # An administrator resumes it.
    slurm.set("gpu00", "IDLE+CLOUD")
    assert slurm.gate("gpu00", proof=True).settle(HEALTHY).decision.action == "leave" and slurm.drained == []
    assert history.read(slurm.host("gpu00")).debt == history.Debt()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_healthy_node_whose_record_was_damaged_in_this_boot_stays_in_service(slurm, damage):
    slurm.boot("gpu00")
    slurm.gate("gpu00", proof=True).settle(HEALTHY)
    damage(slurm.roots / "gpu00" / history.PATH[1:])
    stays(slurm)


@pytest.mark.parametrize("change", [os.unlink, lambda path: None], ids=["missing", "intact"])
def test_a_healthy_node_with_an_intact_or_missing_record_stays_in_service_after_a_restart(slurm, change):
    slurm.boot("gpu00")
    slurm.gate("gpu00", proof=True).settle(HEALTHY)
    age(slurm.roots / "gpu00" / history.PATH[1:])
    change(slurm.roots / "gpu00" / history.PATH[1:])
    slurm.boot("gpu00", "second", seconds_ago=30.0)
    stays(slurm)


def stays(slurm):
    for one in (HEALTHY, HOUR_LATER):
        assert slurm.gate("gpu00", proof=True).settle(one).decision.action == "leave"
    assert slurm.drained == [] and history.read(slurm.host("gpu00")).debt == history.Debt()


@pytest.mark.parametrize(
    "state, reason", [("IDLE+CLOUD+POWERED_DOWN", ""), ("IDLE+DRAIN", drain.PREFIX + drain.ROLLING + "1")]
)
def test_a_damaged_record_still_counts_if_the_first_look_comes_at_a_bad_time(slurm, state, reason):
    slurm.boot("gpu00")
    slurm.gate("gpu00").settle(SICK)
    path = slurm.roots / "gpu00" / history.PATH[1:]
    cut(path)
    age(path)
    slurm.boot("gpu00", "second", seconds_ago=30.0)
    slurm.set("gpu00", state, reason)
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "leave"
    slurm.set("gpu00", "IDLE")
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "drain"


def test_another_machine_of_that_name_comes_in(slurm):
    slurm.boot("gpu00")
    slurm.gate("gpu00").settle(SICK)
    slurm.set("gpu00", "IDLE+CLOUD")
    # Its disk is a copy of the other one's, or has moved.
    slurm.boot("gpu00", "second", machine="6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a02")
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "leave" and slurm.drained == []
    assert len(history.read(slurm.host("gpu00")).entries) == 1


def test_who_resumes_a_node_by_hand_is_not_overruled(slurm):
    slurm.boot("gpu00")
    slurm.gate("gpu00").settle(SICK)
    slurm.set("gpu00", "IDLE")
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "leave"
    slurm.boot("gpu00", "second")
    assert slurm.gate("gpu00").settle(HOUR_LATER).decision.action == "leave" and slurm.drained == []


def test_a_machine_that_runs_on_while_slurm_has_it_powered_down_owes_its_proof(slurm):
    """What CycleCloud calls a zombie: its KeepAlive holds the machine, and Slurm powers the node down all the same."""
    slurm.boot("gpu00")
    slurm.gate("gpu00").settle(SICK)
    slurm.set("gpu00", "IDLE+CLOUD+POWERING_DOWN", REASON)
    for one in (SICK, HEALTHY):
        assert slurm.gate("gpu00").settle(one).decision.action == "leave"
    slurm.set("gpu00", "IDLE+CLOUD")
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "drain"


def test_the_breaker_holds_a_drain_that_is_owed_and_does_not_forget_it(slurm):
    slurm.boot("gpu00")
    slurm.gate("gpu00").settle(SICK)
    for name in ("gpu00", "gpu08", "gpu09"):
        slurm.set(name, "IDLE" if name == "gpu00" else "IDLE+DRAIN", REASON)
    slurm.boot("gpu00", "second")
    done = slurm.gate("gpu00").settle(HEALTHY)
    assert (done.decision.action, done.decision.person, done.in_service) == ("leave", True, True)
    slurm.set("gpu09", "IDLE")
    assert slurm.gate("gpu00").settle(HEALTHY).decision.action == "drain"


def test_slurm_powers_no_node_down_that_is_to_be_kept(slurm):
    slurm.gate("gpu00", keep_powered=True).settle(SICK)
    assert slurm.kept == ["gpu00"]
    assert sum("SuspendExcNodes+=gpu00" in call for call in slurm.calls) == 1
    slurm.change(kept=[])  # as scontrol reconfigure does
    slurm.gate("gpu00", keep_powered=True).settle(SICK)
    assert slurm.kept == ["gpu00"]
    for one in [HEALTHY] * 3:
        slurm.gate("gpu00", keep_powered=True).settle(one)
    assert slurm.kept == [] and slurm.drained == []
    slurm.calls  # noqa: B018
    slurm.gate("gpu00", keep_powered=True).settle(HOUR_LATER)
    assert not [call for call in slurm.calls if "SuspendExc" in call]
    slurm.gate("gpu01", keep_powered=True).settle(SICK)
    slurm.set("gpu01", "IDLE")  # somebody resumed it
    slurm.gate("gpu01").settle(HEALTHY)
    assert slurm.kept == []

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lease by a clock of the test, before a slurmctld that is a script: warnings, the reservation, and the hand-back.

test_lease_on_slurmctld.py asks a real slurmctld for the reservation.
"""

from __future__ import annotations

import json
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import lease as leases
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.lease import (
    DAY_SECONDS,
    Memory,
    Phase,
    Settings,
    Stage,
    stage,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import lease as check
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.lease.follow import MOTD, Follower
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import jobs as notes
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.slurm_stand_in import Cluster

UNTIL, END = "2040-12-01T18:00Z", 2237997600.0
NAME = os.uname().nodename.split(".")[0]
RESERVATION = "gpu_node_lease_" + NAME
MACHINE, OTHER = "6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01", "6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a02"


class Node:
    def __init__(self, folder):
        self.root, self.now, self.right = folder / "root", END - 30 * DAY_SECONDS, True
        self.booted = END - 60 * DAY_SECONDS  # by the wall clock: a step moves it too
        for one in ("proc", "etc/gpu_node", "etc/motd.d", "sys/class/dmi/id", "run/gpu_node/jobs"):
            (self.root / one).mkdir(parents=True)
        self.slurm = Cluster(folder / "slurm", [NAME])
        self.host = Host(str(self.root))
        self.resets, self.told, self.failing = [], [], {}
        self.ran = folder / "ran"
        self.machine(MACHINE)
        self.declare()

    def machine(self, name):
        (self.root / "sys/class/dmi/id/product_uuid").write_text(name + "\n")

    def declare(self, until=UNTIL, **more):
        program = [sys.executable, "-c", "open({0!r}, 'a').write('x')".format(str(self.ran))]
        lease = {"until": until, "reset": True, "reservation": True, "motd": True, "on_expiry": program}
        section = {"slurm_hooks": {"scontrol": str(self.slurm.folder / "scontrol")}, "node_lease": {**lease, **more}}
        (self.root / "etc/gpu_node/node.json").write_text(json.dumps(section))

    def reset(self, but_lease):
        self.resets.append(but_lease)
        failed = self.failing.get(but_lease, "")
        if failed is KeyboardInterrupt:
            raise KeyboardInterrupt
        return failed

    def follow(self, now=None):
        self.now = self.now if now is None else now
        self.told.clear()
        return Follower(
            self.host,
            self.told.append,
            self.reset,
            lambda: self.now,
            lambda host: self.right,
            lambda seconds: None,
            lambda: self.now - self.booted,
        ).once()

    @property
    def memory(self):
        return leases.read(self.host)

    @property
    def program_runs(self):
        return len(self.ran.read_text()) if self.ran.exists() else 0


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_a_reservation_begins_with_the_end_and_moves_with_it(node):
    node.follow()
    assert node.slurm.reservations == {
        RESERVATION: {"start": int(END), "nodes": NAME, "flags": "MAINT,IGNORE_JOBS,SPEC_NODES"}
    }
    assert node.memory.reserved == RESERVATION and node.memory.seen == node.now
    node.slurm.calls  # noqa: B018  # up to here
    assert node.follow().notes == () and not any("create" in one or "update" in one for one in node.slurm.calls)
    node.declare("2040-12-03T18:00Z")
    node.follow()
    assert node.slurm.reservations[RESERVATION]["start"] == int(END + 2 * DAY_SECONDS)
    node.declare("2040-12-03T18:00Z", reservation=False)
    node.follow()
    assert node.slurm.reservations == {} and node.memory.reserved == ""


def test_a_reservation_of_that_name_that_is_not_ours_stays(node):
    node.slurm.change(reservations={RESERVATION: {"start": 5, "nodes": NAME + ",other", "flags": "MAINT"}})
    assert "is not of this lease" in node.follow().notes[0]
    assert node.slurm.reservations[RESERVATION]["start"] == 5 and node.memory.reserved == ""


def test_slurm_that_does_not_answer_is_told_and_asked_again(node):
    node.slurm.down()
    report = node.follow()
    assert "contact" in report.notes[0] and "reservation of Slurm is missing" in node.memory.why
    node.slurm.down(False)
    assert node.follow().memory.why == "" and RESERVATION in node.slurm.reservations


def test_users_are_warned_once_at_7_3_and_1_days(node):
    warned = []
    for hours in range(10 * 24, 0, -6):
        node.follow(END - hours * 3600)
        warned += [hours / 24 for one in node.told if "ends in" in one]
        assert (node.root / MOTD[1:]).exists() == (hours <= 7 * 24)
    assert warned == [7, 3, 1]
    assert "2040-12-01 18:00 UTC" in (node.root / MOTD[1:]).read_text()
    node.declare("2040-12-20T18:00Z")
    node.follow()
    assert not (node.root / MOTD[1:]).exists()


def test_a_file_for_logins_that_is_not_ours_is_never_written(node):
    (node.root / MOTD[1:]).write_text("welcome\n")
    assert "is not ours" in " ".join(node.follow(END - DAY_SECONDS).notes)
    assert (node.root / MOTD[1:]).read_text() == "welcome\n"


def test_at_its_end_the_node_is_drained_reset_and_handed_back_in_this_order(node):
    node.follow()
    node.slurm.change(on={NAME: [12]}, users={"12": 1001})
    node.follow(END + 1)
    state, reason = node.slurm.node(NAME)
    assert state == "IDLE+DRAIN" and reason.startswith("gpu_node: lease: it ended at 2040-12-01 18:00 UTC")
    assert node.resets == [] and "job 12" in node.memory.why and node.memory.phase is Phase.ENDED
    assert RESERVATION in node.slurm.reservations  # until nothing but the drain is needed
    node.slurm.change(on={})
    node.follow()
    assert node.resets == [True, False] and node.program_runs == 1 and node.slurm.reservations == {}
    assert node.memory.phase is Phase.HANDED_BACK and node.slurm.drained == [NAME]
    node.follow()  # the machine comes back with what is left of the lease
    assert node.program_runs == 1 and node.resets == [True, False, False]


def test_the_nodes_own_word_of_a_job_counts_too(node):
    node.follow()
    notes.begin(node.host, notes.Running(7, 1001))
    node.follow(END + 1)
    assert node.resets == [] and "job 7" in node.memory.why


def test_without_a_reset_the_node_is_only_drained_and_the_program_run(node):
    node.declare(reset=False)
    node.follow()
    node.follow(END + 1)
    node.follow()
    assert node.resets == [] and node.program_runs == 1 and node.slurm.drained == [NAME]


def test_a_run_that_is_killed_goes_on_where_it_was(node):
    node.follow()
    node.failing = {True: KeyboardInterrupt}
    with pytest.raises(KeyboardInterrupt):
        node.follow(END + 1)
    assert node.slurm.drained == [NAME] and node.memory.phase is Phase.ENDED and node.program_runs == 0
    node.failing = {False: KeyboardInterrupt}
    with pytest.raises(KeyboardInterrupt):
        node.follow()
    assert node.memory.phase is Phase.HANDED_BACK and node.program_runs == 1
    node.failing = {}
    node.follow()
    assert node.resets == [True, True, False, False] and node.program_runs == 1


def test_a_reset_or_a_program_that_fails_is_told_and_tried_again(node):
    node.declare(on_expiry=["/no/such/program"])
    node.follow()
    node.failing = {True: "nvme_scratch: it is busy."}
    assert "it is busy" in node.follow(END + 1).memory.why and node.memory.phase is Phase.ENDED
    node.failing = {}
    report = node.follow()
    assert "not installed" in report.memory.why and report.memory.phase is Phase.RESET
    node.declare()
    assert node.follow().memory.phase is Phase.HANDED_BACK and node.program_runs == 1


def test_a_node_that_was_handed_back_and_is_resumed_by_a_person_is_not_drained_again(node):
    node.declare(reset=False)
    node.follow()
    assert node.follow(END + 1).memory.phase is Phase.HANDED_BACK and node.slurm.drained == [NAME]
    node.slurm.set(NAME, "IDLE", "")
    assert node.follow(END + 600).notes == () and node.slurm.drained == [] and node.program_runs == 1


def test_the_arguments_of_a_program_that_fails_are_told_nobody(node):
    node.declare(on_expiry=[sys.executable, "-c", "raise SystemExit(3)", "--password", "hunter2"])
    node.follow()
    report = node.follow(END + 1)
    assert "option on_expiry: {0}: ended with status 3".format(sys.executable) in report.memory.why
    assert "hunter2" not in " ".join((report.memory.why, *node.told, *report.notes))


@pytest.mark.parametrize("what", ["first boot", "another machine", "no identity", "another lease"])
def test_a_machine_that_never_ran_under_the_lease_is_not_reset(node, what):
    if what == "another machine":
        node.follow()  # where the image was made
        node.machine(OTHER)
    elif what == "no identity":
        (node.root / "sys/class/dmi/id/product_uuid").unlink()
        node.follow()
    elif what == "another lease":
        node.declare("2040-11-20T18:00Z")
        node.follow()
        node.declare()
    node.slurm.calls  # noqa: B018  # up to here
    report = node.follow(END + 1)
    assert report.stage == "never_ran" and "nothing is reset" in report.notes[0]
    assert node.resets == [] and node.program_runs == 0 and node.slurm.drained == [] and node.slurm.calls == []


def test_a_clock_that_nothing_synchronises_ends_no_lease(node):
    node.follow()
    node.right = False
    report = node.follow(END + 1)
    assert report.stage == "unsure" and node.resets == [] and node.slurm.drained == []
    node.right = True
    node.follow()
    assert node.resets == [True, False]


def test_slurm_that_is_silent_at_the_end_holds_it_up(node):
    node.follow()
    node.slurm.down()
    assert "contact" in node.follow(END + 1).memory.why and node.resets == []


@pytest.mark.parametrize(
    "state, reason, done", [("IDLE+DRAIN", "anna: new memory", True), ("DOWN", "Not responding", False)]
)
def test_a_drain_of_others_stays_theirs_and_a_node_that_is_down_may_come_back(node, state, reason, done):
    node.follow()
    node.slurm.set(NAME, state, reason)
    node.follow(END + 1)
    assert node.slurm.node(NAME) == (state, reason) and bool(node.resets) == done
    assert done or "it is down and not drained" in node.memory.why


def test_an_extended_lease_resumes_what_it_drained_and_nothing_else(node):
    node.follow()
    node.slurm.change(on={NAME: [12]})
    node.follow(END + 1)
    assert node.slurm.drained == [NAME]
    node.declare("2040-12-20T18:00Z")
    assert "resumed" in " ".join(node.follow().notes)
    assert node.slurm.drained == [] and node.memory.phase is Phase.NONE and node.memory.why == ""
    node.follow(END + 21 * DAY_SECONDS)
    reason = node.slurm.node(NAME)[1]
    node.slurm.set(NAME, "DOWN+DRAIN", reason)
    node.declare("2041-11-20T18:00Z")
    node.follow()
    assert node.slurm.node(NAME)[0] == "DOWN"  # that it is down is not ours to end
    node.slurm.set(NAME, "IDLE+DRAIN", "anna: new memory")
    node.follow(END + 370 * DAY_SECONDS)
    node.declare("2049-12-20T18:00Z")
    node.follow()
    assert node.slurm.node(NAME) == ("IDLE+DRAIN", "anna: new memory")


def test_a_node_without_slurm_has_its_lease_all_the_same(node):
    (node.root / "etc/gpu_node/node.json").write_text(
        json.dumps({"node_lease": {"until": UNTIL, "reset": True, "on_expiry": []}})
    )
    node.follow()
    node.follow(END + 1)
    assert node.resets == [True, False] and node.slurm.calls == []


def test_two_owners_of_one_machine_have_one_lease(node):
    """The later declaration counts, and the memory of the earlier one resets nothing."""
    node.declare("2040-11-20T18:00Z")
    node.follow()
    node.declare()
    node.follow()
    node.follow(END - 5 * DAY_SECONDS)
    assert node.resets == [] and node.slurm.reservations[RESERVATION]["start"] == int(END)


# Pure -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        UNTIL,
        "2040-12-01 18:00:00+00:00",
        "2040-12-01T19:00+01:00",
        "2040-12-01T12:30:00-0530",
        "2040-12-01t18:00:00.5z",
    ],
)
def test_a_time_with_its_zone_is_taken(text):
    assert leases.seconds(text) == END


@pytest.mark.parametrize(
    "text", ["", "2040-12-01", "2040-12-01T18:00", "2040-13-01T18:00Z", "tomorrow", "18:00Z", "9999-12-31T18:00-12:00"]
)
def test_a_time_without_a_zone_is_none(text):
    with pytest.raises(NodeError, match="2026-12-01T18:00Z"):
        leases.seconds(text)


MEMORIES = st.builds(
    Memory,
    machine=st.sampled_from(("a", "b", "")),
    until=st.sampled_from((END, END - 1, 0.0)),
    seen=st.sampled_from((0.0, END - 5, END, END + 5)),
    phase=st.sampled_from(Phase),
)


@given(MEMORIES, st.sampled_from(("a", "b", "", None)), st.floats(END - 10, END + 10), st.booleans())
def test_only_what_ran_under_the_lease_ends_with_it(memory, machine, now, right):
    found = stage(Settings(UNTIL), memory, machine, now, right)
    ended = bool(machine) and (memory.machine, memory.until) == (machine, END) and memory.phase is not Phase.NONE
    assert (found is Stage.RUNS) == (now < END and not ended)
    if found in (Stage.ENDED, Stage.HANDED_BACK):
        assert machine and memory.machine == machine and memory.until == END and 0 < memory.seen < END
        assert right or memory.phase is not Phase.NONE


@pytest.mark.parametrize("phase", [Phase.ENDED, Phase.RESET])
def test_an_end_that_has_begun_goes_on_when_the_clock_is_uncertain_again(phase):
    memory = Memory(machine="a", until=END, seen=END - 5, phase=phase)
    assert stage(Settings(UNTIL), memory, "a", END + 1, False) is Stage.ENDED


def test_what_was_edited_by_hand_resets_nothing_by_chance(tmp_path):
    off = Settings(UNTIL, False, (), False, False)
    assert leases.declared({"until": UNTIL}) == off
    assert leases.declared({"until": UNTIL, "reset": "yes", "reservation": 1, "motd": None, "on_expiry": "/x"}) == off
    assert leases.declared({"until": "soon"}) is None is leases.declared(None)
    host = Host(str(tmp_path))
    leases.write(host, Memory("m", END, 5.0, (7,), "r", Phase.RESET, "w"))
    assert leases.read(host) == Memory("m", END, 5.0, (7,), "r", Phase.RESET, "w")
    (tmp_path / leases.MEMORY[1:]).write_text('{"version": 1, "machine": "m"}')
    assert leases.read(host) == Memory()


@pytest.mark.parametrize(
    "seen, told",
    [
        (None, None),
        (("runs", "E", "9 days", None, ""), None),
        (("runs", "E", "2 days", 3, ""), "it ends in 2 days, at E"),
        (("never_ran", "E", "", 1, ""), "before this machine was seen to run"),
        (("ended", "E", "", 1, "job 12 is on it"), "the hand-back waits: job 12"),
        (("wrong", "", "", None, ""), "cannot be understood"),
    ],
)
def test_the_health_check_warns_and_never_fails(seen, told):
    found = check.judge(seen, None)
    assert [one.outcome.value for one in found.findings] == (["warn"] if told else [])
    assert not told or told in found.findings[0].reason
    assert replaced(found, findings=()).findings == ()


# The clock ------------------------------------------------------------------------------------------------


def stepped(node, seconds):
    node.now, node.booted = node.now + seconds, node.booted + seconds


def handed_back(node):
    return node.ran.exists() or bool(node.resets)


@pytest.mark.parametrize("steps", [(40,), (15, 15.5), (-3, 40)])
def test_clock_steps_do_not_end_a_lease(node, steps):
    node.declare()
    node.follow()
    for days in steps:
        node.follow(node.now + 300.0)
        stepped(node, days * DAY_SECONDS)
        node.follow()
    assert node.follow().stage == ("runs" if sum(steps) < 30 else "unsure") and not handed_back(node)
    # The step is undone, as a synchronised clock does it: nothing is left of it.
    stepped(node, -sum(steps) * DAY_SECONDS)
    assert node.follow(node.now + 300.0).stage == "runs" and not handed_back(node)


def test_many_small_steps_do_not_end_a_lease(node):
    node.declare()
    node.now = END - 3600.0
    node.follow()
    for _look in range(20):
        stepped(node, 250.0)
        node.follow(node.now + 60.0)
    assert node.now > END and node.follow().stage == "unsure" and not handed_back(node)


def test_a_clock_that_stays_right_for_a_day_ends_the_lease(node):
    node.declare()
    node.follow()
    stepped(node, 40 * DAY_SECONDS)
    assert node.follow().stage == "unsure"
    assert node.follow(node.now + 0.9 * DAY_SECONDS).stage == "unsure"
    assert node.follow(node.now + 0.2 * DAY_SECONDS).stage == "ended" and handed_back(node)


def test_another_start_of_the_machine_is_confirmed_within_a_day(node):
    node.declare()
    node.follow()
    (node.root / "proc/sys/kernel/random").mkdir(parents=True)
    (node.root / "proc/sys/kernel/random/boot_id").write_text("another\n")
    assert node.follow(END + 60.0).stage == "unsure" and not handed_back(node)
    assert node.follow(END + 1.1 * DAY_SECONDS).stage == "ended" and handed_back(node)


def test_a_clock_that_only_drifts_ends_the_lease_on_time(node):
    node.declare()
    node.follow()
    node.booted += 200.0
    assert node.follow(END + 60.0).stage == "ended" and handed_back(node)


@pytest.mark.parametrize("reset", [False, True])
def test_an_ended_lease_stays_ended_when_the_clock_steps_back(node, reset):
    node.declare(reset=reset)
    node.follow()
    assert node.follow(END + 60.0).stage == "ended" and handed_back(node)
    stepped(node, -2 * DAY_SECONDS)
    for _look in range(3):
        assert node.follow(node.now + 300.0).stage == "handed_back"
    assert "DRAIN" in node.slurm.node(NAME)[0] and node.program_runs == 1
    # A new end extends it.
    node.declare(until="2041-01-31T18:00Z", reset=reset)
    assert node.follow(node.now + 300.0).stage == "runs" and "DRAIN" not in node.slurm.node(NAME)[0]


def looks(memory, wall, hours, boot, running=60.0):
    """The memory after ``hours`` of running in one start of the machine, with one look every 10 minutes."""
    for _look in range(int(hours * 6)):
        memory = leases.ticked(memory, leases.Clock(wall, running, boot))
        wall, running = wall + 600.0, running + 600.0
    return memory, wall


@pytest.mark.parametrize("hours", [3, 8, 20])
def test_a_machine_that_is_switched_off_each_day_confirms_its_clock(hours):
    memory, wall = looks(Memory(), END, hours, "boot 0")
    days = 0
    while True:
        days += 1
        wall += (24 - hours) * 3600.0
        memory, wall = looks(memory, wall, hours, "boot {0}".format(days))
        if memory.clock.boot == "boot {0}".format(days):
            break
        assert days < 10
    assert days * hours >= 24


@pytest.mark.parametrize("spoilt", ["a step in each start", "an earlier time", "one look in each start"])
def test_only_a_clock_that_advances_correctly_is_confirmed_over_several_starts(spoilt):
    memory, wall = looks(Memory(), END - 40 * DAY_SECONDS, 8, "boot 0")
    wall = END
    for day in range(1, 12):
        boot = "boot {0}".format(day)
        memory, wall = looks(memory, wall, 1 / 6 if spoilt == "one look in each start" else 4, boot)
        if spoilt == "a step in each start":
            memory, wall = looks(memory, wall + 7200.0, 4, boot, 5 * 3600.0)
        wall += -DAY_SECONDS if spoilt == "an earlier time" else 12 * 3600.0
    assert memory.clock.boot == "boot 0"


@pytest.mark.parametrize("ahead, stage", [(31, "unsure"), (1, "runs")])
def test_the_first_clock_after_an_upgrade_is_not_confirmed_if_it_ends_the_lease(node, ahead, stage):
    node.declare()
    node.follow()
    path = node.root / "var/lib/gpu_node/node_lease.json"
    content = json.loads(path.read_text())
    old = {key: value for key, value in content.items() if key not in ("clock", "doubt", "agreed", "carried")}
    path.write_text(json.dumps(old))
    node.now, node.booted = END - 30 * DAY_SECONDS + ahead * DAY_SECONDS, 300.0
    assert node.follow().stage == stage and not handed_back(node)

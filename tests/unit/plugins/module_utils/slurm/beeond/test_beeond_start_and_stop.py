# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file system of a job on three nodes that are folders, with the stand-in of BeeGFS: started, broken and stopped.

Each prolog is a process of its own, as on real nodes. ``beeond_stand_in`` says what of this is real.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import processes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import jobs
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.beeond import (
    node,
    note,
    others,
    rules,
    start,
    stop,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import Job
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.slurm.beeond import beeond_stand_in

NAMES = ("gpu1", "gpu2", "gpu10")
SCRATCH = "/mnt/scratch"
DECLARED = {"mount_point": SCRATCH, "adopt": False, "state": "present"}
SOURCES = "opt/beegfs/src/client/client_module_7"
SECTION = {"start_seconds": 15, "built": {"kernel": "6.1"}}
# For a start that comes to nothing.
SHORT = dict(SECTION, start_seconds=2)
HURRIED = dict.fromkeys(NAMES, SHORT)
_FORK = multiprocessing.get_context("fork")
# Job numbers of this run alone, as the processes are those of the whole machine.
FIRST = os.getpid() * 100


@pytest.fixture(autouse=True)
def shorter_starts(monkeypatch):
    """A test does not wait for the shortest time that users may give. The prologs of a test are forks of it."""
    options = rules.Settings._own_options
    monkeypatch.setitem(options, "start_seconds", replaced(options["start_seconds"], bounds=(1, 900)))


class Node(Host):
    def path(self, path):
        fake = not path.startswith("/proc") or path.startswith(("/proc/self/mountinfo", "/proc/sys/"))
        return super().path(path) if fake else path

    def names(self, path):
        """Of the processes of this machine those that the stand-in started on this node."""
        names = super().names(path)
        if path != "/proc":
            return names
        mark = "STAND_IN_OF={0}\0".format(os.path.basename(self.path("/").rstrip("/")))
        return [name for name in names if name.isdigit() and mark in (self.read("/proc/" + name + "/environ") or "")]


class Cluster:
    def __init__(self, folder):
        self.folder, self.restart = folder, "0"
        for name in NAMES:
            root = folder / name
            for made in ("proc/self", "proc/sys/kernel", "mnt/scratch", "beeond", SOURCES):
                (root / made).mkdir(parents=True)
            (root / "beeond").chmod(0o755)
            (root / "mnt/scratch").chmod(0o1777)
            (root / "proc/self/mountinfo").write_text("40 1 9:0 / {0} rw - xfs /dev/md0 rw\n".format(SCRATCH))
            (root / "proc/sys/kernel/osrelease").write_text("6.1\n")
            module = root / node.MODULES.format("6.1")[1:]
            module.parent.mkdir(parents=True)
            module.write_text("")

    def host(self, name):
        return Node(str(self.folder / name))

    def job(self, number, name, nodes=NAMES):
        return Job(
            FIRST + number, os.geteuid(), None, node=name, nodes=",".join(nodes), comment="beeond", restart=self.restart
        )

    def _prolog(self, number, name, nodes, told, section):
        os.environ["STAND_IN_NODE"] = name
        try:
            start.begin(self.host(name), self.job(number, name, nodes), section, DECLARED)
            told.put((number, name, ""))
        except NodeError as error:
            told.put((number, name, error.reason))

    def start(self, number, nodes=NAMES, without=(), sections=None):
        """The prologs of a job, side by side: the processes, and where they tell how they ended."""
        told = _FORK.Queue()
        prologs = {}
        for name in nodes:
            if name not in without:
                section = (sections or {}).get(name, SECTION)
                prologs[name] = _FORK.Process(target=self._prolog, args=(number, name, nodes, told, section))
                prologs[name].start()
        return prologs, told

    def prologs(self, number, **options):
        """Why each node has none; empty: it has."""
        prologs, told = self.start(number, **options)
        found = {}
        for _process in prologs:
            _number, name, why = told.get(timeout=60)
            found[name] = why
        for process in prologs.values():
            process.join()
        return found

    def epilog(self, number, name):
        os.environ["STAND_IN_NODE"] = name
        one = note.read(self.host(name), FIRST + number)
        if one is not None:
            stop.end(self.host(name), one)

    def remains(self, number, name):
        """What this node has of the job: mounts, folders, daemons, notes."""
        found = node.remains(self.host(name), rules.Settings(), SCRATCH)
        return tuple(FIRST + number in one for one in (found.mounts, found.folders, found.daemons, found.notes))

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


ALL, NOTHING = (True, True, True, True), (False, False, False, False)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    (tmp_path / "cluster").mkdir()
    programs.mkdir()
    beeond_stand_in.install(str(programs), str(tmp_path / "cluster"))
    monkeypatch.setenv("PATH", "{0}:{1}".format(programs, os.environ["PATH"]))
    monkeypatch.setenv("STAND_IN_NODE", "")
    monkeypatch.setattr(rules, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(rules, "CLOCK_SECONDS", 0.5)
    monkeypatch.setattr(rules, "ASK_STARTER_SECONDS", 0.5)
    monkeypatch.setattr(others, "_ASK_AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(rules, "seconds_to_turn", lambda now, job_id: 0.0)
    made = Cluster(tmp_path / "cluster")
    yield made
    for number in range(10):
        for name in NAMES:
            for pid, _start in node.daemons(made.host(name), FIRST + number):
                os.kill(pid, signal.SIGKILL)


def test_two_jobs_side_by_side_and_each_takes_its_own_away(cluster, monkeypatch):
    # As it is for them, with shorter turns.
    monkeypatch.setattr(rules, "seconds_to_turn", lambda now, job_id: 1 - now % 1 + 2 * (job_id % 2))
    section = dict.fromkeys(NAMES, dict(SECTION, start_seconds=40))
    # By its number gpu2 comes before gpu10, and gpu1 has no part in the second.
    first = cluster.start(1, sections=section)
    second = cluster.start(2, nodes=("gpu10", "gpu2"), sections=section)
    assert sorted(first[1].get(timeout=60) for _one in range(3)) == [(1, name, "") for name in sorted(NAMES)]
    assert sorted(second[1].get(timeout=60) for _one in range(2)) == [(2, "gpu10", ""), (2, "gpu2", "")]
    starts = sorted(line.split()[0] for line in cluster.calls() if " start " in line)
    assert starts == ["gpu1:", "gpu2:"]
    assert cluster.remains(1, "gpu10") == cluster.remains(2, "gpu10") == ALL
    folder = cluster.folder / "gpu2/mnt/scratch/beeond"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (cluster.folder / "gpu1/beeond" / str(FIRST + 1)).stat().st_mode & 0o777 == 0o700
    for name in NAMES:
        cluster.epilog(1, name)
    assert [cluster.remains(1, name) for name in NAMES] == [NOTHING] * 3
    assert cluster.remains(2, "gpu2") == cluster.remains(2, "gpu10") == ALL
    for name in NAMES:
        cluster.epilog(2, name)
    assert [cluster.remains(2, name) for name in NAMES] == [NOTHING] * 3
    for name in NAMES:
        root = cluster.folder / name
        assert not list((root / "run/gpu_node/beeond").iterdir())
        assert not list((root / "beeond").iterdir())
        assert not (root / "var/log/gpu_node/beeond" / str(FIRST + 1)).exists()
    assert not (cluster.folder / "not_read").exists()


def test_no_data_is_deleted_by_the_program_and_no_start_clears_any(cluster):
    assert set(cluster.prologs(1).values()) == {""}
    cluster.epilog(1, "gpu2")
    (call,) = (line for line in cluster.calls() if "stoplocal" in line)
    assert " -d" not in call and call.startswith("gpu2: stoplocal -i /run/gpu_node/beeond/")
    # Only what is not mounted any more is taken to pieces.
    assert [line.split()[1] for line in cluster.calls() if line.startswith("gpu2")] == ["umount", "stoplocal"]


def test_a_prolog_that_is_killed_leaves_nothing_after_the_epilog(cluster):
    (cluster.folder / "trouble").write_text("storage")
    prologs, _told = cluster.start(1)
    deadline = time.monotonic() + 20
    while cluster.remains(1, "gpu1")[1:3] != (True, True) and time.monotonic() < deadline:
        time.sleep(0.05)
    by = note.read(cluster.host("gpu1"), FIRST + 1).by
    for process in prologs.values():
        process.kill()
        process.join()
    assert processes.alive(cluster.host("gpu1"), by)  # the start goes on without its prolog
    for name in NAMES:
        cluster.epilog(1, name)
    assert not processes.alive(cluster.host("gpu1"), by)
    assert [cluster.remains(1, name) for name in NAMES] == [NOTHING] * 3


def test_a_start_that_waits_for_ever_ends_in_time_and_leaves_nothing(cluster):
    (cluster.folder / "trouble").write_text("storage")
    found = cluster.prologs(1, sections=HURRIED)
    # On a busy machine the time may be over before the program starts.
    assert re.search("did not end within|no time was left for it", found["gpu1"])
    assert found["gpu2"] == "gpu1 did not start it: " + found["gpu1"]
    # The notes stay for the epilog, and say why.
    assert [cluster.remains(1, name) for name in NAMES] == [(False, False, False, True)] * 3


def test_a_daemon_without_its_line_is_found(cluster):
    (cluster.folder / "trouble").write_text("stop at beegfs-storage")
    assert cluster.prologs(1, sections=HURRIED)["gpu1"] == "beeond start was killed by signal 9"
    for name in NAMES:
        cluster.epilog(1, name)
    assert [cluster.remains(1, name) for name in NAMES] == [NOTHING] * 3


def test_nothing_is_started_while_a_node_is_lost(cluster):
    (cluster.folder / "gpu2/dead").write_text("")
    found = cluster.prologs(1, without=("gpu2",), sections=HURRIED)
    assert found["gpu1"] == "node gpu2 was not ready in time: ssh to it fails"
    assert found["gpu10"] == "gpu1 did not start it: " + found["gpu1"]
    assert not [line for line in cluster.calls() if " start " in line]


def test_a_start_that_fails_costs_the_other_nodes_seconds_and_not_their_whole_time(cluster):
    (cluster.folder / "trouble").write_text("fail")
    before = time.monotonic()
    found = cluster.prologs(1, sections=dict.fromkeys(NAMES, dict(SECTION, start_seconds=300)))
    assert time.monotonic() - before < 60
    assert "Unable to start beegfs-mgmtd" in found["gpu1"]
    assert found["gpu2"] == found["gpu10"] == "gpu1 did not start it: " + found["gpu1"]
    assert [cluster.remains(1, name) for name in NAMES] == [(False, False, False, True)] * 3


def test_the_others_wait_their_time_for_a_starter_that_does_not_answer(cluster):
    (cluster.folder / "gpu1/dead").write_text("")
    found = cluster.prologs(1, without=("gpu1",), sections=HURRIED)
    assert set(found.values()) == {"gpu1 did not mount it here in time"}


def test_the_others_do_not_wait_their_time_for_a_starter_whose_prolog_is_gone(cluster, monkeypatch):
    monkeypatch.setattr(rules, "NOTE_SECONDS", 1.0)
    before = time.monotonic()
    found = cluster.prologs(1, without=("gpu1",), sections=dict.fromkeys(NAMES, dict(SECTION, start_seconds=300)))
    assert set(found.values()) == {"gpu1 has noted nothing of it for 1 s"}
    assert time.monotonic() - before < 60


def test_the_others_stop_their_parts_when_a_node_is_lost_later(cluster):
    assert set(cluster.prologs(1).values()) == {""}
    (cluster.folder / "gpu1/dead").write_text("")
    for name in ("gpu2", "gpu10"):
        cluster.epilog(1, name)
        assert cluster.remains(1, name) == NOTHING
    assert cluster.remains(1, "gpu1") == ALL  # gone with it
    assert not any("gpu1:" in line for line in cluster.calls() if "stop" in line)


def test_data_that_a_power_cut_left_go_when_the_next_job_begins_and_no_others(cluster):
    assert set(cluster.prologs(1).values()) == set(cluster.prologs(2).values()) == {""}
    root, data = cluster.folder / "gpu2", cluster.folder / "gpu2/mnt/scratch/beeond"
    # As after a boot, for the first job; of the third somebody took the note alone.
    for pid, _start in node.daemons(cluster.host("gpu2"), FIRST + 1):
        os.kill(pid, signal.SIGKILL)
    table = root / "proc/self/mountinfo"
    table.write_text("".join(line + "\n" for line in table.read_text().splitlines() if str(FIRST + 1) not in line))
    note.forget(cluster.host("gpu2"), note.read(cluster.host("gpu2"), FIRST + 1))
    (data / "not a number").mkdir()
    assert set(cluster.prologs(3, nodes=("gpu2", "gpu10")).values()) == {""}
    assert sorted(one.name for one in data.iterdir() if one.name != ".trash") == [
        *(str(FIRST + number) for number in (2, 3)),
        "not a number",
    ]
    assert not (root / "beeond" / str(FIRST + 1)).exists()


def test_data_of_a_job_whose_daemons_run_stay_without_its_note(cluster):
    assert set(cluster.prologs(1).values()) == {""}
    os.unlink(cluster.host("gpu2").path(note.path(FIRST + 1)))
    assert set(cluster.prologs(2, nodes=("gpu2", "gpu10")).values()) == {""}
    assert (cluster.folder / "gpu2/mnt/scratch/beeond" / str(FIRST + 1)).is_dir()


def test_one_node_that_cannot_is_told_by_the_starter(cluster):
    found = cluster.prologs(1, sections=dict(HURRIED, gpu2=dict(SECTION, built={"kernel": "5.0"})))
    why = "the client of BeeGFS was not built for the kernel 6.1; converge the node"
    assert found["gpu2"] == why and found["gpu1"] == "gpu2: " + why
    assert found["gpu10"] == "gpu1 did not start it: gpu2: " + why
    assert not [line for line in cluster.calls() if " start " in line]


def test_a_node_that_has_beegfs_8_by_now_takes_no_part(cluster):
    (cluster.folder / "gpu2/opt/beegfs/src/client/client_module_8").mkdir()
    found = cluster.prologs(1)
    assert found["gpu1"] == "gpu2: BeeGFS 8 is installed, and only 7 is supported" and not cluster.calls()


def test_a_mount_of_the_user_over_its_root_hides_nothing_from_the_epilog(cluster):
    assert set(cluster.prologs(1).values()) == {""}
    table = cluster.folder / "gpu2/proc/self/mountinfo"
    table.write_text(table.read_text() + "51 50 0:51 / /beeond/{0} rw - fuse.x x rw\n".format(FIRST + 1))
    cluster.epilog(1, "gpu2")
    assert cluster.remains(1, "gpu2") == NOTHING and "/beeond/" not in table.read_text()


def test_a_busy_mount_is_taken_away_lazily_and_only_then(cluster):
    assert set(cluster.prologs(1).values()) == {""}
    (cluster.folder / "gpu2/busy").write_text("")
    cluster.epilog(1, "gpu1")
    cluster.epilog(1, "gpu2")
    lazy = [line.split()[0] for line in cluster.calls() if "umount -l" in line]
    assert lazy == ["gpu2:"]


def test_a_status_file_with_another_path_is_not_used_and_its_daemons_are_ended(cluster):
    assert set(cluster.prologs(1).values()) == {""}
    victim = cluster.folder / "gpu2/home"
    victim.mkdir()
    status = cluster.folder / "gpu2/run/gpu_node/beeond/{0}.status".format(FIRST + 1)
    status.write_text(status.read_text().replace("/beeond/{0},".format(FIRST + 1), "/home,"))
    cluster.epilog(1, "gpu2")
    assert cluster.remains(1, "gpu2") == NOTHING and victim.is_dir()
    assert not [line for line in cluster.calls() if "gpu2: stoplocal" in line]


def test_a_mount_that_stays_keeps_the_data_and_the_note(cluster, monkeypatch):
    assert set(cluster.prologs(1).values()) == {""}
    monkeypatch.setattr(stop, "_unmount", lambda host, one: None)
    monkeypatch.setattr(stop, "_stop_by_status", lambda host, one: "")
    with pytest.raises(NodeError, match="the mount of it is still there"):
        cluster.epilog(1, "gpu2")
    assert cluster.remains(1, "gpu2") == (True, True, False, True)


def test_a_job_that_is_requeued_without_an_epilog_starts_anew(cluster):
    assert set(cluster.prologs(1).values()) == {""}
    before = note.read(cluster.host("gpu1"), FIRST + 1)
    cluster.restart = "1"
    assert set(cluster.prologs(1).values()) == {""}
    assert [cluster.remains(1, name) for name in NAMES] == [ALL] * 3
    assert (before.restart, note.read(cluster.host("gpu1"), FIRST + 1).restart) == ("0", "1")
    assert len([line for line in cluster.calls() if " start " in line]) == 2


def test_data_are_taken_away_on_a_scratch_that_is_mounted_only(cluster):
    assert set(cluster.prologs(1).values()) == {""}
    data = cluster.folder / "gpu2" / "mnt/scratch/beeond" / str(FIRST + 1)
    table = cluster.folder / "gpu2" / "proc/self/mountinfo"
    table.write_text("".join(line for line in table.read_text().splitlines(True) if SCRATCH not in line))
    cluster.epilog(1, "gpu2")
    assert data.exists()  # what has that name on the disk below is not known to be ours


@pytest.mark.parametrize("data", ["jobs/{0}", "beeond/{0}0", "beeond"])
def test_a_note_of_another_folder_takes_nothing_away(cluster, data):
    kept = cluster.folder / "gpu2/mnt/scratch" / data.format(FIRST + 1)
    kept.mkdir(parents=True)
    one = rules.Instance(FIRST + 1, NAMES, 1000, "/beeond/1", "{0}/{1}".format(SCRATCH, data.format(FIRST + 1)))
    stop.stop(cluster.host("gpu2"), one)
    assert kept.exists()


def test_who_has_the_number_of_a_start_that_ended_by_now_is_left_alone(cluster):
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        began = processes.start_time(cluster.host("gpu2"), other.pid)
        one = rules.Instance(FIRST + 1, NAMES, 1000, "/beeond/1", "", by=(other.pid, began - 1))
        stop.stop(cluster.host("gpu2"), one)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.3)
        stop.stop(cluster.host("gpu2"), replaced(one, by=(other.pid, began)))
        assert other.wait(10) == -signal.SIGKILL
    finally:
        other.kill()
        other.wait()


def test_a_process_of_a_user_is_no_daemon_whatever_it_calls_itself(cluster, monkeypatch):
    assert set(cluster.prologs(1).values()) == {""}
    host, other = cluster.host("gpu2"), os.geteuid() + 1
    assert node.daemons(host, FIRST + 1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: other)
        assert node.daemons(host, FIRST + 1) == [] and node.remains(host, rules.Settings(), SCRATCH).daemons == ()


def test_a_turn_that_comes_after_the_time_of_the_others_starts_nothing(cluster, monkeypatch):
    monkeypatch.setattr(rules, "seconds_to_turn", lambda now, job_id: 2.0)
    assert cluster.prologs(1, sections=HURRIED)["gpu1"] == "no time was left for it"
    assert not any(" start " in line for line in cluster.calls())


def test_what_others_have_mounted_there_is_not_taken_away(cluster):
    host = cluster.host("gpu2")
    one = rules.Instance(FIRST + 1, NAMES, 1000, "/beeond/{0}".format(FIRST + 1), "")
    table = cluster.folder / "gpu2/proc/self/mountinfo"
    table.write_text(table.read_text() + "41 1 0:9 / {0} rw - nfs4 server:/x rw\n".format(one.point))
    assert not node.mounted(host, one) and node.remains(host, rules.Settings(), SCRATCH).mounts == ()
    stop.stop(host, one)
    assert not any("umount" in line for line in cluster.calls())


def test_a_second_prolog_of_a_job_that_runs_takes_nothing_away(cluster, monkeypatch):
    assert set(cluster.prologs(1).values()) == {""}
    data = cluster.folder / "gpu2" / "mnt/scratch/beeond" / str(FIRST + 1) / "beegfs-storage/chunk"
    data.write_text("x")
    title = "slurmstepd: [{0}.0]".format(FIRST + 1)
    monkeypatch.setattr(jobs, "steps", lambda host: iter([(7, title)]))
    before = note.read(cluster.host("gpu2"), FIRST + 1)
    assert cluster.prologs(1, without=("gpu1", "gpu10"), sections=HURRIED) == {"gpu2": ""}
    assert note.read(cluster.host("gpu2"), FIRST + 1) == before
    assert [cluster.remains(1, name) for name in NAMES] == [ALL] * 3 and data.read_text() == "x"
    # A step that is stuck since an earlier start has no part in this one.
    cluster.restart = "1"
    assert set(cluster.prologs(1).values()) == {""} and not data.exists()


@pytest.mark.parametrize("what", ["link", "open", "missing", "mount"])
def test_a_foreign_folder_of_mounts_is_refused(cluster, what):
    for name in NAMES:
        point = cluster.folder / name / "beeond"
        if what == "open":
            point.chmod(0o777)
        elif what == "mount":
            table = cluster.folder / name / "proc/self/mountinfo"
            table.write_text(table.read_text() + "41 1 0:9 / /beeond rw - nfs4 server:/x rw\n")
        else:
            point.rmdir()
            if what == "link":
                point.symlink_to("/tmp")
    found = cluster.prologs(1)
    assert all("/beeond" in why for why in found.values()) and not cluster.calls()

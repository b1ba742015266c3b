# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leftovers in folders: what goes, what others did between the look and the removal, and jobs that start meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
import types
from types import SimpleNamespace

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import root_folders, shares
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.types import ClockClaim, Entry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers import (
    devices,
    measure,
    places,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers import look as looking
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers import remove as removing
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers.judge import judge, removed
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.leftovers.types import (
    CONTAINERS,
    CORE_DUMPS,
    ENVIRONMENTS,
    JOB_FOLDERS,
    KEEP,
    TMP_FILES,
    Settings,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import jobs as notes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import on_node
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.slurm_stand_in import Cluster

POINT = "/mnt/scratch"
# Root may give files to a user who has no process; anybody else has them himself, and the node's /proc is empty.
USER = 54321 if os.geteuid() == 0 else os.geteuid()
AT_ONCE = Settings(cache_days=0, environment_days=0, core_days=0, tmp_days=0)


def given_to_user(path):
    if os.geteuid() == 0:
        for folder, _dummy, names in os.walk(str(path)):
            for one in ("", *names):
                os.chown(os.path.join(folder, one), USER, USER, follow_symlinks=False)
        os.chown(str(path), USER, USER, follow_symlinks=False)
    return path


class Node:
    def __init__(self, folder):
        self.root = folder / "root"
        for one in ("proc/self", "tmp", "dev/shm", "etc/gpu_node", POINT[1:] + "/jobs", "run/gpu_node/jobs"):
            (self.root / one).mkdir(parents=True)
        (self.root / "etc/login.defs").write_text("UID_MIN {0}\n".format(min(1000, USER)))
        (self.root / "proc/self/mountinfo").write_text("21 1 9:0 / {0} rw - xfs /dev/md0 rw\n".format(POINT))
        (self.root / "proc/uptime").write_text("9000000.00 1.0\n")
        self.slurm = Cluster(folder / "slurm", [os.uname().nodename.split(".")[0]])
        self.host = Host(str(self.root))
        self.declare()

    def declare(self, **sections):
        first = {
            "nvme_scratch": {"mount_point": POINT, "adopt": False},
            "slurm_hooks": {"scontrol": str(self.slurm.folder / "scontrol")},
        }
        (self.root / "etc/gpu_node/node.json").write_text(json.dumps({**first, **sections}))

    def job_folder(self, number, ours=True):
        path = self.root / POINT[1:] / "jobs" / str(number)
        path.mkdir()
        (path / "data").write_text("x" * 9000)
        if ours:
            os.setxattr(str(path), "user.gpu_node", b"made")
        return path

    def marked(self, name):
        path = "{0}/envs/{1}".format(POINT, name)
        mark = dict(path=path, name=name.rsplit("-", 1)[0], digest="0123456789ab" * 4, spec="", machine="", built=1)
        (self.root / path[1:] / ".gpu_node.json").write_text(json.dumps(mark))

    def tmp(self, name, top="tmp"):
        path = self.root / top / name
        path.mkdir()
        (path / "file").write_text("x")
        return given_to_user(path)

    def starts(self, number, uid=USER):
        notes.begin(self.host, notes.Running(number, uid, (), None))

    def look(self, settings=AT_ONCE, **more):
        """As it will be in an hour: nothing is fresh any more."""
        seen = looking.look(self.host, settings)
        older = tuple(replaced(one, idle_seconds=one.idle_seconds + 3600.0) for one in seen.leftovers)
        return replaced(seen, leftovers=older, **more)

    def run(self, settings=AT_ONCE):
        chosen = removed(judge(self.look(settings), settings))
        return {done.leftover.place.name: done.why for done in removing.remove(self.host, chosen)}


@pytest.fixture
def node(tmp_path):
    try:
        (tmp_path / "probe").mkdir()
        os.setxattr(str(tmp_path / "probe"), "user.gpu_node", b"1")
    except OSError:
        pytest.skip("this file system has no attributes of users")
    return Node(tmp_path)


def test_folders_of_jobs_that_are_over_go_and_the_others_stay(node):
    over, runs, unknown, foreign = (node.job_folder(one) for one in (11, 12, 13, 14))
    foreign = shutil.move(str(foreign), str(foreign.parent / "15")) and foreign.parent / "15"
    os.removexattr(str(foreign), "user.gpu_node")
    (over.parent / "site").mkdir()
    node.slurm.job(11, "COMPLETED")
    node.slurm.job(12, "COMPLETED")
    node.slurm.job(13, "RUNNING")
    node.starts(12)  # requeued: the note is newer than what slurmctld says
    assert node.run() == {"11": ""}
    assert not over.exists() and runs.exists() and unknown.exists() and foreign.exists()
    assert (over.parent / "site").exists() and not os.listdir(str(over.parent / ".trash"))
    assert node.run() == {}


def test_what_it_comes_to_is_told_in_bytes(node):
    node.job_folder(11)
    (one,) = node.look().leftovers
    assert one.kind == JOB_FOLDERS and one.job == 11 and 9000 <= one.size_bytes < 100000


def test_slurm_that_does_not_answer_frees_nothing_but_what_an_earlier_boot_left(node):
    node.slurm.job(11, "COMPLETED")
    node.job_folder(11)
    node.tmp("old")
    node.slurm.down()
    seen = node.look()
    assert removed(judge(seen, AT_ONCE)) == () and not seen.jobs.told and "contact" in seen.notes[0]
    (freed,) = removed(judge(replaced(seen, uptime_seconds=60.0), AT_ONCE))
    assert freed.kind == JOB_FOLDERS


def test_a_note_of_a_job_that_ended_without_an_epilog_wedges_no_reset(node):
    node.starts(12)
    path = node.root / "run/gpu_node/jobs/12.json"
    assert node.look().jobs.names == {"12"}
    os.utime(str(path), (0, 0))
    node.slurm.job(12, "RUNNING")
    assert node.look().jobs.names == {"12"}
    os.utime(str(path), (0, 0))
    node.slurm.job(12, "COMPLETED")
    assert node.look().jobs.names == frozenset() and node.look().jobs.told


def test_a_machine_that_is_no_node_of_a_slurm_that_answers_has_no_unknown_jobs(node):
    client = on_node.slurm_of(node.host, json.loads((node.root / "etc/gpu_node/node.json").read_text()))

    def refused():
        raise NodeError("squeue", "Invalid node name", "look")

    client.holders = refused
    assert not on_node.look(node.host, client, ())[0].told
    client.node = "another"
    assert on_node.look(node.host, client, ())[0].told
    (node.root / "proc/99").mkdir()
    (node.root / "proc/99/comm").write_text("slurmd\n")
    (node.root / "proc/99/status").write_text("Uid:\t{0}\t{0}\t{0}\t{0}\n".format(os.geteuid()))
    assert not on_node.look(node.host, client, ())[0].told  # its slurmd runs under another name


def test_files_of_users_who_are_gone_go_and_those_of_root_and_links_stay(node):
    node.tmp("of-user")
    node.tmp("shared", "dev/shm")
    victim = node.root / "victim"
    victim.mkdir()
    (victim / "precious").write_text("x")
    (node.root / "tmp/of-root").mkdir()
    if os.geteuid() != 0:
        shutil.rmtree(str(node.root / "tmp/of-root"))
    inside = node.tmp("with-link") / "away"
    inside.symlink_to(victim)
    given_to_user(inside)
    (node.root / "tmp/link").symlink_to(victim)
    given_to_user(node.root / "tmp/link")
    assert "/tmp/of-root" not in [one.what for one in node.look().leftovers]
    assert node.run() == {"of-user": "", "shared": "", "with-link": ""}
    assert (victim / "precious").read_text() == "x"
    assert sorted(os.listdir(str(node.root / "tmp"))) == ["link", "of-root"][: 2 if os.geteuid() == 0 else 1]
    assert os.listdir(str(node.root / "dev/shm")) == []


def test_a_folder_that_turns_into_a_link_between_look_and_removal_stays_and_leads_nowhere(node):
    path, victim = node.tmp("turns"), node.root / "victim"
    victim.mkdir()
    (victim / "precious").write_text("x")
    chosen = removed(judge(node.look(), AT_ONCE))
    shutil.rmtree(str(path))
    path.symlink_to(victim)
    given_to_user(path)
    (done,) = removing.remove(node.host, chosen)
    assert done.why == "it was taken or changed meanwhile"
    assert path.is_symlink() and (victim / "precious").read_text() == "x"
    # A folder of the same name is another one, too.
    path.unlink()
    node.tmp("turns")
    assert removing.remove(node.host, chosen)[0].why and (path / "file").exists()


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_one_that_turns_in_the_last_moment_is_put_back(node, kind):
    """Between the look at what it is and the move, which no lock can keep a user out of."""
    path, victim = node.tmp("turns"), node.root / "victim"
    victim.mkdir()
    (victim / "precious").write_text("x")
    above = os.open(str(path.parent), os.O_RDONLY | os.O_DIRECTORY)
    seen = root_folders.identity(above, "turns")
    calls = []

    def still(dummy):
        calls.append(1)
        if len(calls) == 1:
            path.rename(path.parent / "hidden")
            path.symlink_to(victim) if kind == "link" else path.mkdir()
        return True

    try:
        assert root_folders.discard_same(node.host, above, "turns", seen, still) is False
    finally:
        os.close(above)
    assert path.is_symlink() == (kind == "link") and (path.parent / "hidden/file").exists()
    assert (victim / "precious").exists() and os.listdir(str(path.parent / ".trash")) == []


def test_a_job_that_starts_between_look_and_removal_keeps_everything_it_may_need(node):
    node.slurm.job(11, "COMPLETED")
    folder, path = node.job_folder(11), node.tmp("old")
    chosen = removed(judge(node.look(), AT_ONCE))
    assert len(chosen) == 2
    node.starts(11)
    assert [one.why for one in removing.remove(node.host, chosen)] == ["it was taken or changed meanwhile"] * 2
    assert (folder / "data").exists() and (path / "file").exists()


def test_a_job_of_another_user_that_starts_keeps_files_that_it_may_share(node):
    path = node.tmp("old")
    chosen = removed(judge(node.look(), AT_ONCE))
    node.starts(11, uid=USER + 1)
    assert removing.remove(node.host, chosen)[0].why and (path / "file").exists()


def test_a_process_or_a_cgroup_that_comes_between_look_and_removal_keeps_what_is_its_own(node, monkeypatch):
    files, folder = node.tmp("a"), node.job_folder(5)
    chosen = removed(judge(node.look(), AT_ONCE))
    assert {one.place.name for one in chosen} == {"a", "5"}
    monkeypatch.setattr(removing, "has_cgroup", lambda host, job: job == "5")
    (node.root / "proc/77").mkdir()
    (node.root / "proc/77/status").write_text("Uid:\t{0}\t{0}\t{0}\t{0}\n".format(USER))
    assert {done.why for done in removing.remove(node.host, chosen)} == {removing.CHANGED}
    assert files.exists() and folder.exists()


def test_a_process_that_comes_and_does_not_tell_what_it_has_open_keeps_it(node):
    path = node.tmp("a")
    chosen = removed(judge(node.look(), AT_ONCE))
    (node.root / "proc/77").mkdir()
    (node.root / "proc/77/fd").write_text("")  # even root cannot list it
    assert [done.why for done in removing.remove(node.host, chosen)] == [removing.CHANGED] and path.exists()


def test_a_tree_that_goes_on_in_another_file_system_is_not_seen_whole(node, monkeypatch):
    node.tmp("old")
    real = os.stat

    def stat(path, **rest):
        found = real(path, **rest)
        if path != "file":
            return found
        names = ("st_mode", "st_uid", "st_ctime", "st_atime", "st_nlink", "st_ino", "st_blocks")
        return types.SimpleNamespace(st_dev=found.st_dev + 1, **{one: getattr(found, one) for one in names})

    monkeypatch.setattr(os, "stat", stat)
    (one,) = node.look().leftovers
    assert one.owners is None and one.size_bytes is None


def test_a_job_that_starts_while_its_folder_is_moved_gets_it_back(node):
    folder = node.job_folder(11)
    above = os.open(str(folder.parent), os.O_RDONLY | os.O_DIRECTORY)
    answers = [True, False]
    try:
        seen = root_folders.identity(above, "11")
        assert root_folders.discard_same(node.host, above, "11", seen, lambda dummy: answers.pop(0)) is False
    finally:
        os.close(above)
    assert (folder / "data").exists() and answers == []


def test_a_process_of_the_user_keeps_his_files(node):
    node.tmp("old")
    (node.root / "proc/77").mkdir()
    (node.root / "proc/77/status").write_text("Name:\tx\nUid:\t{0}\t{0}\t{0}\t{0}\n".format(USER))
    assert node.run() == {}


def test_a_process_of_another_user_that_has_one_open_keeps_it(node):
    path = node.tmp("old")
    (node.root / "proc/77/fd").mkdir(parents=True)
    (node.root / "proc/77/status").write_text("Uid:\t0\t0\t0\t0\n")
    (node.root / "proc/77/fd/3").symlink_to("/tmp/old/file")
    assert node.run() == {} and path.exists()
    (node.root / "proc/77/fd/3").unlink()
    (node.root / "proc/77/maps").write_text("7f-8f r--s 0 00:17 5 /tmp/old/file (deleted)\n")
    assert node.run() == {}
    (node.root / "proc/77/maps").write_text("7f-8f r--s 0 00:17 5 /tmp/older/file\n")
    assert node.run() == {"old": ""}


def test_what_something_is_mounted_in_stays(node):
    path = node.tmp("old")
    line = "41 23 8:1 / /tmp/old/below rw - ext4 /dev/sda1 rw\n"
    (node.root / "proc/self/mountinfo").write_text(line)
    assert node.run() == {} and path.exists()


def test_folders_of_containers_wait_for_the_last_job_of_their_user(node):
    template = {"purpose": "data", "path": POINT + "/enroot/data/{uid}", "top": POINT + "/enroot", "remove": True}
    cache = {"purpose": "cache", "path": POINT + "/enroot/cache/{uid}", "top": POINT + "/enroot", "remove": False}
    node.declare(enroot={"user_folders": [template, cache]})
    paths = []
    for name in ("data", "cache"):
        path = node.root / POINT[1:] / "enroot" / name / str(USER)
        path.mkdir(parents=True)
        os.setxattr(str(path), "user.gpu_node", b"made")
        paths.append(given_to_user(path))
    (other := paths[0].parent / "no-user").mkdir()
    node.starts(12)
    assert node.run() == {}
    notes.undo(node.host, 12)
    kinds = {(one.kind, one.keeps) for one in node.look().leftovers}
    assert kinds == {(CONTAINERS, False), (CONTAINERS, True)}
    assert node.run(replaced(AT_ONCE, cache_days=30)) == {str(USER): ""}
    assert not paths[0].exists() and paths[1].exists() and other.exists()
    assert node.run() == {str(USER): ""} and not paths[1].exists()


def test_an_environment_goes_when_it_is_whole_old_and_in_no_link(node):
    envs = node.root / POINT[1:] / "envs"
    for name in ("a-0123456789ab", "b-0123456789ab", "c-0123456789ab", "mine"):
        (envs / name).mkdir(parents=True)
    for name in ("a-0123456789ab", "b-0123456789ab", "mine"):
        node.marked(name)
    shutil.copytree(str(envs / "a-0123456789ab"), str(envs / "d-0123456789ab"))  # its mark is of another path
    (envs / "b").symlink_to(envs / "b-0123456789ab")
    assert node.run() == {"a-0123456789ab": ""}
    assert sorted(os.listdir(str(envs))) == [".trash", "b", *(one + "-0123456789ab" for one in "bcd"), "mine"]
    assert {one.kind for one in node.look().leftovers} == {ENVIRONMENTS}


def test_environments_that_other_nodes_may_use_stay(node):
    (node.root / POINT[1:] / "envs/a-0123456789ab").mkdir(parents=True)
    node.marked("a-0123456789ab")
    node.declare(python_env={"folder": POINT + "/envs"})
    table = node.root / "proc/self/mountinfo"
    table.write_text("41 23 0:50 / {0}/envs rw - nfs4 server:/envs rw\n".format(POINT))
    seen = node.look()
    assert seen.leftovers == () and any("other nodes may use what lies there" in one for one in seen.notes)
    table.write_text(table.read_text().replace("nfs4", "xfs"))
    assert [one.kind for one in node.look().leftovers] == [ENVIRONMENTS]


def test_a_folder_of_everybody_that_is_a_link_is_not_looked_through(node):
    shutil.rmtree(str(node.root / "tmp"))
    (node.root / "home").mkdir()
    given_to_user(node.root / "home")
    (node.root / "home/work").write_text("x")
    given_to_user(node.root / "home")
    (node.root / "tmp").symlink_to("home")
    seen = node.look()
    assert seen.leftovers == () and not any("tmp" in one for one in seen.notes)


def test_where_not_every_process_tells_nobody_knows_whether_it_is_open(node):
    node.tmp("a")
    (node.root / "proc/77").mkdir()
    (node.root / "proc/77/fd").write_text("")  # even root cannot list it
    (only,) = judge(node.look(), AT_ONCE)
    assert (only.outcome, only.why) == (KEEP, "not every process could be asked whether it has it open")


@pytest.mark.parametrize(
    "words", [POINT + "/envs/a/bin/python\0-m\0jupyter", "python\0" + POINT + "/envs/a-0123456789ab/x"]
)
def test_an_environment_that_a_process_names_stays(node, words):
    """Of one that was started through a link nothing may be loaded from the tree now, and more is later."""
    (node.root / POINT[1:] / "envs/a-0123456789ab").mkdir(parents=True)
    node.marked("a-0123456789ab")
    (node.root / "proc/77/fd").mkdir(parents=True)
    (node.root / "proc/77/cmdline").write_text(words)
    assert node.run() == {}
    (node.root / "proc/77/cmdline").write_text("sleep\0" + "1")
    chosen = removed(judge(node.look(), AT_ONCE))
    (node.root / "proc/77/cmdline").write_text(words)
    assert [one.why for one in removing.remove(node.host, chosen)] == [removing.CHANGED]
    (node.root / "proc/77/cmdline").write_text("")
    assert node.run() == {"a-0123456789ab": ""}


def test_core_dumps_of_systemd_go_by_their_name_and_age(node):
    folder = node.root / "var/lib/systemd/coredump"
    folder.mkdir(parents=True)
    for one in (folder, *list(folder.parents)[:4]):
        one.chmod(0o755)
    name = "core.python3.1001.0123456789abcdef0123456789abcdef.4242.1700000000000000.zst"
    (folder / name).write_text("x")
    (folder / "notes.txt").write_text("x")
    assert node.run(replaced(AT_ONCE, core_days=7)) == {}
    assert node.run() == {name: ""} and os.listdir(str(folder)) == [".trash", "notes.txt"]
    assert CORE_DUMPS in AT_ONCE.kinds


def test_of_a_folder_of_core_pattern_only_names_go_that_the_kernel_makes(node):
    folder = node.root / "data/cores"
    folder.mkdir(parents=True)
    for one in (node.root, folder.parent, folder):
        one.chmod(0o755)
    (node.root / "proc/sys/kernel").mkdir(parents=True)
    (node.root / "proc/sys/kernel/core_pattern").write_text("/data/cores/core.%e.%p.%h\n")
    stay = ["core.py", "core.tar.gz", "core.train.set.v2", "corelib.4.txt"]
    for one in (*stay, "core.python3.4242.gpu01"):
        (folder / one).write_text("x")
    assert node.run() == {"core.python3.4242.gpu01": ""}
    assert sorted(os.listdir(str(folder))) == sorted([".trash", *stay])


@pytest.mark.parametrize(
    "pattern,dump,other",
    [
        ("core.%p", "core.12", "core.12a"),
        ("core-%e-%s-%u-%t", "core-a b-11-1000-1700000000", "core-a-11-x-1"),
        ("%e.core.%P", "python3.core.7.7", "python3.core.log"),
        ("100%%core%i", "100%core3", "100core3"),
    ],
)
def test_a_name_of_a_dump_is_told_from_other_names(pattern, dump, other):
    wanted = places.dump_name(pattern)
    assert wanted.fullmatch(dump) and not wanted.fullmatch(other)


@pytest.mark.parametrize("pattern", ["core", "core.%e", "%e.%p", "%p", ""])
def test_a_pattern_that_other_files_could_have_names_no_dump(pattern):
    assert places.dump_name(pattern) is None


def test_what_a_run_that_was_killed_left_in_the_trash_of_tmp_goes_with_the_next(node):
    (node.root / "tmp/.trash/old-1").mkdir(parents=True)
    (node.root / "tmp/.trash").chmod(0o700)
    removing.remove(node.host, ())
    assert os.listdir(str(node.root / "tmp")) == []


def test_a_tree_that_cannot_be_seen_whole_is_nobodys_to_remove(node, monkeypatch):
    node.tmp("old")
    monkeypatch.setattr(measure, "_MEASURE_SECONDS", -1.0)
    (one,) = node.look().leftovers
    assert one.kind == TMP_FILES and one.owners is None and one.size_bytes is None
    assert judge(node.look(), AT_ONCE)[0].why.startswith("it was not looked through in time")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
@pytest.mark.parametrize("spread", [1, 3000])
def test_many_names_of_one_user_leave_room_for_the_files_of_others(node, monkeypatch, spread):
    """``spread``: the user numbers of one user, with those of a user namespace."""
    monkeypatch.setattr(looking, "_MOST", 20)
    (node.root / "etc/subuid").write_text("hog:200000:65536\n")
    for number in range(60):
        path = node.root / "tmp" / "!{0:02}".format(number)
        path.write_text("")
        os.chown(str(path), 200000 + number % spread, 200000)
    node.tmp("old_data")
    seen = node.look()
    assert "old_data" in {one.place.name for one in seen.leftovers} and len(seen.leftovers) == 20
    assert seen.notes == ("tmp_files: 61 were found, and 20 are looked at",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
@pytest.mark.parametrize("below", [".", "a/b"])
def test_a_huge_directory_of_one_user_takes_only_the_time_of_that_user(node, monkeypatch, below):
    huge = node.root / "tmp" / "!big" / below
    huge.mkdir(parents=True)
    for number in range(1000):
        (huge / str(number)).touch()
    os.chown(str(node.root / "tmp" / "!big"), USER + 1, USER + 1)
    node.tmp("old_data")
    ticks = iter(range(100000))
    clock = types.SimpleNamespace(time=time.time, monotonic=lambda: next(ticks))  # each look at it is a second
    monkeypatch.setattr(measure, "time", clock)
    monkeypatch.setattr(shares, "time", clock)
    monkeypatch.setattr(shares, "_in_database", lambda uid: True)
    monkeypatch.setattr(measure, "_MEASURE_SECONDS", 300.0)
    big, old = sorted(node.look().leftovers, key=lambda one: one.what)
    assert big.owners is None and old.owners == {USER}


def test_the_removal_takes_turns_among_owners_and_ends_in_time(node, monkeypatch):
    paths = [node.tmp(name) for name in ("a", "b")]
    chosen = removed(judge(node.look(), AT_ONCE))
    monkeypatch.setattr(removing, "_REMOVE_SECONDS", -1.0)
    done = removing.remove(node.host, chosen)
    assert [(one.why, one.failed) for one in done] == [(removing.NEXT_RUN, False)] * 2 and all(
        map(os.path.exists, paths)
    )
    assert shares.in_turn("aaabbc", str) == list("cbabaa")


@pytest.mark.parametrize("link", ["cwd", "fd/3"])
def test_a_file_that_is_opened_during_the_first_check_gets_its_name_back(node, monkeypatch, link):
    """After the move the kernel shows the new path of an open file."""
    path = node.tmp("old")
    chosen = removed(judge(node.look(), AT_ONCE))
    real, looks = removing.in_use, []

    def opened(host, leftovers):
        looks.append([one.place.path for one in leftovers])
        if len(looks) == 2:
            (moved,) = os.listdir(str(node.root / "tmp/.trash"))
            (node.root / "proc/77/fd").mkdir(parents=True)
            (node.root / "proc/77" / link).symlink_to(
                "/tmp/.trash/{0}".format(moved) + ("/file" if "/" in link else "")
            )
        return real(host, leftovers)

    monkeypatch.setattr(removing, "in_use", opened)
    # A child process looks; here it is this one.
    monkeypatch.setattr(removing, "_in_child", lambda act: "; ".join(act()))
    assert [one.why for one in removing.remove(node.host, chosen)] == [removing.CHANGED]
    assert (path / "file").exists() and len(looks) == 2


def test_two_runs_take_turns(node):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import LockHeld

    removing._LOCK_SECONDS, before = 0.0, removing._LOCK_SECONDS
    try:
        with node.host.lock(removing.LOCK), pytest.raises(LockHeld):
            removing.remove(node.host, ())
    finally:
        removing._LOCK_SECONDS = before


def test_a_look_changes_nothing(node):
    node.job_folder(11)
    node.tmp("old")

    def tree():
        return sorted(
            (os.path.join(folder, one), os.lstat(os.path.join(folder, one)).st_ctime_ns)
            for folder, _dummy, names in os.walk(str(node.root))
            for one in names
        )

    before = tree()
    time.sleep(0.01)
    node.look()
    assert tree() == before


# Clocks ---------------------------------------------------------------------------------------------------

HELD = Entry("boot", clocks=ClockClaim("locked", "default", 1980))


class Gpus:
    """Two GPUs with held clocks; what is asked of their driver, and under which locks."""

    def __init__(self, node, monkeypatch):
        self.host, self.returned, self.locked, self.nice = node.host, [], [], []
        self.record = {"GPU-1": HELD, "GPU-2": HELD}
        gpus = [SimpleNamespace(index=at, uuid="GPU-%d" % at, pci_address="0001:0%d:00.0" % at) for at in (1, 2)]
        state = SimpleNamespace(gpus=gpus, known=lambda gpu: SimpleNamespace(claim=self.claim(gpu)))
        self.claim = lambda gpu: self.record[gpu.uuid].clocks
        monkeypatch.setattr(devices, "observe", lambda *given, **more: self._asked() or state)
        monkeypatch.setattr(devices.record, "read", lambda host: tuple(sorted(self.record.items())))
        monkeypatch.setattr(devices, "return_to_declared", self._return)
        self.meanwhile = lambda: None

    def _asked(self):
        self.locked.append(self.host.locked("jobs"))

    def _return(self, host, gpus, section):
        assert host.locked("jobs")
        self.returned += gpus
        self.nice.append(os.getpriority(os.PRIO_PROCESS, 0))
        self.record.update({"GPU-" + one[6]: Entry("boot") for one in gpus})
        return []

    def remove(self):
        seen, dummy = devices.clocks(self.host, {})
        self.meanwhile()
        return [one.why for one in removing.remove(self.host, seen)]


@pytest.fixture
def gpus(node, monkeypatch):
    return Gpus(node, monkeypatch)


def test_the_driver_is_asked_before_the_lock_that_a_prolog_waits_for(gpus, monkeypatch):
    monkeypatch.setattr(removing, "_TURN_SECONDS", 0.0)
    assert gpus.remove() == ["", ""] and gpus.returned == ["0001:01:00.0", "0001:02:00.0"]
    assert gpus.locked == [False, False]


def test_what_holds_a_lock_of_hooks_is_not_nice(gpus, monkeypatch):
    given = []
    monkeypatch.setattr(removing, "_TURN_SECONDS", 0.0)
    monkeypatch.setattr(removing.os, "getpriority", lambda *dummy: 19)
    monkeypatch.setattr(removing.os, "setpriority", lambda *words: given.append(words[2]))
    assert gpus.remove() == ["", ""] and given == [0, 19, 0, 19]


@pytest.mark.parametrize("what", ["a job", "clocks by hand"])
def test_clocks_that_others_set_after_the_look_stay(gpus, what, monkeypatch):
    monkeypatch.setattr(removing, "_TURN_SECONDS", 0.0)
    asked = gpus._asked

    def then():
        asked()
        if len(gpus.locked) == 2:  # after the second look, before the lock
            if what == "a job":
                notes.begin(gpus.host, notes.Running(7, USER, ("0001:01:00.0",), None))
            else:
                gpus.record["GPU-1"] = Entry("boot", clocks=ClockClaim("locked", "default", 1410))

    gpus._asked = then
    if what == "clocks by hand":  # told before they change
        gpus.claim = lambda gpu: HELD.clocks
    assert gpus.remove() == [removing.CHANGED, ""] and gpus.returned == ["0001:02:00.0"]


def test_clocks_stay_where_a_job_has_nobody_knows_which_gpus(gpus, monkeypatch):
    address = "0001:01:00.0"
    held = devices.held_clocks(gpus.host, {})[address]
    monkeypatch.setattr(devices.holding, "look", lambda host: [SimpleNamespace(gpus=None)])
    assert devices.return_clocks(gpus.host, address, held, {}) is None and gpus.returned == []


def test_a_hook_that_keeps_its_lock_is_told_of_each_gpu(gpus, monkeypatch):
    monkeypatch.setattr(removing, "_USER_SECONDS", 0.0)
    monkeypatch.setattr(removing, "_TURN_SECONDS", 0.0)
    seen, dummy = devices.clocks(gpus.host, {})
    with gpus.host.lock("jobs"):
        done = removing.remove(gpus.host, seen)
    assert all("another run" in one.why for one in done) and gpus.returned == []


@pytest.mark.parametrize("how", ["hangs", "killed", "cannot be checked"])
def test_an_entry_whose_second_check_does_not_end_keeps_its_name(node, monkeypatch, how):
    path, other = node.tmp("old"), node.tmp("other")
    chosen = removed(judge(node.look(), AT_ONCE))
    real = removing.free

    def free(host, one, moved=""):
        if moved and one.place.name == "old":
            if how == "cannot be checked":
                raise OSError(5, "Input/output error")
            os.kill(os.getpid(), signal.SIGSTOP if how == "hangs" else signal.SIGKILL)
        return real(host, one, moved)

    monkeypatch.setattr(removing, "free", free)
    monkeypatch.setattr(removing, "_HANG_SECONDS", 1.0)
    done = {one.leftover.place.name: one.why for one in removing.remove(node.host, chosen)}
    assert done["old"] and not done["other"]
    assert (path / "file").exists() and not other.exists()


def test_an_entry_that_a_killed_run_did_not_check_again_is_not_removed(node):
    """Neither by the next run, nor by a hook that empties the same trash."""
    trash = node.root / "tmp/.trash"
    (trash / "unchecked-0123456789abcdef-my-data/sub").mkdir(parents=True)
    (trash / "checked").mkdir()
    trash.chmod(0o700)
    above = os.open(str(node.root / "tmp"), os.O_RDONLY)
    try:
        assert root_folders.empty_trash(above)
        deadline = time.monotonic() + 20
        while root_folders.has_trash(above) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert os.listdir(str(trash)) == ["unchecked-0123456789abcdef-my-data"]
    finally:
        os.close(above)
    removing.remove(node.host, ())
    assert os.listdir(str(node.root / "tmp")) == ["my-data"] and (node.root / "tmp/my-data/sub").exists()


@pytest.mark.parametrize("listed", [True, False])
def test_numbers_of_a_user_namespace_that_only_a_name_service_knows_share_one_budget(tmp_path, listed):
    asked = []

    def known(uid):
        asked.append(uid)
        return uid == 1002 or (listed and 5000 <= uid < 5100)

    of = shares.owner(Host(str(tmp_path)), known)
    items = [("a", uid) for uid in range(100000, 102000)] + [("bob", 1002)] * 5
    assert sum(1 for one in shares.in_turn(items, lambda one: of(one[1]))[:2000] if one[0] == "bob") == 5
    assert len(asked) < 100
    # Users of a directory service have budgets of their own.
    assert len({of(uid) for uid in range(5000, 5100)}) == (100 if listed else 1)

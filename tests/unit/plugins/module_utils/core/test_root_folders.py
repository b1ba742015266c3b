# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of root's on a scratch with mode 1777, against a user who takes their names, at once and again and again."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import multiprocessing
import os
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import mounts, root_folders
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import scratch

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="it is about folders of root and of others")
FORK = multiprocessing.get_context("fork")
USER = 65534


@pytest.fixture
def node(tmp_path):
    """Every user may pass, as on a node: pytest's own folders are closed."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(0o1777)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    return tmp_path


def attack(folder, stop):
    os.setuid(USER)
    turn = 0
    while not stop.is_set():
        turn += 1
        with contextlib.suppress(OSError):
            if turn % 3:
                os.mkdir(folder + "/jobs")
                os.mkdir(folder + "/jobs/42")
            else:
                os.symlink("/etc", folder + "/jobs")


def test_whoever_wins_the_race_for_a_name_what_is_used_is_roots(node):
    stop = FORK.Event()
    user = FORK.Process(target=attack, args=(str(node / "scratch"), stop))
    user.start()
    try:
        for _turn in range(200):
            with root_folders.opened(Host(str(node)), "/scratch", ("jobs",), make=True) as handle:
                found = os.fstat(handle)
                assert (found.st_uid, found.st_mode & 0o7777) == (0, 0o711)
                assert os.listdir(handle) == []
                root_folders.given(Host(str(node)), handle, "42", 1000, 1000)
                assert sorted(os.listdir(handle)) == [".trash", "42"]
            os.rename(str(node / "scratch/jobs"), str(node / "kept-{0}".format(_turn)))
    finally:
        stop.set()
        user.join()


@pytest.mark.parametrize("there", ["nothing", "folder", "file", "link"])
@pytest.mark.parametrize("knows_exchange", [True, False])
def test_what_had_the_name_lies_aside_whole(node, monkeypatch, there, knows_exchange):
    jobs = node / "scratch/jobs"
    if there == "folder":
        (jobs / "42").mkdir(parents=True)
        os.chown(str(jobs), USER, USER)
    elif there == "file":
        jobs.write_text("theirs")
    elif there == "link":
        jobs.symlink_to("/etc")
    if not knows_exchange:
        import ctypes

        class Old:
            def renameat2(self, *dummy):
                ctypes.set_errno(errno.EINVAL)
                return -1

        monkeypatch.setattr(ctypes, "CDLL", lambda *dummy, **options: Old())
    with root_folders.opened(Host(str(node)), "/scratch", ("jobs",), make=True) as handle:
        assert os.fstat(handle).st_uid == 0 and os.listdir(handle) == []
    names = sorted(os.listdir(str(node / "scratch")))
    assert names[0] == "jobs" and len(names) == (1 if there == "nothing" else 2)
    assert all(one.startswith("jobs.moved-aside-") for one in names[1:])
    if there == "folder":
        assert os.listdir(str(node / "scratch" / names[1])) == ["42"]


def test_a_prolog_waits_for_what_the_last_job_left_and_for_nothing_else(node):
    """The epilog of a job that filled the scratch has moved its folder away, and it is still being removed."""
    host, tries = Host(str(node)), []
    with root_folders.opened(host, "/scratch", ("jobs",), make=True) as jobs:
        root_folders.given(host, jobs, "42", USER, USER)
        (node / "scratch/jobs/42/large").write_text("x")
        root_folders.discard(host, jobs, "42")

    def act():
        tries.append(1)
        if os.listdir(str(node / "scratch/jobs/.trash")):
            raise OSError(errno.ENOSPC, "No space left on device")

    scratch.when_there_is_room(host, "/scratch", act)
    assert len(tries) > 1

    def full(code):
        tries.append(1)
        raise OSError(code, os.strerror(code))

    for code in (errno.ENOSPC, errno.EIO):
        del tries[:]
        with pytest.raises(OSError):
            scratch.when_there_is_room(host, "/scratch", lambda code=code: full(code))
        assert len(tries) == 1  # nothing waits in the trash


def prologs(root, failed):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError

    for _turn in range(40):
        try:
            scratch.look(Host(root), {"mount_point": "/scratch", "adopt": False})
        except NodeError as error:
            failed.put(str(error))


def test_prologs_side_by_side_do_not_meet_in_their_probe(node):
    """With slurm_hooks_job_folder: false they all made, and removed, one and the same folder."""
    (node / "proc/self").mkdir(parents=True)
    (node / "proc/self/mountinfo").write_text("21 1 9:127 / /scratch rw - xfs /dev/md127 rw\n")
    failed = FORK.Queue()
    many = [FORK.Process(target=prologs, args=(str(node), failed)) for _number in range(8)]
    for one in many:
        one.start()
    for one in many:
        one.join()
    assert failed.empty(), failed.get()
    assert os.listdir(str(node / "scratch")) == []


def test_without_files_that_have_no_name_the_probe_leaves_nothing_either(node, monkeypatch):
    real = os.open

    def refuse(path, flags, *rest, **more):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(scratch.os, "open", refuse)
    scratch._probe(str(node / "scratch"))
    assert os.listdir(str(node / "scratch")) == []


@contextlib.contextmanager
def trash_locked(trash, seconds=20):
    """The lock of a trash folder, taken as soon as nobody else holds it."""
    deadline = time.monotonic() + seconds
    folder = os.open(str(trash), os.O_RDONLY)
    try:
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < deadline, "the remover holds its lock after {0} s".format(seconds)
                time.sleep(0.05)
        yield
    finally:
        os.close(folder)


def test_what_is_in_the_trash_is_removed_by_one_process_that_outlives_its_parent(node):
    host = Host(str(node))

    def work():
        with root_folders.opened(host, "/scratch", ("jobs",), make=True) as jobs:
            for name in ("1", "2"):
                root_folders.given(host, jobs, name, USER, USER)
                for number in range(3000):
                    (node / "scratch/jobs" / name / str(number)).write_text("")
                (node / "scratch/jobs" / name / "link").symlink_to(node)
                assert root_folders.discard(host, jobs, name)
            assert not root_folders.discard(host, jobs, "3")
            assert root_folders.empty_trash(jobs)
            os._exit(0 if not root_folders.empty_trash(jobs) else 1)

    one = FORK.Process(target=work)
    one.start()
    one.join()
    assert one.exitcode == 0
    trash = node / "scratch/jobs/.trash"
    assert trash.stat().st_mode & 0o7777 == 0o700
    # The remover gives its lock back when it ends, which is a moment after the last file.
    with trash_locked(trash):
        assert list(trash.iterdir()) == [] and (node / "scratch").is_dir()


def test_a_folder_whose_user_filled_the_disk_can_be_removed(node, monkeypatch):
    """Seen on XFS: no folder can be made then, so without its trash the folder stayed, and the disk full."""

    def full(*dummy, **more):
        raise OSError(28, "No space left on device")

    host = Host(str(node))
    with root_folders.opened(host, "/scratch", ("jobs",), make=True) as jobs:
        root_folders.given(host, jobs, "1", USER, USER)
        with monkeypatch.context() as patch:
            patch.setattr(root_folders.os, "mkdir", full)
            assert root_folders.discard(host, jobs, "1")
        assert os.listdir(jobs) == [".trash"]


def test_a_folder_in_which_something_is_mounted_is_neither_moved_nor_removed(node, monkeypatch):
    """Seen: a bind mount of a directory of the same file system in the directory of a job (a prolog of the site had
    put a data set there). rm --one-file-system compares devices only, and removed the data set."""

    def show(*points):
        lines = ["{0} 1 0:9 / {1} rw - tmpfs t rw".format(2 + number, point) for number, point in enumerate(points)]
        monkeypatch.setattr(mounts.Host, "read", lambda self, path, limit: "\n".join(lines))

    host, top = Host(str(node)), os.path.realpath(str(node)) + "/scratch/jobs"
    with root_folders.opened(host, "/scratch", ("jobs",), make=True) as jobs:
        for name in ("17", "170"):
            root_folders.given(host, jobs, name, USER, USER)
            (node / "scratch/jobs" / name / "data").mkdir()
        show(top + "/17/data")
        with pytest.raises(OSError, match="something is mounted in it"):
            root_folders.discard(host, jobs, "17")
        root_folders.discard_old(host, jobs, time.time() + 60, lambda name: name.isdigit())
        wait_for(lambda: not os.listdir(top + "/.trash"))
        assert sorted(os.listdir(jobs)) == [".trash", "17"]
        show()
        assert root_folders.discard(host, jobs, "17")
        (moved,) = os.listdir(top + "/.trash")
        show("{0}/.trash/{1}/data".format(top, moved))
        assert not root_folders.has_trash(jobs) and not root_folders.empty_trash(jobs)
        show()
        assert root_folders.empty_trash(jobs)


def wait_for(done):
    deadline = time.monotonic() + 5
    while not done() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_trash_folder_of_a_user_is_never_emptied(node):
    planted = node / "scratch/.trash/x"
    planted.mkdir(parents=True)
    os.chown(str(planted.parent), USER, USER)
    above = os.open(str(node / "scratch"), os.O_RDONLY)
    assert not root_folders.empty_trash(above) and planted.is_dir()
    os.close(above)


@pytest.mark.parametrize(
    "mode, uid, roots", [(0o711, 0, True), (0o771, 0, False), (0o713, 0, False), (0o711, USER, False)]
)
def test_a_folder_is_roots_when_root_alone_may_write_to_it(node, mode, uid, roots):
    (node / "scratch/jobs").mkdir()
    (node / "scratch/jobs").chmod(mode)
    os.chown(str(node / "scratch/jobs"), uid, -1)
    with root_folders.opened(Host(str(node)), "/scratch", ("jobs",), make=False) as handle:
        assert (handle is not None) == roots

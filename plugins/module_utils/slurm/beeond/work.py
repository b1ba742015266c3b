# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the file system of a job, wait for it, stop it; the effects of what :mod:`.rules` decides."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import time
from typing import Any, Callable, Iterator, List, Mapping, Optional, Tuple

from ...core import mounts, root_folders
from ...core.child import ChildDied, collect
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import NodeError
from .. import proc, scratch
from ..types import Job
from . import FOLDER, note, rules
from .rules import Instance, Remains, Seen, Settings

_UMOUNT_SECONDS = 20.0
_STOPLOCAL_SECONDS = 60.0
_END_SECONDS = 10.0
_TOUCH_SECONDS = 10.0
_SSH_SECONDS = 10.0
_POLL_SECONDS = 0.5
_ASK_AGAIN_SECONDS = 1.0
_PROGRAMS = ("beeond", "/opt/beegfs/sbin/beeond")
# Keys of hosts have to be known here, although beeond itself takes any: so it is never let loose on a stranger.
_SSH = ("ssh", "-qq", "-oBatchMode=yes", "-oConnectTimeout=5")
MODULES = "/lib/modules/{0}/updates/fs/beegfs_autobuild/beegfs.ko"
Tell = Callable[[str], None]


# Before a job -----------------------------------------------------------------------------------------


def begin(host: Host, job: Job, section: Mapping[str, Any], declared_scratch: Optional[Mapping[str, Any]]) -> Instance:
    """Have the file system of the job mounted here when this returns.

    :raises NodeError: the job has none on this node; nothing of it is left here.
    """
    settings = Settings.from_section(section)
    earlier = note.read(host, job.id)
    if earlier is not None:  # of a prolog that was killed
        end(host, earlier)
    one = rules.decide(settings, job, look(host, settings, job, section, declared_scratch), time.time())
    if one.refused:
        note.write(host, one)  # the starter reads it, and starts nothing
        raise _without(one, one.refused)
    deadline = time.time() + settings.start_seconds
    try:
        _make_data_folder(host, one)
        note.write(host, one)
        if one.starter == job.node:
            _start(host, one, deadline)
            _give(host, one, job)
        else:
            _wait(host, one)
    except (NodeError, OSError) as error:
        why = error.reason if isinstance(error, NodeError) else error.strerror or str(error)
        note.write(host, replaced(one, refused=why))
        with contextlib.suppress(NodeError):  # what stays is told by the epilog and by the health check
            _stop(host, one)
        raise _without(one, why) from error
    return one


def _without(one: Instance, why: str) -> NodeError:
    return NodeError("shared scratch of job {0}".format(one.job), why, "see docs/beeond.md; the job starts without it")


def look(
    host: Host,
    settings: Settings,
    job: Job,
    section: Mapping[str, Any],
    declared_scratch: Optional[Mapping[str, Any]],
) -> Seen:
    point, wrong = "", ""
    try:
        point = scratch.usable(host, declared_scratch) or ""
    except NodeError as error:
        wrong = "{0}: {1}".format(error.thing, error.reason)
    table = mounts.read(host)
    return Seen(
        point,
        wrong,
        point_wrong(host, settings.mount_point),
        client_wrong(section, host),
        {one.point: one.filesystem for one in table},
        tuple(one for one in note.all_of(host) if one.job != job.id),
    )


def point_wrong(host: Host, point: str) -> str:
    """Why the folder of the mount points cannot be used; empty: it can."""
    if mounts.at(mounts.read(host), point) is not None:
        return "{0} is a mount point of something else".format(point)
    try:
        found = os.lstat(host.path(point))
    except OSError:
        return "the folder {0} is not there; converge the node".format(point)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        return "{0} is no folder that root alone may write to".format(point)
    return ""


def client_wrong(section: Mapping[str, Any], host: Host) -> str:
    """Why the kernel module cannot be loaded; ``beeond`` would build it in the middle of a prolog. Empty: it can."""
    kernel = host.read_line("/proc/sys/kernel/osrelease") or ""
    built = section.get("built")
    if not isinstance(built, dict) or built.get("kernel") != kernel or not host.exists(MODULES.format(kernel)):
        return "the client of BeeGFS was not built for the kernel {0}; converge the node".format(kernel or "that runs")
    return ""


def _make_data_folder(host: Host, one: Instance) -> None:
    """:raises NodeError: the scratch does not answer, or cannot be written to."""
    top = one.data.rsplit("/", 2)[0]

    def act() -> None:
        with root_folders.opened(host, top, (), make=True) as above:
            if above is not None:
                os.close(root_folders.made(host, above, rules.DATA, 0o700))

    _limited(top, act)


def _start(host: Host, one: Instance, deadline: float) -> None:
    """:raises NodeError: another node is not ready in time, or beeond fails or does not end."""
    theirs = [_ready(host, one, node, deadline) for node in one.nodes[1:]]
    left = rules.seconds_left(time.time(), deadline, theirs)
    wait = rules.seconds_to_turn(time.time(), one.job)
    left -= wait
    if left < 1:
        raise NodeError("beeond", "no time was left for it", "")
    host.write(one.node_file, "".join(name + "\n" for name in one.nodes), mode=0o600)
    words = (_program(host), *rules.start_words(one, host.which("pdsh") is not None))
    time.sleep(wait)
    _bounded(host, one, words, left)
    if not mounted(host, one):
        raise NodeError("beeond", "it ended well and mounted nothing on this node", "")


def _ready(host: Host, one: Instance, node: str, deadline: float) -> Instance:
    """:raises NodeError: that node takes no part, or has not begun in time."""
    last = "its prolog has noted nothing"
    while True:
        try:
            done = host.run([*_SSH, node, "cat", note.path(one.job)], _SSH_SECONDS, accept=tuple(range(256)))
        except NodeError as error:
            last = error.reason
        else:
            theirs = note.parsed(done.stdout, one.job) if done.returncode == 0 else None
            wrong = rules.not_ready(one, node, theirs)
            if theirs is not None and wrong == "":
                return theirs
            if wrong:
                raise NodeError(node, wrong, "")
            last = "ssh to it fails" if done.returncode == 255 else "its prolog has noted nothing"
        if time.time() + _ASK_AGAIN_SECONDS > deadline:
            raise NodeError(node, "node {0} was not ready in time: {1}".format(node, last), "")
        time.sleep(_ASK_AGAIN_SECONDS)


def _program(host: Host) -> str:
    found = next((one for one in _PROGRAMS if host.which(one)), None)
    if found is None:
        raise NodeError("beeond", "the program beeond is not installed", "")
    return found


def _bounded(host: Host, one: Instance, words: Tuple[str, ...], seconds: float) -> None:
    """Run ``beeond``, which waits for ever for a server that does not come up. It has a process group of its own, which
    an epilog ends, and ``timeout`` ends it also when this prolog is killed.

    :raises NodeError: it fails or takes too long.
    """
    program = host.which(words[0]) or words[0]
    log = host.path("{0}/{1}.out".format(FOLDER, one.job))
    argv = ["timeout", "-k", "5", str(max(1, int(seconds))), program, *words[1:]]
    with open(log, "w+b") as output:
        process = subprocess.Popen(  # pylint: disable=consider-using-with  # it is waited for below
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, LC_ALL="C"),
            start_new_session=True,
        )
        try:
            start = proc.start_time(host, process.pid)
            if start is not None:
                note.write(host, replaced(one, by=(process.pid, start)))
            status = process.wait(timeout=seconds + 10)
        except BaseException as error:
            _kill_group(process.pid)
            if isinstance(error, subprocess.TimeoutExpired):
                raise NodeError("beeond", "it did not end in time", "") from error
            raise
        output.seek(0)
        lines = [line.strip() for line in output.read().decode("utf-8", "replace").splitlines() if line.strip()]
    os.unlink(log)
    if status == 0:
        return
    if status in (124, 137):
        raise NodeError("beeond", "beeond start did not end within {0:.0f} s".format(seconds), "")
    said = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "nothing")
    raise NodeError("beeond", "beeond start ended with status {0}: {1}".format(status, said[:200]), "")


def _kill_group(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _wait(host: Host, one: Instance) -> None:
    """:raises NodeError: the starter has mounted nothing here in time."""
    while not mounted(host, one):
        if time.time() > one.until:
            raise NodeError(one.point, "{0} did not mount it here in time".format(one.starter), "")
        time.sleep(_POLL_SECONDS)


def _give(host: Host, one: Instance, job: Job) -> None:
    """The root of the new file system is the user's, and on all nodes."""

    def act() -> None:
        handle = os.open(host.path(one.point), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchmod(handle, 0o700)
            os.fchown(handle, job.uid, -1 if job.gid is None else job.gid)
        finally:
            os.close(handle)

    _limited(one.point, act)


def mounted(host: Host, one: Instance) -> bool:
    found = mounts.at(mounts.read(host), one.point)
    return found is not None and found.filesystem == rules.FILESYSTEM


def _limited(thing: str, act: Callable[[], None]) -> None:
    """In a child: a disk or a server that is gone holds a call for ever."""

    def task(dummy: object) -> Iterator[str]:
        try:
            act()
        except OSError as error:
            yield error.strerror or str(error)

    try:
        done = collect(task, _TOUCH_SECONDS)
    except ChildDied as error:
        raise NodeError(thing, "the process that worked on it died", "look at the kernel log") from error
    if done.hung_at is not None:
        raise NodeError(thing, "it did not answer within {0:g} s".format(_TOUCH_SECONDS), "look at the kernel log")
    if done.items:
        raise NodeError(thing, done.items[0], "look at the kernel log")


# After a job ------------------------------------------------------------------------------------------


def end(host: Host, one: Instance) -> None:
    """Nothing of it is here any more when this returns, its note included.

    :raises NodeError: something stays; so does the note.
    """
    _stop(host, one)
    note.forget(host, one)


def _stop(host: Host, one: Instance) -> None:
    """The mount, then the servers, then the data, each only when what was before it is gone.

    :raises NodeError: something stays.
    """
    if one.by is not None and proc.alive(host, one.by):
        _kill_group(one.by[0])
    _unmount(host, one)
    wrong = _stop_by_status(host, one)
    _end_daemons(host, one.job)
    stays = next((text for text, there in _stays(host, one) if there), None)
    if stays is not None:
        raise NodeError(
            "shared scratch of job {0}".format(one.job),
            "{0} of it is still there{1}".format(stays, "; " + wrong if wrong else ""),
            "see docs/beeond.md",
        )
    _discard(host, one)
    with contextlib.suppress(OSError):
        os.rmdir(host.path(one.point))


def _stays(host: Host, one: Instance) -> Tuple[Tuple[str, bool], ...]:
    return (("the mount", mounted(host, one)), ("a daemon", bool(_daemons(host, one.job))))


def _unmount(host: Host, one: Instance) -> None:
    """First as one does; lazily only what is busy or does not answer."""
    if not mounted(host, one):
        return
    with contextlib.suppress(NodeError):
        host.run(["umount", one.point], _UMOUNT_SECONDS, accept=tuple(range(256)))
    if mounted(host, one):
        with contextlib.suppress(NodeError):
            host.run(["umount", "-l", one.point], _UMOUNT_SECONDS, accept=tuple(range(256)))


def _stop_by_status(host: Host, one: Instance) -> str:
    """What was wrong, or empty."""
    text = host.read(one.status)
    if text is None:
        return ""
    wrong = rules.status_wrong(text, one)
    if wrong is not None:
        return "its status file {0} was not used: {1}".format(one.status, wrong)
    try:
        words = [_program(host), *rules.stop_words(one)]
        done = host.run(words, _STOPLOCAL_SECONDS, accept=tuple(range(256)))
    except NodeError as error:
        return "beeond stoplocal: {0}".format(error.reason)
    return "" if done.returncode == 0 else "beeond stoplocal: {0}".format(done.message)


def _daemons(host: Host, job_id: int) -> List[proc.Started]:
    found: List[proc.Started] = []
    for pid, words in _commands(host):
        start = proc.start_time(host, pid)
        if rules.daemon_of(words) == job_id and start is not None:
            found.append((pid, start))
    return found


def _commands(host: Host) -> Iterator[Tuple[int, List[str]]]:
    """Of root's processes: others may call themselves what they like."""
    for name in host.names("/proc"):
        if not name.isdigit():
            continue
        words = (host.read("/proc/{0}/cmdline".format(name)) or "").split("\0")
        if "beegfs-" in words[0]:
            with contextlib.suppress(OSError):
                if os.stat(host.path("/proc/" + name)).st_uid == os.geteuid():
                    yield int(name), words


def _end_daemons(host: Host, job_id: int) -> None:
    """Those that the status file does not name: beeond was killed between the start of one and its line."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = _daemons(host, job_id)
        for pid, _start_time in left:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        deadline = time.monotonic() + _END_SECONDS
        while any(proc.alive(host, one) for one in left) and time.monotonic() < deadline:
            time.sleep(0.1)


def _discard(host: Host, one: Instance) -> None:
    """Only ever SCRATCH/beeond/ID of this job, on a scratch that is mounted; a rename, and removed in the background.

    :raises NodeError: it cannot be moved.
    """
    top, name, last = (one.data.rsplit("/", 2) + ["", ""])[:3]
    if name != rules.DATA or last != str(one.job) or scratch.mounted(host, (top,)) is None:
        return

    def act() -> None:
        with root_folders.opened(host, top, (rules.DATA,), make=False) as above:
            if above is not None:
                root_folders.discard(host, above, last)
                root_folders.empty_trash(above)

    _limited("data of the shared scratch of job {0}".format(one.job), act)


# What is there ----------------------------------------------------------------------------------------


def remains(host: Host, settings: Settings, scratch_point: Optional[str]) -> Remains:
    """What a check looks for. Reads tables and names, and touches no file system of BeeGFS."""
    prefix = settings.mount_point + "/"
    points = [
        one.point[len(prefix) :]
        for one in mounts.read(host)
        if one.filesystem == rules.FILESYSTEM and one.point.startswith(prefix)
    ]
    folders = host.names("{0}/{1}".format(scratch_point, rules.DATA)) if scratch_point else []
    found = (rules.daemon_of(words) for dummy, words in _commands(host))
    return Remains(
        _numbers(points), _numbers(folders), tuple(one for one in found if one is not None), _numbers_of(host)
    )


def _numbers(names: List[str]) -> Tuple[int, ...]:
    return tuple(int(name) for name in names if name.isdigit() and len(name) <= 10)


def _numbers_of(host: Host) -> Tuple[int, ...]:
    return tuple(one.job for one in note.all_of(host))

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the file system of a job, or wait for its start."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from typing import Any, Mapping, Optional, Tuple

from ...core import processes, root_folders
from ...core.frozen import replaced
from ...core.host import Host
from ...core.options import of_section
from ...core.resource import NodeError
from .. import jobs
from ..types import Job
from . import note, others, rules
from .node import in_time, look, mounted, program, remains
from .rules import Instance, Settings
from .stop import end, kill_group, stop

_POLL_SECONDS = 0.5


def begin(host: Host, job: Job, section: Mapping[str, Any], declared_scratch: Optional[Mapping[str, Any]]) -> Instance:
    """Have the file system of the job mounted here when this returns.

    :raises NodeError: the job has none on this node; nothing of it is left here.
    """
    settings = of_section(Settings, section)
    earlier = note.read(host, job.id)
    if earlier is not None and _in_use(host, earlier, job):
        return earlier
    if earlier is not None:  # of a prolog that was killed
        end(host, earlier)
    one = rules.decide(settings, job, look(host, settings, job, section, declared_scratch), time.time())
    if one.refused:
        note.write(host, one)  # the starter reads it, and starts nothing
        raise _without(one, one.refused)
    deadline = time.time() + settings.start_seconds
    try:
        _make_data_folder(host, settings, one)
        note.write(host, one)
        if one.starter == job.node:
            _start(host, one, deadline)
            _give(host, one, job)
        else:
            _wait(host, one, job.node)
    except (NodeError, OSError) as error:
        why = error.reason if isinstance(error, NodeError) else error.strerror or str(error)
        note.write(host, replaced(one, refused=why))
        with contextlib.suppress(NodeError):  # what stays is told by the epilog and by the health check
            stop(host, one)
        raise _without(one, why) from error
    return one


def _in_use(host: Host, one: Instance, job: Job) -> bool:
    """Whether a step of this very start of the job is here already: a slurmd that lost what it knew of its jobs (-c, an
    empty spool folder) has a prolog run again before the next step, and the data are the job's."""
    if one.restart != job.restart or one.refused or not mounted(host, one):
        return False
    names = tuple("slurmstepd: [{0}.".format(name) for name in (job.id, job.sluid) if name)
    return any(words.startswith(names) for _pid, words in jobs.steps(host))


def _without(one: Instance, why: str) -> NodeError:
    return NodeError("shared scratch of job {0}".format(one.job), why, "see docs/beeond.md; the job starts without it")


def _make_data_folder(host: Host, settings: Settings, one: Instance) -> None:
    """:raises NodeError: the scratch does not answer, or cannot be written to."""
    top = one.data.rsplit("/", 2)[0]

    def act() -> None:
        with root_folders.opened(host, top, (), make=True) as above:
            if above is not None:
                folder = root_folders.made(host, above, rules.DATA, 0o700)
                try:
                    _discard_strays(host, settings, folder)
                finally:
                    os.close(folder)

    in_time(top, act)


def _discard_strays(host: Host, settings: Settings, folder: int) -> None:
    """Data of jobs that have nothing else here: a note is there before its data and goes after them, unless the power
    went. The names are read before the notes, as another job may begin meanwhile."""
    names = [name for name in os.listdir(folder) if name.isdigit()]
    there = remains(host, settings, None)
    kept = {str(job) for job in (*there.notes, *there.mounts, *there.daemons)}
    strays = [name for name in names if name not in kept]
    for name in strays:
        root_folders.discard(host, folder, name)
        with contextlib.suppress(OSError):
            os.rmdir(host.path("{0}/{1}".format(settings.mount_point, name)))
    if strays:
        root_folders.empty_trash(folder)


def _start(host: Host, one: Instance, deadline: float) -> None:
    """:raises NodeError: another node is not ready in time, or beeond fails or does not end."""
    theirs = others.all_ready(host, one, deadline)
    left = rules.seconds_left(time.time(), deadline, theirs)
    wait = rules.seconds_to_turn(time.time(), one.job)
    left -= wait
    if left < 1:
        raise NodeError("beeond", "no time was left for it", "")
    host.write(one.node_file, "".join(name + "\n" for name in one.nodes), mode=0o600)
    words = (program(host), *rules.start_words(one, host.which("pdsh") is not None))
    time.sleep(wait)
    _bounded(host, one, words, left)
    if not mounted(host, one):
        raise NodeError("beeond", "it ended well and mounted nothing on this node", "")


def _bounded(host: Host, one: Instance, words: Tuple[str, ...], seconds: float) -> None:
    """Run ``beeond``, which waits for ever for a server that does not come up. It has a process group of its own, which
    an epilog ends, and ``timeout`` ends it also when this prolog is killed.

    :raises NodeError: it fails or takes too long.
    """
    program = host.which(words[0]) or words[0]
    log = host.path(one.output)
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
            start = processes.start_time(host, process.pid)
            if start is not None:
                note.write(host, replaced(one, by=(process.pid, start)))
            status = process.wait(timeout=seconds + 10)
        except BaseException as error:
            kill_group(process.pid)
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
    if status < 0:
        raise NodeError("beeond", "beeond start was killed by signal {0}".format(-status), "")
    said = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "nothing")
    raise NodeError("beeond", "beeond start ended with status {0}: {1}".format(status, said[:200]), "")


def _wait(host: Host, one: Instance, node: str) -> None:
    """:raises NodeError: the starter has given up, or has mounted nothing here in time."""
    every = rules.seconds_between_asks(len(one.nodes))
    ask_at = time.time() + every * one.nodes.index(node) / len(one.nodes)
    noted_at, seen = time.time(), False
    while not mounted(host, one):
        if time.time() > one.until:
            raise NodeError(one.point, "{0} did not mount it here in time".format(one.starter), "")
        if time.time() > ask_at:
            answered, theirs = others.starters(host, one)
            there = rules.of_this_start(one, theirs)
            seen = seen or there
            if not answered or there:
                noted_at = time.time()
            why = rules.given_up(one, theirs, time.time() - noted_at if answered else 0.0, seen)
            if why:
                raise NodeError(one.point, why, "")
            ask_at = time.time() + every
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

    in_time(one.point, act)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several files at once, an azcopy for each: started, watched, begun anew when the store is busy."""

from __future__ import annotations

import contextlib
import os
import random
import selectors
import subprocess
import time
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from . import launch, throttle, words
from .access import Access
from .throttle import Cap
from .work import Work

_LOOK_SECONDS = 0.5
_MOST_LINE = 1 << 20


@frozen
class Copy:
    """One file: ``fresh(cap)`` is what azcopy is told, and ``again(job, cap)`` to go on with ``resume``, a job that was
    begun for this file, or empty."""

    name: str
    size_bytes: int
    fresh: Callable[[float], Tuple[words.Word, ...]]
    again: Callable[[str, float], Tuple[words.Word, ...]]
    resume: str = ""


@frozen
class Setting:
    """``environment`` of each azcopy; ``at_once``: how many run at a time."""

    program: str
    environment: Mapping[str, str]
    access: Access
    work: Work
    at_once: int
    cap: float
    cpus: Optional[Tuple[int, ...]] = None


class _Running:
    """An azcopy that runs, and what it has said."""

    def __init__(self, copy: Copy, child: "subprocess.Popen[bytes]", cap: float, resumed: bool) -> None:
        self.copy, self.child, self.cap, self.resumed = copy, child, cap, resumed
        self.job = copy.resume if resumed else ""
        self.messages: List[words.Message] = []
        self.other: List[str] = []
        self.busy_percent = 0.0
        self._rest = b""
        if child.stdout is not None:
            os.set_blocking(child.stdout.fileno(), False)

    def read(self) -> List[words.Message]:
        """What has come since; nothing more comes when the pipe is at its end."""
        found: List[words.Message] = []
        with contextlib.suppress(BlockingIOError):
            while self.child.stdout is not None:
                piece = os.read(self.child.stdout.fileno(), 65536)
                if not piece:
                    break
                self._rest = (self._rest + piece)[-_MOST_LINE:]
        lines = self._rest.split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            text = line.decode("utf-8", "replace")
            message = words.parse(text)
            if message is None:
                self.other = [*self.other[-20:], text]
            else:
                found.append(message)
        # A progress each two seconds for hours: only the last one is of use.
        self.messages = [one for one in [*self.messages, *found] if one.kind != "Progress"]
        return found


class Copying:
    """A run over some files. ``tell`` takes a sentence for the person, ``begun`` and ``ended`` record what was done."""

    def __init__(
        self,
        setting: Setting,
        tell: Callable[[str], None],
        begun: Callable[[Copy, str], None] = lambda copy, job: None,
        ended: Callable[[Copy], None] = lambda copy: None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.setting, self.tell, self.begun, self.ended = setting, tell, begun, ended
        self.clock, self.chance = clock, chance
        self.cap = Cap(setting.cap, setting.cap)
        self.retries = 0
        self.bytes_done = 0
        self._tries: Dict[str, int] = {}
        self._later: List[Tuple[float, Copy]] = []
        self._running: List[_Running] = []
        self._selector = selectors.DefaultSelector()

    def run(self, copies: Sequence[Copy], deadline: Optional[float] = None) -> None:
        """All of them, the largest first.

        :raises NodeError: one could not be copied, or not in time. The others that ran are stopped, and what was done
            is recorded.
        """
        self._later = [(float("-inf"), one) for one in sorted(copies, key=lambda one: (-one.size_bytes, one.name))]
        try:
            while self._later or self._running:
                if deadline is not None and self.clock() > deadline:
                    left = len(self._later) + len(self._running)
                    reason = "{0} of its files were not copied in the time that was given".format(left)
                    raise NodeError("checkpoint", reason, "run the same command again: it goes on with these")
                self._start()
                for event in self._selector.select(_LOOK_SECONDS):
                    self._hear(event[0].data)
        finally:
            for one in self._running:
                self._stop(one)
            self._selector.close()

    def _start(self) -> None:
        now = self.clock()
        for entry in list(self._later):
            if len(self._running) >= self.setting.at_once or entry[0] > now:
                continue
            self._later.remove(entry)
            self._begin(entry[1])

    def _begin(self, copy: Copy) -> None:
        resumed = bool(copy.resume)
        cap = self.cap.now
        given = copy.again(copy.resume, cap) if resumed else copy.fresh(cap)
        child = launch.start(self.setting.program, given, self.setting.environment, self.setting.cpus)
        one = _Running(copy, child, cap, resumed)
        self._running.append(one)
        if child.stdout is not None:
            self._selector.register(child.stdout, selectors.EVENT_READ, one)

    def _hear(self, one: _Running) -> None:
        # Asked first: what it wrote at its end is read below.
        ended = one.child.poll() is not None
        for message in one.read():
            if message.kind == "Init" and not one.job:
                one.job = words.job_of(message)
                if one.job:
                    self.begun(one.copy, one.job)
            elif message.kind == "Progress" and one in self._running:
                self._throttle(one, message)
        if one in self._running and ended:
            self._end(one)

    def _throttle(self, one: _Running, message: words.Message) -> None:
        # It counts since the start of the job: without new ones the share goes down.
        earlier, one.busy_percent = one.busy_percent, words.number(message, "ServerBusyPercentage")
        done_percent = words.number(message, "PercentComplete")
        busy = one.busy_percent if one.busy_percent >= earlier else 0.0
        before = self.cap
        self.cap = throttle.halved(before, busy, self.clock())
        if self.cap != before:
            self.tell(
                "{0}: the store answered {1:.0f} % of the requests with 503; the cap is {2:g} Mb/s now, it was "
                "{3:g}".format(one.copy.name, busy, self.cap.now, before.now)
            )
        if throttle.restarts(one.cap, self.cap, busy, done_percent):
            self._stop(one)
            self._running.remove(one)
            self._put_back(one)

    def _put_back(self, one: _Running) -> None:
        tries = self._tries[one.copy.name] = self._tries.get(one.copy.name, 0) + 1
        self.retries += 1
        later = self.clock() + throttle.wait_seconds(tries, self.chance())
        job = one.job if one.job and self.setting.work.planned(one.job) else ""
        self._later.append((later, Copy(one.copy.name, one.copy.size_bytes, one.copy.fresh, one.copy.again, job)))

    def _end(self, one: _Running) -> None:
        self._running.remove(one)
        if one.child.stdout is not None:
            self._selector.unregister(one.child.stdout)
            one.child.stdout.close()
        status = one.child.wait()
        if status == 0 and _completed(one.messages):
            self.bytes_done += one.copy.size_bytes
            self.ended(one.copy)
            if one.job:
                self.setting.work.clear(one.job)
            return
        said = (words.said(one.messages, one.other), self.setting.work.errors(one.job))
        text = self.setting.access.hides("\n".join(said))
        found = words.failure(text, status)
        tries = self._tries.get(one.copy.name, 0)
        if one.resumed and not found.again and "refuses" not in found.reason and "disk" not in found.reason:
            # The plan may be of another version of azcopy: the file is begun anew.
            self._tries[one.copy.name] = tries + 1
            self._later.append((self.clock(), Copy(one.copy.name, one.copy.size_bytes, one.copy.fresh, one.copy.again)))
            return
        if not found.again or tries + 1 >= throttle.TRIES:
            raise found.error("file {0}".format(one.copy.name))
        self.tell("{0}: {1}; it is tried again".format(one.copy.name, found.reason))
        if "503" in found.reason:
            self.cap = throttle.halved(self.cap, 100.0, self.clock())
        self._put_back(one)

    def _stop(self, one: _Running) -> None:
        # azcopy keeps its plan up to date, so there is nothing that it would have to tidy up.
        one.child.kill()
        one.child.wait()
        if one.child.stdout is not None and not one.child.stdout.closed:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(one.child.stdout)
            one.child.stdout.close()


def _completed(messages: Sequence[words.Message]) -> bool:
    last = [one for one in messages if one.kind == "EndOfJob" and isinstance(one.content, dict)]
    return bool(last) and last[-1].content.get("JobStatus") == "Completed"


def ask(setting: Setting, given: Sequence[words.Word], thing: str, seconds: float = 120.0) -> List[words.Message]:
    """Run one azcopy to its end, for an answer.

    :raises NodeError: it failed, or did not end in time.
    """
    child = launch.start(setting.program, given, setting.environment, setting.cpus)
    try:
        output, dummy = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        reason = "azcopy got no answer within {0:g} s".format(seconds)
        raise NodeError(thing, reason, "see that the node reaches the store (name, proxy, firewall)") from error
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()
    lines = output.decode("utf-8", "replace").splitlines()
    messages = [one for one in map(words.parse, lines) if one is not None]
    for one in messages:
        job = words.job_of(one) if one.kind == "Init" else ""
        if job and child.returncode == 0:
            setting.work.clear(job)
    if child.returncode != 0:
        other = [line for line in lines if words.parse(line) is None]
        logged = [setting.work.errors(words.job_of(one)) for one in messages if one.kind == "Init"]
        text = setting.access.hides("\n".join([words.said(messages, other), *logged]))
        raise words.failure(text, child.returncode).error(thing)
    return messages


def version(host: Host, program: str, seconds: float = 20.0) -> Tuple[str, str]:
    """(its version, "") or ("", why it does not start)."""
    try:
        done = host.run([program, "--version"], seconds, accept=tuple(range(256)))
    except NodeError as error:
        return "", error.reason
    text = done.stdout.strip()
    if done.returncode == 0 and text.startswith("azcopy version "):
        return text.split()[2], ""
    return "", words.failure(done.stderr + done.stdout, done.returncode).reason

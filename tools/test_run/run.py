# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs parts in lanes, tells what happens while it happens, and leaves nothing running behind."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import threading
import time
from typing import Any, Dict, List, Optional, Sequence

from .nodes import take_down
from .parts import LANES, ROOT, Part
from .results import Count, count_part, take_crashed_files

HEARTBEAT_SECONDS = 30
# Guests shut down and fixtures clean up in this time; who is still there afterwards is killed.
GRACE_SECONDS = 45
TAIL_LINES = 60
TIMED_OUT = 124


class Runner:
    """One run of the chosen parts."""

    def __init__(self, parts: Sequence[Part], jobs: int, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self.lanes: Dict[str, List[Part]] = {lane: [p for p in parts if p.lane == lane] for lane in LANES}
        self.jobs = jobs
        self.heartbeat_seconds = heartbeat_seconds
        self.started = time.monotonic()
        self.count = Count()
        self.seconds: Dict[str, float] = {}
        self.cpu_seconds: Dict[str, float] = {}
        self.waiting = [lane for lane in LANES if self.lanes[lane]]
        self.running: Dict[str, "subprocess.Popen[bytes]"] = {}
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.interrupted = False

    def say(self, text: str) -> None:
        """One line of progress with the time since the start; whole lines only, whoever writes them."""
        seconds = int(time.monotonic() - self.started)
        with self.lock:
            print("[{0:2d}:{1:02d}] {2}".format(seconds // 60, seconds % 60, text), flush=True)

    def run(self) -> Count:
        workers = [threading.Thread(target=self.work, daemon=True) for _ in range(min(self.jobs, len(self.waiting)))]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.1)
            if self.interrupted and not self.stopping.is_set():
                self.say("interrupted: ending what runs")
                self.stopping.set()
        return self.count

    def interrupt(self, *_: Any) -> None:
        """Handler of signals. It only leaves a mark: an exception out of Thread.join() makes Python 3.11 take a
        running thread for ended, and setting an Event in a handler can wait for itself."""
        self.interrupted = True

    def work(self) -> None:
        """Take one lane after the other until none is left."""
        while not self.stopping.is_set():
            with self.lock:
                if not self.waiting:
                    return
                lane = self.waiting.pop(0)
            for part in self.lanes[lane]:
                if self.stopping.is_set():
                    return
                self.add(self.run_part(part))

    def add(self, count: Count) -> None:
        with self.lock:
            self.count += count

    def run_part(self, part: Part) -> Count:
        reason = part.reason_to_skip()
        if reason:
            self.say("skipped  {0}: {1}".format(part.name, reason))
            return Count(skipped=((part.name, reason),))
        shutil.rmtree(part.folder(), ignore_errors=True)
        part.folder().mkdir(parents=True)
        if part.in_memory and part.has_memory():
            part.temporary().mkdir(mode=0o755)  # some tests run programs as another user
        began = time.monotonic()
        self.say("started  {0} ({1})".format(part.name, part.chosen_environment()))
        status = self.execute(part)
        shutil.rmtree(part.temporary(), ignore_errors=True)
        if part.nodes:
            self.take_down(part)
            status = self.repeat_crashed(part, status)
        count = count_part(part.name, status, part.junit, part.folder())
        seconds = self.seconds[part.name] = time.monotonic() - began
        if self.stopping.is_set():
            self.say("stopped  {0} after {1:.0f} s".format(part.name, seconds))
        elif count.failed:
            self.tell_failure(part, status, seconds, count)
        else:
            text = "passed   {0} in {1:.0f} s (CPU {2:.0f} s): {3} passed{4}"
            cpu_seconds = self.cpu_seconds.get(part.name, 0)
            self.say(text.format(part.name, seconds, cpu_seconds, count.passed, skips(count)))
        return count

    def take_down(self, part: Part) -> None:
        if not take_down(part.variables()):
            self.say("warning  {0}: its virtual nodes could not be taken down".format(part.name))

    def repeat_crashed(self, part: Part, status: int) -> int:
        """Rerun the test files in which the emulator crashed a node's kernel, since such a crash is not a test result.

        Their second result replaces the first one.
        """
        files = take_crashed_files(part.folder() / "junit.xml")
        if not files or self.stopping.is_set():
            return status
        self.say("again    {0}: the kernel of a virtual node crashed in {1}".format(part.name, ", ".join(files)))
        os.replace(str(part.folder() / "junit.xml"), str(part.folder() / "first.xml"))
        os.replace(str(part.log()), str(part.folder() / "first.log"))
        words = [word for word in part.command if word in files or not word.endswith(".py")]
        status = self.execute(dataclasses.replace(part, command=tuple(words)))
        self.take_down(part)
        return status

    def execute(self, part: Part) -> int:
        """Run the command in a process group of its own, within its time, and end the whole group with it."""
        with part.log().open("wb") as log:
            try:
                child = subprocess.Popen(
                    part.arguments(), cwd=str(ROOT), env=part.variables(), stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                log.write("{0}: cannot be started: {1}\n".format(part.arguments()[0], error).encode())
                return 127
            deadline = time.monotonic() + part.timeout_seconds
            told = time.monotonic()
            began = told
            while not self.has_ended(part, child):
                self.stopping.wait(0.1)
                now = time.monotonic()
                if self.stopping.is_set() or now > deadline:
                    end_group(child, GRACE_SECONDS)
                    if now > deadline:
                        log.write("\nended: it took longer than {0} seconds\n".format(part.timeout_seconds).encode())
                    return TIMED_OUT
                if now - told >= self.heartbeat_seconds:
                    told = now
                    self.say("running  {0} for {1:.0f} s: {2}".format(part.name, now - began, current_line(part)))
            # The command is gone; what it left in its group goes too.
            kill_group(child.pid, signal.SIGKILL)
            return child.returncode

    def has_ended(self, part: Part, child: "subprocess.Popen[bytes]") -> bool:
        """As poll(), with the CPU time of the command and of all that it has waited for."""
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_seconds[part.name] = self.cpu_seconds.get(part.name, 0) + usage.ru_utime + usage.ru_stime
        return bool(pid)

    def tell_failure(self, part: Part, status: int, seconds: float, count: Count) -> None:
        self.say(
            "FAILED   {0} in {1:.0f} s (status {2}): {3} failed".format(part.name, seconds, status, len(count.failed))
        )
        lines = part.log().read_text(encoding="utf-8", errors="replace").splitlines()
        with self.lock:
            print("  ... the end of {0}:".format(part.log().relative_to(ROOT)))
            print("\n".join("  | " + line for line in lines[-TAIL_LINES:]), flush=True)


def skips(count: Count) -> str:
    return ", {0} skipped".format(len(count.skipped)) if count.skipped else ""


def current_line(part: Part) -> str:
    """The last line that says something in a part's log: with pytest -v, the test that runs now."""
    try:
        with part.log().open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 4096))
            lines = log.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip()[:110] for line in reversed(lines) if line.strip()), "no output yet")


def kill_group(group: int, which: signal.Signals) -> bool:
    """Signal a process group; False when nobody is left in it."""
    try:
        os.killpg(group, which)
    except ProcessLookupError:
        return False
    return True


def end_group(child: "subprocess.Popen[bytes]", grace_seconds: float) -> Optional[int]:
    """End a process group: as ctrl-C first, so that fixtures stop their guests, then harder."""
    for which, seconds in ((signal.SIGINT, grace_seconds), (signal.SIGTERM, 5.0)):
        if not kill_group(child.pid, which):
            break
        try:
            child.wait(seconds)
            break
        except subprocess.TimeoutExpired:
            continue
    kill_group(child.pid, signal.SIGKILL)
    return child.wait()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode health --active`` from the file that a node has, on a terminal: its time, its progress, its end."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import active_progress, health, main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.budget import Part, Plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.course import Progress

pytest.importorskip("pynvml", reason="the controller part needs nvidia-ml-py")

# The command of the archive, with a folder as the node.
CODE = """
import sys
archive, root = sys.argv[1:3]
sys.path.insert(0, archive)
from gpu_node.command import main
from gpu_node.core.host import Host
assert main.__file__.startswith(archive)
main.Host = lambda: Host(root)
sys.exit(main.main(sys.argv[3:]))
"""
ERASE = "\r\033[K"
CHECKS = ("--only", "gpu_compute", "--only", "host_device_bandwidth")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp

    path = tmp_path_factory.mktemp("built") / "gpunode.pyz"
    path.write_bytes(zipapp.build())
    return str(path)


class Run:
    """One run of the command. ``text`` is all that it wrote to the terminal."""

    def __init__(self, node, archive, *words, terminal=True):
        self.mark = uuid.uuid4().hex
        root = node.folder / "root"
        root.mkdir(exist_ok=True)
        empty = node.folder / "empty"
        empty.mkdir(exist_ok=True)
        env = node.simulator.environment(
            TERM="xterm",
            NO_COLOR="1",
            MARK=self.mark,
            PATH=str(empty),
            LD_LIBRARY_PATH=node.library_path,
            SLURM_JOB_ID="",
        )
        self.text, self.ours = "", None
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        if terminal:
            self.ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
            streams = {"stdout": theirs, "stderr": theirs}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, archive, str(root), "health", "--active", *words],
            env=env,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **streams,
        )
        if terminal:
            os.close(theirs)

    def read(self, until, timeout=60):
        deadline = time.monotonic() + timeout
        while not re.search(until, self.text):
            assert time.monotonic() < deadline, self.text
            if select.select([self.ours], [], [], 0.1)[0] and not self._more():
                break
        assert re.search(until, self.text), self.text

    def rest(self):
        while select.select([self.ours], [], [], 0.2)[0] and self._more():
            pass
        os.close(self.ours)

    def _more(self):
        try:
            chunk = os.read(self.ours, 65536)
        except OSError:  # the other side was closed
            return False
        self.text += chunk.decode()
        return bool(chunk)

    def processes(self):
        """All that this run started and that still runs."""
        found = []
        for one in pathlib.Path("/proc").iterdir():
            if one.name.isdigit():
                try:
                    if self.mark.encode() in (one / "environ").read_bytes() and " Z " not in (one / "stat").read_text():
                        found.append(int(one.name))
                except OSError:
                    pass
        return found


@pytest.fixture
def hanging(machine):
    """A machine of three GPUs, of which the second never ends a kernel."""
    node = machine("nd96asr_v4", "gpu.count=3", "gpu.cuda.multiprocessors=2")
    node.simulator.control("fault", "gpu", "1", "kernel", "hang")
    return node


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.soak), signal.SIGKILL]
)
def test_a_signal_ends_all_that_was_started_and_says_so_in_one_sentence(hanging, archive, number):
    run = Run(hanging, archive, *CHECKS)
    run.read(r"\[1/2\] gpu_compute: (all 3 GPUs|GPU 1 \()")
    assert len(run.processes()) >= 3, "the check has no process of its own"
    # ^C reaches all processes of the terminal, the others come from a program that knows one.
    (os.killpg if number == signal.SIGINT else os.kill)(run.process.pid, number)
    began = time.monotonic()
    assert run.process.wait(30) == (-number if number == signal.SIGKILL else 128 + number)
    while run.processes() and time.monotonic() - began < 10:
        time.sleep(0.02)
    assert run.processes() == [] and time.monotonic() - began < 2
    run.rest()
    assert "Traceback" not in run.text
    if number == signal.SIGKILL:
        return
    last = run.text.rpartition(ERASE)[2]
    assert re.fullmatch(
        r"gpunode: health --active: {0} ended it after \d+ s, without a verdict; [^\n]*; run it again\.\r\n".format(
            signal.Signals(number).name
        ),
        last,
    ), run.text


def test_a_signal_that_comes_when_the_line_was_just_written_leaves_none_of_it(monkeypatch):
    class Terminal(io.StringIO):
        interrupted = False

        def isatty(self):
            return True

        def flush(self):
            if not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress(Plan((Part("gpu_compute", None, 13.0),)), "gpu_compute", "all GPUs", 0, 13.0)
    assert active_progress.run(lambda show: show(progress), True) == 130
    assert re.fullmatch(r"gpunode: health --active: SIGINT ended it [^\n]*\n", terminal.getvalue().rpartition(ERASE)[2])


def test_a_terminal_shows_the_time_before_and_the_progress_in_one_line(hanging, archive):
    run = Run(hanging, archive, *CHECKS, "--seconds", "12")
    run.read(r"(?s)Active checks on 3 GPUs: about \d+ s \(gpu_compute \d+ s, host_device_bandwidth \d+ s\)\r\n")
    assert ERASE not in run.text, "a check started before the time was announced"
    began = time.monotonic()
    assert run.process.wait(60) == 4
    assert time.monotonic() - began < 12 + 6
    run.rest()
    plan, *lines = run.text.split(ERASE)
    verdict = lines.pop()
    assert "[1/2] gpu_compute: all 3 GPUs, about " in {re.sub(r"\d+ s left|\(.*?\)", "", one) for one in lines}
    assert all("\n" not in one and len(one) < 100 for one in lines)
    assert "not covered by the 12 s for the active checks: it was cut off" in " ".join(verdict.split())


def test_without_a_terminal_there_is_a_line_for_each_check_and_with_json_none(machine, archive):
    node = machine("nd96asr_v4", "gpu.count=1", "gpu.cuda.multiprocessors=2")
    run = Run(node, archive, *CHECKS, "--seconds", "8", terminal=False)
    text, errors = run.process.communicate(timeout=60)
    first, *others = errors.splitlines()
    assert first.startswith("Active checks on 1 GPU: about ") and "\033" not in errors + text
    left_out = "no time of the budget" in " ".join(text.split())  # on a busy machine
    expected = ["[1/2] gpu_compute", "[2/2] host_device_bandwidth"][: 1 if left_out else 2]
    assert [one.partition(":")[0] for one in others] == expected, text
    run = Run(node, archive, "--only", "host_device_bandwidth", "--seconds", "30", "--json", terminal=False)
    text, errors = run.process.communicate(timeout=60)
    assert errors == "" and json.loads(text)["level"] == "active"


def test_a_budget_below_the_shortest_check_is_refused_with_the_least_useful_number(machine, archive):
    run = Run(machine("nd96asr_v4", "gpu.count=1"), archive, "--only", "gpu_*", "--seconds", "0.5", terminal=False)
    answer, errors = run.process.communicate(timeout=60)
    assert (run.process.returncode, answer) == (2, "")
    assert re.fullmatch(
        r"gpunode: 0\.5 seconds for the active checks: every check that applies to this machine needs more; "
        r"give at least \d+\.\n",
        errors,
    ), errors


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--active", "--seconds", "0"), "it is out of range"),
        (("--active", "--seconds", "nan"), "it is out of range"),
        (("--quick", "--seconds", "60"), "it is the time of the active checks, and a run of level quick makes none"),
    ],
)
def test_a_budget_without_a_meaning_is_refused(tmp_path, words, text):
    with pytest.raises(Misuse, match=text):
        health.run(Host(str(tmp_path)), main.parser(["health"]).parse_args(["health", *words]))


@pytest.mark.parametrize("ignored", [False, True])
def test_a_signal_that_the_caller_ignores_stays_ignored(ignored):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)

    def examine(show):
        os.kill(os.getpid(), signal.SIGHUP)
        return "verdict"

    try:
        assert active_progress.run(examine, False) == ("verdict" if ignored else 128 + signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is (signal.SIG_IGN if ignored else signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)

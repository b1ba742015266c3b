# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``--watch``: in place on a terminal and left clean however it ends; elsewhere one picture after the other."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import watch as watching
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
ENTER, LEAVE = "\033[?1049h", "\033[?1049l"


@pytest.fixture
def machine(nvml_simulator):
    return nvml_simulator("nd96asr_v4")


def started(machine, root, *words, **streams):
    return subprocess.Popen(
        [sys.executable, gpunode_on.__file__, str(root), "--", *words],
        env=machine.environment(TERM="xterm", NO_COLOR="1"),
        # A process group of its own, as a shell gives it: ^Z does nothing to a group that no shell looks after.
        preexec_fn=os.setpgrp,
        stdin=subprocess.DEVNULL,
        **streams,
    )


class Terminal:
    """A gpunode on a terminal of its own; ``text`` is all that it wrote."""

    def __init__(self, machine, root, words, lines=24):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 80, 0, 0))
        self.process = started(machine, root, *words, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.text = ""

    def read(self, until, timeout=60):
        """Read on until a regular expression is found."""
        deadline = time.monotonic() + timeout
        while not re.search(until, self.text):
            assert time.monotonic() < deadline, self.text
            if select.select([self.ours], [], [], 0.1)[0] and not self._more():
                break
        assert re.search(until, self.text), self.text

    def end(self, number, expected):
        self.process.send_signal(number)
        assert self.process.wait(60) == expected
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


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_terminal_is_redrawn_in_place_and_left_as_it_was(machine, tmp_path, number, status):
    terminal = Terminal(machine, tmp_path, ("info", "--watch", "0.2"))
    terminal.read(r"(?s)(\033\[H.*){3}")
    machine.control("fault", "gpu", "3", "lost")
    terminal.read("DOES NOT ANSWER")
    terminal.end(number, status)
    assert terminal.text.startswith(ENTER) and terminal.text.count(ENTER) == 1 == terminal.text.count(LEAVE)
    drawn, dummy, left = terminal.text.partition(LEAVE)
    # Never blank: nothing is erased but the rest of a line that is written, and what is below the last one.
    assert "\033[2J" not in drawn and "\033[1J" not in drawn
    for frame in drawn.split("\033[H")[1:-1]:
        lines = frame.rstrip("\n").split("\n")
        assert all("\033[K" in line for line in lines) and frame.rstrip().endswith("\033[J")
    assert "\033[?25h" in drawn and "\033[?7h" in drawn and "Traceback" not in terminal.text
    # ^C leaves on the screen what was seen last.
    assert ("DOES NOT ANSWER" in left) == (number == signal.SIGINT)


def test_a_low_terminal_has_the_first_lines_and_says_how_many_are_missing(machine, tmp_path):
    terminal = Terminal(machine, tmp_path, ("info", "--watch", "0.2"), lines=6)
    terminal.read(r"(?s)(\033\[H.*){2}")
    terminal.end(signal.SIGINT, 0)
    frame = terminal.text.split("\033[H")[1]
    assert frame.count("\n") == 5 and re.search(r"\.\.\. 6 more lines\033\[K", frame), frame


def test_control_z_gives_the_terminal_back_for_a_while(machine, tmp_path):
    terminal = Terminal(machine, tmp_path, ("info", "--watch", "0.2"))
    terminal.read(r"(?s)(\033\[H.*){2}")
    terminal.process.send_signal(signal.SIGTSTP)
    terminal.read(re.escape(LEAVE))
    deadline = time.monotonic() + 60
    state = "/proc/{0}/stat".format(terminal.process.pid)
    while open(state, encoding="ascii").read().rpartition(") ")[2][0] != "T":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    terminal.process.send_signal(signal.SIGCONT)
    terminal.read("(?s)" + re.escape(LEAVE) + ".*" + re.escape(ENTER) + r".*\033\[H")
    terminal.end(signal.SIGINT, 0)
    assert terminal.text.count(ENTER) == 2 == terminal.text.count(LEAVE)


@pytest.mark.parametrize(
    "words", [("info", "--watch", "0.2"), ("health", "--quick", "--only", "gpu_lost", "--watch", "0.2")]
)
def test_without_a_terminal_one_comes_after_the_other(machine, tmp_path, words):
    process = started(machine, tmp_path, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    heads = []
    while len(heads) < 3:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        if "every 0.2 s, ^C ends" in line:
            heads.append(line)
    process.send_signal(signal.SIGINT)
    left, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "") and "\033" not in "".join(heads) + left


@pytest.mark.parametrize("words", [("info",), ("health", "--quick", "--only", "gpu_lost")])
def test_json_is_a_document_a_line_and_a_reader_that_leaves_ends_it(machine, tmp_path, words):
    process = started(
        machine, tmp_path, *words, "--watch", "0.2", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    documents = [json.loads(process.stdout.readline()) for dummy in range(3)]
    assert all(isinstance(one, dict) for one in documents)
    process.stdout.close()
    assert process.wait(60) == 0 and process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("words", [("info",), ("info", "--json"), ("--version", "--json")])
def test_a_reader_that_has_left_is_no_error_and_a_full_disk_is_one_sentence(machine, tmp_path, words):
    ours, theirs = os.pipe()
    os.close(ours)
    process = started(machine, tmp_path, *words, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 0)
    with open("/dev/full", "w", encoding="ascii") as full:
        process = started(machine, tmp_path, *words, stdout=full, stderr=subprocess.PIPE, text=True)
        told = process.communicate(timeout=60)[1]
    assert (process.returncode, told) == (
        1,
        "gpunode: standard output: the answer could not be written: No space left on device; make room, or write it"
        " elsewhere.\n",
    )


def test_an_error_at_the_start_is_told_without_taking_the_screen(machine, tmp_path):
    terminal = Terminal(machine, tmp_path, ("info", "--watch", "--gpu", "99"))
    assert terminal.process.wait(60) == 2
    terminal.read("GPU '99': this machine has no such GPU")
    os.close(terminal.ours)
    assert ENTER not in terminal.text


class Clock:
    """Time that passes by sleeping and drawing only."""

    def __init__(self, costs):
        self.now, self.costs, self.drawn = 100.0, list(costs), []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds

    def strftime(self, dummy):
        return "now"

    def draw(self):
        if not self.costs:
            raise KeyboardInterrupt
        self.drawn.append(round(self.now - 100.0, 6))
        self.now += self.costs.pop(0)
        return "picture"


@pytest.mark.parametrize(
    ("costs", "drawn"),
    [
        ([0.3] * 5, [0, 2, 4, 6, 8]),  # what drawing costs is no delay of the next
        ([0.3, 5.0, 0.3, 0.3], [0, 2, 8, 10]),  # turns that were missed are not made up for
        ([2.5, 0.1, 0.1], [0, 4, 6]),
    ],
)
def test_it_does_not_drift(monkeypatch, capsys, costs, drawn):
    clock = Clock(costs)
    monkeypatch.setattr(watching, "time", clock)
    assert watching.watch(2, clock.draw) == 0
    assert clock.drawn == drawn and capsys.readouterr().out.count("picture") == len(drawn)


def test_it_costs_little(machine, tmp_path):
    """Ten pictures at five times the usual rate, on a machine that is busy with other tests: 3 % of a processor at the
    usual rate (docs/performance.md has less)."""
    process = started(machine, tmp_path, "info", "--watch", "0.4", "--json", stdout=subprocess.PIPE)
    process.stdout.readline()
    before, at = used(process.pid), time.monotonic()
    assert len([process.stdout.readline() for dummy in range(10)]) == 10
    took, cost = time.monotonic() - at, used(process.pid) - before
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert cost / 10 < 0.06 and took > 3.5, (cost, took)


def used(pid):
    """Seconds of processor of a process and of its children that ended."""
    fields = open("/proc/{0}/stat".format(pid), encoding="ascii").read().rpartition(") ")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a child process for NVML keeps, and what it lets go."""

from __future__ import annotations

import fcntl
import os
import signal
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import child
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.child import ChildDied, collect


def test_a_child_holds_none_of_the_parents_files(tmp_path):
    with open(str(tmp_path / "held"), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def task(report):
            yield sorted(os.path.realpath("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd"))

        (files,) = collect(task, 5).items
    assert str(tmp_path / "held") not in files
    # Left are its own pipe and the listing, which look like /proc/PID/fd/...
    assert [name for name in files if not name.startswith("/proc/")] == ["/dev/null"] * 3


def test_a_call_may_have_a_longer_limit_of_its_own():
    def task(report):
        report("nvmlInit", 5)
        time.sleep(0.6)
        yield "opened"
        report("quick")
        time.sleep(60)

    collected = collect(task, 0.3)
    assert collected.items == ("opened",)
    assert collected.hung_at == "quick"


def test_a_call_may_have_a_shorter_limit_of_its_own():
    def task(report):
        report("short", 0.2)
        time.sleep(60)
        yield None

    started = time.monotonic()
    assert collect(task, 30).hung_at == "short"
    assert time.monotonic() - started < 5


def test_a_busy_child_is_never_taken_for_a_hung_one(monkeypatch):
    # The parent looks all the time, so that it would meet a deadline that is only half written.
    monkeypatch.setattr(child, "_GLANCE_SECONDS", 0.00001)

    def task(report):
        end = time.monotonic() + 1.0
        number = 0
        while time.monotonic() < end:
            report("call {0}".format(number), 60 + number % 3 * 1000)
            number += 1
        yield number

    assert collect(task, 60).hung_at is None


def test_what_a_child_told_before_it_crashed_is_kept():
    def task(report):
        yield 1
        report("nvmlDeviceGetName of GPU 0")
        os.kill(os.getpid(), signal.SIGSEGV)
        yield 2

    with pytest.raises(ChildDied) as caught:
        collect(task, 5)
    assert caught.value.items == (1,)
    assert caught.value.thing == "nvmlDeviceGetName of GPU 0"


def test_a_very_long_name_of_a_call_does_no_harm():
    def task(report):
        report("é" * 5000, 0.2)
        time.sleep(60)
        yield None

    assert collect(task, 5).hung_at.startswith("éé")

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The child process for NVML calls, with a real child and no NVML."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.child import Collected, collect
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.tests.unit import forked


def test_items_come_back_in_order():
    assert collect(lambda report: iter([1, "two", {"three": 3}]), 5) == Collected((1, "two", {"three": 3}), None)


def test_a_hanging_call_is_named_and_what_came_before_it_is_kept():
    def task(report):
        yield "gpu 0"
        report("nvmlDeviceGetTemperature on GPU 1")
        time.sleep(3600)
        yield "never"

    started = time.monotonic()
    assert collect(task, 0.3) == Collected(("gpu 0",), "nvmlDeviceGetTemperature on GPU 1")
    assert time.monotonic() - started < 3


def test_many_short_calls_may_together_take_longer_than_the_limit_of_one():
    def task(report):
        for number in range(8):
            report("call {0}".format(number))
            time.sleep(0.1)
        yield "done"

    assert collect(task, 0.4).items == ("done",)


def test_an_exception_of_the_task_is_raised_here():
    def task(report):
        yield 1
        raise NodeError("GPU 3", "it is lost", "reset it")

    with pytest.raises(NodeError, match="GPU 3: it is lost; reset it."):
        collect(task, 5)


def test_a_child_that_crashes_is_an_error_that_names_the_call():
    def task(report):
        report("nvmlInitWithFlags")
        os.kill(os.getpid(), signal.SIGSEGV)
        yield 1

    with pytest.raises(NodeError, match="nvmlInitWithFlags: the child process ended"):
        collect(task, 5)


LEFT = """
import os
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.child import collect

print(collect(lambda report: iter([1]), 5).items)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("none")
"""


def test_no_child_is_left_behind():
    # In a process of its own: this one may have children of other tests.
    done = forked.run([sys.executable, "-c", LEFT], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("(1,)\nnone\n", "")


def test_large_items_pass():
    assert len(collect(lambda report: iter(["x" * 1_000_000]), 5).items[0]) == 1_000_000

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode pin check`` on real processes that pin themselves, alone and beside simulated GPUs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import pin_check
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.running import (
    GpuUse,
    Process,
    State,
    Thread,
    judge,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.running.places import Places
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import names, shared

CPUS = sorted(os.sched_getaffinity(0))
RANK = """
import os, sys
os.sched_setaffinity(0, [int(word) for word in sys.argv[1].split(",")])
print("ready", flush=True)
while True: pass
"""
# In a process of its own, where the loader finds the simulator's library.
CHECK = """
import argparse, contextlib, io, json, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import pin_check
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology import observe
given = json.loads(sys.argv[1])
arguments = argparse.Namespace(**dict({"pattern": None, "pid": None, "job": None, "json": False}, **given))
told = io.StringIO()
with contextlib.redirect_stdout(told):
    status = pin_check.run(Host(), arguments)
print(json.dumps([status, told.getvalue()]))
"""


def arguments(**given):
    return argparse.Namespace(**dict({"pattern": None, "pid": None, "job": None, "json": False}, **given))


@pytest.fixture
def job():
    """Start ranks that work on the CPUs they are told, all with one word on their command lines."""
    started = []

    def start(*masks):
        word = "job-of-test-{0}-{1}".format(os.getpid(), len(started))
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", RANK, ",".join(str(cpu) for cpu in mask), word], stdout=subprocess.PIPE
            )
            for mask in masks
        ]
        started.extend(ranks)
        for rank in ranks:
            assert rank.stdout.readline() == b"ready\n"
        return word, [rank.pid for rank in ranks]

    yield start
    for rank in started:
        rank.kill()
        rank.wait()
        rank.stdout.close()


two_cores = pytest.mark.skipif(len(CPUS) < 2, reason="this test may use one CPU only")


@two_cores
def test_a_good_job_passes_and_the_same_job_mispinned_does_not(job, capsys):
    good, pids = job([CPUS[0]], [CPUS[-1]])
    assert pin_check.run(Host(), arguments(pattern=good)) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].split() == ["PID", "THR", "RUN", "LAST", "ALLOWED", "NUMA", "L3", "GPU", "COMMAND"]
    for line, pid, cpu in zip(lines[1:3], pids, (CPUS[0], CPUS[-1])):
        assert line.split()[:5] == [str(pid), "1", "1", str(cpu), str(cpu)]
    assert lines[-1] == "well pinned: 2 processes" and "\033" not in out

    bad, pids = job([CPUS[0]], [CPUS[0]])
    assert pin_check.run(Host(), arguments(pattern=bad)) == 3
    out = capsys.readouterr().out
    assert "warning: processes {0} and {1} share cores: 2 threads on one core".format(*pids) in out
    assert "well pinned" not in out


def test_json_tells_all_of_it(job, capsys):
    dummy, pids = job(CPUS)
    pin_check.run(Host(), arguments(pid=pids, json=True))
    told = json.loads(capsys.readouterr().out)
    (one,) = told["processes"]
    assert (one["pid"], one["allowed_cpus"], one["running_threads"]) == (pids[0], CPUS, 1)
    assert one["launcher"] is False and told["ended"] == []
    assert told["warnings"] == sum(finding["severity"] == "warning" for finding in told["findings"])


def test_gpus_are_those_that_the_driver_says_the_process_uses(job, nvml_simulator):
    simulator = nvml_simulator()
    dummy, pids = job([CPUS[0]])
    simulator.control("process", "add", "2", str(pids[0]), "1000")
    status, text = simulator.python(CHECK, json.dumps({"pid": pids, "json": True}))
    told = json.loads(text)
    assert told["processes"][0]["gpus"] == [2]
    # Seven GPUs that nobody uses, and this environment names none.
    idle = [finding for finding in told["findings"] if finding["kind"] == "gpu_idle"]
    assert idle[0]["gpus"] == [0, 1, 3, 4, 5, 6, 7] and status == 3
    for gpu in (0, 1, 3, 4, 5, 6, 7):
        simulator.control("process", "add", str(gpu), "1", "10")
    status, text = simulator.python(CHECK, json.dumps({"pid": pids}))
    assert status == 0 and text.splitlines()[1].split()[7] == "2", text


def test_a_gpu_that_does_not_answer_is_a_note(job, nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "gpu", "3", "lost")
    dummy, pids = job([CPUS[0]])
    dummy, text = simulator.python(CHECK, json.dumps({"pid": pids}))
    assert "note: GPUs were not all looked at: GPU 3" in text
    assert "GPU 0-2,4-7 are idle" in " ".join(text.split())


def test_what_cannot_be_checked_is_one_sentence():
    for given, told in (
        ({"pattern": "no-such-application-{0}".format(os.getpid() * 7)}, "start the application first"),
        ({"pid": [2**22 + 1]}, "there is no such process"),
        ({}, "it needs one way to find the application"),
    ):
        with pytest.raises(NodeError, match=told):
            pin_check.run(Host(), arguments(**given))


@pytest.mark.parametrize("name", names())
def test_every_machine_is_readable_at_80_columns(name, capsys):
    """With the longest that can stand in a cell: all CPUs, odd ones, all GPUs, a name of 15 characters."""
    found = topology.observe(Host(shared(name)))
    online = found.cpus.online
    processes = []
    for number, allowed in enumerate((online, online[::2], online[:1], online[: len(online) // 2])):
        pid = 4194300 + number
        threads = tuple(
            Thread(pid + thread, "n" * 15, allowed, (("R", cpu),) * 3) for thread, cpu in enumerate(allowed)
        )
        processes.append(Process(pid, 1, "\033[31m" + "n" * 10, "x", 1, threads))
    gpus = tuple(
        GpuUse(number, None, gpu.placement.pci_address, tuple(one.pid for one in processes))
        for number, gpu in enumerate(found.gpus)
    )
    state = State(tuple(processes), gpus, "NVML " * 40, (7, 8))
    pin_check.show(state, judge(state, found), Places.of(found))
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "\033" not in out

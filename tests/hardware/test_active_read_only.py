# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The active checks on real GPUs that nobody uses: they change nothing, and agree with an independent measurement."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys

import pytest

LIBRARY = "from ansible_collections.trainyard.gpu_node.plugins.module_utils.health"
PREAMBLE = """
import json, sys
{0}.active import apart, bind, host_device, memory_test, survey
{0}.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
found = survey.gpus(Evidence(Host(), {{}}, {{}}))
gpu = found.gpus[int(sys.argv[1])]
""".format(LIBRARY)

GPUS = PREAMBLE + "print(json.dumps([(gpu.uuid, gpu.numa_node, gpu.cpus) for gpu in found.gpus]))"
OURS = PREAMBLE + (
    "def alone():\n"
    "    apart.become([gpu.uuid])\n"
    "    return host_device.HostCopies(host_device.Cuda()).alone()\n"
    "print(json.dumps(dict(apart.measure(gpu.label, 120, alone, gpu.numa_node, gpu.cpus))))"
)
MEMORY = PREAMBLE + (
    "tested = apart.measure(gpu.label, 120, lambda: memory_test._one(gpu.uuid, 4.0, 60.0), gpu.numa_node, gpu.cpus)\n"
    "print(json.dumps([tested.memory_bytes, tested.free_bytes, tested.both_ways_bytes, tested.wrong, tested.where,\n"
    "                  tested.gigabytes_per_second, tested.by_host]))"
)

# Copies of a framework's own, from pinned memory, by its own events. The process is bound from outside.
TORCH = """
import json, statistics, torch
size = 256 * 2**20
host = torch.ones(size, dtype=torch.uint8, pin_memory=True)
device = torch.empty(size, dtype=torch.uint8, device="cuda")
def rates(to, of):
    answer = []
    for sample in range(10):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for copy in range(4):
            to.copy_(of, non_blocking=True)
        end.record()
        end.synchronize()
        answer.append(4 * size / begin.elapsed_time(end) / 1e6)
    return statistics.median(answer[1:])
print(json.dumps([rates(device, host), rates(host, device)]))
"""
CUPY = """
import ctypes, json, statistics, cupy
size = 256 * 2**20
memory = cupy.cuda.alloc_pinned_memory(size)
ctypes.memset(memory.ptr, 1, size)
device = cupy.empty(size, dtype=cupy.uint8)
stream = cupy.cuda.Stream(non_blocking=True)
def rates(copy):
    answer = []
    for sample in range(10):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(stream)
        for number in range(4):
            copy()
        end.record(stream)
        end.synchronize()
        answer.append(4 * size / cupy.cuda.get_elapsed_time(begin, end) / 1e6)
    return statistics.median(answer[1:])
to = rates(lambda: cupy.cuda.runtime.memcpyAsync(device.data.ptr, memory.ptr, size, 1, stream.ptr))
print(json.dumps([to, rates(lambda: cupy.cuda.runtime.memcpyAsync(memory.ptr, device.data.ptr, size, 2, stream.ptr))]))
"""


def run(python, code, *arguments, **more):
    path = os.pathsep.join(one for one in sys.path if one)
    environment = dict(os.environ, CUDA_DEVICE_ORDER="PCI_BUS_ID", **more)
    if python == sys.executable:
        environment["PYTHONPATH"] = path
    done = subprocess.run(
        [python, "-c", code, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=300,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def gpus(nvidia_smi):
    """(UUID, NUMA node, its CPUs) of GPUs that nobody uses and that are not partitioned."""
    if not nvidia_smi("uuid"):
        pytest.skip("this machine has a driver and no GPU")
    busy = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    if busy.stdout.strip():
        pytest.skip("a process uses a GPU of this machine: run this when it has ended")
    found = run(sys.executable, GPUS, "0")
    return found


@pytest.fixture(scope="module")
def independent():
    """(interpreter, code) of a framework that copies by itself."""
    candidates = [os.environ.get("GPU_NODE_TEST_PYTHON"), sys.executable, shutil.which("python3")]
    for python in filter(None, candidates):
        for module, code in (("torch", TORCH), ("cupy", CUPY)):
            seen = subprocess.run([python, "-c", "import " + module], capture_output=True, check=False)
            if seen.returncode == 0:
                return python, code
    pytest.skip("neither PyTorch nor CuPy is here: name a Python that has one in GPU_NODE_TEST_PYTHON")


def test_our_copies_are_within_five_percent_of_an_independent_measurement(gpus, independent):
    python, code = independent
    for number, gpu in enumerate(gpus):
        uuid, cpus = gpu[0], gpu[2]
        # Alternately, so that a clock that changes meanwhile changes both.
        ours, others = [], []
        while len(ours) < 3:
            ours.append(run(sys.executable, OURS, str(number)))
            allowed = os.sched_getaffinity(0)
            try:
                if cpus:
                    os.sched_setaffinity(0, cpus)
                others.append(run(python, code, CUDA_VISIBLE_DEVICES=uuid))
            finally:
                os.sched_setaffinity(0, allowed)
        for place, name in enumerate(("host_to_device", "device_to_host")):
            own = statistics.median(one[name + "_gigabytes_per_second"] for one in ours)
            other = statistics.median(one[place] for one in others)
            assert own == pytest.approx(other, rel=0.05), "{0} of {1}: {2} and {3} GB/s".format(name, uuid, own, other)


def test_the_memory_of_every_gpu_keeps_what_is_written(gpus):
    for number in range(len(gpus)):
        tested, free, both_ways, wrong, where, rate, by_host = run(sys.executable, MEMORY, str(number))
        assert (wrong, where, both_ways, by_host) == (0, "", tested, "")
        assert 0.98 * free < tested <= free and rate > 0


def test_nothing_is_left_on_a_gpu_and_no_setting_has_changed(gpus, nvidia_smi):
    columns = ("persistence_mode", "compute_mode", "clocks.max.sm", "power.limit", "mig.mode.current")
    before = nvidia_smi(*columns)
    run(sys.executable, OURS, "0")
    after = nvidia_smi(*columns)
    assert after == before

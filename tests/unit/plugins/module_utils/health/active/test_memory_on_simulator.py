# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory test on simulated GPUs, which execute its PTX: it finds and names each fault and no healthy GPU."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.ptx import memory

MIB = 2**20
# The report of the kernels is in front of what is tested, in units of 512 bytes; 1/256 of 2 MiB is left free, and no
# piece is smaller than 512 bytes.
START = -(-memory.REPORT_BYTES // 512) * 512
TESTED = (2 * MIB - START - 2 * MIB // 256) // 512 * 512
CHECK = "gpu_memory_test"


def check(node, **settings):
    return node.check(CHECK, **dict({"memory_test_seconds": 1}, **settings))


def reasons(verdict):
    return {one["key"]: one["reason"] for one in verdict["results"][0]["findings"]}


def healthy(node, health):
    verdict = check(node)
    assert health.findings(verdict) == []
    (result,) = verdict["results"]
    assert (
        "every bit of {0:.4g} GB (99.4 % of all memory) of each of {1} GPUs".format(TESTED / 1e9, len(node.gpus))
        in result["seen"]
    )
    assert "patterns, memory reads 29" in result["seen"] or "patterns, memory reads 30" in result["seen"]
    rates = health.measured(verdict, "gpu_memory_gigabytes_per_second")
    assert sorted(rates) == sorted(pci for dummy, pci in node.gpus)


def test_a_healthy_machine_gives_no_finding_and_reports_its_coverage(machine, health):
    healthy(machine("nd96isr_h100_v5", "gpu.count=2"), health)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_healthy_machines_give_no_finding(machine, health, seed):
    healthy(machine("nd96isr_h100_v5", "machine.seed={0}".format(seed)), health)


def test_every_planted_fault_is_found_with_its_place_and_no_other(machine, health):
    """Four GPUs have one bad bit each, in the middle, the first and the last word; two have bad addresses; one is slow.
    The last one is healthy: it is only as slow as some GPUs are."""
    node = machine()
    middle = 700_000
    planted = {
        0: (middle, "stuck 9 0", "byte {0:#x} bit 1 reads 0".format(middle + 1)),
        1: (0, "stuck 0 1", "byte 0x0 bit 0 reads 1"),
        2: (TESTED - 4, "stuck 31 1", "byte {0:#x} bit 7 reads 1".format(TESTED - 1)),
        3: (middle, "flip 12", "byte {0:#x} bit 4 reads ".format(middle + 1)),
        # Two sectors of 32 bytes, of two words each, are one.
        4: (
            64_000,
            "alias {0}".format(START + 128_000),
            "byte 0xfa00 returns the data of byte 0x1f400; byte 0xfa10 returns the data of byte 0x1f410; "
            "byte 0x1f400 returns the data of byte 0xfa00 and more",
        ),
    }
    for gpu, (place, fault, _words) in planted.items():
        node.fault("gpu {0} memory {1} {2}".format(gpu, START + place, fault))
    node.fault("gpu 5 address-line 13 0")
    node.fault("gpu 6 slow hbm 50")
    node.fault("gpu 7 slow hbm 4")
    verdict = check(node)
    wrong = [(CHECK, "memory_mismatch", node.gpus[gpu][1], "fail", "replace") for gpu in range(6)]
    slow = (CHECK, "low_gpu_memory", node.gpus[6][1], "fail", "look")
    assert sorted(health.findings(verdict)) == sorted([*wrong, slow])
    told = reasons(verdict)
    for gpu, (_place, _fault, words) in planted.items():
        assert words in told[node.gpus[gpu][1]], told[node.gpus[gpu][1]]
    assert told[node.gpus[3][1]].startswith("1 reads of its memory")  # it flipped once


def test_gpus_that_cannot_be_tested_are_named_and_the_others_pass(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=6")
    memory_left = "there is not enough free memory"
    planted = [
        (
            "gpu 0 kernel illegal-address",
            ("cuda_700", "fail", "reset_gpu"),
            "a kernel used an address outside its memory",
        ),
        ("call cuDevicePrimaryCtxRetain gpu 1 return 2", ("", "unknown", "look"), memory_left),
        ("call cuMemAlloc_v2 gpu 2 return 2", ("", "unknown", "look"), memory_left),
        (
            "call cuMemAlloc_v2 gpu 3 after 9 return 2",
            ("memory_not_allocated", "unknown", "configure"),
            "13% of its free memory",
        ),
        ("call cuLaunchKernel gpu 4 kill", ("", "unknown", "look"), "measured it died (write pattern 1 of 6)"),
    ]
    for fault, _finding, _words in planted:
        node.fault(fault)
    verdict = check(node)
    assert sorted(health.findings(verdict)) == sorted(
        (CHECK, code, node.gpus[gpu][1], outcome, action)
        for gpu, (_fault, (code, outcome, action), _words) in enumerate(planted)
    )
    told = reasons(verdict)
    for gpu, (_fault, _finding, words) in enumerate(planted):
        assert words in told[node.gpus[gpu][1]], told[node.gpus[gpu][1]]


@pytest.mark.soak
def test_a_kernel_that_hangs_costs_its_own_gpu_and_is_named(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=3")
    node.fault("gpu 1 kernel hang")
    verdict = check(node)
    assert health.findings(verdict) == [(CHECK, "", node.gpus[1][1], "unknown", "look")]
    assert reasons(verdict)[node.gpus[1][1]].startswith("it did not end in time: write pattern 1 of 6")


@pytest.mark.parametrize("driver", ["535.154.05", "410.129"])
def test_a_driver_that_is_too_old_for_the_kernels_has_the_host_compare(machine, health, driver):
    node = machine("nd40rs_v2", "gpu.count=2", "driver.version=" + driver)
    node.fault("gpu 1 memory 1500000 stuck 3 1")
    verdict = check(node)
    assert health.findings(verdict) == [(CHECK, "memory_mismatch", node.gpus[1][1], "fail", "replace")]
    assert ("compared on the host" in verdict["results"][0]["seen"]) == (driver == "410.129")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name",
    ["nd40rs_v2", "nd96asr_v4", "nd96amsr_a100_v4", "nd96isr_h200_v5", "dgx_b200", "openstack_t4", "rtx_pro_6000"],
)
def test_healthy_machines_of_each_kind_pass(machine, health, name):
    assert health.findings(check(machine(name))) == []


# The PTX text ------------------------------------------------------------------------------------------

KERNELS = """
import ctypes, json, struct
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.cuda import Cuda
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.ptx import memory
U32, U64 = ctypes.c_uint32, ctypes.c_uint64
device = Cuda().open(0)
module = memory.text()
write, compare, step = device.kernels(module.text, module.kernels)
report, buffer = device.memory(memory.REPORT_BYTES), device.memory(16 * 2000)
def words(count):
    content = device.read(buffer, 16 * count)
    return [struct.unpack_from("<4I", content, 16 * place) for place in range(count)]
def wanted(count, first, seed, mask):
    return [memory.pattern(first + place, seed, mask) for place in range(count)]
wrong = []
for count in (1, 511, 1300):
    for first in (0, 2**32 - 300, 2**36 + 7):
        for down in (0, 0xFFFFFFFF):
            for one, other in (((0, 0), (0, 0xFFFFFFFF)), ((0, 0xFFFFFFFF), (9, 0)), ((2**32 - 1, 0xFFFFFFFF), (7, 0))):
                device.fill(report, 0, memory.REPORT_BYTES // 4)
                device.fill(buffer, 0x5A5A5A5A, 4 * 2000)
                chunk = (U64(buffer), U32(count), U64(first), U32(down))
                device.launch(write, 2, memory.THREADS, *chunk, U32(one[0]), U32(one[1]))
                if words(count) != wanted(count, first, *one) or words(count + 1)[-1] != (0x5A5A5A5A,) * 4:
                    wrong.append(["write", count, first, down, one])
                tail = [U32(value) for value in one] + [U64(report)]
                device.launch(compare, 2, memory.THREADS, *chunk, *tail)
                device.launch(step, 2, memory.THREADS, *chunk, *tail, *[U32(value) for value in other])
                number, dummy = memory.report(device.read(report, memory.REPORT_BYTES))
                if number or words(count) != wanted(count, first, *other):
                    wrong.append(["step", count, first, down, one])
                bad = ctypes.create_string_buffer(b"x")
                device.copy_to(buffer + 16 * (count // 2) + 5, ctypes.addressof(bad), 1)
                tail = [U32(value) for value in other] + [U64(report)]
                device.launch(compare, 2, memory.THREADS, *chunk, *tail)
                number, found = memory.report(device.read(report, memory.REPORT_BYTES))
                right = memory.pattern(first + count // 2, *other)
                got = (right[0], right[1] & 0xFFFF00FF | ord("x") << 8, *right[2:])
                if number != 1 or found != [memory.Mismatch(first + count // 2, *other, right, got)]:
                    wrong.append(["compare", count, first, down, one, number])
device.fill(report, 0, memory.REPORT_BYTES // 4)
device.fill(buffer, 0, 4 * 2000)
device.launch(compare, 2, memory.THREADS, U64(buffer), U32(1900), U64(0), U32(0), U32(3), U32(0), U64(report))
number, found = memory.report(device.read(report, memory.REPORT_BYTES))
print(json.dumps([wrong, number, len(found), len({one.place for one in found})]))
"""


def test_the_kernels_do_what_the_functions_in_python_say(machine):
    node = machine("nd96isr_h100_v5", "gpu.count=1")
    wrong, number, recorded, places = node.simulator.python(KERNELS)
    assert wrong == []
    assert (number, recorded, places) == (1900, memory.RECORDS, memory.RECORDS)

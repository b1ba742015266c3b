# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arithmetic check on simulated GPUs, which execute its PTX: it names each fault and no healthy GPU."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.ptx.arithmetic import KINDS

F16 = "compute_f16_teraflops_per_second"


def reasons(verdict):
    return {found["key"]: found["reason"] for one in verdict["results"] for found in one["findings"]}


def test_every_fault_is_found_and_named(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=7", "gpu.cuda.multiprocessors=4")
    for words in (
        "fault gpu 0 sm 1 wrong tensor",
        "fault gpu 1 sm 2 wrong fp32 every 5",
        "fault gpu 2 sm 3 wrong fp64",
        "fault gpu 3 sm 0 wrong int every 3",
        "fault gpu 3 sm 2 slow 30",
        "fault gpu 4 slow tensor 20",
        "fault gpu 6 kernel illegal-address",
    ):
        node.simulator.control(*words.split())
    verdict = node.check("gpu_compute", compute_seconds=1)
    keys = [pci for dummy, pci in node.gpus]
    found = health.findings(verdict)
    assert sorted(one[1:] for one in found) == sorted(
        [
            ("wrong_result", keys[0], "fail", "replace"),
            ("wrong_result", keys[1], "fail", "replace"),
            ("wrong_result", keys[2], "fail", "replace"),
            ("wrong_result", keys[3], "fail", "replace"),
            ("slow_multiprocessor", keys[3], "warn", "look"),
            ("low_compute_f16", keys[4], "warn", "look"),
            ("low_compute_bf16", keys[4], "warn", "look"),
            ("low_compute_int8", keys[4], "warn", "look"),
            ("cuda_700", keys[6], "fail", "reset_gpu"),
        ]
    )
    told = {}
    for result in verdict["results"]:
        for one in result["findings"]:
            told.setdefault(one["key"], []).append(one["reason"])
    (tensor,) = told[keys[0]]
    assert [kind.title in tensor for kind in KINDS[:3]] == [True] * 3 and tensor.count("SM 1 differs") == 3
    assert "FP32" not in tensor and "FP64" not in tensor
    (single,) = told[keys[1]]
    assert single.startswith("it computes wrong: FP32: SM 2 differs from the majority in ") and ";" not in single
    assert told[keys[2]][0].startswith("it computes wrong: FP64: SM 3 differs")
    assert any("32-bit integers: SM 0 differs" in one for one in told[keys[3]])
    assert any("SM 2 takes 3" in one for one in told[keys[3]])
    assert told[keys[6]][0].startswith("FP16 tensor cores: a kernel used an address outside its memory")
    rates = health.measured(verdict, F16)
    assert set(rates) == {*keys[:6]}
    assert rates[keys[4]] == pytest.approx(0.8 * rates[keys[0]], rel=0.03)


def test_memory_that_holds_the_results_is_not_an_sm_that_computes_wrong(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=3", "gpu.cuda.multiprocessors=3")
    node.fault("gpu 1 memory 4096 stuck 3 1")
    node.fault("gpu 2 sm 2 wrong fp32")
    verdict = node.check("gpu_compute", compute_seconds=1)
    keys = [pci for dummy, pci in node.gpus]
    assert [one[1:] for one in health.findings(verdict)] == [
        ("wrong_result", key, "fail", "replace") for key in keys[1:]
    ]
    told = reasons(verdict)
    assert told[keys[1]].startswith(
        "the memory that holds its results changes them, so nobody knows whether it computes"
    )
    assert told[keys[2]].startswith("it computes wrong: FP32: SM 2 differs")


@pytest.mark.soak  # the limit of a kernel that hangs is 30 s
def test_a_hang_and_a_slowdown_under_load_are_named(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=3", "gpu.cuda.multiprocessors=3")
    for words in ("fault gpu 1 kernel hang", "set gpu.2.utilization.gpu_percent 100", "throttle 2 hw_thermal"):
        node.simulator.control(*words.split())
    verdict = node.check("gpu_compute", compute_seconds=1)
    keys = [pci for dummy, pci in node.gpus]
    assert sorted(one[1:] for one in health.findings(verdict)) == [
        ("", keys[1], "unknown", "look"),
        ("under_load_hardware_thermal_slowdown", keys[2], "fail", "replace"),
    ]
    assert reasons(verdict)[keys[1]] == "it did not end in time: FP16 tensor cores"
    assert set(health.measured(verdict, F16)) == {keys[0], keys[2]}
    assert keys[2] in health.measured(verdict, "compute_temperature_celsius")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("nd96isr_h100_v5", ["f16", "bf16", "int8", "f32", "f64", "int32"]),
        ("rtx_pro_6000", ["f16", "bf16", "int8", "fp8", "f32", "f64", "int32"]),
        ("nd40rs_v2", ["f16", "f32", "f64", "int32"]),
        ("nd96asr_v4", ["f16", "bf16", "int8", "f32", "f64", "int32"]),
        ("nd96isr_h200_v5", ["f16", "bf16", "int8", "f32", "f64", "int32"]),
        ("dgx_b200", ["f16", "bf16", "int8", "f32", "f64", "int32"]),
        ("openstack_t4", ["f16", "f32", "f64", "int32"]),
    ],
)
def test_healthy_gpus_have_no_finding_and_a_rate_of_each_kind(machine, health, name, kinds):
    node = machine(name, "gpu.count=3", "gpu.cuda.multiprocessors=3")
    verdict = node.check("gpu_compute", compute_seconds=1)
    assert health.findings(verdict) == []
    names = {one["name"] for result in verdict["results"] for one in result["measured"]}
    assert {kind.figure for kind in KINDS} & names == {kind.figure for kind in KINDS if kind.name in kinds}
    for kind in KINDS:
        if kind.name in kinds:
            assert len(health.measured(verdict, kind.figure)) == len(node.gpus)
    assert "not covered" not in verdict["results"][0]["seen"]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_healthy_machines_of_any_seed_have_no_finding(machine, health, seed):
    node = machine("nd96isr_h100_v5", "gpu.cuda.multiprocessors=4", "machine.seed={0}".format(seed))
    assert health.findings(node.check("gpu_compute", compute_seconds=1)) == []


def test_an_older_driver_covers_what_it_can(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.count=1", "gpu.cuda.multiprocessors=3", "driver.version=418.226.00")
    verdict = node.check("gpu_compute", compute_seconds=1)
    assert health.findings(verdict) == []
    assert len(health.measured(verdict, F16)) == 1
    assert health.measured(verdict, "compute_bf16_teraflops_per_second") == {}
    seen = verdict["results"][0]["seen"]
    assert "not covered: BF16 tensor cores on 1 GPU (the driver does not accept the PTX: " in seen
    assert "INT8 tensor cores on 1 GPU" in seen


def test_a_gpu_that_fails_is_named_with_its_kind_and_the_others_are_measured(machine, health):
    node = machine("nd96isr_h100_v5", "gpu.cuda.multiprocessors=3")
    faults = [
        ("cuModuleLoadDataEx gpu 1 return 218", "", "unknown", "the driver does not accept the PTX: "),
        ("cuDevicePrimaryCtxRetain gpu 2 return 2", "", "unknown", "CUDA: there is not enough free memory: cuDevice"),
        ("cuDevicePrimaryCtxRetain gpu 3 return 46", "cuda_46", "fail", "CUDA: the GPU is in exclusive or prohibited"),
        ("cuMemAlloc_v2 gpu 4 return 2", "", "unknown", "CUDA: there is not enough free memory: cuMemAlloc"),
        (
            "cuEventSynchronize gpu 5 after 20 return 719",
            "cuda_719",
            "fail",
            "BF16 tensor cores: a copy or kernel failed",
        ),
        ("cuLaunchKernel gpu 6 after 20 kill", "", "unknown", "the process that measured it died (BF16 tensor cores)"),
    ]
    for fault in faults:
        node.simulator.control("fault", "call", *fault[0].split())
    verdict = node.check("gpu_compute", compute_seconds=1)
    keys = [pci for dummy, pci in node.gpus]
    found = {one[2]: (one[1], one[3]) for one in health.findings(verdict)}
    assert found == {keys[number]: fault[1:3] for number, fault in enumerate(faults, 1)}
    for number, fault in enumerate(faults, 1):
        assert reasons(verdict)[keys[number]].startswith(fault[3])
    assert set(health.measured(verdict, F16)) == {keys[0], keys[5], keys[7]}
    assert set(health.measured(verdict, "compute_int32_teraops_per_second")) == {keys[0], keys[7]}


# Kernels ----------------------------------------------------------------------------------------------

FLIPS = """
import ctypes, json
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.cuda import Cuda
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.ptx import arithmetic

device = Cuda().open(0)
sums, times = device.memory(16 * 128), device.memory(16 * 8)


def checksums(text, name):
    kernel = device.kernels(text, [name])[0]
    words = (ctypes.c_uint32(12), ctypes.c_uint64(sums), ctypes.c_uint64(times), ctypes.c_uint32(7))
    device.launch(kernel, 1, 32, *words)
    device.wait()
    return device.read(sums, 128).hex()


answer = {}
for kind in arithmetic.kinds_of(device.capability):
    text = arithmetic.text(kind)
    registers = ["%a0", "%b1"] if kind.name != "f64" else ["%x0", "%y1"]
    bits, width = (64, "b64") if kind.name == "f64" else (32, "b32")
    right, found = checksums(text, kind.name), {}
    for register in registers:
        for bit in range(bits):
            # In round 3 of 12, for lane 5 alone: this bit of an operand is wrong from then on.
            flip = "setp.eq.u32 %p0,%r6,3; setp.eq.and.u32 %p0,%r2,5,%p0; @%p0 xor.{0} {1},{1},{2:#x};"
            changed = text.replace("LOOP:", "LOOP:\\n" + flip.format(width, register, 1 << bit))
            changed = changed.replace(".reg .pred %q;", ".reg .pred %q; .reg .pred %p<2>;")
            wrong = checksums(changed, kind.name)
            lanes = [n for n in range(32) if wrong[8 * n : 8 * n + 8] != right[8 * n : 8 * n + 8]]
            found["{0}.{1}".format(register, bit)] = lanes
    answer[kind.name] = {"distinct": len({right[n : n + 8] for n in range(0, 256, 8)}), "found": found}
print(json.dumps(answer))
"""


@pytest.mark.parametrize("name", ["nd96isr_h100_v5", pytest.param("rtx_pro_6000", marks=pytest.mark.soak)])
def test_each_wrong_operand_bit_changes_the_checksum(nvml_simulator, name):
    simulator = nvml_simulator(name, "gpu.count=1", "gpu.cuda.multiprocessors=1")
    answer = simulator.python(FLIPS, timeout=120, LD_LIBRARY_PATH=str(simulator.built))
    assert set(answer) >= {"f16", "bf16", "int8", "f32", "f64", "int32"}
    for kind, seen in answer.items():
        assert seen["distinct"] == 32, kind
        missed = [place for place, lanes in seen["found"].items() if not lanes]
        assert missed == [], kind
        if kind in ("f32", "f64", "int32"):
            assert all(lanes == [5] for lanes in seen["found"].values())

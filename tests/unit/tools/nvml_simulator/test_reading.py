# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each described machine, read through NVIDIA's binding."""

from __future__ import annotations

import pytest

MACHINES = [
    "dgx_b200",
    "laptop",
    "nc24ads_a100_v4",
    "nd40rs_v2",
    "nd96amsr_a100_v4",
    "nd96asr_v4",
    "nd96isr_h100_v5",
    "nd96isr_h200_v5",
    "openstack_t4",
    "rtx_pro_6000",
    "vm_h100",
    "vm_h200",
]

SUMMARY = """
import json, pynvml as n
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
memory_clocks = n.nvmlDeviceGetSupportedMemoryClocks(handles[0])
graphics_clocks = n.nvmlDeviceGetSupportedGraphicsClocks(handles[0], memory_clocks[0])

def nodes(handle):
    try:
        mask = n.nvmlDeviceGetMemoryAffinity(handle, 1, 0)[0]
    except n.NVMLError_NotSupported:
        return -1
    return mask.bit_length() - 1

def links(handle):
    count = 0
    try:
        while n.nvmlDeviceGetNvLinkState(handle, count):
            count += 1
    except (n.NVMLError_InvalidArgument, n.NVMLError_NotSupported):
        return count

print(json.dumps({
    "count": len(handles),
    "name": n.nvmlDeviceGetName(handles[0]),
    "architecture": n.nvmlDeviceGetArchitecture(handles[0]),
    "capability": n.nvmlDeviceGetCudaComputeCapability(handles[0]),
    "memory_mib": n.nvmlDeviceGetMemoryInfo(handles[0]).total >> 20,
    "memory_clocks": memory_clocks,
    "graphics_clocks": [graphics_clocks[0], graphics_clocks[-1], len(graphics_clocks)],
    "addresses": [n.nvmlDeviceGetPciInfo(handle).busId for handle in handles],
    "nodes": [nodes(handle) for handle in handles],
    "links": links(handles[0]),
    "uuids": len({n.nvmlDeviceGetUUID(handle) for handle in handles}),
}))
"""

# By hand, from NVIDIA's product pages, Azure's size pages and nvidia-smi on the two virtual machines: what each machine
# must look like.
EXPECTED = {
    "nd96asr_v4": {
        "count": 8,
        "name": "NVIDIA A100-SXM4-40GB",
        "architecture": 7,
        "capability": [8, 0],
        "memory_mib": 40960,
        "memory_clocks": [1215],
        "graphics_clocks": [1410, 210, 81],
        "nodes": [1, 1, 0, 0, 3, 3, 2, 2],
        "links": 12,
        "addresses": [
            "00000001:00:00.0",
            "00000002:00:00.0",
            "00000003:00:00.0",
            "00000004:00:00.0",
            "0000000B:00:00.0",
            "0000000C:00:00.0",
            "0000000D:00:00.0",
            "0000000E:00:00.0",
        ],
    },
    "nd96amsr_a100_v4": {
        "count": 8,
        "name": "NVIDIA A100-SXM4-80GB",
        "memory_mib": 81920,
        "memory_clocks": [1593],
        "graphics_clocks": [1410, 210, 81],
        "nodes": [1, 1, 0, 0, 3, 3, 2, 2],
        "links": 12,
    },
    "nd40rs_v2": {
        "count": 8,
        "name": "Tesla V100-SXM2-32GB",
        "architecture": 5,
        "capability": [7, 0],
        "memory_mib": 32768,
        "memory_clocks": [877],
        "graphics_clocks": [1530, 135, 187],
        "nodes": [0, 0, 0, 0, 1, 1, 1, 1],
        "links": 6,
    },
    "nd96isr_h100_v5": {
        "count": 8,
        "name": "NVIDIA H100 80GB HBM3",
        "architecture": 9,
        "capability": [9, 0],
        "memory_clocks": [2619, 1593],
        "graphics_clocks": [1980, 345, 110],
        "nodes": [0, 0, 0, 0, 1, 1, 1, 1],
        "links": 18,
        "addresses": [
            "00000001:00:00.0",
            "00000002:00:00.0",
            "00000003:00:00.0",
            "00000008:00:00.0",
            "00000009:00:00.0",
            "0000000A:00:00.0",
            "0000000B:00:00.0",
            "0000000C:00:00.0",
        ],
    },
    "nd96isr_h200_v5": {
        "count": 8,
        "name": "NVIDIA H200",
        "memory_clocks": [3201, 2201],
        "graphics_clocks": [1980, 345, 110],
        "links": 18,
    },
    "dgx_b200": {"count": 8, "name": "NVIDIA B200", "architecture": 10, "capability": [10, 0], "links": 18},
    "rtx_pro_6000": {"count": 2, "architecture": 10, "capability": [12, 0], "links": 0},
    "openstack_t4": {"count": 1, "name": "Tesla T4", "architecture": 6, "capability": [7, 5], "nodes": [-1]},
    "laptop": {"count": 1, "nodes": [-1], "links": 0, "memory_clocks": [7001, 6801, 5001, 810, 405]},
    "vm_h100": {
        "count": 1,
        "name": "NVIDIA H100 80GB HBM3",
        "memory_mib": 81559,
        "memory_clocks": [2619, 1593],
        "graphics_clocks": [1980, 345, 110],
        "addresses": ["00000000:00:06.0"],
        "nodes": [0],
        "links": 0,
    },
    "vm_h200": {
        "count": 1,
        "name": "NVIDIA H200",
        "memory_mib": 143771,
        "memory_clocks": [3201, 2201],
        "addresses": ["00000000:00:06.0"],
        "links": 0,
    },
    "nc24ads_a100_v4": {"count": 1, "name": "NVIDIA A100 80GB PCIe", "nodes": [0], "links": 0, "memory_clocks": [1512]},
}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_is_what_its_name_says(nvml_simulator, machine):
    found = nvml_simulator(machine).python(SUMMARY)
    assert {key: found[key] for key in EXPECTED[machine]} == EXPECTED[machine]
    assert found["uuids"] == found["count"]


def test_every_described_machine_is_tested(nvml_simulator):
    assert sorted(nvml_simulator().control("machines").split()) == MACHINES


# Every call that reads, on every GPU: the codes that are not SUCCESS, by call.
SWEEP = """
import ctypes, json, time, pynvml as n
started = time.perf_counter()
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
opened = time.perf_counter() - started
calls = [(name,) for name in '''
    Name UUID Serial Index MinorNumber ModuleId PciInfo BoardPartNumber VbiosVersion InforomImageVersion
    Architecture Brand CudaComputeCapability MemoryInfo BAR1MemoryInfo UtilizationRates PerformanceState
    GspFirmwareVersion PersistenceMode SupportedMemoryClocks CurrentClocksEventReasons
    SupportedClocksEventReasons CurrentClocksThrottleReasons EccMode DefaultEccMode RemappedRows
    RowRemapperHistogram RetiredPagesPendingStatus RepairStatus ComputeMode PowerManagementLimit
    PowerManagementDefaultLimit PowerManagementLimitConstraints EnforcedPowerLimit PowerUsage
    TotalEnergyConsumption CurrPcieLinkGeneration MaxPcieLinkGeneration GpuMaxPcieLinkGeneration
    CurrPcieLinkWidth MaxPcieLinkWidth PcieReplayCounter MarginTemperature ComputeRunningProcesses_v3
    MPSComputeRunningProcesses_v3 GraphicsRunningProcesses_v3 SupportedEventTypes MigMode MaxMigDeviceCount
    NumaNodeId DisplayMode BoardId MultiGpuBoard VirtualizationMode NumGpuCores MemoryBusWidth
'''.split()]
structures = [("SramEccErrorStatus", n.c_nvmlEccSramErrorStatus_v1_t), ("GpuFabricInfo", n.c_nvmlGpuFabricInfo_t)]
structures += [("GpuFabricInfoV", n.c_nvmlGpuFabricInfo_v2_t), ("GpuFabricInfoV", n.c_nvmlGpuFabricInfo_v3_t)]
arguments = [(name, ctypes.byref(kind())) for name, kind in structures]
arguments += [("MemoryInfo", n.nvmlMemory_v2), ("CpuAffinity", 2)]
arguments += [("MemoryAffinity", 1, 0), ("CpuAffinityWithinScope", 2, 1)]
clock_calls = "ClockInfo MaxClockInfo ApplicationsClock DefaultApplicationsClock MaxCustomerBoostClock".split()
link_calls = "NvLinkState NvLinkVersion NvLinkRemotePciInfo NvLinkRemoteDeviceType".split()
fields = [1, 2, 3, 4, 5, 6, 29, 30, 31, 82, 83, 91, 142, 143, 144, 145, 184, 185, 186, 190, 193, 230]
for clock in range(4):
    arguments += [(name, clock) for name in clock_calls]
    arguments += [("Clock", clock, identity) for identity in range(4)]
arguments += [("TemperatureThreshold", kind) for kind in range(4)] + [("TemperatureV1", 0), ("Temperature", 0)]
arguments += [("TotalEccErrors", kind, counter) for kind in (0, 1) for counter in (0, 1)]
kinds = [(kind, counter) for kind in (0, 1) for counter in (0, 1)]
arguments += [("MemoryErrorCounter", *kind, place) for kind in kinds for place in range(8)]
arguments += [("RetiredPages", cause) for cause in (0, 1)] + [("RetiredPages_v2", cause) for cause in (0, 1)]
arguments += [("FieldValues", fields)]
arguments += [(name, link) for link in range(18) for name in link_calls]
codes = {}
done = 0
for handle in handles:
    for name, *rest in calls + arguments:
        done += 1
        try:
            getattr(n, "nvmlDeviceGet" + name)(handle, *rest)
        except n.NVMLError as error:
            codes.setdefault(name, set()).add(error.value)
    for other in handles:
        if other is not handle:
            n.nvmlDeviceGetTopologyCommonAncestor(handle, other)
            n.nvmlDeviceGetP2PStatus(handle, other, 2)
            done += 2
n.nvmlShutdown()
print(json.dumps({"codes": {name: sorted(found) for name, found in codes.items()}, "calls": done,
                  "open_seconds": opened, "seconds": time.perf_counter() - started}))
"""


@pytest.mark.parametrize("machine", MACHINES)
def test_every_reading_call_answers_or_says_not_supported(nvml_simulator, machine):
    found = nvml_simulator(machine).python(SWEEP)
    assert found["calls"] > 200
    # INVALID_ARGUMENT only for a link beyond the last one; FUNCTION_NOT_FOUND for calls newer than the driver.
    for name, codes in found["codes"].items():
        allowed = {2, 3} if name.startswith("NvLink") else {3, 13}
        assert set(codes) <= allowed, (name, codes)
    # Natively about 20 us a call; far more here only means that something reads the files over and over.
    assert found["seconds"] / found["calls"] < 0.002


def test_what_a_volta_lacks(nvml_simulator):
    codes = nvml_simulator("nd40rs_v2").python(SWEEP)["codes"]
    for absent in (
        "MigMode",
        "RemappedRows",
        "RowRemapperHistogram",
        "RepairStatus",
        "SramEccErrorStatus",
        "MarginTemperature",
    ):
        assert codes[absent] == [3], absent
    assert "RetiredPages" not in codes and "RetiredPagesPendingStatus" not in codes


def test_what_an_ampere_lacks(nvml_simulator):
    codes = nvml_simulator("nd96asr_v4").python(SWEEP)["codes"]
    assert codes["RetiredPages"] == codes["MarginTemperature"] == codes["NumaNodeId"] == [3]
    assert "RemappedRows" not in codes and "MigMode" not in codes


def test_what_a_laptop_lacks(nvml_simulator):
    codes = nvml_simulator("laptop").python(SWEEP)["codes"]
    lacking = (
        "Serial",
        "EccMode",
        "PowerManagementLimit",
        "PowerManagementLimitConstraints",
        "ApplicationsClock",
        "MemoryAffinity",
    )
    for absent in lacking:
        assert codes[absent] == [3], absent


def test_a_v100_names_its_nvlink_neighbours_and_an_a100_its_switches(nvml_simulator):
    code = """
import json, pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
types = [n.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link) for link in range(6)]
addresses = [n.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId for link in range(6)]
print(json.dumps(list(zip(types, addresses))))
"""
    volta = nvml_simulator("nd40rs_v2").python(code)
    assert [bus[:8] for kind, bus in volta] == ["00000002", "00000003", "00000004", "00000004", "00000005", "00000005"]
    assert {kind for kind, dummy in volta} == {0}
    assert {kind for kind, dummy in nvml_simulator("nd96asr_v4").python(code)} == {2}


P2P = """
import json, pynvml as n
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(8)]
print(json.dumps([[-1 if a is b else n.nvmlDeviceGetP2PStatus(a, b, 2) for b in handles] for a in handles]))
"""


def test_the_hybrid_cube_mesh_is_symmetric_and_each_v100_reaches_four_others(nvml_simulator):
    matrix = nvml_simulator("nd40rs_v2").python(P2P)
    assert all(matrix[a][b] == matrix[b][a] for a in range(8) for b in range(8))
    assert [row.count(0) for row in matrix] == [4] * 8


def test_through_switches_every_a100_reaches_all_others(nvml_simulator):
    assert [row.count(0) for row in nvml_simulator("nd96asr_v4").python(P2P)] == [7] * 8


def test_cpu_and_memory_affinity_follow_the_numa_node(nvml_simulator):
    code = """
import json, pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
def bits(words):
    return [64 * i + b for i, word in enumerate(words) for b in range(64) if word >> b & 1]
print(json.dumps({
    "node": bits(n.nvmlDeviceGetCpuAffinity(handle, 2)),
    "socket": bits(n.nvmlDeviceGetCpuAffinityWithinScope(handle, 2, 1)),
    "memory": bits(n.nvmlDeviceGetMemoryAffinity(handle, 1, 0)),
    "memory_socket": bits(n.nvmlDeviceGetMemoryAffinity(handle, 1, 1)),
    "nearest": [
        list(map(n.nvmlDeviceGetIndex, n.nvmlDeviceGetTopologyNearestGpus(handle, level))) for level in (40, 50)
    ],
}))
"""
    simulator = nvml_simulator("nd96asr_v4")
    assert simulator.python(code) == {
        "node": list(range(24, 48)),
        "socket": list(range(0, 48)),
        "memory": [1],
        "memory_socket": [0, 1],
        "nearest": [[1], [2, 3, 4, 5, 6, 7]],
    }
    simulator.control("set", "gpu.0.numa_node", "2")
    simulator.control("set", "numa.2.cpus", "1,3-4")
    assert simulator.python(code)["node"] == [1, 3, 4]
    assert simulator.python(code)["nearest"][0] == [6, 7]


def test_addresses_of_stand_ins_replace_those_of_the_description(nvml_simulator):
    code = """
import json, pynvml as n
n.nvmlInit()
found = n.nvmlDeviceGetPciInfo(n.nvmlDeviceGetHandleByIndex(1))
by_bus = n.nvmlDeviceGetHandleByPciBusId("0000:22:00.0")
print(json.dumps([found.busId, found.busIdLegacy, found.domain, found.bus, n.nvmlDeviceGetIndex(by_bus)]))
"""
    simulator = nvml_simulator("nd96asr_v4", "gpu.1.pci_bus_id=0000:22:00.0")
    assert simulator.python(code) == ["00000000:22:00.0", "0000:22:00.0", 0, 0x22, 1]


def test_machines_with_different_seeds_have_different_gpus(nvml_simulator):
    one, other = nvml_simulator("nd96asr_v4"), nvml_simulator("nd96asr_v4", "machine.seed=node-2")
    assert one.control("get", "gpu.0.uuid") != other.control("get", "gpu.0.uuid")
    assert one.control("get", "gpu.0.serial") != other.control("get", "gpu.0.serial")
    assert one.control("get", "gpu.0.uuid") == nvml_simulator("nd96asr_v4").control("get", "gpu.0.uuid")


def test_the_library_is_found_by_its_soname_when_loaded_by_path(nvml_simulator):
    code = "import json, pynvml as n; n.nvmlInit(); print(json.dumps(n.nvmlDeviceGetCount()))"
    assert nvml_simulator().preloaded(code) == 8

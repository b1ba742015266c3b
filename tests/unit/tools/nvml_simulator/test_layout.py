# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The binary interface: layouts and symbols are those that NVIDIA's Python binding expects."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess

import pynvml
import pytest

BINDING = {
    "nvmlPciInfo_t": pynvml.nvmlPciInfo_t,
    "nvmlPciInfoExt_v1_t": pynvml.nvmlPciInfoExt_v1_t,
    "nvmlMemory_t": pynvml.c_nvmlMemory_t,
    "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t,
    "nvmlBAR1Memory_t": pynvml.c_nvmlBAR1Memory_t,
    "nvmlConfComputeMemSizeInfo_t": pynvml.c_nvmlConfComputeMemSizeInfo_t,
    "nvmlUtilization_t": pynvml.c_nvmlUtilization_t,
    "nvmlSystemDriverBranchInfo_v1_t": pynvml.c_nvmlSystemDriverBranchInfo_v1_t,
    "nvmlTemperature_v1_t": pynvml.c_nvmlTemperature_v1_t,
    "nvmlMarginTemperature_v1_t": pynvml.c_nvmlMarginTemperature_v1_t,
    "nvmlPowerValue_v2_t": pynvml.c_nvmlPowerValue_v2_t,
    "nvmlEccSramErrorStatus_v1_t": pynvml.c_nvmlEccSramErrorStatus_v1_t,
    "nvmlRemappedRowsInfo_v2_t": pynvml.c_nvmlRemappedRowsInfo_v2_t,
    "nvmlRowRemapperHistogramValues_t": pynvml.c_nvmlRowRemapperHistogramValues,
    "nvmlRepairStatus_v1_t": pynvml.c_nvmlRepairStatus_t,
    "nvmlUnrepairableMemory_v1_t": pynvml.c_nvmlUnrepairableMemory_v1_t,
    "nvmlGpuFabricInfo_t": pynvml.c_nvmlGpuFabricInfo_t,
    "nvmlGpuFabricInfo_v2_t": pynvml.c_nvmlGpuFabricInfo_v2_t,
    "nvmlGpuFabricInfo_v3_t": pynvml.c_nvmlGpuFabricInfo_v3_t,
    "nvmlValue_t": pynvml.c_nvmlValue_t,
    "nvmlFieldValue_t": pynvml.c_nvmlFieldValue_t,
    "nvmlProcessInfo_t": pynvml.c_nvmlProcessInfo_v3_t,
    "nvmlEventData_t": pynvml.c_nvmlEventData_t,
    "nvmlDeviceAttributes_t": pynvml.c_nvmlDeviceAttributes,
    "nvmlGpuInstancePlacement_t": pynvml.c_nvmlGpuInstancePlacement_t,
    "nvmlGpuInstanceProfileInfo_t": pynvml.c_nvmlGpuInstanceProfileInfo_t,
    "nvmlGpuInstanceProfileInfo_v2_t": pynvml.c_nvmlGpuInstanceProfileInfo_v2_t,
    "nvmlGpuInstanceInfo_t": pynvml.c_nvmlGpuInstanceInfo_t,
    "nvmlComputeInstancePlacement_t": pynvml.c_nvmlComputeInstancePlacement_t,
    "nvmlComputeInstanceProfileInfo_t": pynvml.c_nvmlComputeInstanceProfileInfo_t,
    "nvmlComputeInstanceProfileInfo_v2_t": pynvml.c_nvmlComputeInstanceProfileInfo_v2_t,
    "nvmlComputeInstanceInfo_t": pynvml.c_nvmlComputeInstanceInfo_t,
    "nvmlGpmSupport_t": pynvml.c_nvmlGpmSupport_t,
    "nvmlGpmMetric_t": pynvml.c_nvmlGpmMetric_t,
    "nvmlGpmMetricsGet_t": pynvml.c_nvmlGpmMetricsGet_t,
}

# The version numbers that the binding writes into a structure: size and number of the layout.
VERSIONS = {
    "nvmlPciInfoExt_v1_t": pynvml.nvmlPciInfoExt_v1,
    "nvmlMemory_v2_t": pynvml.nvmlMemory_v2,
    "nvmlSystemDriverBranchInfo_v1_t": pynvml.SystemDriverBranchInfo_v1,
    "nvmlTemperature_v1_t": pynvml.nvmlTemperature_v1,
    "nvmlMarginTemperature_v1_t": pynvml.nvmlMarginTemperature_v1,
    "nvmlPowerValue_v2_t": pynvml.nvmlPowerValue_v2,
    "nvmlEccSramErrorStatus_v1_t": pynvml.nvmlEccSramErrorStatus_v1,
    "nvmlRepairStatus_v1_t": pynvml.nvmlRepairStatus_v1,
    "nvmlUnrepairableMemory_v1_t": pynvml.nvmlUnrepairableMemory_v1,
    "nvmlGpuFabricInfo_v2_t": pynvml.nvmlGpuFabricInfo_v2,
    "nvmlGpuFabricInfo_v3_t": pynvml.nvmlGpuFabricInfo_v3,
    "nvmlGpuInstanceProfileInfo_v2_t": pynvml.nvmlGpuInstanceProfileInfo_v2,
    "nvmlComputeInstanceProfileInfo_v2_t": pynvml.nvmlComputeInstanceProfileInfo_v2,
}


@pytest.fixture(scope="module")
def compiled(nvml_simulator_built):
    """What the C compiler made of each structure: size, and (name, offset, size) of each field."""
    text = subprocess.run(
        [str(nvml_simulator_built / "nvml-simulator"), "structs"], stdout=subprocess.PIPE, check=True, text=True
    )
    found = {}
    for line in text.stdout.splitlines():
        name, size, *fields = line.split()
        split = [re.fullmatch(r"(\w+)@(\d+):(\d+)", field).groups() for field in fields]
        found[name] = (int(size), [(field.lower(), int(offset), int(length)) for field, offset, length in split])
    return found


def test_every_structure_is_compared(compiled):
    assert set(compiled) == set(BINDING)


@pytest.mark.parametrize("name", sorted(BINDING))
def test_layout_is_that_of_the_binding(compiled, name):
    kind = BINDING[name]
    fields = [
        (field[0].lower(), getattr(kind, field[0]).offset, getattr(kind, field[0]).size) for field in kind._fields_
    ]
    assert compiled[name] == (ctypes.sizeof(kind), fields)


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_version_number_holds_the_size(compiled, name):
    assert VERSIONS[name] & 0xFFFFFF == compiled[name][0]


@pytest.fixture(scope="module")
def exported(nvml_simulator_built):
    if shutil.which("objdump") is None:
        pytest.skip("objdump (binutils) is not installed")
    return subprocess.run(
        ["objdump", "-T", "-p", str(nvml_simulator_built / "libnvidia-ml.so.1")],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout


def test_the_table_of_calls_is_what_the_library_exports(nvml_simulator_built, exported):
    listed = subprocess.run(
        [str(nvml_simulator_built / "nvml-simulator"), "calls"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    names = set(re.findall(r" g +DF \.text\s+\S+ +(?:\S+ +)?(\w+)$", exported, re.MULTILINE))
    assert names == {line.split()[0] for line in listed.splitlines()}


def test_the_soname_is_nvidias(exported):
    assert re.search(r"SONAME +libnvidia-ml\.so\.1$", exported, re.MULTILINE)


def test_it_runs_on_an_older_c_library(nvml_simulator_built, exported):
    program = subprocess.run(
        ["objdump", "-T", str(nvml_simulator_built / "nvml-simulator")], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    versions = {tuple(map(int, text.split("."))) for text in re.findall(r"GLIBC_(\d+\.\d+)", exported + program)}
    assert max(versions) <= (2, 34)


def test_every_call_is_one_that_nvidia_declares(nvml_simulator_built):
    """A misspelt entry point would never be found by anybody."""
    with open(pynvml.__file__, encoding="utf-8") as handle:
        known = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', handle.read()))
    listed = subprocess.run(
        [str(nvml_simulator_built / "nvml-simulator"), "calls"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    ours = {line.split()[0] for line in listed.splitlines()}
    # For C programs: names that the binding has given up for newer ones.
    old = {
        "nvmlInit",
        "nvmlInit_v2",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetHandleByPciBusId",
        "nvmlDeviceGetComputeRunningProcesses_v2",
    }
    assert ours - known <= old

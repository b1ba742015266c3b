# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU in MIG mode refuses what nvml.h says that it refuses, and tells its NVLinks as down."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.asking import ask, run

VOLATILE, AGGREGATE = 0, 1
ECC = "n.nvmlDeviceGetTotalEccErrors(gpu(0), 1, {0})"
LOCATION = "n.nvmlDeviceGetMemoryErrorCounter(gpu(0), 1, {0}, 2)"
ROWS = "n.nvmlDeviceGetRemappedRows(gpu(0))"
# Of the whole GPU only for root: nvml.h, "aggregate information, only if the caller has appropriate privileges".
AGGREGATES = (
    "n.nvmlDeviceGetMemoryInfo(gpu(0)).total > 0",
    "n.nvmlDeviceGetMemoryInfo(gpu(0), n.nvmlMemory_v2).total > 0",
    "n.nvmlDeviceGetBAR1MemoryInfo(gpu(0)).bar1Total > 0",
    "len(n.nvmlDeviceGetComputeRunningProcesses(gpu(0))) == 1",
)


@pytest.fixture(name="mig", params=["nd96asr_v4", "nd96isr_h100_v5"])
def _mig(request, nvml_simulator):
    simulator = nvml_simulator(request.param, "gpu.0.mig_mode=yes")
    simulator.control("process", "add", "0", "4242", "100")
    return simulator


def test_what_is_refused_and_what_is_told(mig):
    found = run(
        mig,
        "n.nvmlDeviceGetMigMode(gpu(0))",
        "n.nvmlDeviceGetMaxMigDeviceCount(gpu(0))",
        "n.nvmlDeviceGetUtilizationRates(gpu(0))",
        "n.nvmlDeviceGetNumGpuCores(gpu(0))",
        ECC.format(VOLATILE),
        ECC.format(AGGREGATE),
        LOCATION.format(VOLATILE),
        LOCATION.format(AGGREGATE),
        "n.nvmlDeviceGetComputeMode(gpu(0))",
        "n.nvmlDeviceSetComputeMode(gpu(0), 3)",
        "n.nvmlDeviceSetGpuLockedClocks(gpu(0), 1200, 1200)",
    )
    assert found == [[1, 1], 7, "E3", "E3", "E3", 0, "E3", 0, 0, "E3", None]
    other = [call.replace("gpu(0)", "gpu(1)") for call in (ECC.format(VOLATILE), "n.nvmlDeviceGetNumGpuCores(gpu(0))")]
    assert [value for value in run(mig, *other) if isinstance(value, str)] == []


def test_the_whole_gpu_is_told_to_root_only(mig):
    assert run(mig, *AGGREGATES) == [True] * 4
    assert run(mig, *AGGREGATES, NVML_SIMULATOR_UID="1000") == ["E4"] * 4
    mig.control("set", "gpu.0.mig_mode", "0")
    assert run(mig, *AGGREGATES, NVML_SIMULATOR_UID="1000") == [True] * 4


def test_remapped_rows_are_refused_while_there_are_instances(mig):
    assert ask(mig, ROWS) == [0, 0, 0, 0]
    mig.control("set", "gpu.0.gi.1", "2 0")
    assert ask(mig, ROWS) == "E3"
    mig.control("set", "gpu.0.mig_mode", "0")
    assert ask(mig, ROWS) == [0, 0, 0, 0]


def test_nvlinks_are_told_as_down(mig):
    # DCGM 4.6.0, bug 200682374: "NVML reports links to MIG enabled GPUs as down".
    found = run(
        mig,
        "n.nvmlDeviceGetNvLinkState(gpu(0), 3)",
        "n.nvmlDeviceGetNvLinkState(gpu(1), 3)",
        "n.nvmlDeviceGetFieldValues(gpu(0), [(165, 3)])[0].value.uiVal",
        "n.nvmlDeviceGetP2PStatus(gpu(0), gpu(1), 2) == 0",
        "n.nvmlDeviceGetP2PStatus(gpu(1), gpu(2), 2) == 0",
    )
    assert found == [0, 1, 0, False, True]

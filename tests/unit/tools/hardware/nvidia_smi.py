# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small nvidia-smi over NVML, with the columns and the words of NVIDIA's: ``--query-gpu`` and ``-q``.

It asks NVIDIA's binding and nothing of the library, so that both are independent. The files beside the state of the
simulator with the names ``wrong`` (``COLUMN=VALUE``) and ``unknown`` (columns that it does not know) make it differ.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pynvml as nvml

MIB = 2**20
ON = ("Disabled", "Enabled")
ERRORS = {"corrected": 0, "uncorrected": 1, "volatile": 0, "aggregate": 1}
CLOCKS = {"graphics": 0, "sm": 1, "memory": 2}
PLAIN = {
    "index": nvml.nvmlDeviceGetIndex,
    "name": nvml.nvmlDeviceGetName,
    "uuid": nvml.nvmlDeviceGetUUID,
    "serial": nvml.nvmlDeviceGetSerial,
    "pci.bus_id": lambda gpu: nvml.nvmlDeviceGetPciInfo(gpu).busId,
    "driver_version": lambda gpu: nvml.nvmlSystemGetDriverVersion(),
    "memory.total": lambda gpu: nvml.nvmlDeviceGetMemoryInfo(gpu, nvml.nvmlMemory_v2).total // MIB,
    "memory.reserved": lambda gpu: nvml.nvmlDeviceGetMemoryInfo(gpu, nvml.nvmlMemory_v2).reserved // MIB,
    "memory.used": lambda gpu: nvml.nvmlDeviceGetMemoryInfo(gpu, nvml.nvmlMemory_v2).used // MIB,
    "persistence_mode": lambda gpu: ON[nvml.nvmlDeviceGetPersistenceMode(gpu)],
    "compute_mode": lambda gpu: ("Default", "?", "Prohibited", "Exclusive_Process")[nvml.nvmlDeviceGetComputeMode(gpu)],
    "mig.mode.current": lambda gpu: ON[nvml.nvmlDeviceGetMigMode(gpu)[0]],
    "mig.mode.pending": lambda gpu: ON[nvml.nvmlDeviceGetMigMode(gpu)[1]],
    "ecc.mode.current": lambda gpu: ON[nvml.nvmlDeviceGetEccMode(gpu)[0]],
    "ecc.mode.pending": lambda gpu: ON[nvml.nvmlDeviceGetEccMode(gpu)[1]],
    "power.limit": lambda gpu: watts(nvml.nvmlDeviceGetPowerManagementLimit(gpu)),
    "enforced.power.limit": lambda gpu: watts(nvml.nvmlDeviceGetEnforcedPowerLimit(gpu)),
    "power.default_limit": lambda gpu: watts(nvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu)),
    "power.min_limit": lambda gpu: watts(nvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu)[0]),
    "power.max_limit": lambda gpu: watts(nvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu)[1]),
    "pcie.link.gen.max": nvml.nvmlDeviceGetMaxPcieLinkGeneration,
    "pcie.link.gen.gpumax": nvml.nvmlDeviceGetGpuMaxPcieLinkGeneration,
    "pcie.link.width.max": nvml.nvmlDeviceGetMaxPcieLinkWidth,
    "pcie.link.width.current": nvml.nvmlDeviceGetCurrPcieLinkWidth,
    "temperature.gpu": lambda gpu: nvml.nvmlDeviceGetTemperature(gpu, 0),
    "temperature.memory": lambda gpu: nvml.nvmlDeviceGetFieldValues(gpu, [82])[0].value.uiVal,
}


def watts(milliwatts):
    return "{0:.2f}".format(milliwatts / 1000)


def value(gpu, column):
    words = column.split(".")
    if column in PLAIN:
        return PLAIN[column](gpu)
    if column.startswith("ecc.errors."):
        return nvml.nvmlDeviceGetTotalEccErrors(gpu, ERRORS[words[2]], ERRORS[words[3]])
    ask = {
        "clocks.max": nvml.nvmlDeviceGetMaxClockInfo,
        "clocks.applications": nvml.nvmlDeviceGetApplicationsClock,
        "clocks.default_applications": nvml.nvmlDeviceGetDefaultApplicationsClock,
    }
    return ask[".".join(words[:2])](gpu, CLOCKS[words[2]])


def shown(gpu, column, wrong):
    try:
        return wrong.get(column) or str(value(gpu, column))
    except nvml.NVMLError:
        return "[N/A]"


def lines_of(name):
    path = os.path.join(os.environ["NVML_SIMULATOR_STATE"], name)
    return open(path).read().split() if os.path.exists(path) else []


def main():
    wrong = dict(line.split("=", 1) for line in lines_of("wrong"))
    words = sys.argv[1:]
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        sys.exit("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    gpus = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    if words and words[0].startswith("--query-gpu="):
        columns = words[0].partition("=")[2].split(",")
        for column in columns:
            if column in lines_of("unknown"):
                print('Field "{0}" is not a valid field to query.'.format(column))
                sys.exit(2)
        for gpu in gpus:
            print(", ".join(shown(gpu, column, wrong) for column in columns))
    elif words == ["-q"]:
        for gpu in gpus:
            print("    Serial Number                         : " + nvml.nvmlDeviceGetSerial(gpu))
            print("    GPU UUID                              : " + nvml.nvmlDeviceGetUUID(gpu))
            print("    GPU PDI                               : 0x1b2c3d4e5f607182")
            print("        Process ID                        : 4711")
            print("            Name                              : /home/trainee/secret-model.py")
    else:
        print("nothing of " + " ".join(words))


if __name__ == "__main__":
    main()

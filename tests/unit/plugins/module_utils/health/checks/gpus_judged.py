# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs as they are read, and what the judges say of them, for the tests of the judges."""

from __future__ import annotations

import dataclasses

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import (
    GpuInformation,
    Information,
    types,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.call import Kind
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import of_gpus, of_gpus_passive
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import GPU_LANE, Expected, Origin

BY_GPU_LANE = [check for check in of_gpus.CHECKS + of_gpus_passive.CHECKS if check.lane == GPU_LANE]
PROFILE = {"gpus": {"count": 2, "products": ["A100*"], "nvlinks": 12, "memory_bytes_min": 2**35}}


def expected(profile=None, origins=None, **declared):
    """``origins``: one point of each counter, or several, oldest first."""
    points = {name: (one,) if isinstance(one, Origin) else tuple(one) for name, one in (origins or {}).items()}
    return Expected("machine", profile or {}, declared, LIMITS, points, {}, 1790000000.0)


def gpu(index, name="A100", failed=(), fault=None, **groups):
    identity = Identity(index, "GPU-{0}".format(index), "0000:0{0}:00.0".format(index), name=name)
    return GpuInformation(
        identity, groups, {path: "it failed" for path in failed}, fault, dict.fromkeys(failed, Kind.FAILED)
    )


def machine(*gpus, status="ok"):
    return Information(
        status, "", "580.1", None, None, None, len(gpus), gpus, tuple(one.identity.pci_address for one in gpus)
    )


def codes(judgement):
    return [(one.code, one.outcome.value, one.key[6:7]) for one in judgement.findings]


def pcie(width=16, most=16, generation=4, replays=0):
    return types.Pcie("10de:20b0", None, 1, generation, 4, width, most, replays)


def nvlinks(active, count=12, kind="gpu"):
    links = tuple(
        types.NvLink(at, at < active, "3.0", 25000, kind if at < active else None, None, 0, 0, 0, 0)
        for at in range(count)
    )
    return types.NvLinks(count, active, links)


def board(vbios):
    return types.Board(None, None, None, None, None, None, vbios, None, None, None)


NO_ERRORS = types.ErrorCounts(0, 0, 0, 0)
NO_SRAM_ERRORS = types.SramErrors(0, 0, 0, 0, 0, 0, False)
CLOCKS = types.Clocks(*[None] * len(dataclasses.fields(types.Clocks)))
HEALTHY = {
    "board": board("96.0"),
    "memory": types.Memory(2**36, 0, 2**36, 0, 2**36, 0, 2**36, 5120),
    "settings": types.Settings(True, "default", False, False),
    "clocks": dataclasses.replace(
        CLOCKS, event_reasons=("gpu_idle",), event_reasons_mask=1, max_graphics_mhz=1410, max_memory_mhz=1215
    ),
    "power": types.Power(80.0, 400.0, 400.0, 100.0, 400.0, 400.0, 1.0),
    "temperature": types.Temperature(30, 35, None, None, 92, 89, 95, 87),
    "ecc": types.Ecc(True, True, True, NO_ERRORS, NO_ERRORS, NO_ERRORS, NO_SRAM_ERRORS),
    "repair": types.Repair(
        types.RemappedRows(0, 0, False, False),
        types.SpareRows(2560, 2560, 0, 0, 0),
        None,
        None,
        None,
        False,
        False,
        False,
        "none",
    ),
    "pcie": pcie(),
    "nvlink": nvlinks(12),
    "fabric": types.Fabric("completed", "success", None, 0, 0, {}, "healthy"),
}


def all_codes(node, profile=None):
    return [
        (check.id, one.code, one.outcome.value, one.action.value)
        for check in BY_GPU_LANE
        for one in check.judge(node, expected(profile or PROFILE)).findings
    ]


# What MIG hides ----------------------------------------------------------------------------------------------------


def mig(mode):
    return types.Settings(True, "default", mode, mode)


def check_of(name):
    return next(one for one in BY_GPU_LANE if one.id == name)

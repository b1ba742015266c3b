# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the driver itself asks for to bring a GPU back (NVML field 230, and Xid 154 in the kernel log)."""

from __future__ import annotations

from typing import Tuple

from ...core.frozen import frozen
from ..types import Outcome, Remedy

_NVML = "nvml.h of CUDA 13, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION and nvmlDeviceGpuRecoveryAction_t"
_MEMORY = "NVIDIA GPU Memory Error Management, docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt, Recovery action flag"
_OUTCOMES = "; that it keeps a node from jobs is our choice"


@frozen
class RecoveryAction:
    """``name`` as gpu_info gives it; ``words`` are how Xid 154 spells it, in lower case, by driver branch."""

    name: str
    words: Tuple[str, ...]
    text: str
    outcome: Outcome
    action: Remedy
    remedy: str
    source: str


RECOVERY_ACTIONS: Tuple[RecoveryAction, ...] = (
    RecoveryAction("none", ("none",), "nothing", Outcome.PASS, Remedy.WATCH, "", _MEMORY),
    RecoveryAction(
        "gpu_reset",
        ("gpu reset required", "gpu reset", "pf flr"),
        "a reset of this GPU",
        Outcome.FAIL,
        Remedy.RESET_GPU,
        "end all processes on it, then reset it with nvidia-smi --gpu-reset, or reboot",
        _MEMORY + _OUTCOMES,
    ),
    RecoveryAction(
        "node_reboot",
        ("node reboot required", "node reboot", "os reboot"),
        "a reboot of the node",
        Outcome.FAIL,
        Remedy.REBOOT,
        "drain the node and reboot it",
        _MEMORY + _OUTCOMES,
    ),
    RecoveryAction(
        "drain_p2p",
        ("drain p2p",),
        "that no peer-to-peer traffic goes on",
        Outcome.FAIL,
        Remedy.RESET_GPU,
        "end all processes on the GPUs of this node, then look again: it will ask for a reset or for nothing",
        _MEMORY + _OUTCOMES,
    ),
    RecoveryAction(
        "drain_and_reset",
        ("drain and reset",),
        "a reset of this GPU once no job needs it",
        Outcome.WARN,
        Remedy.RESET_GPU,
        "let the jobs on it end, then reset it with nvidia-smi --gpu-reset, or reboot",
        _MEMORY + ": work that runs may go on",
    ),
    RecoveryAction(
        "recover_imex_domain",
        ("recover imex domain", "imex domain recovery"),
        "a recovery of the IMEX domain",
        Outcome.FAIL,
        Remedy.RESTART_SERVICE,
        "restart nvidia-imex on the nodes of this NVLink domain",
        _NVML + _OUTCOMES,
    ),
    RecoveryAction(
        "bus_reset",
        ("bus reset", "secondary bus reset"),
        "a reset of the bus of this GPU",
        Outcome.FAIL,
        Remedy.REBOOT,
        "drain the node and reboot it",
        _NVML + _OUTCOMES,
    ),
    RecoveryAction(
        "system_reboot",
        ("system reboot", "system reboot required"),
        "a power cycle of the machine",
        Outcome.FAIL,
        Remedy.REBOOT,
        "drain the node, switch the machine off and on again",
        _NVML + _OUTCOMES,
    ),
)
BY_NAME = {one.name: one for one in RECOVERY_ACTIONS}
BY_WORDS = {word: one for one in RECOVERY_ACTIONS for word in one.words}

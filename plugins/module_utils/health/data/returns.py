# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node must prove before it takes jobs again, by what it went out for: the first row that fits counts.

A reset, a reboot and a replacement end what the driver and the kernel tell, so after them a passive look at these
proves nothing (NVSentinel, issue 695: diagnostics are run before a repaired node is given back). A setting, a service
and the state of a thing (a port, a file system, a count) are read anew at each look, so there a clean passive look is
proof.
"""

from __future__ import annotations

from typing import Tuple

from ...core.frozen import frozen
from ..types import Remedy

# The ids of the active checks, as health/active has them; a test compares them. They are not imported before a job.
ACTIVE = (
    "gpu_memory_test",
    "gpu_compute",
    "host_device_bandwidth",
    "gpu_peer_bandwidth",
    "nccl_all_reduce",
    "ib_bandwidth",
    "scratch_rate",
    "dcgm_diagnosis",
    "hpl_result",
)
CLEAN, PERSON = "clean", "person"
_REPAIRS = (Remedy.RESET_GPU, Remedy.REBOOT, Remedy.REPLACE, Remedy.LOOK)
_XID = "NVIDIA GPU Memory Error Management and the Xid catalogue: the state of the driver begins anew with a reset"


@frozen
class Return:
    """``by``: patterns of ``check/code``. ``proof``: active checks; every one that applies must pass. ``otherwise``:
    the alternative if none applies: clean passive verdicts or an administrator. ``possible``: a check whose tool is not
    installed, or that the declaration leaves out, does not apply."""

    part: str
    by: Tuple[str, ...]
    remedies: Tuple[Remedy, ...]
    proof: Tuple[str, ...]
    otherwise: str
    source: str
    possible: bool = False


RETURNS: Tuple[Return, ...] = (
    Return(
        "NVLink",
        (
            "gpu_nvlink*",
            "gpu_fabric*",
            "nvswitch_sxid*",
            "gpu_xid/xid_74*",
            "gpu_xid/xid_13[6]*",
            "gpu_xid/xid_14[4-9]*",
            "gpu_xid/xid_15[05]*",
        ),
        _REPAIRS,
        ("gpu_peer_bandwidth",),
        PERSON,
        "the Xid catalogue: 74, 136, 144 to 150 and 155 are of NVLink; that its bandwidth proves it is our choice",
    ),
    Return(
        "PCIe",
        ("gpu_pcie*", "gpu_xid/xid_167*", "gpu_xid/xid_176*"),
        _REPAIRS,
        ("host_device_bandwidth",),
        PERSON,
        "width and replays are told of a link that is under load; that its bandwidth proves it is our choice",
    ),
    Return(
        "GPU",
        ("gpu_*", "repeat_offender/gpu_*", "fabric_manager_version*"),
        _REPAIRS,
        ("gpu_memory_test", "host_device_bandwidth", "gpu_compute"),
        PERSON,
        _XID,
    ),
    Return(
        "InfiniBand",
        ("ib_*", "repeat_offender/port_*"),
        _REPAIRS,
        ("ib_bandwidth",),
        CLEAN,
        "the kernel tells the state of a port at each look; that its bandwidth is measured too is our choice",
    ),
    Return(
        "scratch",
        ("scratch_*", "nvme_*", "repeat_offender/disk_*"),
        _REPAIRS,
        ("scratch_rate",),
        CLEAN,
        "array, controller and SMART tell their state at each look; that the rate is measured too is our choice",
    ),
    Return(
        "memory, processor, kernel log",
        ("memory_errors*", "kernel_*"),
        (Remedy.REPLACE,),
        (),
        PERSON,
        "EDAC counts from the boot on (kernel documentation, admin-guide/RAS), and no check here loads what failed",
    ),
    Return(
        "the lost record of this node",
        ("gate_record/*",),
        tuple(Remedy),
        (
            "host_device_bandwidth",
            "gpu_peer_bandwidth",
            "ib_bandwidth",
            "scratch_rate",
            "gpu_memory_test",
            "gpu_compute",
        ),
        CLEAN,
        "the failed component is unknown, so each component that can be measured here is measured; our choice",
        possible=True,
    ),
    Return("anything else", ("*",), tuple(Remedy), (), CLEAN, "it is read anew at each look"),
)

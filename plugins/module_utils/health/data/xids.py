# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each Xid in the kernel log means for a node.

NVIDIA's catalogue sorts the codes into buckets of what is to be done (``BUCKETS``); our outcome hangs on the bucket.
An application's own fault is no fault of the node. A code that is newer than the table is told as a warning.
"""

from __future__ import annotations

import enum
from typing import Dict, Tuple

from ...core.frozen import frozen
from ..types import Certainty, Outcome, Remedy

CATALOGUE = "NVIDIA Xid catalogue, docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, as of 2025-10-29"
_OLDER = "NVIDIA XID Errors for Volta and older, docs.nvidia.com/deploy/xid-errors, vR384"
_AZURE = "github.com/Azure/azurehpc-health-checks 0e0a1ac, check_gpu_xid: its list of fatal Xids"
_DCGM = "NVIDIA DCGM 4.6.0, health watches: {0}"
_DRIVER_595 = "github.com/NVIDIA/open-gpu-kernel-modules 595.45.04, nverror.h; not in the catalogue yet: "
_ALONE = (
    CATALOGUE
    + ": alone, restart the Fabric Manager, which gpu_fabric and service_running look at; any job that is ended "
    "logs it, and github.com/NVIDIA/NVSentinel, pull request 1629, saw it on 77 healthy nodes"
)
_PLUGIN = "NVIDIA k8s-device-plugin 0.20, Xids that it takes for the application's"


class Bucket(enum.Enum):
    """What NVIDIA wants done."""

    IGNORE = "ignore"
    RESTART_APPLICATION = "restart_application"
    FOLLOW_OTHERS = "follow_others"  # the catalogue has a workflow, and other Xids or checks tell the rest
    CONTACT_SUPPORT = "contact_support"
    UPDATE = "update"
    CONTINUE = "continue"
    RESET_GPU = "reset_gpu"
    RESET_FABRIC = "reset_fabric"
    RESTART_MACHINE = "restart_machine"
    HARDWARE = "hardware"


@frozen
class Consequence:
    """``reset_settles``: a reset of the GPU or a fresh start of the driver puts it right."""

    outcome: Outcome
    action: Remedy
    remedy: str
    reset_settles: bool
    source: str


@frozen
class Xid:
    code: int
    text: str
    bucket: Bucket
    source: str = CATALOGUE
    certainty: Certainty = Certainty.CERTAIN


_RESET_FABRIC = "drain the node, then reset all GPUs with the NVSwitches (nvidia-smi --gpu-reset without -i), or reboot"
_SUPPORT = "see NVIDIA's Xid catalogue for this code; open a ticket if it recurs"
BUCKETS: Dict[Bucket, Consequence] = {
    Bucket.IGNORE: Consequence(Outcome.PASS, Remedy.WATCH, "", True, CATALOGUE + ": IGNORE"),
    Bucket.RESTART_APPLICATION: Consequence(Outcome.PASS, Remedy.WATCH, "", True, CATALOGUE + ": RESTART_APP"),
    Bucket.FOLLOW_OTHERS: Consequence(
        Outcome.WARN,
        Remedy.WATCH,
        "the application was ended; look at gpu_ecc and gpu_row_remap, and reset the GPU when no job runs",
        True,
        CATALOGUE + ": the workflows of these codes",
    ),
    Bucket.CONTACT_SUPPORT: Consequence(
        Outcome.WARN, Remedy.LOOK, _SUPPORT, True, CATALOGUE + ": CONTACT_SUPPORT; that it is a warning is our choice"
    ),
    Bucket.UPDATE: Consequence(
        Outcome.WARN, Remedy.CONFIGURE, "update driver and firmware", True, CATALOGUE + ": UPDATE_SWFW"
    ),
    Bucket.CONTINUE: Consequence(
        Outcome.WARN,
        Remedy.WATCH,
        "let jobs go on; run NVIDIA's field diagnostics if it recurs",
        True,
        CATALOGUE + ": WORKFLOW_NVLINK_ERR, continue operation",
    ),
    Bucket.RESET_GPU: Consequence(
        Outcome.FAIL,
        Remedy.RESET_GPU,
        "drain the node, then reset the GPU with nvidia-smi --gpu-reset, or reboot; replace it if this recurs",
        True,
        CATALOGUE + ": RESET_GPU",
    ),
    Bucket.RESET_FABRIC: Consequence(
        Outcome.FAIL,
        Remedy.REBOOT,
        _RESET_FABRIC,
        True,
        CATALOGUE + ": WORKFLOW_NVLINK_ERR, a reset of the fabric is required",
    ),
    Bucket.RESTART_MACHINE: Consequence(
        Outcome.FAIL,
        Remedy.REBOOT,
        "drain the node and reboot it; redeploy the machine or open a ticket if it recurs",
        False,
        CATALOGUE + ": RESTART_BM, RESTART_VM",
    ),
    Bucket.HARDWARE: Consequence(
        Outcome.FAIL,
        Remedy.REPLACE,
        "drain the node; redeploy the machine or have the GPU replaced",
        False,
        CATALOGUE + ": CHECK_MECHANICALS, and RESET_GPU followed by CONTACT_SUPPORT where spare memory is used up",
    ),
}


def _xids(bucket: Bucket, source: str, *rows: Tuple[int, str]) -> Tuple[Xid, ...]:
    return tuple(Xid(code, text, bucket, source) for code, text in rows)


def _range(bucket: Bucket, text: str, *codes: int) -> Tuple[Xid, ...]:
    return tuple(Xid(code, text, bucket) for code in codes)


_UNUSED = (1, 2, 3, 4, 5, 6, 7, 9, 10, 12, *range(15, 25), *range(26, 31), *range(33, 37), 42, 47, 49, 50, 51, 52, 53)
_UNUSED += (55, 59, 61, 65, 73, 87, 90, 91, 111, 112, 113, 114, 115, 116, 117, 118, 122, 123, 124, 125, 138)
_COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_VIDEO_ENGINES = (60, 68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139)

_ALL: Tuple[Xid, ...] = (
    _range(Bucket.CONTACT_SUPPORT, "a code that current drivers do not use", *_UNUSED)
    + _range(Bucket.RESTART_APPLICATION, "an error of a copy engine", *_COPY_ENGINES)
    + _range(Bucket.RESTART_APPLICATION, "an error of a video or image engine", *_VIDEO_ENGINES)
    + _xids(
        Bucket.RESTART_APPLICATION,
        CATALOGUE,
        (8, "the GPU stopped working on a task"),
        (11, "a wrong command in the push buffer"),
        (13, "an exception of the graphics engine, such as an access out of bounds"),
        (25, "an illegal command in the push buffer"),
        (31, "a page fault in GPU memory"),
        (32, "a corrupted push buffer"),
        (69, "a class error of the graphics engine"),
        (80, "corrupted data sent to the GPU"),
    )
    + _xids(
        Bucket.IGNORE,
        CATALOGUE,
        (14, "a made-up error"),
        (37, "an unknown request to the firmware"),
        (38, "a watchdog of the firmware"),
        (43, "the GPU stopped working on a task of an application"),
        (44, "a fault during a context switch"),
        (63, "a row remap or page retirement was recorded"),
        (66, "an illegal register access of the driver"),
        (67, "an illegal register access of the driver"),
        (92, "a high rate of corrected memory errors"),
        (93, "the InfoROM is written more often than planned"),
        (106, "a test message"),
        (107, "a test message"),
        (108, "a translation error of a peer over NVLink"),
        (121, "an error of the link between CPU and GPU"),
        (137, "an illegal access of a peer over NVLink"),
        (141, "an error of CUDA's fast path"),
        (152, "an address error of the deep-learning accelerator"),
        (153, "a timeout of the deep-learning accelerator"),
        (157, "a part of the GPU could not be retired"),
        (160, "a memory channel was retired"),
        (161, "a memory channel could not be retired"),
    )
    + _xids(Bucket.IGNORE, _ALONE, (45, "channels were cleaned up after another error"))
    + _xids(
        Bucket.IGNORE,
        CATALOGUE + ", which names no action yet; informational by its description",
        (162, "power smoothing was engaged again"),
        (163, "power smoothing was switched off"),
    )
    + _xids(
        Bucket.FOLLOW_OTHERS,
        CATALOGUE + "; " + _DCGM.format("94 warns"),
        (94, "a memory error that was contained to one application"),
    )
    + _xids(
        Bucket.CONTACT_SUPPORT,
        CATALOGUE,
        (142, "an error of a video encoder"),
    )
    + _xids(
        Bucket.CONTACT_SUPPORT,
        _DRIVER_595 + "by its name",
        (176, "too many corrected errors of the PCIe link"),
    )
    + _xids(Bucket.FOLLOW_OTHERS, _DRIVER_595 + "by its name", (174, "a channel was reset and its process ended"))
    + _xids(
        Bucket.CONTACT_SUPPORT,
        CATALOGUE + ", which names no action yet",
        (164, "the power smoothing circuit is near the end of its life"),
        (165, "the power smoothing circuit has reached the end of its life"),
        (166, "traffic on a link that was not yet encrypted"),
        (168, "the memory of the GPU has shrunk"),
        (170, "an error of encrypted NVLink"),
        (171, "an uncorrectable error of the memory"),
        (172, "an uncorrectable error of an SRAM"),
    )
    + _xids(Bucket.UPDATE, CATALOGUE, (78, "a virtual GPU could not be started"))
    + _xids(
        Bucket.RESET_GPU,
        CATALOGUE,
        (46, "the GPU stopped working"),
        (62, "a micro-controller of the GPU halted"),
        (95, "a memory error that was not contained"),
        (110, "a security fault"),
        (119, "the GPU's system processor (GSP) did not answer"),
        (120, "an error of the GPU's system processor (GSP)"),
        (136, "an NVLink could not be trained"),
        (140, "an unrecovered memory error"),
        (143, "the GPU could not be initialized"),
        (155, "an NVLink error that software declared"),
        (156, "a part of the GPU is to be retired"),
        (158, "a fatal timeout of the GPU"),
    )
    + _xids(
        Bucket.RESET_GPU,
        CATALOGUE + ", the workflow of this code; " + _DCGM.format("48 fails"),
        (48, "an uncorrectable (double-bit) memory error"),
    )
    + (
        Xid(74, "an NVLink error", Bucket.RESET_GPU, CATALOGUE + "; " + _DCGM.format("74 fails"), Certainty.LIKELY),
        Xid(
            159,
            "an error of the coherent interconnect",
            Bucket.RESET_GPU,
            CATALOGUE + ": CHECK_UVM, a reset where UVM is used, which CUDA does",
            Certainty.LIKELY,
        ),
        Xid(
            175,
            "the GPU's system processor (GSP) did not answer, for an error of the memory",
            Bucket.RESET_GPU,
            _DRIVER_595 + "kernel_gsp.c marks the GPU for a reset",
            Certainty.LIKELY,
        ),
        Xid(109, "a context switch timed out", Bucket.RESET_GPU, CATALOGUE + "; " + _PLUGIN, Certainty.POSSIBLE),
        Xid(
            169,
            "a security micro-controller of the GPU halted",
            Bucket.RESET_GPU,
            CATALOGUE + ", which names no action yet; taken as 62, with the same description",
            Certainty.LIKELY,
        ),
    )
    + _xids(
        Bucket.RESTART_MACHINE,
        CATALOGUE,
        (79, "the GPU has fallen off the bus"),
        (151, "the keys of a confidential GPU could not be renewed"),
    )
    + (
        Xid(
            167,
            "the PCIe link of the GPU timed out",
            Bucket.RESTART_MACHINE,
            CATALOGUE + ", which names no action yet; fatal by its name",
            Certainty.LIKELY,
        ),
        Xid(
            173,
            "the link between CPU and GPU failed",
            Bucket.RESTART_MACHINE,
            _DRIVER_595 + "fatal by its name",
            Certainty.LIKELY,
        ),
    )
    + _xids(
        Bucket.HARDWARE,
        CATALOGUE + "; NVIDIA GPU Memory Error Management, RMA policy",
        (64, "a bad row or page of the memory could not be replaced by a spare one"),
    )
    + _xids(Bucket.HARDWARE, CATALOGUE, (54, "the power cable of the GPU is not attached"))
    + _xids(
        Bucket.HARDWARE,
        _OLDER + "; " + _AZURE,
        (56, "an error of the display engine"),
        (57, "the memory link could not be trained"),
        (58, "a memory error"),
        (81, "an error of the VGA part"),
    )
)
XIDS: Dict[int, Xid] = {one.code: one for one in _ALL}

RECOVERY_ACTION_CHANGED = 154  # the driver's own words, see recovery_actions.py


@frozen
class NvLinkXid:
    """One of the codes whose meaning hangs on the registers in the line (:mod:`.nvlink_registers`), else on a word."""

    code: int
    text: str
    source: str = CATALOGUE + ", table of Xids 144 to 150: all fatal ones need a reset, the others are to be watched"


NVLINK_XIDS: Dict[int, NvLinkXid] = {
    one.code: one
    for one in (
        NvLinkXid(144, "an NVLink error of the unit SAW"),
        NvLinkXid(145, "an NVLink error of the unit RLW"),
        NvLinkXid(146, "an NVLink error of the unit TLW"),
        NvLinkXid(147, "an NVLink error of the unit TREX"),
        NvLinkXid(148, "an NVLink error of the unit NVLPW_CTRL"),
        NvLinkXid(149, "an NVLink error of the unit NETIR"),
        NvLinkXid(150, "an NVLink error of the unit MSE"),
    )
}


@frozen
class SwitchXid:
    """What an SXid of an NVSwitch means, by the word in its line."""

    word: str
    outcome: Outcome
    action: Remedy
    remedy: str
    source: str


_FABRIC_MANAGER = (
    "NVIDIA Fabric Manager user guide, docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide, SXid Errors"
)
SWITCH_XIDS: Dict[str, SwitchXid] = {
    one.word: one
    for one in (
        SwitchXid(
            "Fatal",
            Outcome.FAIL,
            Remedy.REBOOT,
            _RESET_FABRIC,
            _FABRIC_MANAGER + ": fatal ones stop the CUDA jobs, all GPUs and NVSwitches must be reset",
        ),
        SwitchXid(
            "Non-fatal",
            Outcome.PASS,
            Remedy.WATCH,
            "",
            _FABRIC_MANAGER + ": non-fatal ones leave the system working, many follow an error of an application",
        ),
        SwitchXid(
            "Correctable",
            Outcome.PASS,
            Remedy.WATCH,
            "",
            "github.com/NVIDIA/open-gpu-kernel-modules 595.45.04, error_nvswitch.h: logged as resolved",
        ),
        SwitchXid(
            "Not graded",
            Outcome.WARN,
            Remedy.LOOK,
            "check the NVLinks (nvidia-smi nvlink -s) and run nccl_all_reduce; reboot the node if it recurs",
            "github.com/NVIDIA/open-gpu-kernel-modules 595.45.04, soe_*.c, cci_*.c: faults of the controller or of a "
            "cable module without a severity; that they are a warning is our choice",
        ),
    )
}

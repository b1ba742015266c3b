# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the kernel log that tell of a fault of a disk, a file system, a network device or a device on the PCI bus.

Disks and file systems are those that a node has: users may mount images of their own through loop devices and FUSE
(Apptainer, udisks), and what is wrong with those is no fault of the node.
"""

from __future__ import annotations

from typing import Tuple

from ..firmware_records import PCIE
from ..kernel_log import Rule
from ..types import Certainty, Outcome, Remedy
from .kernel_message import DAY, Message

_DISK = r"(?P<key>(?:nvme\d+|sd[a-z]+|vd[a-z]+|xvd[a-z]+|md_?[A-Za-z0-9]+|dm-\d+)[a-z0-9]*)"
_PCI = r"(?P<key>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_DRIVER = r"[A-Za-z0-9_-]{1,32} "
_MLX5 = r": (?:\w{1,64}:\d+:\(pid \d+\): )?"  # mlx5_core.h, mlx5_core_err: function, line, process
_RECOVERED = Rule(
    "device recovery successful",
    r"pcieport " + _PCI + r": AER: device recovery successful",
    "pcieport 0000:00:01.0: AER: device recovery successful",
)

DEVICE_MESSAGES: Tuple[Message, ...] = (
    Message(
        "storage_errors",
        "timeout",
        Rule(
            "timeout",
            r"nvme (?P<key>nvme\d+): I/O (?:tag )?\d+ [^\n]{0,64}\btimeout",
            "nvme nvme1: I/O tag 12 (100c) opcode 0x2 (I/O Cmd) QID 4 timeout, aborting req_op:READ(0) size:4096",
        ),
        "disk {0}",
        "it did not answer in time",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.LIKELY,
        "watch it with 'nvme smart-log'; redeploy the machine or replace the disk if it recurs",
        DAY,
        "Linux, drivers/nvme/host/pci.c, nvme_timeout",
    ),
    Message(
        "storage_errors",
        "removed",
        Rule(
            "nvme nvme",
            r"nvme (?P<key>nvme\d+): (?:Removing after probe failure|Disabling device after reset failure)",
            "nvme nvme1: Disabling device after reset failure: -19",
        ),
        "disk {0}",
        "the kernel has given it up",
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.CERTAIN,
        "reboot; redeploy the machine or replace the disk when it stays away",
        None,
        "Linux, drivers/nvme/host/pci.c, nvme_reset_work",
    ),
    Message(
        "storage_errors",
        "io_error",
        Rule(
            "error, dev ",
            r"(?:(?:blk_update_request|print_req_error): )?(?:I/O|critical medium) error, dev " + _DISK + r",",
            "I/O error, dev nvme1n1, sector 81920 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
        ),
        "disk {0}",
        "reading or writing failed",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.LIKELY,
        "look at 'dmesg' and 'nvme smart-log'; redeploy the machine or replace the disk if it recurs",
        DAY,
        "Linux, block/blk-mq.c, blk_print_req_error",
    ),
    Message(
        "storage_errors",
        "array_failed",
        Rule(
            "Disk failure on",
            r"md/raid[0-9a-z]*:(?P<key>md[A-Za-z0-9_]+): Disk failure on ",
            "md/raid0:md127: Disk failure on nvme1n1 detected, failing array.",
        ),
        "array {0}",
        "a disk of it failed",
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.CERTAIN,
        "redeploy the machine or replace the disk, then run 'gpunode converge'",
        None,
        "Linux, drivers/md/raid0.c, raid0_error",
    ),
    Message(
        "storage_errors",
        "filesystem",
        Rule(
            "XFS (",
            r"XFS \(" + _DISK + r"\): (?:Metadata (?:CRC error|corruption) detected |Corruption detected"
            r"|(?:[Ll]og I/O [Ee]rror|Metadata I/O Error|I/O [Ee]rror|Corruption of in-memory data"
            r"|Corruption of on-disk metadata|Block device removal)[^\n]{0,160}Shutting down filesystem"
            r"|Filesystem has been shut down)",
            "XFS (md127): Metadata CRC error detected at xfs_agf_read_verify+0x10/0x30 [xfs], xfs_agf block 0x1",
        ),
        "file system on {0}",
        "it is damaged or was shut down",
        Outcome.FAIL,
        Remedy.LOOK,
        Certainty.CERTAIN,
        "look at 'dmesg' for the first error; unmount it, run xfs_repair, or have the scratch built anew",
        None,
        "Linux, fs/xfs/xfs_fsops.c, xfs_do_force_shutdown; fs/xfs/xfs_error.c",
    ),
    Message(
        "storage_errors",
        "filesystem",
        Rule(
            "EXT4-fs error",
            r"EXT4-fs error \(device " + _DISK + r"\): ",
            "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm sh: reading directory lblock 0",
        ),
        "file system on {0}",
        "it is damaged",
        Outcome.FAIL,
        Remedy.REBOOT,
        Certainty.CERTAIN,
        "reboot with a check of the file system (fsck.mode=force)",
        None,
        "Linux, fs/ext4/super.c, __ext4_error",
    ),
    Message(
        "ib_device_faults",
        "firmware",
        Rule(
            "mlx5_core",
            r"mlx5_core "
            + _PCI
            + _MLX5
            + r"(?:Fatal error \d+ detected|device's health compromised - reached miss count)",
            "mlx5_core 0101:00:00.0: poll_health:821:(pid 0): Fatal error 1 detected",
        ),
        "network device {0}",
        "its firmware has failed",
        Outcome.FAIL,
        Remedy.REBOOT,
        Certainty.LIKELY,
        "reboot; update its firmware, or redeploy the machine if it recurs",
        DAY,
        "Linux, drivers/net/ethernet/mellanox/mlx5/core/health.c, poll_health",
    ),
    Message(
        "ib_device_faults",
        "hardware",
        Rule(
            "mlx5_core",
            r"mlx5_core "
            + _PCI
            + _MLX5
            + r"synd 0x[0-9a-f]+: (?:unrecoverable hardware error|HW fatal error|firmware CRC error|"
            + r"ICM fetch PCI (?:data poisoned )?error)",
            "mlx5_core 0101:00:00.0: print_health_info:431:(pid 0): synd 0x8: unrecoverable hardware error",
        ),
        "network device {0}",
        "its hardware has failed",
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.LIKELY,
        "reboot; replace the card, or redeploy the machine, if it recurs",
        DAY,
        "Linux, drivers/net/ethernet/mellanox/mlx5/core/health.c, hsynd_str",
    ),
    Message(
        "ib_device_faults",
        "command_timeout",
        Rule(
            "mlx5_core",
            r"mlx5_core " + _PCI + _MLX5 + r"[^\n]{0,80}timeout\. Will cause a leak of a command resource",
            "mlx5_core 0101:00:00.0: wait_func:9:(pid 9): ACCESS_REG timeout. Will cause a leak of a command resource",
        ),
        "network device {0}",
        "its firmware did not answer the driver",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.LIKELY,
        "watch its ports; reboot, and update its firmware if it recurs",
        DAY,
        "Linux, drivers/net/ethernet/mellanox/mlx5/core/cmd.c, wait_func",
    ),
    Message(
        "pci_errors",
        "fatal",
        Rule(
            "PCIe Bus Error",
            _DRIVER + _PCI + r": (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able) \(Fatal\)",
            "nvidia 0001:00:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
        ),
        "PCIe device {0}",
        "it made a fatal error on the bus",
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.LIKELY,
        "reboot; redeploy the machine, or reseat the card, if it recurs",
        DAY,
        "Linux, drivers/pci/pcie/aer.c, aer_print_error and cper_severity_to_aer",
        sections=((PCIE, "fatal"),),
    ),
    Message(
        "pci_errors",
        "containment",
        Rule(
            "DPC: containment event",
            r"pcieport " + _PCI + r": DPC: containment event, status:0x[0-9a-f]+",
            "pcieport 0000:00:01.0: DPC: containment event, status:0x1f01 source:0x0000",
        ),
        "PCIe port {0}",
        "it cut off the device below it after an error that could not be corrected",
        Outcome.FAIL,
        Remedy.REBOOT,
        Certainty.LIKELY,
        "reboot ('lspci -t' shows what is below it); redeploy the machine, or reseat the card, if it recurs",
        DAY,
        "Linux, drivers/pci/pcie/dpc.c, dpc_process_error",
        ended=(_RECOVERED,),
    ),
    Message(
        "pci_errors",
        "nonfatal",
        Rule(
            "PCIe Bus Error",
            _DRIVER + _PCI + r": (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able) \(Non-Fatal\)",
            "pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
        ),
        "PCIe device {0}",
        "it made an error on the bus that could not be corrected",
        Outcome.WARN,
        Remedy.WATCH,
        Certainty.LIKELY,
        "watch whether it recurs; redeploy the machine, or reseat the card, if it does",
        DAY,
        "Linux, drivers/pci/pcie/aer.c, aer_print_error and cper_severity_to_aer",
        sections=((PCIE, "recoverable"),),
    ),
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of what is collected. Pure; what it names is read by :mod:`.read`."""

from __future__ import annotations

import fnmatch
from typing import Sequence, Tuple

from ...core import declaration
from ...core.resource import Misuse
from . import look
from .types import MIB, Call, Commands, Context, Files, Part

VERDICT, IMAGE = "verdict", "image"
# Units whose messages are told: ours, and those that GPUs, disks, InfiniBand and Slurm depend on.
UNITS = (
    "gpu-node-*",
    "nvidia-persistenced.service",
    "nvidia-fabricmanager.service",
    "nvidia-imex.service",
    "nvidia-dcgm.service",
    "nvidia-dcgm-exporter.service",
    "openibd.service",
    "slurmd.service",
    "munge.service",
    "mdmonitor.service",
    "*.mount",
)
# With a driver that hangs, each of its calls waits for its own limit.
_BUG_REPORT_SECONDS = 240.0


def every(context: Context) -> Tuple[Part, ...]:
    """What tells most comes first; within a lane, what may hang comes last."""
    journal = ["journalctl", "--no-pager", "-q", "-o", "short-iso", "-n", "30000"]
    journal.append("--since=@{0:.0f}".format(context.since))
    journal += ["--unit=" + unit for unit in UNITS]
    smi = "nvidia-smi"
    return (
        Part(
            VERDICT,
            "verdict.json",
            "the verdict of the passive checks",
            "health",
            Call(look.verdict),
            180.0,
            named=True,
        ),
        Part(IMAGE, "image.json", "what software is installed, what does not fit", "node", Call(look.image)),
        Part("topology", "topology.json", "NUMA nodes, GPUs, InfiniBand, NVMe", "gpu", Call(look.topology), 60.0),
        Part("gpus", "gpus.json", "all that NVML tells of the GPUs", "gpu", Call(look.gpus), 120.0),
        Part(
            "nvidia_smi",
            "nvidia_smi.txt",
            "nvidia-smi: all, links, topology",
            "gpu",
            Commands(((smi, "-q"), (smi, "topo", "-m"), (smi, "nvlink", "--status"), (smi, "nvlink", "-e"))),
            90.0,
            2 * MIB,
            named=True,
        ),
        Part(
            "dcgm",
            "dcgm.txt",
            "DCGM: its health watches, GPUs and links",
            "gpu",
            Commands((("dcgmi", "health", "-c"), ("dcgmi", "discovery", "-l"), ("dcgmi", "nvlink", "-s"))),
            60.0,
            named=True,
        ),
        Part(
            "bug_report",
            "nvidia_bug_report.txt",
            "nvidia-bug-report.sh",
            "gpu",
            Call(look.bug_report),
            _BUG_REPORT_SECONDS,
            16 * MIB,
            named=True,
        ),
        Part(
            "dcgm_logs",
            "dcgm_logs.txt",
            "logs of DCGM with its last diagnosis",
            "log",
            Files(("/var/log/nvidia-dcgm/*.log", "/var/log/fabricmanager.log")),
            tail=True,
        ),
        Part("kernel", "kernel.txt", "the kernel log", "kernel", Call(look.kernel), 60.0, 4 * MIB, tail=True),
        Part(
            "journal",
            "journal.txt",
            "the journal of units",
            "log",
            Commands((tuple(journal),)),
            60.0,
            4 * MIB,
            True,
            True,
        ),
        Part("slurmd", "slurmd.txt", "the end of slurmd's log", "log", Call(look.slurmd_log), most=2 * MIB, tail=True),
        Part("slurm", "slurm.txt", "the node as slurmctld sees it", "slurm", Call(look.slurm), 40.0),
        Part(
            "declaration",
            "declaration.txt",
            "what is declared for this node",
            "files",
            # Not private.json: a site sends the archive to others.
            Files((declaration.PATH, declaration.WISH)),
        ),
        Part(
            "record",
            "record.txt",
            "what runs of ours have kept: verdicts, faults, what was made",
            "files",
            Files(("/var/lib/gpu_node/*.json", "/var/lib/gpu_node/health/*.json", "/run/gpu_node/npd/status")),
            most=4 * MIB,
            named=True,
        ),
        Part(
            "system",
            "system.txt",
            "memory, load, command line of the kernel, modules",
            "files",
            Files(
                (
                    "/proc/cmdline",
                    "/proc/loadavg",
                    "/proc/uptime",
                    "/proc/meminfo",
                    "/proc/modules",
                    "/proc/driver/nvidia/params",
                    "/proc/driver/nvidia/gpus/*/information",
                    "/sys/module/nvidia*/version",
                )
            ),
        ),
        Part(
            "mounts",
            "mounts.txt",
            "arrays and mounts",
            "files",
            Files(("/proc/mdstat", "/proc/self/mountinfo", "/etc/fstab", "/etc/mdadm/mdadm.conf", "/etc/mdadm.conf")),
        ),
        Part("versions", "versions.txt", "versions of all that matters", "node", Call(look.versions), 60.0),
        Part(
            "disks",
            "disks.txt",
            "disks, arrays, free space of local file systems",
            "disk",
            Commands(
                (
                    ("lsblk", "-o", "NAME,MAJ:MIN,SIZE,RO,TYPE,FSTYPE,UUID,MOUNTPOINT,MODEL,SERIAL"),
                    ("df", "-lPT"),
                    ("df", "-lPi"),
                    ("nvme", "list"),
                    ("mdadm", "--detail", "--scan", "--verbose"),
                )
            ),
            60.0,
        ),
        Part("smart", "smart.txt", "the health that NVMe disks tell", "disk", Call(look.smart), 60.0),
        Part("infiniband", "infiniband.txt", "InfiniBand ports and their counters", "fabric", Call(look.infiniband)),
        Part(
            "network",
            "network.txt",
            "links of the network",
            "fabric",
            Commands((("ip", "-s", "link"), ("rdma", "link"), ("ibstat",), ("ibdev2netdev", "-v"))),
            40.0,
        ),
        Part(
            "pci",
            "pci.txt",
            "PCI devices with their links",
            "fabric",
            Commands((("lspci", "-nn"), ("lspci", "-vv", "-d", "10de:"))),
            40.0,
        ),
    )


def chosen(parts: Sequence[Part], without: Sequence[str]) -> Tuple[Part, ...]:
    """Without the parts of these names, or patterns such as ``*_log*``.

    :raises Misuse: one of them means no part, or none is left.
    """
    for word in without:
        if not any(fnmatch.fnmatchcase(one.name, word) for one in parts):
            remedy = "choose among {0}".format(", ".join(one.name for one in parts))
            raise Misuse("option --without {0}".format(word), "there is no such part", remedy)
    left = tuple(one for one in parts if not any(fnmatch.fnmatchcase(one.name, word) for word in without))
    if not left:
        raise Misuse("option --without", "it leaves nothing to collect", "leave out less")
    return left

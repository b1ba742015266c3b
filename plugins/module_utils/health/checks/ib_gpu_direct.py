# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUDirect RDMA: the module nvidia-peermem is at work where it was declared."""

from __future__ import annotations

from typing import Any, Mapping

from ...core.frozen import frozen
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

# nccl.types.SECTION and MODULES: the file that has the module loaded at each boot.
SECTION = "nccl"
MODULES = "/etc/modules-load.d/gpu_node_peermem.conf"


@frozen
class Seen:
    """``installed``: the running kernel has the module. ``driver``: NVIDIA's kernel driver is loaded. ``open``: it is
    the open one, over which NCCL can do without the module (DMA-BUF)."""

    installed: bool
    loaded: bool
    driver: bool
    open: bool
    rdma: bool


def _declared(declared: Mapping[str, Mapping[str, Any]]) -> bool:
    files = declared.get(SECTION, {}).get("files")
    return isinstance(files, (list, tuple)) and MODULES in files


def look(evidence: Evidence) -> Seen:
    host = evidence.host
    if not _declared(evidence.declared):
        return Seen(False, False, False, False, False)
    from ...facts.peermem import peermem

    found = peermem(host)
    version = host.read("/proc/driver/nvidia/version") or ""
    return Seen(
        found.installed,
        found.loaded,
        bool(version) or host.exists("/sys/module/nvidia"),
        "Open Kernel Module" in version,
        bool(host.names("/sys/class/infiniband")),
    )


def judge(seen: Seen, expected: Expected) -> Judgement:
    if not _declared(expected.declared):
        return Judgement(not_applicable="nvidia-peermem was not declared")
    if not seen.driver or not seen.rdma:
        return Judgement(not_applicable="there is no {0}".format("RDMA device" if seen.driver else "NVIDIA driver"))
    if seen.loaded:
        return Judgement("nvidia-peermem is loaded")
    if not seen.installed:
        reason = "the running kernel has no such module, so the network copies through the memory of the host"
        remedy, code = (
            "install the driver's modules for this kernel (dkms status), with the RDMA drivers there before",
            "missing",
        )
    else:
        reason = "it is not loaded, so the network copies through the memory of the host"
        remedy, code = "run 'modprobe nvidia-peermem', and look at 'dmesg' when it refuses", "not_loaded"
    if seen.open:
        reason = reason.split(", so ", 1)[0] + "; NCCL may do without it (DMA-BUF), other programs may not"
    certainty = Certainty.POSSIBLE if seen.open else Certainty.LIKELY
    return Judgement(
        findings=(
            Finding(Outcome.WARN, "module nvidia-peermem", reason, remedy, Remedy.CONFIGURE, certainty, code=code),
        )
    )


CHECKS = (Check("ib_gpu_direct", "GPUs and network devices reach each other", Cost.PASSIVE, judge, look),)

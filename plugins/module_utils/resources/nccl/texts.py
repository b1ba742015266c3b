# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of the files. Pure. Each says who reads it, and why the settings are there."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional

from ...core.managed_files import MARKER
from .options import Desired

# Reasons that go into limits.d and the drop-in of slurmd.
WHY: Dict[str, str] = {
    "memlock": "RDMA and the driver pin memory; without it ibv_reg_mr fails with 'Cannot allocate memory'.",
    "nofile": "One job opens a socket a peer and channel, and data loaders open their shards all at once.",
    "stack": "Fortran and OpenMP codes keep large arrays on the stack.",
    "nproc": "Threads count as processes here.",
    "core": "How large a core file may become, in KiB.",
}
_SYSTEMD = {"memlock": "MEMLOCK", "nofile": "NOFILE", "stack": "STACK", "nproc": "NPROC", "core": "CORE"}
# limits.conf(5) counts these in KiB, systemd in bytes.
_KIBIBYTES = ("memlock", "stack", "core")


def conf(desired: Desired, topology_file: Optional[str]) -> Optional[str]:
    """/etc/nccl.conf; None when there is nothing to say. NCCL takes blanks beside = as part of the name or value."""
    lines = ["{0}={1}".format(*one) for one in desired.settings.items()]
    if topology_file is not None:
        lines.append("NCCL_TOPO_FILE=" + topology_file)
    lines += desired.extra
    if not lines:
        return None
    head = [
        MARKER + " Changes will be lost: lines of yours go into nccl_extra.",
        "# A variable of the process, then a line in ~/.nccl.conf, goes before a line here.",
    ]
    return "\n".join(head + lines) + "\n"


def environment(words: Mapping[str, str]) -> Optional[str]:
    """A script for /etc/profile.d, for what must be set before a program opens CUDA or UCX."""
    if not words:
        return None
    lines = [
        MARKER + " Changes will be lost.",
        "# NCCL reads /etc/nccl.conf when it starts, which is too late for CUDA and UCX. What is set already stays.",
    ]
    for name, value in words.items():
        lines.append('[ -n "${{{0}+x}}" ] || export {0}={1}'.format(name, quoted(value)))
    return "\n".join(lines) + "\n"


def quoted(value: str) -> str:
    """One word for any shell of Bourne's kind."""
    return "'{0}'".format(value.replace("'", "'\\''"))


def limits(words: Mapping[str, str]) -> Optional[str]:
    """For pam_limits. A star does not mean root, who has lines of its own."""
    if not words:
        return None
    lines = [MARKER + " Changes will be lost. Read at each login; units of systemd have their own."]
    for name, value in words.items():
        lines.append("# " + WHY[name])
        lines += ["{0:<5}-  {1:<8} {2}".format(who, name, value) for who in ("*", "root")]
    return "\n".join(lines) + "\n"


def slurmd(words: Mapping[str, str]) -> Optional[str]:
    """A drop-in of slurmd.service: what slurmd may lock, a step of a job may lock."""
    if not words:
        return None
    lines = [
        MARKER + " Changes will be lost. Steps of jobs inherit the limits of slurmd, not of a login.",
        "[Service]",
    ]
    lines += ["Limit{0}={1}".format(_SYSTEMD[name], systemd_value(name, value)) for name, value in words.items()]
    return "\n".join(lines) + "\n"


def systemd_value(name: str, value: str) -> str:
    if value == "unlimited":
        return "infinity"
    return value + "K" if name in _KIBIBYTES else value


def sysctl(words: Mapping[str, str]) -> Optional[str]:
    """For systemd-sysctl, which passes over names that this kernel does not have (yet)."""
    if not words:
        return None
    lines: List[str] = [MARKER + " Changes will be lost. Values are set at once as well."]
    lines += ["{0} = {1}".format(name, value) for name, value in words.items()]
    return "\n".join(lines) + "\n"


def modules() -> str:
    """For systemd-modules-load."""
    return MARKER + " Lets network devices read and write the memory of GPUs (GPUDirect RDMA).\nnvidia_peermem\n"

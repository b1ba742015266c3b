# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read processes from /proc. What ends while it is being read is None."""

from __future__ import annotations

import os
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.host import Host
from ...facts.nvml.selectors import container_gpus, cuda_gpus, slurm_gpus
from ...facts.sysfs import parse_cpulist

# Fields of /proc/PID/stat, counted from the state, which is the third (proc_pid_stat(5)).
_STATE, _PARENT, _USER_TICKS, _SYSTEM_TICKS, _LAST_CPU = 0, 1, 11, 12, 36
# The GPUs given to a process: Slurm's are those of the node, CUDA's may be counted within a cgroup. The container's
# come last: images of NVIDIA say "all" in it, and CUDA counts within what the container was given.
_GPU_VARIABLES: Mapping[str, Callable[[str], Optional[Tuple[str, ...]]]] = {
    "SLURM_STEP_GPUS": slurm_gpus,
    "SLURM_JOB_GPUS": slurm_gpus,
    "CUDA_VISIBLE_DEVICES": cuda_gpus,
    "NVIDIA_VISIBLE_DEVICES": container_gpus,
}


@frozen
class Stat:
    """One line of /proc/PID/stat or /proc/PID/task/TID/stat."""

    name: str
    state: str
    parent: int
    cpu_ticks: int
    last_cpu: int


def parse_stat(text: Optional[str]) -> Optional[Stat]:
    """None for a process that is gone. Its name stands in parentheses and may have any character, ``)`` too."""
    head, closing, rest = (text or "").rpartition(")")
    fields = rest.split()
    if not closing or len(fields) <= _LAST_CPU:
        return None
    try:
        return Stat(
            name=head.partition("(")[2],
            state=fields[_STATE],
            parent=int(fields[_PARENT]),
            cpu_ticks=int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS]),
            last_cpu=int(fields[_LAST_CPU]),
        )
    except ValueError:
        return None


def stat(host: Host, pid: int, tid: Optional[int] = None) -> Optional[Stat]:
    folder = "/proc/{0}".format(pid) if tid is None else "/proc/{0}/task/{1}".format(pid, tid)
    return parse_stat(host.read(folder + "/stat"))


def pids(host: Host) -> Tuple[int, ...]:
    return tuple(sorted(int(name) for name in host.names("/proc") if name.isdecimal()))


def tids(host: Host, pid: int) -> Tuple[int, ...]:
    names = host.names("/proc/{0}/task".format(pid))
    return tuple(sorted(int(name) for name in names if name.isdecimal()))


def command(host: Host, pid: int) -> Optional[str]:
    """The command line as pgrep -f sees it; empty for a thread of the kernel, None for a process that is gone."""
    text = host.read("/proc/{0}/cmdline".format(pid))
    return None if text is None else " ".join(text.rstrip("\0").split("\0"))


def allowed(host: Host, pid: int, tid: int) -> Tuple[int, ...]:
    """The CPUs that a thread may run on: its affinity within its cgroup's cpuset."""
    for line in (host.read("/proc/{0}/task/{1}/status".format(pid, tid)) or "").split("\n"):
        name, dummy, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return parse_cpulist(value)
    return ()


def gpus_given(host: Host, pid: int) -> Optional[Tuple[str, ...]]:
    """The GPUs that the environment of a process names; None where it names none or is not ours to read."""
    variables: Dict[str, str] = {}
    for word in (host.read("/proc/{0}/environ".format(pid)) or "").split("\0"):
        name, equals, value = word.partition("=")
        if equals:
            variables[name] = value
    for name in _GPU_VARIABLES:
        if name in variables:
            return _GPU_VARIABLES[name](variables[name])
    return None


def ancestors(host: Host, pid: int) -> Tuple[int, ...]:
    """A process and its parents up to init."""
    chain: List[int] = []
    while pid > 0 and pid not in chain:
        chain.append(pid)
        found = stat(host, pid)
        if found is None:
            break
        pid = found.parent
    return tuple(chain)


def hidden(host: Host, pid: int) -> bool:
    """Whether a process is there and may not be read (/proc mounted with hidepid, another user's process)."""
    path = "/proc/{0}/stat".format(pid)
    if host.exists(path):
        return not os.access(host.path(path), os.R_OK)
    if host.root != "/":
        return host.exists("/proc/{0}".format(pid))
    try:
        os.kill(pid, 0)  # no signal, only the question
    except PermissionError:
        return True
    except OSError:
        return False
    return stat(host, pid) is None and os.path.exists("/proc/{0}".format(pid))


def others_are_hidden(host: Host) -> bool:
    """Whether this user sees nothing of the processes of others."""
    if os.geteuid() == 0:
        return False
    for line in (host.read("/proc/self/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[1] == "/proc":
            options = dict(option.partition("=")[::2] for option in fields[3].split(","))
            return options.get("hidepid", "0") not in ("0", "off")
    return False

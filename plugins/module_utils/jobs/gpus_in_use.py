# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who computes on the GPUs of this node, before all that lets it compute is taken away.

A scheduler knows its own jobs only; pods and what a person has started are seen on the GPUs. Whoever is not told of
counts as somebody.
"""

from __future__ import annotations

import re
import time
from typing import Dict, Iterable, Iterator, List, Sequence, Set, Union

from ..core import open_files, processes
from ..core.host import Host
from ..core.resource import NodeError, printable
from ..core.system_processes import is_daemon
from ..facts import kubelet
from ..facts.nvml import processes as lists
from ..facts.nvml.call import Gpu
from ..facts.nvml.session import Survey, survey
from ..facts.nvml.status import Status
from ..health.data.gpu_programs import NAMES
from ..slurm.gpu_processes import described

# Every program of CUDA opens it, also on a MIG instance and behind MPS. In a container without a root of its own it is
# below another folder, and one that was made anew since is told as deleted.
_UVM = "/dev/nvidia-uvm"
_OPENED = re.compile(r".*/nvidia-uvm(?: \(deleted\))?", re.DOTALL)
# One that has just ended is not listed any more after it.
_PAUSE_SECONDS = 0.3
# Graphics are the business of a display.
_KINDS = (lists.COMPUTE, lists.MPS)

Part = Union[int, str]


def why_not(host: Host, nvml: bool = True) -> str:
    """One sentence about who computes there, or has a GPU to do so, or ""; ``nvml`` False: by who has the driver's file
    open.

    :raises NodeError: that is not told.
    """
    pod = _by_kubelet(host)
    if pod or not host.exists("/sys/module/nvidia"):
        return pod  # without the driver nobody computes
    return _by_nvml(host) if nvml else _by_file(host)


def _by_kubelet(host: Host) -> str:
    """A pod that was given a GPU and runs, whether it computes by now or not."""
    remedy = "look at the kubelet, or move that file away where none runs any more"
    found = kubelet.read(host, remedy)
    given = kubelet.pods(found[0], remedy) if found is not None else ()
    if not given:
        return ""
    groups = "\n".join(processes.cgroup(host, pid) for pid in processes.pids(host))
    for pod, resource in given:
        if re.search("pod(?:{0}|{1})(?![0-9a-f])".format(re.escape(pod), re.escape(pod.replace("-", "_"))), groups):
            return "pod {0} has {1}".format(printable(pod), printable(resource))
    return ""


def _by_nvml(host: Host) -> str:
    found = _asked(host)
    if any(described(host, pid, ()) is None for pid in found):
        time.sleep(_PAUSE_SECONDS)
        found = _asked(host)
    users = [_user(host, pid, sorted(gpus)) for pid, gpus in sorted(found.items())]
    return _first([one for one in users if one])


def _asked(host: Host) -> Dict[int, Set[str]]:
    """pid → the GPUs.

    :raises NodeError: NVML does not tell of all.
    """

    def visit(gpu: Gpu) -> Iterator[Part]:
        for kind in _KINDS:
            answer = lists.ask(gpu, kind)
            if answer.ok:
                yield from (int(one.pid) for one in answer.value or ())
            elif kind == lists.COMPUTE or not answer.absent:
                yield "{0}: {1}".format(gpu.name, answer.reason)

    found: Survey[Part] = survey(visit, host=host)
    untold = [one for visit_ in found.visits for one in visit_.parts if isinstance(one, str)]
    if found.status not in (Status.OK, Status.NO_GPU):
        untold.insert(0, found.message)
    if untold:
        raise NodeError(
            "NVML",
            "it does not tell who uses the GPUs ({0})".format(untold[0].rstrip(".")),
            "reboot the node, or run 'gpunode reset --yes --without-nvml', which looks who has {0} open".format(_UVM),
        )
    places: Dict[int, Set[str]] = {}
    for visit_ in found.visits:
        for pid in visit_.parts:
            places.setdefault(int(pid), set()).add(str(visit_.identity.index))
    return places


def _by_file(host: Host) -> str:
    users: List[str] = []
    for pid, paths, whole in open_files.each(host):
        if not whole:
            raise NodeError(
                "process {0}".format(pid), "its open files may not be read", "run it as root of the machine"
            )
        if any(_OPENED.fullmatch(one) for one in paths):
            users += filter(None, (_user(host, pid, ()),))
    return _first(users)


def _user(host: Host, pid: int, gpus: Sequence[str]) -> str:
    """ "": it is a program of the node itself."""
    where = "is on GPU {0}".format(" ".join(gpus)) if gpus else "has {0} open".format(_UVM)
    one = described(host, pid, ())
    if one is None:
        return "process {0}, which has ended or lives where it cannot be seen, {1}".format(pid, where)
    if is_daemon(host, pid, NAMES):
        return ""
    pod = processes.pod(processes.cgroup(host, pid))
    whose = "pod " + pod if pod else "user {0}".format(one.uid)
    return "process {0} ({1}) of {2} {3}".format(pid, printable(one.command), whose, where)


def _first(users: Iterable[str]) -> str:
    told = list(users)
    more = ", and {0} more".format(len(told) - 1) if len(told) > 1 else ""
    return told[0] + more if told else ""

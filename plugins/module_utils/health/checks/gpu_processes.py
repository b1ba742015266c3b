# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that hold a GPU and should not: dead or stuck ones, and under Slurm those of no running job.

A process that waits for a disk or the network is stuck for a moment too; so one is looked at twice.
"""

from __future__ import annotations

import time
from typing import Dict, Iterator, List, Optional, Set, Tuple, Union

from ...core import processes as client
from ...core.frozen import frozen
from ...core.host import Host
from ...core.system_processes import is_daemon
from ...facts.nvml import processes as lists
from ...facts.nvml.call import Gpu
from ...facts.nvml.session import survey
from ...facts.nvml.status import Status
from ..data.gpu_programs import NAMES
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .gpu_common import NO_GPU, NOT_OPENED

_CALL_SECONDS = 4.0
_TOTAL_SECONDS = 15.0
_PAUSE_SECONDS = 0.3
# Graphics are the business of a display.
_KINDS = (lists.COMPUTE, lists.MPS)
_HOOKS = "slurm_hooks"  # the section of the declaration; with it, every job of this node is known
IN_USE = "gpus_in_use"
GONE, ZOMBIE, STUCK = "gone", "zombie", "stuck"


@frozen
class Process:
    """``state``: "" alive, or one of the words above. ``job`` is the Slurm job that it belongs to, or None.
    ``of_node``: it is one of the node's own programs."""

    pid: int
    state: str
    command: str
    job: Optional[int]
    gpus: Tuple[Tuple[str, str], ...]  # (label, PCI address)
    of_node: bool = False


@frozen
class Seen:
    """``jobs`` are those that run here, or None where no hook tells of them. ``silent`` are GPUs (label, PCI address)
    that hung when they were asked for their processes, ``asked`` all that were."""

    processes: Tuple[Process, ...]
    jobs: Optional[Tuple[int, ...]]
    silent: Tuple[Tuple[str, str], ...] = ()
    asked: int = 0


def look(evidence: Evidence) -> Union[Seen, str]:
    """A text says why there is nothing to look at."""
    # Not at the top: a check before each job does not come here, and would pay for the import.
    from ...slurm import jobs
    from ...slurm.gpu_processes import job_of

    host = evidence.host
    answer = _places(host)
    if isinstance(answer, str):
        return answer
    places, silent, asked = answer
    running = None
    if _HOOKS in evidence.declared:
        running = tuple(job.id for job in jobs.all_of(host))
    first = {pid: _state(host, pid) for pid in places}
    if any(state == STUCK for state in first.values()):
        time.sleep(_PAUSE_SECONDS)
    processes = []
    for pid, gpus in sorted(places.items()):
        state = first[pid]
        if state == STUCK and _state(host, pid) != STUCK:
            state = ""
        of_node = is_daemon(host, pid, NAMES)
        processes.append(Process(pid, state, client.name(host, pid), job_of(host, pid), tuple(sorted(gpus)), of_node))
    # One that ended by itself while we looked is not there any more when NVML is asked again.
    gone = {one.pid for one in processes if one.state in (GONE, ZOMBIE)}
    if gone:
        time.sleep(_PAUSE_SECONDS)
        again = _places(host)
        still = set() if isinstance(again, str) else set(again[0])
        processes = [one for one in processes if one.pid not in gone or one.pid in still]
    return Seen(tuple(processes), running, silent, asked)


_Places = Dict[int, Set[Tuple[str, str]]]


def _places(host: Host) -> Union[Tuple[_Places, Tuple[Tuple[str, str], ...], int], str]:
    """pid → the GPUs that it holds, the GPUs that hung at this very question, and how many were asked. Those that
    answer no question at all are left out: gpu_lost names them."""
    found = survey(_pids, call_timeout=_CALL_SECONDS, total_timeout=_TOTAL_SECONDS, host=host)
    if found.status not in (Status.OK, Status.PARTIAL):
        return NO_GPU if found.status is Status.NO_GPU else NOT_OPENED
    places: _Places = {}
    silent = []
    for visit in found.visits:
        where = (visit.identity.label, visit.identity.pci_address or visit.identity.uuid or "")
        for pid in visit.parts:
            places.setdefault(pid, set()).add(where)
        if visit.fault is not None and any(visit.fault.call in lists.CALLS[kind] for kind in _KINDS):
            silent.append(where)
    return places, tuple(silent), len(found.visits)


def _pids(gpu: Gpu) -> Iterator[int]:
    return lists.pids(gpu, _KINDS)


def _state(host: Host, pid: int) -> str:
    found = client.stat(host, pid)
    return GONE if found is None else {"Z": ZOMBIE, "X": GONE, "D": STUCK}.get(found.state, "")


def judge(seen: Union[Seen, str], expected: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    findings: List[Finding] = []
    for label, key in seen.silent:
        reason = "it did not tell within {0:g} s which processes hold it".format(_CALL_SECONDS)
        remedy = "look for NVRM and Xid lines in the kernel log; when it stays, drain the node and reboot it"
        findings.append(
            _finding(Outcome.UNKNOWN, label, key, reason, remedy, Remedy.REBOOT, "silent", Certainty.LIKELY)
        )
    for one in seen.processes:
        findings += _judge(one, seen.jobs)
    used = {key for one in seen.processes for dummy, key in one.gpus}
    # With a label it is no figure that nodes are compared by: they have different work.
    told = Measured(IN_USE, float(len(used)), labels={"gpus": str(seen.asked)})
    return Judgement("{0} processes".format(len(seen.processes)), tuple(findings), (told,) if seen.asked else ())


def _judge(process: Process, running: Optional[Tuple[int, ...]]) -> Iterator[Finding]:
    what = "process {0}{1}".format(process.pid, " ({0})".format(process.command) if process.command else "")
    of_running = running is not None and process.job in running
    for label, key in process.gpus:
        if process.state == GONE:
            reason = "{0} holds it, and is gone, or lives where it cannot be seen".format(what)
            remedy = (
                "look for it in other PID namespaces; when there is none, reset the GPU with nvidia-smi --gpu-reset"
            )
            yield _finding(Outcome.WARN, label, key, reason, remedy, Remedy.RESET_GPU, GONE, Certainty.POSSIBLE)
        elif process.state == ZOMBIE:
            reason = "{0} has ended and still holds it".format(what)
            remedy = "end its parent process; when it stays, reset the GPU with nvidia-smi --gpu-reset, or reboot"
            yield _finding(Outcome.WARN, label, key, reason, remedy, Remedy.RESET_GPU, ZOMBIE, Certainty.LIKELY)
        elif process.state == STUCK and not of_running and not process.of_node:
            reason = "{0} holds it, and hangs in the kernel".format(what)
            remedy = "look at the kernel log; when it does not end, drain the node and reboot it"
            yield _finding(Outcome.WARN, label, key, reason, remedy, Remedy.REBOOT, STUCK, Certainty.POSSIBLE)
        elif running is not None and not of_running and not process.of_node:
            whose = "job {0}, which does not run here".format(process.job) if process.job is not None else "no job"
            reason = "{0} of {1} holds it".format(what, whose)
            remedy = "end it with kill {0}, or find out whose it is".format(process.pid)
            yield _finding(Outcome.WARN, label, key, reason, remedy, Remedy.LOOK, "foreign", Certainty.CERTAIN)


def _finding(
    outcome: Outcome, label: str, key: str, reason: str, remedy: str, action: Remedy, code: str, certainty: Certainty
) -> Finding:
    return Finding(outcome, label, reason, remedy, action, certainty, key, code)


CHECKS = (
    Check(
        "gpu_processes", "No dead, stuck or foreign process holds a GPU", Cost.PASSIVE, judge, look, "processes", 20.0
    ),
)

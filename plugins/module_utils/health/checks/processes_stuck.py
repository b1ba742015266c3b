# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that have hung in the kernel (state D) for long: one wait, seen in look after look.

A process in state D that has not been off its wait has switched no further: the same count of context switches in the
look before says that it has waited ever since, and the baseline remembers that count. So a short wait is never told,
and a busy disk neither. Threads of the kernel are left out, for some wait so by design, and frozen processes.
"""

from __future__ import annotations

import re
import time
from typing import List, Optional, Tuple

from ...core import processes
from ...core.frozen import frozen
from ...core.host import Host
from ...core.shares import in_turn
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

FIGURE = "process_wait_switches"
LIMIT = "process_stuck_seconds"
_PAUSE_SECONDS = 0.2
_SCAN_SECONDS = 3.0
_MOST = 16
# kernel/sched/loadavg.c: each process in state D counts, after 300 s with 0.63 in the average of five minutes.
_LOAD_WITH_ONE = 0.5
_KERNEL_THREAD = 0x00200000  # linux/sched.h, PF_KTHREAD
_FROZEN = ("__refrigerator", "refrigerator")
# kernel/fork.c: the parent waits in state D until the child of vfork(2) calls exec, as long as it likes. A child that
# hangs is found itself. The waits of completion.c do not count as a place.
_VFORK = re.compile(r"(?:wait_for_vfork_done|kernel_clone|_do_fork|do_fork)(?:\.[a-z0-9.]+)?")
_REMEDY = (
    "look in /proc/{0}/stack and 'dmesg' for what it waits for: a network file system, a disk, the driver of a GPU; "
    "reboot the node when it does not end"
)


@frozen
class Process:
    """``started`` is in ticks since the boot, ``switches`` how often it left a processor, ``place`` where it waits."""

    pid: int
    started: int
    command: str
    switches: int
    place: str


@frozen
class Seen:
    """``scanned`` false: the load is so small that nothing can hang for long."""

    processes: Tuple[Process, ...]
    scanned: bool


def look(evidence: Evidence) -> Seen:
    host = evidence.host
    if _load(host) < _LOAD_WITH_ONE:
        return Seen((), False)
    deadline = time.monotonic() + _SCAN_SECONDS
    first: List[Process] = []
    for pid in processes.pids(host):
        if time.monotonic() > deadline:
            break
        found = _waiting(host, pid)
        if found is not None:
            first.append(found)
    # One user's processes do not hide other users' processes, and the oldest processes are the likeliest to hang.
    first.sort(key=lambda one: one.started)
    first = in_turn(first, lambda one: processes.real_uid(host, one.pid))[:_MOST]
    if first:
        time.sleep(_PAUSE_SECONDS)
    still = tuple(one for one in first if _waiting(host, one.pid) == one)
    return Seen(still, True)


def _load(host: Host) -> float:
    """Of five minutes; where it cannot be read, which cpu_load tells, every process is looked at."""
    words = (host.read("/proc/loadavg") or "").split()
    try:
        return float(words[1])
    except (IndexError, ValueError):
        return _LOAD_WITH_ONE


def _waiting(host: Host, pid: int) -> Optional[Process]:
    found = processes.stat(host, pid)
    if found is None or found.state != "D":
        return None
    start, flags = found.number(processes.STARTTIME), found.number(processes.FLAGS)
    counts = (processes.status(host, pid, kind + "voluntary_ctxt_switches") for kind in ("", "non"))
    switches = [int(one) for one in counts if one.isdecimal()]
    place = processes.waits_in(host, pid)
    if start is None or flags is None or flags & _KERNEL_THREAD:
        return None
    if not switches or place in _FROZEN or _VFORK.fullmatch(place):
        return None
    return Process(pid, start, found.name[:15], sum(switches), place[:64])


def judge(seen: Seen, expected: Expected) -> Judgement:
    findings: List[Finding] = []
    measured: List[Measured] = []
    limit = expected.thresholds.get(LIMIT)
    for one in seen.processes:
        key = "{0}/{1}".format(one.pid, one.started)
        figure = Measured(FIGURE, float(one.switches), key, counter=True, labels={"pid": str(one.pid)})
        measured.append(figure)
        seconds = _since(figure, expected)
        if limit is None or limit.outcome(seconds) is Outcome.PASS:
            continue
        where = " in {0}".format(one.place) if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]{1,63}", one.place) else ""
        reason = "it has hung in the kernel{0} for {1:.0f} min".format(where, seconds / 60)
        thing = "process {0}{1}".format(one.pid, " ({0})".format(one.command) if one.command else "")
        findings.append(
            Finding(
                limit.outcome(seconds),
                thing,
                reason,
                _REMEDY.format(one.pid),
                Remedy.REBOOT,
                Certainty.LIKELY,
                str(one.pid),
                "stuck",
            )
        )
    if not seen.scanned:
        return Judgement("the load is too small for a process that hangs")
    return Judgement("{0} processes wait".format(len(seen.processes)), tuple(findings), tuple(measured))


def _since(figure: Measured, expected: Expected) -> float:
    """How long the count has been the same, by the points of the baseline; 0 where the last one had another."""
    seconds = 0.0
    for point in reversed(expected.origins.get(figure.counted, ())):
        if point.value != figure.value:
            break
        seconds = point.hours * 3600.0
    return seconds


CHECKS = (
    Check("processes_stuck", "No process hangs in the kernel", Cost.PASSIVE, judge, look, "processes", seconds=10.0),
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of the slurmd that runs: steps of jobs inherit them, whatever a login gets."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from ...core import processes, systemd
from ...core.frozen import frozen
from ...core.host import Host
from ...core.units import size
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

# nccl.types.SECTION and SLURMD.
SECTION = "nccl"
DROP_IN = systemd.drop_in("slurmd.service", "gpu_node_limits.conf")
# systemd.exec(5): LimitX= and the line of /proc/PID/limits.
_NAMES: Dict[str, str] = {
    "LimitMEMLOCK": "Max locked memory",
    "LimitNOFILE": "Max open files",
    "LimitSTACK": "Max stack size",
    "LimitNPROC": "Max processes",
    "LimitCORE": "Max core file size",
}
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
UNLIMITED = float("inf")


@frozen
class Seen:
    """``running`` None: no slurmd runs. ``wanted``: what our drop-in says; both by the names of /proc/PID/limits."""

    running: Optional[Tuple[Tuple[str, float], ...]]
    wanted: Tuple[Tuple[str, float], ...] = ()
    rdma: bool = False


def look(evidence: Evidence) -> Seen:
    host = evidence.host
    running = _running(host)
    if running is None:
        return Seen(None)
    files = evidence.declared.get(SECTION, {}).get("files")
    declared = isinstance(files, (list, tuple)) and DROP_IN in files
    wanted = drop_in(host.read(DROP_IN) or "") if declared else ()
    return Seen(running, wanted, bool(host.names("/sys/class/infiniband")))


def _running(host: Host) -> Optional[Tuple[Tuple[str, float], ...]]:
    from ...slurm import places

    pid = next(iter(places.running(host)), None)
    found = None if pid is None else processes.limits(host, pid)
    if found is None:
        return None
    return tuple((name, UNLIMITED if value == "unlimited" else float(value)) for name, value in found.items())


def drop_in(text: str) -> Tuple[Tuple[str, float], ...]:
    found = []
    for name, number, unit in re.findall(r"^(Limit[A-Z]+)=(infinity|\d{1,18})([KMG]?)\s*$", text, re.MULTILINE):
        if name in _NAMES:
            value = UNLIMITED if number == "infinity" else float(number) * _UNITS[unit]
            found.append((_NAMES[name], value))
    return tuple(found)


def judge(seen: Seen, dummy: Expected) -> Judgement:
    if seen.running is None:
        return Judgement(not_applicable="no slurmd runs here")
    running = dict(seen.running)
    findings: List[Finding] = []
    for name, value in seen.wanted:
        if running.get(name, UNLIMITED) < value:
            reason = "its limit '{0}' is {1} instead of {2}".format(name, _text(running[name]), _text(value))
            remedy = "run 'systemctl restart slurmd' (running jobs stay)"
            findings.append(_finding(name, reason, remedy, Remedy.RESTART_SERVICE))
    memory = "Max locked memory"
    if seen.rdma and memory not in dict(seen.wanted) and running.get(memory, UNLIMITED) < UNLIMITED:
        reason = "jobs may lock only {0} of memory, and RDMA locks all that it sends".format(size(running[memory]))
        remedy = "set LimitMEMLOCK=infinity in slurmd.service (role nccl does it), then restart slurmd"
        findings.append(_finding(memory, reason, remedy, Remedy.CONFIGURE))
    return Judgement("{0} limits".format(len(running)), tuple(findings))


def _text(value: float) -> str:
    return "unlimited" if value == UNLIMITED else "{0:.0f}".format(value)


def _finding(name: str, reason: str, remedy: str, action: Remedy) -> Finding:
    code = name.split(" ", 1)[1].replace(" ", "_")
    return Finding(Outcome.WARN, "slurmd", reason, remedy, action, key="slurmd", code=code)


CHECKS = (Check("limit_slurmd", "Jobs get the limits that they need", Cost.PASSIVE, judge, look),)

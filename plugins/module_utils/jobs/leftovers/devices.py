# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be left of jobs on GPUs and beside them: held clocks, processes, containers that have stopped."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ...core.host import Host
from ...core.options import of_section
from ...core.resource import NodeError, printable
from ...facts.nvml.identity import Identity
from ...facts.nvml.selectors import ALL
from ...gpus.settings import record
from ...gpus.settings.observe import observe
from ...gpus.settings.options import SECTION, Clocks, Settings
from ...gpus.settings.types import DEFAULT, ClockClaim, Entry
from ...slurm import gpu_processes as on_gpus
from ...slurm import holding
from ...slurm.gpus import CALL_TIMEOUT_SECONDS
from ...slurm.types import Jobs
from ..hooks.clocks import declared_clocks, return_to_declared
from .types import CLOCKS, GPU_PROCESSES, STOPPED_CONTAINERS, Leftover

_ENGINES = ("docker", "podman")
_ENGINE_SECONDS = 10.0

Found = Tuple[List[Leftover], List[str]]


def stale(claim: ClockClaim, declared: Clocks) -> bool:
    """Whether the clocks are held otherwise than they were declared; a maximum that was declared is none. Pure."""
    if declared == "max":
        return False
    if isinstance(declared, str):
        return claim.graphics_way != DEFAULT or claim.memory_way != DEFAULT
    held = {name: getattr(claim, name) for name in declared}
    return any(held[name] is not None and held[name] != mhz for name, mhz in declared.items())


def clocks(host: Host, declared: Mapping[str, Any]) -> Found:
    """``what`` is the PCI address, ``open`` whether a job has the GPU."""
    try:
        held = held_clocks(host, declared)
    except NodeError as error:
        return [], [str(error)]
    taken = in_jobs(host, held)
    return [Leftover(CLOCKS, one, open=taken[one]) for one in held], []


def held_clocks(host: Host, declared: Mapping[str, Any]) -> Dict[str, Tuple[str, Entry]]:
    """PCI addresses of the GPUs whose clocks are held otherwise than declared, with what the record says of them.

    :raises NodeError: the driver does not answer.
    """
    before = dict(record.read(host))
    if not any(entry.clocks for entry in before.values()):
        return {}
    state = observe(host, CALL_TIMEOUT_SECONDS, with_declaration=False)
    settings = of_section(Settings, declared.get(SECTION))
    held = {}
    for gpu in state.gpus:
        claim = state.known(gpu).claim
        one = Identity(gpu.index, gpu.uuid, gpu.pci_address)
        if claim is not None and stale(claim, declared_clocks(settings, one)) and gpu.uuid in before:
            held[gpu.pci_address] = (gpu.uuid, before[gpu.uuid])
    return held


def in_jobs(host: Host, gpus: Iterable[str]) -> Dict[str, Optional[bool]]:
    """Whether a job has each of these GPUs; None: nobody knows."""
    wanted = list(gpus)
    jobs = holding.look(host) if wanted else ()
    unknown = any(one.gpus is None for one in jobs)
    taken = {gpu for one in jobs for gpu in one.gpus or ()}
    return {one: True if one in taken else None if unknown else False for one in wanted}


def return_clocks(host: Host, gpu: str, before: Tuple[str, Entry], declared: Mapping[str, Any]) -> Optional[str]:
    """What went wrong, in sentences; None: a job has the GPU, or its clocks were set by others since ``before``."""
    if in_jobs(host, [gpu])[gpu] is not False or before not in record.read(host):
        return None
    try:
        return "; ".join(return_to_declared(host, [gpu], declared))
    except NodeError as error:
        return str(error)


def processes(host: Host, jobs: Jobs) -> Found:
    """Those on GPUs that belong to no job, of users without one."""
    try:
        found = on_gpus.on_gpus(host, (ALL,))
    except NodeError:
        return [], []  # that the driver does not answer, the health checks tell
    told = []
    for one in found:
        if one.uid and one.cgroup is None and one.claim is None and one.uid not in jobs.users:
            what = "process {0} ({1}) of user {2} on GPU {3}".format(
                one.pid, printable(one.command), one.uid, " ".join(one.gpus)
            )
            told.append(Leftover(GPU_PROCESSES, what, owners=frozenset((one.uid,))))
    return told, []


def stopped(host: Host) -> List[Leftover]:
    """Containers of root's engines that have ended and were not removed."""
    found: List[Leftover] = []
    for engine in _ENGINES if host.root == "/" else ():
        if host.which(engine) is None:
            continue
        argv = [engine, "ps", "--all", "--filter", "status=exited", "--format", "{{.ID}} {{.Names}} {{.Image}}"]
        try:
            lines = host.run(argv, _ENGINE_SECONDS).stdout.splitlines()
        except NodeError:
            continue  # its service does not run
        found += [
            Leftover(STOPPED_CONTAINERS, "{0} {1}".format(engine, printable(one))) for one in lines if one.strip()
        ]
    return found

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be left of jobs on GPUs and beside them: held clocks, processes, containers that have stopped."""

from __future__ import annotations

from typing import Any, List, Mapping, Tuple

from ...core.host import Host
from ...core.resource import NodeError, printable
from ...facts.nvml.identity import ALL, Identity
from ...hooks.clocks import declared_clocks, return_to_declared
from ...resources.gpu_settings import record
from ...resources.gpu_settings.observe import observe
from ...resources.gpu_settings.rules import live_claim
from ...resources.gpu_settings.types import DEFAULT, ClockClaim
from ...resources.gpu_settings.wish import SECTION, Clocks
from ...slurm import holding
from ...slurm import processes as on_gpus
from ...slurm.gpus import CALL_TIMEOUT_SECONDS
from .types import CLOCKS, GPU_PROCESSES, STOPPED_CONTAINERS, Jobs, Leftover

_ENGINES = ("docker", "podman")
_ENGINE_SECONDS = 10.0

Found = Tuple[List[Leftover], List[str]]


def stale(claim: ClockClaim, declared: Clocks) -> bool:
    """Whether the clocks are held otherwise than they were declared; a maximum that was declared is none. Pure."""
    if declared.word == "max":
        return False
    if declared.word == "default":
        return claim.graphics_way != DEFAULT or claim.memory_way != DEFAULT
    pairs = ((declared.graphics_mhz, claim.graphics_mhz), (declared.memory_mhz, claim.memory_mhz))
    return any(wanted is not None and held is not None and wanted != held for wanted, held in pairs)


def clocks(host: Host, declared: Mapping[str, Any]) -> Found:
    """``what`` is the PCI address, ``open`` whether a job has the GPU."""
    if not any(entry.clocks for dummy, entry in record.read(host)):
        return [], []
    try:
        state = observe(host, CALL_TIMEOUT_SECONDS, with_declaration=False)
        held = []
        for gpu in state.gpus:
            claim = live_claim(state, gpu)
            one = Identity(gpu.index, gpu.uuid, gpu.pci_address)
            if claim is not None and stale(claim, declared_clocks(declared.get(SECTION), one)):
                held.append(gpu.pci_address)
    except NodeError as error:
        return [], [str(error)]
    jobs = holding.look(host) if held else ()
    unknown = any(one.gpus is None for one in jobs)
    taken = {gpu for one in jobs for gpu in one.gpus or ()}
    return [Leftover(CLOCKS, one, open=True if one in taken else None if unknown else False) for one in held], []


def return_clocks(host: Host, gpus: List[str], section: Any) -> List[str]:
    """What went wrong, in sentences."""
    try:
        return return_to_declared(host, gpus, section)
    except NodeError as error:
        return [str(error)]


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

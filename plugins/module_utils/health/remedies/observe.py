# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at all that a remedy is decided by: a verdict made now, the GPUs, the units, and this node in Slurm."""

from __future__ import annotations

import time
from typing import List, Optional, Tuple

from ... import health
from ...core import declaration, machine, processes
from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import NodeError
from ...facts import gpu_info
from ...facts.daemons import holds_persistence_mode
from ...facts.fabric import switches
from ...facts.gpu_info import GpuInformation, Information
from ...gpus.mig import clients
from ...slurm import drain, slurmd
from ...slurm.client import Slurm
from .. import attempts
from ..gate import history, kept
from ..gate.settings import Settings
from ..types import Outcome, Verdict
from .types import FABRIC_MANAGER, PERSISTENCED, Cluster, Gpu, State

_REMEDY, _LATCHED = drain.PREFIX + drain.HEALTH + drain.REMEDY, drain.PREFIX + drain.HEALTH + drain.LATCHED


@frozen
class World:
    """The state, and what logs of it tell beside it."""

    state: State
    verdict: Verdict
    gpus: Optional[Information] = None


def observe(host: Host, node: str, slurm: Slurm, settings: Settings) -> World:
    """:raises NodeError: the declaration cannot be read."""
    verdict = health.examine(host, node, health.Options(level=health.Cost.PASSIVE))
    cluster, unknown = None, ""
    try:
        cluster = ask(slurm)
    except NodeError as error:
        unknown = error.reason
    found: Optional[Information] = None
    units: Tuple[str, ...] = ()
    beside: Tuple[str, ...] = ()
    manager, beside_manager = False, beside
    record, now = attempts.read(host), time.time()
    found_active = kept.findings(
        kept.now_counting(host, node, declaration.read(host).get(health.SECTION, {}), record, now)
    )
    if verdict.outcome is Outcome.FAIL or found_active:
        found = gpu_info.gather(gpu_info.Options(groups=("board", "nvlink", "settings")), host)
        units, beside, (manager, beside_manager), wrong = _units(host, settings)
        cluster, unknown = (None, wrong) if wrong else (cluster, unknown)
    state = State(
        node=node,
        outcome=verdict.outcome,
        findings=verdict.findings,
        record=record,
        now=now,
        boot=processes.boot_id(host),
        cluster=cluster,
        unknown=unknown,
        gpus=() if found is None else gpus_of(found.gpus),
        switches=bool(switches(host)),
        fabric_manager=manager,
        beside_manager=beside_manager,
        daemon_holds=holds_persistence_mode(host),
        units=units,
        beside=beside,
        kept=found_active,
        proofs=history.read(host).of(machine.fingerprint(host)).debt.attempts if found_active else 0,
    )
    return World(state, verdict, found)


def ask(slurm: Slurm) -> Cluster:
    """:raises NodeError: slurmctld cannot be asked, or does not answer."""
    if not slurm.installed:
        raise NodeError("Slurm", "there is no Slurm on this node", "install its client programs")
    node = slurm.look()
    jobs = no_reboot = "it was not asked for its jobs"
    remedied, latched = slurm.marked(node, _REMEDY, _LATCHED)
    if drain.is_for_health(node):
        jobs, no_reboot = slurmd.asked(slurm)[0], slurm.no_reboot()
    return Cluster(node, jobs, remedied, latched, no_reboot)


def _units(
    host: Host, settings: Settings
) -> Tuple[Tuple[str, ...], Tuple[str, ...], Tuple[bool, Tuple[str, ...]], str]:
    """(those that run, what would be stopped along, the same of the Fabric Manager, why that is not known)."""
    try:
        running, beside = clients.holding(host, tuple(dict.fromkeys((PERSISTENCED, *settings.remedy_units))))
        manager, along = clients.holding(host, (FABRIC_MANAGER,))
        return running, beside, (FABRIC_MANAGER in manager, along), ""
    except NodeError as error:
        return (), (), (False, ()), "systemd does not tell its units: {0}".format(error.reason)


def gpus_of(found: Tuple[GpuInformation, ...]) -> Tuple[Gpu, ...]:
    """One without a PCI address cannot be named for good, and is left out."""
    joined = any(_active(one) for one in found)
    made: List[Gpu] = []
    for one in found:
        identity, board, settings = one.identity, one.groups.get("board"), one.groups.get("settings")
        if identity.pci_address is None:
            continue
        made.append(
            Gpu(
                pci_address=identity.pci_address,
                name=identity.uuid or identity.pci_address,
                label=identity.label,
                minor=identity.minor_number,
                architecture=None if board is None else board.architecture,
                linked=_linked(one, joined),
                persistent=settings is not None and settings.persistence is True,
            )
        )
    return tuple(made)


def _active(gpu: GpuInformation) -> bool:
    links = gpu.groups.get("nvlink")
    return links is not None and bool(links.active_count)


def _linked(gpu: GpuInformation, joined: bool) -> Optional[bool]:
    """Links of a sick GPU may be down, so they count where others of the machine are up."""
    links = gpu.groups.get("nvlink")
    if links is None or links.link_count is None:
        return None if joined else False
    return joined and links.link_count > 0

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services that are enabled run, and none of our units has failed. One command for all of them."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ...core import processes, systemd
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.resource import NodeError
from ...core.system_processes import contained
from ...facts import daemons, fabric, gpu_info
from ..data.services import OWN, SERVICES, Service
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .gpu_fabric import RESTART

# Of node.unit, whose import would cost more than this look where there is no such unit.
_GUARD = systemd.drop_in("slurmd.service", "50-gpu_node_converge.conf")
_PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "Type", "RemainAfterExit"),
    *("ConditionResult", "ConditionTimestampMonotonic", "NRestarts"),
)


@frozen
class Unit:
    """In the words of systemd.

    ``refused``: its start failed a condition. ``waits``: it was installed after the boot that would have started it.
    ``held``: the node's converge holds it back and needs attention. ``unneeded``: why this machine works without it;
    ``unsure``: why this is unknown.
    """

    name: str
    loaded: str
    active: str
    sub: str
    enabled: str
    result: str
    ends: bool
    refused: bool
    restarts: int
    waits: bool = False
    held: bool = False
    unneeded: str = ""
    unsure: str = ""


_PERSISTENCED = "nvidia-persistenced.service"
_OUTSIDE = "it runs outside systemd"
_NO_FABRIC = "no NVSwitch is visible, and no GPU waits for a fabric"
_NO_DOMAIN = "no GPU is in an NVLink domain of several nodes"
_SLURMD, _MUNGE, _KUBELET = "slurmd.service", "munge.service", "kubelet.service"
# kubeadm and most distributions; AKS and EKS; the package of the kubelet enables its unit before the node joins.
_KUBELET_FILES = (
    *("/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeconfig", "/etc/kubernetes/kubelet"),
    *("/etc/kubernetes/kubelet.conf", "/etc/kubernetes/bootstrap-kubelet.conf"),
)


def look(evidence: Evidence) -> Optional[Tuple[Unit, ...]]:
    host = evidence.host
    if not systemd.running(host):
        return None
    ours = systemd.ours(host)
    shown = systemd.show(host, [one.unit for one in SERVICES] + list(ours), _PROPERTIES)
    new, held = _newer_than_the_boot(host, ours), _held(host)
    units = tuple(replaced(one, waits=one.name in new, held=one.name in held) for one in parsed(shown))
    down = [one for one in units if _wrong(one)[1]]
    return _needed(host, units, tuple(one.name for one in down)) if down else units


def _needed(host: Host, units: Tuple[Unit, ...], down: Tuple[str, ...]) -> Tuple[Unit, ...]:
    """The units; units that do not run have details from the running system."""
    unneeded = {one.unit: _OUTSIDE for one in SERVICES if one.process and one.unit in down and _runs(host, one)}
    unsure: Dict[str, str] = {}
    if {fabric.MANAGER_UNIT, fabric.IMEX_UNIT}.intersection(down) - set(unneeded):
        found = fabric.look(host)
        if fabric.MANAGER_UNIT in down and fabric.running_program(host)[0]:
            # A process of an unknown program counts by its work: a container of a user can have one of this name.
            if not found.why_down:
                unneeded.setdefault(fabric.MANAGER_UNIT, _OUTSIDE)
            elif found.unknown:
                unsure[fabric.MANAGER_UNIT] = found.unknown
        for unit, wanted, why in (
            (fabric.MANAGER_UNIT, found.wants_manager, _NO_FABRIC),
            (fabric.IMEX_UNIT, found.wants_imex, _NO_DOMAIN),
        ):
            if wanted is False:
                unneeded.setdefault(unit, why)
            elif wanted is None:
                unsure[unit] = found.unknown
    if _PERSISTENCED in down and _PERSISTENCED not in unneeded and _persistent(host):
        unneeded[_PERSISTENCED] = "persistence mode is on without it"
    for unit, why in _of_no_use(host, units, down):
        unneeded.setdefault(unit, why)
    return tuple(
        replaced(one, unneeded=unneeded.get(one.name, ""), unsure=unsure.get(one.name, "")) if one.name in down else one
        for one in units
    )


def _of_no_use(host: Host, units: Tuple[Unit, ...], down: Tuple[str, ...]) -> Iterator[Tuple[str, str]]:
    """Services of a scheduler that an image enables, and why this node works without them."""
    if _KUBELET in down and not any(host.exists(path) for path in _KUBELET_FILES):
        yield _KUBELET, "this node has joined no Kubernetes cluster"
    if not {_SLURMD, _MUNGE}.intersection(down):
        return
    from ...slurm import places, syntax, this_node

    runs = bool(places.running(host))
    if _SLURMD in down and runs:
        yield _SLURMD, _OUTSIDE
    if _MUNGE in down:
        text = this_node.here(host).text
        kind = next(reversed(syntax.values(text, "authtype")), "") if text is not None else ""
        if kind and kind.lower() not in ("munge", "auth/munge"):
            yield _MUNGE, "slurm.conf has AuthType={0}".format(kind)
        elif not runs and not any(one.name == _SLURMD and one.enabled.startswith("enabled") for one in units):
            yield _MUNGE, "no slurmd is enabled on this node"


def _runs(host: Host, service: Service) -> bool:
    """The Fabric Manager counts here if its program is one of the known paths."""
    if service.unit == fabric.MANAGER_UNIT:
        return fabric.running_program(host)[1] is not None
    pids = daemons.pids(host, service.process)
    return any(not service.of_node or not contained(host, pid) for pid in pids)


def _persistent(host: Host) -> bool:
    """Whether each GPU has persistence mode on, whoever switched it on."""
    try:
        gpus = gpu_info.gather(gpu_info.Options(groups=("settings",), call_timeout_seconds=2.0), host).gpus
    except NodeError:
        return False
    return bool(gpus) and all(getattr(one.groups.get("settings"), "persistence", None) is True for one in gpus)


def _held(host: Host) -> Tuple[str, ...]:
    """slurmd is refused on a node that converges itself and is not ready, so a converge must not ask for it."""
    if not host.exists(_GUARD):
        return ()
    from ...core import converge_record as record

    return () if record.admits(record.known(host), record.each_boot(host)) else ("slurmd.service",)


def _newer_than_the_boot(host: Host, names: Sequence[str]) -> Tuple[str, ...]:
    """Boot units that site.yml wrote since: it did their work itself, and they run first at the next boot."""
    start = processes.boot_time(host)
    if start is None:
        return ()
    answer = []
    for name in names:
        with contextlib.suppress(OSError):
            if os.stat(host.path(systemd.path(name))).st_mtime > start:
                answer.append(name)
    return tuple(answer)


def parsed(shown: Iterable[Mapping[str, str]]) -> Tuple[Unit, ...]:
    found = []
    for pairs in shown:
        if not pairs.get("Id"):
            continue
        restarts = pairs.get("NRestarts", "")
        found.append(
            Unit(
                name=pairs["Id"],
                loaded=pairs.get("LoadState", ""),
                active=pairs.get("ActiveState", ""),
                sub=pairs.get("SubState", ""),
                enabled=pairs.get("UnitFileState", ""),
                result=pairs.get("Result", ""),
                ends=pairs.get("Type") == "oneshot" and pairs.get("RemainAfterExit") != "yes",
                # Of a unit that was never to start, systemd tells a condition of "no" too, but no time.
                refused=pairs.get("ConditionResult") == "no"
                and pairs.get("ConditionTimestampMonotonic") not in (None, "", "0"),
                restarts=int(restarts) if re.fullmatch(r"\d{1,9}", restarts) else 0,
            )
        )
    return tuple(found)


def judge(seen: Optional[Tuple[Unit, ...]], dummy: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable="systemd does not run here")
    known = {one.unit: one for one in SERVICES + OWN}
    findings: List[Finding] = []
    running: List[str] = []
    notes: List[str] = []
    for unit in seen:
        service = known.get(unit.name)
        if service is None and unit.name.startswith(OWN[-1].unit):
            service = OWN[-1]
        if service is None:
            continue
        if unit.active == "active":
            running.append(unit.name)
        if unit.unneeded:
            notes.append("{0} does not run and is not needed: {1}".format(unit.name, unit.unneeded))
        findings += _judge(unit, service)
    measured = tuple(
        Measured("service_restarts", float(one.restarts), one.name, counter=True, better="lower")
        for one in seen
        if one.loaded == "loaded" and one.name.endswith(".service")
    )
    told = "; ".join([", ".join(running) or "none of the known services is enabled", *notes])
    return Judgement(told, tuple(findings), measured)


def _wrong(unit: Unit) -> Tuple[str, str]:
    """The fault of a unit, as a reason and a code; empty if it has none."""
    ours = unit.name.startswith("gpu-node-")
    enabled = unit.enabled in ("enabled", "enabled-runtime")
    if unit.loaded != "loaded" or not (enabled or ours) or unit.held:
        return "", ""
    if unit.active == "failed":
        return "it has failed ({0})".format(unit.result or "no result"), "failed"
    if unit.active == "activating" and unit.sub == "auto-restart":
        return "it ends again and again ({0})".format(unit.result or "no result"), "restarting"
    if enabled and unit.active in ("inactive", "deactivating"):
        if unit.refused or unit.waits or (unit.ends and unit.result == "success"):
            return "", ""
        return "it is enabled and does not run", "not_running"
    return "", ""


def _judge(unit: Unit, service: Service) -> List[Finding]:
    reason, code = _wrong(unit)
    if not code or unit.unneeded:
        return []
    reason = "{0}, so {1}".format(reason, service.without)
    remedy = "see 'journalctl -b -u {0}' for the reason, then run 'systemctl restart {0}'".format(unit.name)
    if unit.name == fabric.MANAGER_UNIT:
        remedy = RESTART
    if unit.unsure:
        reason += "; whether this machine has such GPUs is unknown ({0})".format(unit.unsure)
    return [
        Finding(
            Outcome.UNKNOWN if unit.unsure else service.outcome,
            "service " + unit.name,
            reason,
            remedy,
            Remedy.RESTART_SERVICE,
            key=unit.name,
            code=code,
        )
    ]


CHECKS = (
    Check(
        "service_running",
        "Every service that is enabled runs",
        Cost.PASSIVE,
        judge,
        look,
        lane="programs",
        seconds=20.0,
    ),
)

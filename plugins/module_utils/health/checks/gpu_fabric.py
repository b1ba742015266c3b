# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPUs have joined their NVLink fabric, and whether the Fabric Manager fits the driver.

Before Hopper a GPU does not tell its state in the fabric; there the Fabric Manager alone can be checked.
"""

from __future__ import annotations

import os
import re
from typing import List, Optional, Tuple

from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import NodeError
from ...facts.gpu_info import GpuInformation
from ...facts.nvml.pci import DEVICES, NVIDIA
from ..evidence import Evidence
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import RESET, each, finding, unread

_RESTART = "restart nvidia-fabricmanager and read its log; it must be of the driver's version"
# PCI class 0680, "other bridge": NVSwitches as the driver nvidia-nvswitch takes them.
_BRIDGE = "0x0680"
_PROGRAMS = ("/usr/bin/nv-fabricmanager", "/run/nvidia/driver/usr/bin/nv-fabricmanager")
_VERSION = r"[Vv]ersion\s+is\s*:\s*([0-9]+(?:\.[0-9]+)+)"
_DRIVER_VERSION = "/sys/module/nvidia/version"


def _one(gpu: GpuInformation, expected: Expected) -> Judgement:
    missed = unread(gpu, "fabric.state")
    if missed:
        return Judgement(findings=tuple(missed))
    fabric = gpu.groups.get("fabric")
    if fabric is None or fabric.state in (None, "not_supported"):
        return Judgement(not_applicable="no GPU here, or not this driver, tells a state in a fabric")
    findings: List[Finding] = []
    if fabric.state != "completed":
        reason = "it has not joined its NVLink fabric (state {0}), so CUDA does not start on it".format(fabric.state)
        findings.append(finding(gpu, Outcome.FAIL, reason, _RESTART, Remedy.RESTART_SERVICE, "state"))
    elif fabric.status not in (None, "success"):
        reason = "it could not join its NVLink fabric: {0}".format(fabric.status)
        findings.append(finding(gpu, Outcome.FAIL, reason, _RESTART, Remedy.RESTART_SERVICE, "status"))
    elif fabric.health_summary == "unhealthy":
        reason = "the driver calls its place in the NVLink fabric unhealthy{0}".format(_parts(fabric.health))
        findings.append(finding(gpu, Outcome.FAIL, reason, RESET, Remedy.RESET_GPU, "unhealthy"))
    elif fabric.health_summary == "limited_capacity" or (fabric.health or {}).get("degraded_bandwidth"):
        reason = "its NVLink fabric has less bandwidth than it should"
        findings.append(finding(gpu, Outcome.WARN, reason, RESET, Remedy.RESET_GPU, "degraded"))
    elif fabric.health_summary not in (None, "not_supported", "healthy"):
        reason = "the driver calls its place in the NVLink fabric {0}, which this check does not know".format(
            fabric.health_summary
        )
        findings.append(finding(gpu, Outcome.UNKNOWN, reason, "see nvidia-smi -q, Fabric", Remedy.LOOK, "health"))
    return Judgement(findings=tuple(findings))


def _parts(health: object) -> str:
    if not isinstance(health, dict):
        return ""
    bad = sorted(name for name, value in health.items() if value is True and name not in _GOOD)
    return " ({0})".format(", ".join(name.replace("_", " ") for name in bad)) if bad else ""


_GOOD = ("partition_assigned", "fabric_manager_connected")


@frozen
class FabricManager:
    """``version`` None: the program is there and tells none; ``program`` None: it is not there."""

    switches: Tuple[str, ...]
    program: Optional[str]
    version: Optional[str]
    driver_version: Optional[str]


def look(evidence: Evidence) -> FabricManager:
    host = evidence.host
    there = switches(host)
    program = next((path for path in _PROGRAMS if host.exists(path)), None) if there else None
    version = None
    if program is not None:
        try:
            done = host.run((host.path(program), "-v"), timeout_seconds=3.0, accept=(0, 1))
        except NodeError as error:
            raise NodeError(
                "Fabric Manager", "it does not tell its version ({0})".format(error.reason), _RESTART
            ) from error
        found = re.search(_VERSION, done.stdout + done.stderr)
        version = found.group(1) if found is not None else None
    return FabricManager(there, program, version, host.read_line(_DRIVER_VERSION))


def switches(host: Host) -> Tuple[str, ...]:
    found = []
    for address in host.names(DEVICES):
        folder = os.path.join(DEVICES, address)
        kind = host.read_line(os.path.join(folder, "class")) or ""
        if kind.startswith(_BRIDGE) and (host.read_line(os.path.join(folder, "vendor")) or "").lower() == NVIDIA:
            found.append(address)
    return tuple(found)


def manager(seen: FabricManager, expected: Expected) -> Judgement:
    if not seen.switches:
        return Judgement(not_applicable="there is no NVSwitch on the PCI bus")
    told = "{0} NVSwitches, Fabric Manager {1}".format(len(seen.switches), seen.version or "of unknown version")
    thing = "Fabric Manager"
    if seen.program is None:
        reason = "this machine has {0} NVSwitches, and nv-fabricmanager is not installed".format(len(seen.switches))
        remedy = "install nvidia-fabricmanager of the driver's version, unless it runs in a container"
        found = Finding(Outcome.WARN, thing, reason, remedy, Remedy.CONFIGURE, Certainty.POSSIBLE, code="missing")
    elif seen.version is None or seen.driver_version is None:
        what = "its version" if seen.version is None else "the version of the driver"
        remedy = "compare nv-fabricmanager -v with nvidia-smi by hand"
        found = Finding(Outcome.UNKNOWN, thing, what + " could not be read", remedy, Remedy.LOOK, code="unread")
    elif seen.version != seen.driver_version:
        reason = "it is of version {0}, and the driver is of {1}".format(seen.version, seen.driver_version)
        remedy = "install nvidia-fabricmanager of the driver's version and restart it"
        found = Finding(Outcome.FAIL, thing, reason, remedy, Remedy.CONFIGURE, code="version")
    else:
        return Judgement(told)
    return Judgement(told, (found,))


CHECKS = (
    Check(
        "gpu_fabric",
        "Every GPU has joined its NVLink fabric",
        Cost.QUICK,
        each("fabric state", _one),
        lane=GPU_LANE,
        gpu_groups=("fabric",),
    ),
    Check("fabric_manager_version", "The Fabric Manager fits the driver", Cost.PASSIVE, manager, look, "programs"),
)

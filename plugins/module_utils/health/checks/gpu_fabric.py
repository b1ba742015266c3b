# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPUs have joined their NVLink fabric, and whether the Fabric Manager fits the driver.

:mod:`...facts.fabric` decides what a fabric is. GPUs before Hopper report no state in one; there only the Fabric
Manager can be checked.
"""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts import fabric
from ...facts.fabric import Fabric, Place
from ...facts.gpu_info import GpuInformation, Information
from ..evidence import Evidence
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import RESET, answering, finding, in_mig, nothing, unread

# Multicast of NVLink (NVLS) works after a restart of the Fabric Manager only if the GPUs were reset before the new
# start: github.com/NVIDIA/nccl, issue 1488.
RESTART = (
    "read the log of nvidia-fabricmanager, which must be of the driver's version; then drain the node, stop it, reset "
    "all GPUs (nvidia-smi --gpu-reset), and start it again; where it runs in a switch tray, ask its administrator"
)
_OUTSIDE = "see nvidia-smi -q, Fabric, and the log of nvidia-fabricmanager"
# GPUs register with their fabric after each boot, while slurmd may run already. NVSentinel, pull request 1380, waits
# for a boot grace period and three polls of 30 s.
JOINING_SECONDS = 300.0
JOINING = "joining"
_VERSION = r"[Vv]ersion\s+is\s*:\s*([0-9]+(?:\.[0-9]+)+)"
_DRIVER_VERSION = "/sys/module/nvidia/version"
# Products whose NVLinks, if any, are bridges between cards.
_BRIDGED = (" NVL", "PCIe")
# HGX boards with this many GPUs have NVSwitches; boards with 4 connect them directly.
_GPUS_BEHIND_SWITCHES = 8
# Reasons contain the words of the driver: {0} as they are, {1} in parentheses if there are any.
_FINDINGS = {
    Place.WAITS: (
        Outcome.FAIL,
        "it has not joined its NVLink fabric (state {0}), so CUDA does not start on it",
        RESTART,
        Remedy.RESTART_SERVICE,
        "state",
    ),
    Place.REFUSED: (
        Outcome.FAIL,
        "it could not join its NVLink fabric: {0}",
        RESTART,
        Remedy.RESTART_SERVICE,
        "status",
    ),
    Place.UNHEALTHY: (
        Outcome.FAIL,
        "the driver reports its place in the NVLink fabric as unhealthy{1}",
        RESET,
        Remedy.RESET_GPU,
        "unhealthy",
    ),
    Place.DEGRADED: (
        Outcome.WARN,
        "its NVLink fabric has less bandwidth than it should{1}",
        RESET,
        Remedy.RESET_GPU,
        "degraded",
    ),
    Place.UNCLEAR: (
        Outcome.UNKNOWN,
        "the driver reports {0} for its NVLink fabric, which this check does not know",
        "see nvidia-smi -q, Fabric",
        Remedy.LOOK,
        "health",
    ),
}


def joined(information: Information, expected: Expected) -> Judgement:
    none = nothing(information)
    if none is not None:
        return Judgement(not_applicable=none)
    gpus = answering(information)
    findings: List[Finding] = []
    judged = 0
    for gpu in gpus:
        found = unread(gpu, "fabric.state") or _one(gpu, gpus, expected)
        judged += bool(found) or fabric.place(gpu)[0] is not Place.NONE
        findings += found
    if not judged:
        return Judgement(not_applicable="no GPU here is in an NVLink fabric, or this driver does not report it")
    return Judgement("fabric state of {0} GPUs".format(judged), tuple(findings))


def _one(gpu: GpuInformation, gpus: Tuple[GpuInformation, ...], expected: Expected) -> List[Finding]:
    place, words = fabric.place(gpu)
    uptime = expected.uptime_seconds
    if place is Place.WAITS and uptime is not None and uptime < JOINING_SECONDS:
        reason = "it has not joined its NVLink fabric yet (state {0}, {1:.0f} s after the boot)".format(words, uptime)
        remedy = "look again {0:.0f} s after the boot".format(JOINING_SECONDS)
        return [finding(gpu, Outcome.UNKNOWN, reason, remedy, Remedy.WATCH, JOINING)]
    if place in _FINDINGS:
        outcome, reason, remedy, action, code = _FINDINGS[place]
        reason = reason.format(words, " ({0})".format(words) if words else "")
        return [finding(gpu, outcome, reason, remedy, action, code)]
    if place is Place.JOINED and expected.profile.get("gpus", {}).get("nvlink_domain"):
        if getattr(gpu.groups.get("fabric"), "cluster_uuid", None) is None:
            reason = "it reports no cluster UUID, so other nodes of its NVLink domain cannot reach it"
            return [finding(gpu, Outcome.UNKNOWN, reason, _OUTSIDE, Remedy.LOOK, "outside")]
    why = _expected_in_fabric(gpu, gpus, expected) if place is Place.NONE else ""
    if not why:
        return []
    reason = "it reports no NVLink fabric, and {0}".format(why)
    return [finding(gpu, Outcome.UNKNOWN, reason, _OUTSIDE, Remedy.LOOK, "outside")]


def _expected_in_fabric(gpu: GpuInformation, gpus: Tuple[GpuInformation, ...], expected: Expected) -> str:
    """Why a GPU that reports no fabric should be in one; "" where it need not be. In MIG mode its NVLinks are down."""
    if in_mig(gpu):
        return ""
    alike = [one for one in gpus if one.identity.name == gpu.identity.name]
    if any(fabric.place(one)[0] is not Place.NONE for one in alike):
        return "other GPUs of its kind are in one"
    state = getattr(gpu.groups.get("fabric"), "state", None)
    if state is None:  # it is older than Hopper, or its driver has no such call
        return ""
    if fabric.to_switches(gpu):
        return "its NVLinks end at NVSwitches"
    if any(word in (gpu.identity.name or "") for word in _BRIDGED):
        return ""
    wanted = expected.profile.get("gpus", {})
    if wanted.get("nvlink_domain"):
        return "GPUs of profile {0} belong to an NVLink domain of several nodes".format(expected.profile_name)
    if wanted.get("nvlinks") and (wanted.get("count") or 0) >= _GPUS_BEHIND_SWITCHES:
        return "GPUs of profile {0} are behind NVSwitches".format(expected.profile_name)
    return ""


@frozen
class FabricManager:
    """``program``: the running program, or the installed one if none runs. ``running``: a process of it was found.
    ``version`` None: unknown. ``fabric``: only if a process runs and its version is unknown."""

    switches: Tuple[str, ...]
    program: Optional[str]
    version: Optional[str]
    driver_version: Optional[str]
    running: bool = False
    fabric: Optional[Fabric] = None


def look(evidence: Evidence) -> FabricManager:
    host = evidence.host
    there = fabric.switches(host)
    if not there:
        return FabricManager((), None, None, None)
    running, program = fabric.running_program(host)
    if not running:
        program = next((path for path in fabric.PROGRAMS if host.exists(path)), None)
    version = None
    if program is not None:
        try:
            done = host.run((host.path(program), "-v"), timeout_seconds=3.0, accept=(0, 1))
        except NodeError as error:
            reason = "its version could not be read ({0})".format(error.reason)
            raise NodeError("Fabric Manager", reason, RESTART) from error
        found = re.search(_VERSION, done.stdout + done.stderr)
        version = found.group(1) if found is not None else None
    asked = fabric.look(host) if running and version is None else None
    return FabricManager(there, program, version, host.read_line(_DRIVER_VERSION), running, asked)


def manager(seen: FabricManager, expected: Expected) -> Judgement:
    if not seen.switches:
        return Judgement(not_applicable="no NVSwitch is visible")
    told = "NVSwitches, Fabric Manager {0}".format(seen.version or "of unknown version")
    thing = "Fabric Manager"
    if seen.running and seen.version is None and seen.fabric is not None and not seen.fabric.why_down:
        # A Fabric Manager of another version than the driver's does not bring up a fabric.
        return Judgement(told + ", which runs, and all GPUs have joined the fabric")
    if seen.program is None and not seen.running:
        reason = "this machine has NVSwitches, and nv-fabricmanager is not installed"
        remedy = "install nvidia-fabricmanager of the driver's version, unless it runs in a container"
        found = Finding(Outcome.WARN, thing, reason, remedy, Remedy.CONFIGURE, Certainty.POSSIBLE, code="missing")
    elif seen.version is None or seen.driver_version is None:
        what = "its version" if seen.version is None else "the version of the driver"
        remedy = "compare nv-fabricmanager -v with nvidia-smi by hand"
        found = Finding(Outcome.UNKNOWN, thing, what + " could not be read", remedy, Remedy.LOOK, code="unread")
    elif seen.version != seen.driver_version:
        where = " ({0})".format(seen.program) if seen.program == fabric.CONTAINER_PROGRAM else ""
        reason = "it is of version {0}{1}, and the driver is of {2}".format(seen.version, where, seen.driver_version)
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
        joined,
        lane=GPU_LANE,
        gpu_groups=("fabric", "settings"),
    ),
    Check("fabric_manager_version", "The Fabric Manager fits the driver", Cost.PASSIVE, manager, look, "programs"),
)

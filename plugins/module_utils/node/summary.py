# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a converge came to, in the few lines that a person reads at its end."""

from __future__ import annotations

import collections
from typing import Any, Dict, List

from ..core.units import size
from .converge import Report


def lines(report: Report) -> List[str]:
    """Profile, each resource, the verdict, what was changed and what needs attention, one line each."""
    parts, check_mode = report.parts, report.check_mode
    told: List[str] = []
    attention: List[str] = []
    profile = report.profile or {}
    changes: List[str] = []
    if profile:
        told.append(_profile(profile))
        attention += [_difference(one) for one in profile.get("differences") or []]
        if profile.get("left"):
            told.append("machine: " + profile["left"])
        if profile.get("lost"):
            attention.append(profile["lost"])
    for name, found in parts.items():
        steps = _actions(found)
        changes += steps
        label, when, tell = _RESOURCES.get(name, ("", "", None))
        if found.get("skipped_reason") and name not in _ALWAYS_TOLD:
            continue  # most nodes that have no Slurm, or no RDMA device, are not meant to
        if tell is not None:
            # A resource that fails before it has looked tells nothing of the node.
            known = not found.get("failed") or "actions" in found
            text = tell(found) if known else "unknown: it failed, see below"
            told.append("{0:<9}{1}{2}".format(label + ":", text, when if check_mode and steps else ""))
        attention += list(found.get("notes") or [])
        attention += [one["message"] for one in found.get("failed_gpus") or []]
    verdict = report.health.get("verdict") or {}
    if verdict:
        told.append("{0:<9}{1}{2}".format("health:", _health(verdict), _BEFORE if check_mode and changes else ""))
        attention += list(report.health.get("findings") or [])
    if changes:
        told.append("would be changed:" if check_mode else "changed:")
        told += ["  - " + change for change in _grouped(changes)]
    else:
        told.append("would be changed: nothing" if check_mode else "changed: nothing")
    attention[:0] = report.failures
    if attention:
        told.append("needs attention:")
        told += ["  - " + one for one in dict.fromkeys(attention)]
    else:
        told.append("needs attention: nothing")
    return told


def _actions(result: Dict[str, Any]) -> List[str]:
    return [action["description"] for action in result.get("actions") or []]


def _profile(profile: Dict[str, Any]) -> str:
    name = profile.get("name") or "unknown"
    if name == "unknown":
        return "profile: unknown, so nothing was compared ({0})".format(profile.get("reason") or "no reason was told")
    differences = profile.get("differences") or []
    verdict = "{0} difference(s), see below".format(len(differences)) if differences else "the machine is like it"
    return "profile: {0}; {1}".format(name, verdict)


def _difference(one: Dict[str, Any]) -> str:
    return "profile: {0}: expected {1}, found {2}".format(one.get("subject"), one.get("expected"), one.get("found"))


def _scratch(result: Dict[str, Any]) -> str:
    found = result.get("scratch") or {}
    if result.get("skipped_reason"):
        return "none: {0}".format(result["skipped_reason"])
    if not found.get("mounted"):
        return "not mounted"
    disks = found.get("disks") or []
    what = "{0} of {1} on {2}".format(
        found.get("filesystem"), size(found.get("size_bytes") or 0), found.get("mount_point")
    )
    if found.get("adopted"):
        return what + ", adopted as it was"
    return "{0}, {1} disk(s): {2}".format(what, len(disks), " ".join(disk["serial"] for disk in disks))


def _gpus(result: Dict[str, Any]) -> str:
    if result.get("skipped_reason"):
        return "none: {0}".format(result["skipped_reason"])
    gpus = result.get("gpus") or []
    if not gpus:
        return "none answers"
    kinds = collections.Counter((gpu.get("name"), _clocks(gpu), gpu.get("persistence")) for gpu in gpus)
    return "; ".join(
        "{0} x {1}, {2}, persistence {3}".format(
            count, name, clocks, {True: "on", False: "off"}.get(persistence, "unknown")
        )
        for (name, clocks, persistence), count in kinds.items()
    )


def _slurm(result: Dict[str, Any]) -> str:
    gpus = len(result.get("gpus") or [])
    pending = "; Slurm has yet to read a changed file" if result.get("reconfigure_pending") else ""
    return "hooks, node features and gres.conf of {0} GPU(s){1}".format(gpus, pending)


def _rdma(result: Dict[str, Any]) -> str:
    ports = [port for device in result.get("devices") or [] for port in device.get("ports") or []]
    active = collections.Counter(
        (port.get("link_layer"), port.get("rate_gigabits_per_second"))
        for port in ports
        if port.get("state") == "ACTIVE"
    )
    kinds = ["{0} x {1}, {2:g} Gb/s".format(n, layer, rate or 0) for (layer, rate), n in active.items()]
    down = len(ports) - sum(active.values())
    return "; ".join(kinds + (["{0} port(s) not active".format(down)] if down else [])) or "no port"


def _hpcx(result: Dict[str, Any]) -> str:
    version, home = result.get("version"), result.get("home")
    if not version and not home:
        return "none"
    how = ", adopted as it was" if result.get("adopted") else ""
    return "{0} in {1}{2}".format(version or "unknown version", home, how)


def _nccl(result: Dict[str, Any]) -> str:
    versions = sorted({one["version"] for one in result.get("libraries") or [] if one.get("version")})
    library = "libnccl " + ", ".join(versions) if versions else "no libnccl in the usual folders"
    topology = result.get("topology_file")
    return "{0}; {1}".format(library, "topology file " + topology if topology else "no topology file needed")


def _enroot(result: Dict[str, Any]) -> str:
    temporary = next((one["path"] for one in result.get("user_folders") or [] if one.get("purpose") == "temp"), None)
    return "enroot {0}{1}".format(result.get("version") or "none", ", folders in " + temporary if temporary else "")


def _pyxis(result: Dict[str, Any]) -> str:
    pending = "; slurmd has yet to be restarted" if result.get("restart_pending") else ""
    return "for Slurm {0}{1}".format(result.get("built_for") or "none", pending)


def _job_templates(result: Dict[str, Any]) -> str:
    return "{0} scripts in {1}".format(len(result.get("files") or []), result.get("folder"))


def _health_gate(result: Dict[str, Any]) -> str:
    return "what is sick takes no job" + ("; slurmd looks between jobs" if result.get("program_reached") else "")


def _health(verdict: Dict[str, Any]) -> str:
    count = len(verdict.get("results") or [])
    return "{0}, by {1} checks of level {2}".format(verdict.get("outcome"), count, verdict.get("level"))


# In check mode: whether a line tells the node as it is, or as the module foresees it.
_BEFORE = " (before the changes below)"
_AFTER = " (after the changes below)"
_RESOURCES = {
    "nvme_scratch": ("scratch", _BEFORE, _scratch),
    "gpu_settings": ("GPUs", _AFTER, _gpus),
    "slurm_hooks": ("Slurm", _AFTER, _slurm),
    "rdma": ("RDMA", _BEFORE, _rdma),
    "hpcx": ("HPC-X", _BEFORE, _hpcx),
    "nccl": ("NCCL", _BEFORE, _nccl),
    "enroot": ("enroot", _BEFORE, _enroot),
    "pyxis": ("pyxis", _BEFORE, _pyxis),
    "job_templates": ("jobs", _AFTER, _job_templates),
    "health_gate": ("gate", _AFTER, _health_gate),
}
_ALWAYS_TOLD = ("nvme_scratch", "gpu_settings")


def _clocks(gpu: Dict[str, Any]) -> str:
    clocks = gpu.get("clocks") or {}
    parts = [
        "{0} {1} MHz {2}".format(name, clocks[name + "_mhz"], clocks[name + "_way"])
        for name in ("graphics", "memory")
        if clocks.get(name + "_mhz") and clocks.get(name + "_way") in ("locked", "application")
    ]
    return ", ".join(parts) or "clocks are the driver's own"


def _grouped(changes: List[str]) -> List[str]:
    """The same step on many GPUs is one line: "8 GPUs: switch persistence mode on"."""
    steps: Dict[str, List[str]] = {}
    for change in changes:
        who, colon, what = change.partition(": ")
        same_kind = colon and who.startswith("GPU ")
        steps.setdefault(what if same_kind else change, []).append(who if same_kind else "")
    return [
        step if not who[0] else "{0}: {1}".format(who[0] if len(who) == 1 else "{0} GPUs".format(len(who)), step)
        for step, who in steps.items()
    ]

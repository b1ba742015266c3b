# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the results of the roles into the few lines that a person reads at the end of a run."""

from __future__ import annotations

import collections
from typing import Any

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.units import size

DOCUMENTATION = r"""
name: node_summary
short_description: Results of this collection's roles as readable lines
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
description:
  - Tells profile, scratch, GPUs, what was changed and what needs attention, one line each.
options:
  _input:
    description: >-
      A mapping with any of C(runtime) (result of the module node_runtime), C(profile) (the fact gpu_node_profile),
      C(declared) (result of the module node_profile), C(scratch) (result of the module nvme_scratch), C(settings)
      (result of the module gpu_settings), C(slurm) (result of the module slurm_hooks), C(rdma), C(hpcx), C(nccl),
      C(enroot), C(pyxis), C(job_templates) and C(health_gate) (results of the modules of these names),
      C(health) (result of the module health_check) and C(failure) (why the run ended early, a sentence).
    type: dict
    required: true
  check_mode:
    description: Word the changes as what would be done.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Summary
  ansible.builtin.debug:
    msg: "{{ {'profile': gpu_node_profile, 'scratch': scratch_result} | trainyard.gpu_node.node_summary }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""


def node_summary(results: dict[str, Any], check_mode: bool = False) -> list[str]:
    lines: list[str] = []
    attention: list[str] = []
    profile = results.get("profile") or {}
    changes = _actions(results.get("runtime")) + _actions(results.get("declared"))
    if profile:
        lines.append(_profile(profile))
        attention += [_difference(one) for one in profile.get("differences") or []]
        if profile.get("left"):
            lines.append("machine: " + profile["left"])
        if profile.get("lost"):
            attention.append(profile["lost"])
    for label, name, when, tell in _RESOURCES:
        found = results.get(name) or {}
        if not found or found.get("skipped") or (name not in _ALWAYS_TOLD and found.get("skipped_reason")):
            continue  # most nodes that have no Slurm, or no RDMA device, are not meant to
        steps = _actions(found)
        # A module that fails before it has looked tells nothing of the node.
        known = not found.get("failed") or "actions" in found
        text = tell(found) if known else "unknown: the task failed, see below"
        lines.append("{0:<9}{1}{2}".format(label + ":", text, when if check_mode and steps else ""))
        changes += steps
        attention += list(found.get("notes") or [])
    attention += [one["message"] for one in (results.get("settings") or {}).get("failed_gpus") or []]
    verdict = (results.get("health") or {}).get("verdict") or {}
    if verdict:
        when = _BEFORE if check_mode and changes else ""
        lines.append("{0:<9}{1}{2}".format("health:", _health(verdict), when))
        attention += list(results["health"].get("findings") or [])
    if changes:
        lines.append("would be changed:" if check_mode else "changed:")
        lines += ["  - " + change for change in _grouped(changes)]
    else:
        lines.append("would be changed: nothing" if check_mode else "changed: nothing")
    if results.get("failure"):
        attention.insert(0, results["failure"])
    if attention:
        lines.append("needs attention:")
        lines += ["  - " + one for one in dict.fromkeys(attention)]
    else:
        lines.append("needs attention: nothing")
    return lines


def _actions(result: dict[str, Any] | None) -> list[str]:
    return [action["description"] for action in (result or {}).get("actions") or []]


def _profile(profile: dict[str, Any]) -> str:
    name = profile.get("name") or "unknown"
    if name == "unknown":
        return "profile: unknown, so nothing was compared ({0})".format(profile.get("reason") or "no reason was told")
    differences = profile.get("differences") or []
    verdict = "{0} difference(s), see below".format(len(differences)) if differences else "the machine is like it"
    return "profile: {0}; {1}".format(name, verdict)


def _difference(one: dict[str, Any]) -> str:
    return "profile: {0}: expected {1}, found {2}".format(one.get("subject"), one.get("expected"), one.get("found"))


def _scratch(result: dict[str, Any]) -> str:
    found = result.get("scratch") or {}
    if result.get("skipped_reason"):
        return "none: " + result["skipped_reason"]
    if not found.get("mounted"):
        return "not mounted"
    disks = found.get("disks") or []
    what = "{0} of {1} on {2}".format(
        found.get("filesystem"), size(found.get("size_bytes") or 0), found.get("mount_point")
    )
    if found.get("adopted"):
        return what + ", adopted as it was"
    return "{0}, {1} disk(s): {2}".format(what, len(disks), " ".join(disk["serial"] for disk in disks))


def _gpus(result: dict[str, Any]) -> str:
    if result.get("skipped_reason"):
        return "none: " + result["skipped_reason"]
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


def _slurm(result: dict[str, Any]) -> str:
    gpus = len(result.get("gpus") or [])
    pending = "; Slurm has yet to read a changed file" if result.get("reconfigure_pending") else ""
    return "hooks, node features and gres.conf of {0} GPU(s){1}".format(gpus, pending)


def _rdma(result: dict[str, Any]) -> str:
    ports = [port for device in result.get("devices") or [] for port in device.get("ports") or []]
    active = collections.Counter(
        (port.get("link_layer"), port.get("rate_gigabits_per_second"))
        for port in ports
        if port.get("state") == "ACTIVE"
    )
    kinds = ["{0} x {1}, {2:g} Gb/s".format(n, layer, rate or 0) for (layer, rate), n in active.items()]
    down = len(ports) - sum(active.values())
    return "; ".join(kinds + (["{0} port(s) not active".format(down)] if down else [])) or "no port"


def _hpcx(result: dict[str, Any]) -> str:
    version, home = result.get("version"), result.get("home")
    if not version and not home:
        return "none"
    how = ", adopted as it was" if result.get("adopted") else ""
    return "{0} in {1}{2}".format(version or "unknown version", home, how)


def _nccl(result: dict[str, Any]) -> str:
    versions = sorted({one["version"] for one in result.get("libraries") or [] if one.get("version")})
    library = "libnccl " + ", ".join(versions) if versions else "no libnccl in the usual folders"
    topology = result.get("topology_file")
    return "{0}; {1}".format(library, "topology file " + topology if topology else "no topology file needed")


def _enroot(result: dict[str, Any]) -> str:
    temporary = next((one["path"] for one in result.get("user_folders") or [] if one.get("purpose") == "temp"), None)
    return "enroot {0}{1}".format(result.get("version") or "none", ", folders in " + temporary if temporary else "")


def _pyxis(result: dict[str, Any]) -> str:
    pending = "; slurmd has yet to be restarted" if result.get("restart_pending") else ""
    return "for Slurm {0}{1}".format(result.get("built_for") or "none", pending)


def _job_templates(result: dict[str, Any]) -> str:
    return "{0} scripts in {1}".format(len(result.get("files") or []), result.get("folder"))


def _health_gate(result: dict[str, Any]) -> str:
    return "what is sick takes no job" + ("; slurmd looks between jobs" if result.get("program_reached") else "")


def _health(verdict: dict[str, Any]) -> str:
    count = len(verdict.get("results") or [])
    return "{0}, by {1} checks of level {2}".format(verdict.get("outcome"), count, verdict.get("level"))


# In check mode: whether a line tells the node as it is, or as the module foresees it.
_BEFORE = " (before the changes below)"
_AFTER = " (after the changes below)"
_RESOURCES = (
    ("scratch", "scratch", _BEFORE, _scratch),
    ("GPUs", "settings", _AFTER, _gpus),
    ("Slurm", "slurm", _AFTER, _slurm),
    ("RDMA", "rdma", _BEFORE, _rdma),
    ("HPC-X", "hpcx", _BEFORE, _hpcx),
    ("NCCL", "nccl", _BEFORE, _nccl),
    ("enroot", "enroot", _BEFORE, _enroot),
    ("pyxis", "pyxis", _BEFORE, _pyxis),
    ("jobs", "job_templates", _AFTER, _job_templates),
    ("gate", "health_gate", _AFTER, _health_gate),
)
_ALWAYS_TOLD = ("scratch", "settings")


def _clocks(gpu: dict[str, Any]) -> str:
    clocks = gpu.get("clocks") or {}
    parts = [
        "{0} {1} MHz {2}".format(name, clocks[name + "_mhz"], clocks[name + "_way"])
        for name in ("graphics", "memory")
        if clocks.get(name + "_mhz") and clocks.get(name + "_way") in ("locked", "application")
    ]
    return ", ".join(parts) or "clocks are the driver's own"


def _grouped(changes: list[str]) -> list[str]:
    """The same step on many GPUs is one line: "8 GPUs: switch persistence mode on"."""
    steps: dict[str, list[str]] = {}
    for change in changes:
        who, colon, what = change.partition(": ")
        same_kind = colon and who.startswith("GPU ")
        steps.setdefault(what if same_kind else change, []).append(who if same_kind else "")
    return [
        step if not who[0] else "{0}: {1}".format(who[0] if len(who) == 1 else "{0} GPUs".format(len(who)), step)
        for step, who in steps.items()
    ]


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"node_summary": node_summary}

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a converge came to, in the few lines that a person reads at its end."""

from __future__ import annotations

from typing import Any, Dict, List

from ..core import registry
from .converge import Report


def lines(report: Report, changed_only: bool = False) -> List[str]:
    """Profile, each resource, the verdict, what was changed and what needs attention, one line each.

    ``changed_only``: a resource has a line only where it changed or failed. A reset removes all of them, so the others
    would each say "none".
    """
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
        line = registry.resource(name).line if name in registry.NAMES else None
        if found.get("skipped_reason") and not (line is not None and line.always):
            continue  # most nodes that have no Slurm, or no RDMA device, are not meant to
        if line is not None and (steps or found.get("failed") or not changed_only):
            # A resource that fails before it has looked tells nothing of the node.
            known = not found.get("failed") or "actions" in found
            text = line.tell(found) if known else "unknown: it failed, see below"
            when = _AFTER if line.foresees else _BEFORE
            told.append("{0:<8} {1}{2}".format(line.label + ":", text, when if check_mode and steps else ""))
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


def _health(verdict: Dict[str, Any]) -> str:
    count = len(verdict.get("results") or [])
    return "{0}, by {1} checks of level {2}".format(verdict.get("outcome"), count, verdict.get("level"))


# In check mode: whether a line tells the node as it is, or as the module foresees it.
_BEFORE = " (before the changes below)"
_AFTER = " (after the changes below)"


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

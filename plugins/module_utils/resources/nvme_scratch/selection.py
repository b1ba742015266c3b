# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disks are scratch material: what is wrong with the choice, and which other disks could be named. Pure."""

from __future__ import annotations

import glob
import json
from typing import Dict, List, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.resource import Plan, Refusal
from ...core.units import size
from .builds import Left
from .options import REBUILD, SECTION
from .types import JudgedDisk, Node


@frozen
class Choice:
    """``wrong``: disks or accounts are named that are not here, or disks cannot be told apart. ``count``: there are
    more or fewer disks than expected. ``nothing``: the plan where no disk is to be managed. ``left_out``, ``unknown``:
    notes on disks of the operating system, and on serials to overwrite that no disk here has."""

    wrong: Tuple[Refusal, ...]
    count: Tuple[Refusal, ...]
    nothing: Optional[Plan]
    left_out: Tuple[str, ...]
    unknown: Tuple[str, ...]


def examine(node: Node, left: Sequence[Left]) -> Choice:
    """Without a number in the options, no fewer disks than the scratch was built of last: disks that are late or lost
    for the moment may come back, and a smaller scratch would be in their place. So fewer are used only when the user
    says how many there are to be, or that it is to be built anew of what is there."""
    state, desired = node.state, node.desired
    section = state.declared.get(SECTION)
    declared = section if isinstance(section, dict) else {}
    found: List[Refusal] = []
    for what, name, number in (("owner", desired.owner, state.owner), ("group", desired.group, state.group)):
        # Names of the declaration this node has known: its directory is not up yet.
        if number is None and declared.get(what) != name:
            thing = "{0} {1}".format(what, name)
            found.append(Refusal(thing, "this node does not know it", "create it first, or name another"))
    serials = [disk.serial for disk in state.disks]
    for serial in desired.serials:
        if serial not in serials:
            reason = "it is named in serials but this node has no NVMe disk with that serial number" + _here(node)
            found.append(Refusal("disk " + serial, reason, "correct serials, or have the disk brought back"))
    for device in desired.devices:
        if not any(device in disk.aliases for disk in state.disks):
            reason = "it is not a whole NVMe disk of this node" + _here(node)
            found.append(Refusal(device, reason, "name a disk like /dev/disk/by-id/nvme-…"))
    for serial in sorted({one.disk.serial for one in node.chosen}):
        same = [disk.name for disk in state.disks if disk.serial == serial]
        if serial and len(same) > 1:
            remedy = "have the disks replaced, or leave both out; they cannot be told apart"
            reason = "{0} disks bear it: {1}".format(len(same), ", ".join(same))
            found.append(Refusal("serial number " + serial, reason, remedy))
    chosen = [one.disk for one in node.chosen]
    builds = [one.build for one in left] + [build for build in node.record.builds if build.finished][-1:]
    least = 1 if desired.rebuild else max((len(build.serials) for build in builds), default=1)
    expected = desired.count if desired.count is not None else max(least, len(chosen))
    left_out = tuple(
        "Left out: {0}: {1}.".format(one.system.thing, one.system.reason)
        for one in node.disks
        if one.system is not None and desired.matches_model(one.disk.model) and one.disk not in chosen
    )
    unknown = sorted(set(desired.overwrite_serials) - set(serials))
    note = "No disk of this node has a serial number of overwrite_serials: {0}.".format(", ".join(unknown))
    return Choice(
        wrong=tuple(found),
        count=() if len(chosen) == expected else (_wrong_count(node, expected),),
        nothing=_no_disk(node) if node.nothing else None,
        left_out=left_out,
        unknown=(note,) if unknown else (),
    )


def _here(node: Node) -> str:
    return "; it has {0}".format(_in_words(node, node.disks)) if node.disks else ""


def _wrong_count(node: Node, expected: int) -> Refusal:
    chosen = [one.disk for one in node.chosen]
    names = ", ".join("{0} ({1})".format(disk.serial, disk.name) for disk in chosen) or "none"
    reason = "expected {0}, found {1}: {2}".format(expected, len(chosen), names)
    if len(chosen) >= expected:
        remedy = "narrow down models, serials or devices, or set count: {0}, which takes them all".format(len(chosen))
        return Refusal("local NVMe disks", reason, remedy)
    other = "set count: {0} if that is all there is".format(len(chosen))
    if not chosen:
        other = "correct models, serials or devices"
    remedy = (
        "look for the missing disk (nvme list, kernel log), or {0}; to erase a scratch that was built of more, {1}"
    ).format(other, REBUILD)
    rest = _others(node)
    if rest:
        reason += "; not named as scratch material: " + _in_words(node, rest)
    line = _free_disks(node)
    if line:
        remedy = "if the others are scratch material, set {0}; otherwise {1}".format(line, remedy)
    return Refusal("local NVMe disks", reason, remedy)


def _no_disk(node: Node) -> Plan:
    """No disk of this node is to be managed. An earlier declaration follows what is wanted now, or the next boot builds
    by the old one."""
    desired = node.desired
    if desired.count is not None or desired.require_disks:
        return Plan(refusals=(_wrong_count(node, desired.count or 1),))
    named = ", ".join(desired.models + desired.serials + desired.devices)
    why = "No NVMe disk fits {0}".format(named) if named else "No NVMe disk is named as scratch material"
    if not node.disks:
        why += "; this node has none."
    else:
        line = _free_disks(node)
        use = " To use what is free, set {0}.".format(line) if line else ""
        why = "{0}; this node has {1}.{2}".format(why, _in_words(node, node.disks), use)
    stale = node.declare if SECTION in node.state.declared else ()
    return Plan(stale, notes=(why,)) if stale else Plan(skipped=why)


def _in_words(node: Node, disks: Sequence[JudgedDisk]) -> str:
    """``2 x KIOXIA KCD8 of 3.5 TiB (serials S1, S2); 1 x ... (serial S3): it is mounted at /``."""
    kinds: Dict[Tuple[str, int, str], List[str]] = {}
    for one in sorted(disks, key=lambda one: (one.disk.model, one.disk.serial)):
        why = ": " + one.reason.reason if one.reason is not None else ""
        if not why and not _alone(node, one):
            why = ": another disk bears the same serial number"
        kinds.setdefault((one.disk.model, one.disk.size_bytes, why), []).append(one.disk.serial or "none")
    return "; ".join(
        "{0} x {1} of {2} (serial{3} {4}){5}".format(
            len(serials), model or "unknown model", size(size_bytes), "s" * (len(serials) > 1), ", ".join(serials), why
        )
        for (model, size_bytes, why), serials in kinds.items()
    )


def _free_disks(node: Node) -> str:
    """The variable that would make scratch material of the disks that are free, with its value and its place; empty:
    none is free.

    By models where that names no other disk, as one line then serves all nodes of a kind; it takes the place of a list
    of which no disk here fits. Serials are added to what is named already; in the variables of a group they are refused
    on its other nodes. What is pasted has to be enough, so a disk that shares its serial number is not offered, and a
    model is a pattern that fits only itself.
    """
    free = [one.disk for one in _others(node) if one.reason is None and _alone(node, one)]
    if not free:
        return ""
    models = sorted({disk.model for disk in free})
    rest = {disk.model for disk in node.state.disks if disk not in free}
    if not node.chosen and all(models) and not rest & set(models):
        return "nvme_scratch_models: " + json.dumps([glob.escape(model) for model in models])
    here = {disk.serial for disk in node.state.disks}
    named = [serial for serial in node.desired.serials if serial in here]
    serials = json.dumps(named + sorted(disk.serial for disk in free))
    return "nvme_scratch_serials: {0} for this node alone (host_vars)".format(serials)


def _alone(node: Node, one: JudgedDisk) -> bool:
    return sum(one.disk.serial == other.serial for other in node.state.disks) == 1


def _others(node: Node) -> List[JudgedDisk]:
    names = {one.disk.name for one in node.chosen}
    return [one for one in node.disks if one.disk.name not in names]

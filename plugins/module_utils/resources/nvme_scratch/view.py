# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state as a person reads it: for diff mode, for results and for ``gpunode scratch status``."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple

from ...facts.scratch.record import Record, array_form, filesystem_form
from . import fstab
from .builds import judge_builds
from .disks import judge
from .options import Desired
from .types import JudgedDisk, State


def _content(one: JudgedDisk) -> str:
    if one.reason is not None:
        return "not ours: {0}".format(one.reason.reason)
    if one.build is None:
        return "blank"
    uuid = one.build.array_uuid
    return "ours, array {0}".format(array_form(uuid)) if uuid else "ours, file system"


def facts(state: State, desired: Desired) -> Dict[str, Any]:
    """JSON-able, with units in the names."""
    node = judge(state, desired)
    names = {one.disk.name for one in node.chosen}
    devices = {one.device for one in judge_builds(node)[0]}
    places = (state.mounted_at(path) for path in desired.mount_points)
    # Where the scratch is: at its mount point, or where an adopted one is.
    found = next(
        (one for one in places if one and one.disks and (set(one.disks) <= names or one.device in devices)), None
    )
    used = set(found.disks) if found is not None else set()
    array = next((a for a in state.arrays if found is not None and a.name == found.device), None)
    seen = array.filesystem if array is not None else None
    if seen is None and found is not None:
        seen = next((disk.filesystem for disk in state.disks if disk.name == found.device), None)
    disks = tuple(one for one in node.disks if one.disk.name in used) or node.chosen
    ours = found is not None and found.device in devices
    return {
        "mounted": found is not None,
        "mount_point": found.mount_point if found is not None else None,
        "device": "/dev/" + found.device if found is not None and found.device else None,
        "adopted": found is not None and not ours,
        "filesystem": found.filesystem if found is not None else None,
        "filesystem_uuid": filesystem_form(seen.uuid) if seen is not None else None,
        "array_uuid": array_form(array.uuid) if array is not None and array.uuid else None,
        "array_name": array.array_name if array is not None else None,
        "chunk_kib": array.chunk_bytes // 1024 if array is not None else None,
        "stripe_unit_bytes": seen.stripe_unit_bytes if seen is not None else None,
        "stripe_width_bytes": seen.stripe_width_bytes if seen is not None else None,
        "size_bytes": array.size_bytes
        if array is not None
        else sum(one.disk.size_bytes for one in disks if one.disk.name in used),
        "disks": [
            {
                "serial": one.disk.serial,
                "name": one.disk.name,
                "model": one.disk.model,
                "size_bytes": one.disk.size_bytes,
                "content": _content(one),
            }
            for one in sorted(disks, key=lambda one: one.disk.serial)
        ],
    }


def text(state: State, desired: Desired, planned: Tuple[str, ...] = ()) -> str:
    """A few readable lines; in check mode followed by what is planned."""
    record = state.record or Record()
    known = tuple(build.filesystem_uuid for build in record.builds)
    lines: List[str] = ["disks:"]
    for one in sorted(judge(state, desired).disks, key=lambda one: one.disk.serial):
        disk = one.disk
        lines.append("  {0}: {1}, {2} bytes, {3}".format(disk.serial, disk.model, disk.size_bytes, _content(one)))
    lines.append("arrays:")
    for array in state.arrays:
        uuid = array_form(array.uuid) if array.uuid else "unknown UUID"
        lines.append(
            "  {0}: {1}, {2}, chunk {3} KiB, {4} of {5} disks, {6}".format(
                array.array_name or array.name,
                uuid,
                array.level,
                array.chunk_bytes // 1024,
                len(array.members),
                array.raid_devices,
                ", ".join("{0} {1}".format(s.type, s.uuid or "") for s in array.signatures) or "blank",
            )
        )
    lines.append("mounts:")
    lines += ["  {0}: {1} on {2}".format(at.mount_point, at.filesystem, at.source) for at in state.mounts]
    point = state.mount_point
    if point is not None:
        lines.append(
            "mount_point: {0} {1} {2}:{3} {4:04o}".format(point.path, point.kind, point.owner, point.group, point.mode)
        )
    path = record.mount_point or desired.mount_point
    own = [line.text for line in fstab.entries(state.fstab, path, known) if line.ours]
    lines.append("fstab: {0}".format(json.dumps(own)))
    lines.append(
        "record: {0}".format(
            ", ".join(
                "{0}{1}".format(filesystem_form(build.filesystem_uuid), "" if build.finished else " (begun)")
                for build in record.builds
            )
            or "none"
        )
    )
    lines.append("declared: {0}".format(json.dumps(state.declared.get("nvme_scratch"), sort_keys=True)))
    if planned:
        lines.append("planned:")
        lines.extend("  - " + step for step in planned)
    return "\n".join(lines) + "\n"

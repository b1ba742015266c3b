# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state as a person reads it: for diff mode, for results and for ``gpunode scratch status``."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple

from ...facts.scratch.record import Record
from . import fstab, mounting, selection, standing
from .classify import Blank, Ours, judge
from .options import Desired
from .types import Disk, Mount, State, array_form, filesystem_form


def _content(disk: Disk, state: State) -> str:
    verdict = judge(disk, state)
    if isinstance(verdict, Blank):
        return "blank"
    if isinstance(verdict, Ours):
        uuid = verdict.build.array_uuid
        return "ours, array {0}".format(array_form(uuid)) if uuid else "ours, file system"
    return "not ours: {0}".format(verdict.reason)


def scratch_mount(state: State, desired: Desired) -> Optional[Mount]:
    """Where the scratch is: at its mount point, or where an adopted one stands."""
    names = {disk.name for disk in selection.select(state, desired)}
    for path in desired.mount_points:
        mount = mounting.mounted_at(state, path)
        if mount is not None and mount.disks and (set(mount.disks) <= names or _is_ours(state, mount)):
            return mount
    return None


def _is_ours(state: State, mount: Mount) -> bool:
    return any(one.device == mount.device for one in standing.ours(state))


def facts(state: State, desired: Desired) -> Dict[str, Any]:
    """JSON-able, with units in the names."""
    mount = scratch_mount(state, desired)
    used = set(mount.disks) if mount is not None else set()
    chosen = selection.select(state, desired)
    array = next((a for a in state.arrays if mount is not None and a.name == mount.device), None)
    seen = array.filesystem if array is not None else None
    if seen is None and mount is not None:
        seen = next((disk.filesystem for disk in state.disks if disk.name == mount.device), None)
    disks: Tuple[Disk, ...] = tuple(d for d in state.disks if d.name in used) or chosen
    ours = mount is not None and _is_ours(state, mount)
    return {
        "mounted": mount is not None,
        "mount_point": mount.mount_point if mount is not None else None,
        "device": "/dev/" + mount.device if mount is not None and mount.device else None,
        "adopted": mount is not None and not ours,
        "filesystem": mount.filesystem if mount is not None else None,
        "filesystem_uuid": filesystem_form(seen.uuid) if seen is not None else None,
        "array_uuid": array_form(array.uuid) if array is not None and array.uuid else None,
        "array_name": array.array_name if array is not None else None,
        "chunk_kib": array.chunk_bytes // 1024 if array is not None else None,
        "stripe_unit_bytes": seen.stripe_unit_bytes if seen is not None else None,
        "stripe_width_bytes": seen.stripe_width_bytes if seen is not None else None,
        "size_bytes": array.size_bytes
        if array is not None
        else sum(disk.size_bytes for disk in disks if disk.name in used),
        "disks": [
            {
                "serial": d.serial,
                "name": d.name,
                "model": d.model,
                "size_bytes": d.size_bytes,
                "content": _content(d, state),
            }
            for d in sorted(disks, key=lambda disk: disk.serial)
        ],
    }


def text(state: State, desired: Desired, planned: Tuple[str, ...] = ()) -> str:
    """A few readable lines; in check mode followed by what is planned."""
    record = state.record or Record()
    known = tuple(build.filesystem_uuid for build in record.builds)
    lines: List[str] = ["disks:"]
    for disk in sorted(state.disks, key=lambda disk: disk.serial):
        lines.append(
            "  {0}: {1}, {2} bytes, {3}".format(disk.serial, disk.model, disk.size_bytes, _content(disk, state))
        )
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
    for mount in state.mounts:
        lines.append("  {0}: {1} on {2}".format(mount.mount_point, mount.filesystem, mount.source))
    point = state.mount_point
    if point is not None:
        lines.append(
            "mount_point: {0} {1} {2}:{3} {4:04o}".format(point.path, point.kind, point.owner, point.group, point.mode)
        )
    path = record.mount_point or desired.mount_point
    own = [line.text for line in fstab.entries(state.fstab) if fstab.is_ours(line, path, known)]
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

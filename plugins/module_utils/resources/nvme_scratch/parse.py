# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what the tools and the kernel print. Unknown lines are passed over, missing ones give None."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from ...core.mounts import Mount
from ...facts.scratch.record import canonical
from .types import Member, Signature


def _plain(text: str) -> str:
    """libblkid writes blanks and other odd bytes of a label as \\x20."""
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda match: chr(int(match.group(1), 16)), text)


def wipefs(text: str) -> Tuple[Signature, ...]:
    """``wipefs --parsable``: offset,uuid,label,type; the same order since util-linux 2.17. A label may have commas."""
    found: Dict[Signature, None] = {}
    for line in text.splitlines():
        fields = line.split(",")
        if line.startswith("#") or len(fields) < 4:
            continue
        kind = fields[-1].strip()
        # One superblock with several magic bytes (gpt has two copies, zfs up to four labels) is one finding.
        found[Signature(kind, canonical(fields[1]) or None, _plain(",".join(fields[2:-1])) or None)] = None
    return tuple(found)


def export(text: str) -> Dict[str, str]:
    """NAME=value lines, as ``mdadm --export`` and ``blkid --output export`` write them."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def _size_bytes(text: str) -> Optional[int]:
    match = re.match(r"^(\d+)\s*([KMG]?)", text)
    if match is None:
        return None
    return int(match.group(1)) * {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}[match.group(2)]


def examine(text: str) -> Dict[str, Member]:
    """``mdadm --examine DEVICE…``, by device path; devices without a superblock are left out."""
    sections: Dict[str, Dict[str, str]] = {}
    current: Optional[Dict[str, str]] = None
    for line in text.splitlines():
        match = re.fullmatch(r"(/dev/\S+):\s*", line)
        if match:
            current = sections.setdefault(match.group(1), {})
            continue
        name, colon, value = line.partition(" : ")
        if colon and current is not None:
            current.setdefault(name.strip(), value.strip())
    members = {}
    for path, fields in sections.items():
        uuid = canonical(fields.get("Array UUID", fields.get("UUID", "")).split(" ")[0])
        if not re.fullmatch(r"[0-9a-f]{32}", uuid):
            continue
        devices = fields.get("Raid Devices", "")
        role = re.fullmatch(r"Active device (\d+)", fields.get("Device Role", ""))
        members[path] = Member(
            array_uuid=uuid,
            # "any:name  (local to host any)"
            array_name=fields.get("Name", "").split(" ")[0],
            level=fields.get("Raid Level"),
            raid_devices=int(devices) if devices.isdigit() else None,
            role=int(role.group(1)) if role else None,
            chunk_bytes=_size_bytes(fields.get("Chunk Size", "")),
            reshaping="Reshape pos'n" in fields,
            events=int(fields["Events"]) if fields.get("Events", "").isdigit() else None,
        )
    return members


def covering(lines: Sequence[Mount]) -> Dict[str, Tuple[Mount, ...]]:
    """By mount ID: what lies on top of it or inside of it, or hides it from above; its own file system does not count.

    The order of the lines does not tell it; that a mount is mounted on another one does.
    """
    by_id = {line.mount_id: line for line in lines}
    at: Dict[str, List[Mount]] = {}
    for line in lines:
        at.setdefault(line.point, []).append(line)
    found: Dict[str, List[Mount]] = {line.mount_id: [] for line in lines}
    for line in lines:
        below: List[str] = []
        parent = line.parent_id
        while parent in by_id and parent not in below:
            below.append(parent)
            parent = by_id[parent].parent_id
        for mount_id in below:
            if by_id[mount_id].device != line.device:
                found[mount_id].append(line)
        folder = line.point
        while folder not in ("/", ""):
            folder = folder.rpartition("/")[0] or "/"
            found[line.mount_id] += [one for one in at.get(folder, ()) if one.mount_id not in below]
    return {mount_id: tuple(dict.fromkeys(ones)) for mount_id, ones in found.items()}

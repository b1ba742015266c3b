# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what we built on the disks of this machine, a file of JSON text."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Tuple

from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.machine import normal
from ...core.state_file import StateFile, document

RECORD_PATH = "/var/lib/gpu_node/nvme_scratch.json"

# Enough to know a disk that comes back after several rebuilds; the record stays one small block.
MOST_BUILDS = 16


def canonical(uuid: str) -> str:
    """32 lower-case hexadecimal digits, whichever way a tool groups them."""
    return uuid.replace(":", "").replace("-", "").strip().lower()


def array_form(uuid: str) -> str:
    """As mdadm writes it: four groups of eight."""
    return ":".join(uuid[i : i + 8] for i in range(0, 32, 8))


def filesystem_form(uuid: str) -> str:
    """As blkid, mkfs and fstab write it."""
    return "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))


@frozen
class Build:
    """One file system that we made, or adopted by its name. ``array_uuid`` is None on a single disk.

    It is recorded before a disk is touched, so whatever carries one of these UUIDs is proven ours, also after
    a power cut. ``finished`` is recorded after mkfs: before that there can be no data in it.
    """

    array_uuid: Optional[str]
    filesystem_uuid: str
    filesystem: str
    serials: Tuple[str, ...]
    finished: bool = False

    def __str__(self) -> str:
        if self.array_uuid is not None:
            return "our array {0}".format(array_form(self.array_uuid))
        return "our file system {0}".format(filesystem_form(self.filesystem_uuid))


@frozen
class Record:
    """/var/lib/gpu_node/nvme_scratch.json, the newest build last.

    ``machine`` is the machine that wrote it (``machine.py``); None: written before that was noted, or unknown.
    """

    builds: Tuple[Build, ...] = ()
    mount_point: Optional[str] = None
    created_folders: Tuple[str, ...] = ()
    created_fstab: bool = False
    machine: Optional[str] = None

    def array(self, uuid: Optional[str]) -> Optional[Build]:
        return next((b for b in self.builds if uuid is not None and b.array_uuid == uuid), None)

    def filesystem(self, uuid: Optional[str]) -> Optional[Build]:
        return next((b for b in self.builds if uuid is not None and b.filesystem_uuid == uuid), None)


def extend(record: Optional[Record], build: Build) -> Record:
    """The record with ``build`` as its newest; an older entry of the same file system gives way.

    Where there are too many, those that were never finished go first: attempts that fail must not push out the proof of
    what stands.
    """
    known = record or Record()
    kept = [b for b in known.builds if b.filesystem_uuid != build.filesystem_uuid]
    while len(kept) >= MOST_BUILDS:
        kept.remove(next((b for b in kept if not b.finished), kept[0]))
    return replaced(known, builds=(*kept, build))


def of_machine(record: Optional[Record], machine: Optional[str]) -> Tuple[Optional[Record], Tuple[Build, ...]]:
    """What this machine may call its own of a record that it found, and the builds of another machine.

    A record without a machine is an old one of ours: what it proves is bound to the machine at the next run that finds
    a scratch. Any other that does not fit came with an image, or the mainboard is a new one: it proves nothing then.
    """
    if record is None or record.machine is None:
        return record, ()
    if normal(record.machine) == machine:
        return replaced(record, machine=machine), ()
    return replaced(record, builds=()), record.builds


def _parse(content: Dict[str, Any]) -> Record:
    record = document(Record, content, ("mount_point", "created_folders", "created_fstab", "machine"))
    for build in record.builds:
        for uuid in (build.array_uuid, build.filesystem_uuid):
            if uuid is not None and (not re.fullmatch(r"[0-9a-f]{32}", uuid) or uuid == "0" * 32):
                raise ValueError("{0!r} is not a UUID".format(uuid))
    return record


FILE = StateFile("nvme_scratch", RECORD_PATH, _parse)


def read(host: Host) -> Tuple[Optional[Record], Optional[str]]:
    """The record, or why it cannot be used; neither if there is none. A caller never writes over one that it could not
    use: it is the proof of what is on the disks."""
    record, damage = FILE.read(host)
    return record, damage or None


def write(host: Host, record: Record) -> None:
    """:raises NodeError: it cannot be written."""
    FILE.write(host, record)

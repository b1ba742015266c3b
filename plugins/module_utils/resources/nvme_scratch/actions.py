# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps. Those that write to a device carry the proof that they may; it is checked again just before."""

from __future__ import annotations

from typing import Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import Action
from ...facts.scratch.record import RECORD_PATH, Build, Record, array_form, filesystem_form
from .options import Desired
from .types import FSTAB_PATH, Disk, Mount


@frozen
class WriteRecord(Action):
    """``reason`` is for the reader of the plan; None as ``record`` takes the record away."""

    record: Optional[Record]
    reason: str

    def describe(self) -> str:
        return "record in {0}: {1}".format(RECORD_PATH, self.reason)


@frozen
class StopArray(Action):
    """Stop an array that is proven ours by its UUID."""

    array_uuid: str
    name: str

    def describe(self) -> str:
        return "stop our array {0} ({1})".format(array_form(self.array_uuid), self.name)


@frozen
class EraseMark(Action):
    """Take our own mark off one disk. Nothing but that mark may be on it: ``array_uuid`` or ``filesystem_uuid``."""

    serial: str
    name: str
    array_uuid: Optional[str] = None
    filesystem_uuid: Optional[str] = None

    @classmethod
    def of(cls, disk: Disk, build: Build) -> EraseMark:
        alone = build.array_uuid is None
        return cls(disk.serial, disk.name, build.array_uuid, build.filesystem_uuid if alone else None)

    def describe(self) -> str:
        if self.array_uuid is not None:
            what = "superblock of our array {0}".format(array_form(self.array_uuid))
        else:
            what = "signature of our file system {0}".format(filesystem_form(self.filesystem_uuid or ""))
        return "erase the {0} from disk {1} ({2})".format(what, self.serial, self.name)


@frozen
class ClearDisk(Action):
    """Make a disk blank whose unrecognised content the user gives up. No signature may be on it."""

    serial: str
    name: str

    def describe(self) -> str:
        return "clear disk {0} ({1}), whose unrecognised content may be overwritten".format(self.serial, self.name)


@frozen
class CheckDisks(Action):
    """These disks contain only data that may be lost, and none is in use: proven for all disks before any is erased.

    ``marks`` are those that are erased then, ``clear`` those that are cleared, ``blank`` those that are blank.
    ``filesystems`` are the UUIDs of all our file systems; the arrays of these disks may contain no other ones.
    ``arrays`` are checked in addition to those of ``marks``. ``unmounted`` was unmounted before this step, and is
    mounted again if the check fails.
    """

    marks: Tuple[EraseMark, ...] = ()
    clear: Tuple[ClearDisk, ...] = ()
    blank: Tuple[str, ...] = ()
    filesystems: Tuple[str, ...] = ()
    arrays: Tuple[str, ...] = ()
    unmounted: Optional[Mount] = None

    @property
    def serials(self) -> Tuple[str, ...]:
        return tuple(one.serial for one in self.marks + self.clear) + self.blank

    def describe(self) -> str:
        return "check once more that the disks {0} may be erased and that nobody uses them".format(
            ", ".join(self.serials)
        )


@frozen
class EraseFilesystem(Action):
    """Make our own array blank where a new one of its layout is looked at, before the array goes: its samples lie
    elsewhere than those of its disks. No signature but that of our file system may be on it."""

    array_uuid: str
    filesystem_uuid: str

    def describe(self) -> str:
        return "erase our file system {0} from our array {1}".format(
            filesystem_form(self.filesystem_uuid), array_form(self.array_uuid)
        )


@frozen
class CreateArray(Action):
    """RAID0 of blank disks, with the UUID that the record has already. It is blank then, too.

    Its samples lie elsewhere than those of its disks, so data of an earlier use may show. They go only when a file
    system of ours (``earlier``) is recognised there, or when all that was on these disks is ``given_up``; else they
    stop us.
    """

    array_uuid: str
    array_name: str
    chunk_kib: int
    serials: Tuple[str, ...]
    names: Tuple[str, ...]
    earlier: Tuple[str, ...] = ()
    given_up: bool = False

    def describe(self) -> str:
        return "create array {0} ({1}): RAID0, chunk {2} KiB, {3} disks: {4}".format(
            self.array_name, array_form(self.array_uuid), self.chunk_kib, len(self.serials), ", ".join(self.names)
        )


@frozen
class AssembleArray(Action):
    """``force``: assemble even if the events of its members differ, since the user consents to lose its data
    (``rebuild``)."""

    array_uuid: str
    array_name: str
    serials: Tuple[str, ...]
    force: bool = False

    def describe(self) -> str:
        return "assemble our array {0} ({1}) of {2} disks".format(
            self.array_name, array_form(self.array_uuid), len(self.serials)
        )


@frozen
class MakeFilesystem(Action):
    """On our array ``array_uuid``, or on the single disk ``serial``.

    The device must be blank, or carry this very file system: one whose mkfs did not end is made again, and one that
    is complete is left as it is.
    """

    filesystem: str
    filesystem_uuid: str
    label: str
    array_uuid: Optional[str] = None
    serial: Optional[str] = None
    chunk_kib: Optional[int] = None
    data_disks: int = 1
    discard: bool = False

    @classmethod
    def on(cls, build: Build, desired: Desired) -> MakeFilesystem:
        alone = build.array_uuid is None
        return cls(
            filesystem=build.filesystem,
            filesystem_uuid=build.filesystem_uuid,
            label=desired.filesystem_label,
            array_uuid=build.array_uuid,
            serial=build.serials[0] if alone else None,
            chunk_kib=None if alone else desired.chunk_kib,
            data_disks=len(build.serials),
            discard=desired.discard,
        )

    def describe(self) -> str:
        target = (
            "disk {0}".format(self.serial)
            if self.array_uuid is None
            else "array {0}".format(array_form(self.array_uuid))
        )
        aligned = ""
        if self.chunk_kib is not None:
            aligned = ", stripe unit {0} KiB, {1} wide".format(self.chunk_kib, self.data_disks)
        return "make an {0} file system on {2} with UUID {1}{3}".format(
            self.filesystem, filesystem_form(self.filesystem_uuid), target, aligned
        )


@frozen
class MakeFolder(Action):
    path: str

    def describe(self) -> str:
        return "make the folder {0}".format(self.path)


@frozen
class EditFstab(Action):
    """Have one line of ours (None: no line); every other byte stays."""

    line: Optional[str]
    mount_point: str
    filesystem_uuids: Tuple[str, ...]
    remove_if_empty: bool = False

    def describe(self) -> str:
        if self.line is None:
            return "take our line out of {0}".format(FSTAB_PATH)
        return "have this line in {0}: {1}".format(FSTAB_PATH, self.line)


@frozen
class MountFilesystem(Action):
    """``remount``: it is mounted already and gets new options."""

    filesystem_uuid: str
    filesystem: str
    mount_point: str
    options: Tuple[str, ...]
    array_uuid: Optional[str] = None
    serial: Optional[str] = None
    remount: bool = False

    def describe(self) -> str:
        return "{0} it on {1} with {2}".format(
            "remount" if self.remount else "mount", self.mount_point, ",".join(self.options)
        )


@frozen
class SetRoot(Action):
    """Owner, group and mode of the mounted root folder; an owner or group of None is left as it is."""

    mount_point: str
    owner: Optional[int]
    group: Optional[int]
    mode: int

    def describe(self) -> str:
        accounts = (("owner", self.owner), ("group", self.group))
        given = ["{0} {1}".format(what, number) for what, number in accounts if number is not None]
        return "give {0} {1}".format(self.mount_point, ", ".join(given + ["mode {0:04o}".format(self.mode)]))


@frozen
class Unmount(Action):
    mount_point: str
    device: str

    def describe(self) -> str:
        return "unmount {0} ({1})".format(self.mount_point, self.device)


@frozen
class StopAutomount(Action):
    """Else the next look into the folder mounts our file system again."""

    mount_point: str

    def describe(self) -> str:
        return "stop the automount at {0}".format(self.mount_point)


@frozen
class RemoveFolder(Action):
    """Only when it is empty."""

    path: str

    def describe(self) -> str:
        return "remove the folder {0} that we made, if it is empty".format(self.path)

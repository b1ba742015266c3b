# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small pure machine: what md, mkfs, fstab and mount do, as far as the planner can see it.

Applying an action asserts what must never happen: touching a disk that is not blank and not of ours, making a
file system over data, taking a mounted device away, erasing a member of an array whose data could still be read. A disk
may be late (there, and not visible), a member may have a copy, an array another level: the machine knows, the planner
does not. A power cut can fall before, in the middle of or after any action.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Set, Tuple

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import Record, of_machine
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import fstab
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import (
    Array,
    Content,
    Disk,
    Filesystem,
    Member,
    Mount,
    MountPoint,
    Signature,
    State,
)

MODEL = "Microsoft NVMe Direct Disk"
CHUNK = 512 * 1024


@dataclasses.dataclass
class Volume:
    """A file system and whether somebody's data are in it. ``damaged``: its primary superblock reads as zeros, which
    its copies can repair."""

    uuid: str
    type: str = "xfs"
    label: str = "gpu_scratch"
    in_progress: bool = False
    data: bool = False
    damaged: bool = False
    stripe: Optional[Tuple[int, int]] = None
    owner: Tuple[int, int, int] = (0, 0, 0o755)


@dataclasses.dataclass
class Drive:
    """``superblock``: (array UUID, role, devices). ``foreign``: signatures that are somebody's; ``residue``: data
    that nobody recognises, which a file system of ours leaves behind too. ``held``: a process has it open."""

    serial: str
    superblock: Optional[Tuple[str, int, int]] = None
    volume: Optional[Volume] = None
    foreign: Tuple[str, ...] = ()
    residue: bool = False
    held: bool = False
    name: str = ""
    model: str = MODEL
    extra: Dict[str, Any] = dataclasses.field(default_factory=dict)


class StepFailed(Exception):
    """A step that fails on a real machine too, with nothing lost; the next run sees more and goes on."""


class Machine:
    def __init__(
        self, drives: List[Drive], record: Optional[Record] = None, fstab_text: Optional[str] = "# empty\n"
    ) -> None:
        self.drives = drives
        for number, drive in enumerate(drives):
            drive.name = drive.name or "nvme{0}n1".format(number)
        self.record = record
        self.fstab = fstab_text
        self.declared: Dict[str, Any] = {}
        self.arrays: Dict[str, Tuple[str, Tuple[str, ...]]] = {}
        self.array_names: Dict[str, str] = {}
        self.volumes: Dict[str, Volume] = {}
        self.mounts: Dict[str, str] = {}
        self.folders = {"/mnt"}
        self.machine: Optional[str] = "dmi:1"
        self.late: List[Drive] = []
        # Arrays that a run assembled: what is on them was not known to its plan.
        self.unseen: Set[str] = set()
        # Data that nobody recognises where only an array of these disks shows them, as its samples lie elsewhere.
        self.hidden = False
        self.levels: Dict[str, str] = {}
        self.reshaping: Set[str] = set()
        # Somebody said of these arrays and volumes that their data may be lost.
        self.consented = False
        self.protected = {d.serial for d in drives if d.foreign}

    # What the planner sees ----------------------------------------------------------------------------

    def whole(self, name: str) -> bool:
        uuid, members = self.arrays[name]
        drives = [self.drive(serial) for serial in members]
        devices = {d.superblock[2] for d in drives if d.superblock}
        roles = sorted(d.superblock[1] for d in drives if d.superblock)
        return len(devices) == 1 and roles == list(range(next(iter(devices)))) and uuid not in self.levels

    def readable(self, uuid: str) -> bool:
        """Whether somebody's data could still be read from that array, were all of its disks here."""
        volume = self.volumes.get(uuid)
        marks = {d.superblock for d in self.drives + self.late if d.superblock and d.superblock[0] == uuid}
        devices = {mark[2] for mark in marks}
        roles = {mark[1] for mark in marks}
        return volume is not None and volume.data and len(devices) == 1 and len(roles) == next(iter(devices))

    def drive(self, serial: str) -> Drive:
        return next(d for d in self.drives if d.serial == serial)

    def device_volume(self, device: str) -> Optional[Volume]:
        if device in self.arrays:
            return self.volumes.get(self.arrays[device][0]) if self.whole(device) else None
        return next(d.volume for d in self.drives if d.name == device)

    def observe(self, mount_point: str = "/mnt/scratch") -> State:
        def points(device: str) -> Tuple[str, ...]:
            return tuple(p for p, d in self.mounts.items() if d == device)

        # As proof.py: a disk beneath a mount is in use anyhow, and is not asked.
        beneath = {name for device in self.mounts.values() for name in self._disks_of(device)}
        disks = []
        for d in self.drives:
            found = [Signature(kind, "f" * 32) for kind in d.foreign]
            member = None
            if d.superblock:
                found.append(Signature("linux_raid_member", d.superblock[0]))
                name = "any:" + self.array_names.get(d.superblock[0], "gpu_node_scratch")
                uuid, role, devices = d.superblock
                level = self.levels.get(uuid, "raid0")
                devices += level != "raid0"
                member = Member(uuid, name, level, devices, role, CHUNK, uuid in self.reshaping)
            if d.volume and not d.volume.damaged:
                found.append(Signature(d.volume.type, d.volume.uuid, d.volume.label))
            holders = tuple(n for n, (dummy, members) in self.arrays.items() if d.serial in members)
            fields: Dict[str, Any] = {
                "size_bytes": 10**9,
                "holders": holders,
                "mount_points": points(d.name),
                "busy": bool(holders or points(d.name)),
                "openers": None if d.name in beneath else ("process 7 (dd)",) if d.held else (),
                "content": None if found or holders else Content(4096, 0 if d.residue or d.volume else None),
                "signatures": tuple(found),
                "member": member,
                "filesystem": _seen(d.volume),
            }
            fields.update(d.extra)
            disks.append(Disk(name=d.name, serial=d.serial, model=d.model, **fields))
        arrays = []
        for name, (uuid, members) in self.arrays.items():
            running = self.whole(name)
            altered = uuid in self.levels
            volume = self.device_volume(name)
            shown = volume if volume and not volume.damaged else None
            arrays.append(
                Array(
                    name=name,
                    uuid=uuid if running or altered else None,
                    array_name="any:" + self.array_names.get(uuid, "gpu_node_scratch") if running or altered else "",
                    level=self.levels.get(uuid, "raid0") if running or altered else None,
                    raid_devices=len(members) + altered if running or altered else 0,
                    state="clean" if running or altered else "inactive",
                    reshaping=uuid in self.reshaping,
                    members=tuple(self.drive(s).name for s in members),
                    chunk_bytes=CHUNK if running else 0,
                    mount_points=points(name),
                    busy=bool(points(name)),
                    signatures=(Signature(shown.type, shown.uuid, shown.label),) if shown else (),
                    content=Content(4096, 0 if volume else None) if running and not shown else None,
                    filesystem=_seen(volume),
                )
            )
        mounts = tuple(
            Mount(p, device, "xfs", True, "/dev/" + device, True, self._disks_of(device))
            for p, device in self.mounts.items()
        )
        device = self.mounts.get(mount_point)
        volume = self.device_volume(device) if device else None
        kind = "folder" if mount_point in self.folders else "missing"
        point = MountPoint(mount_point, kind, True, () if kind == "folder" else (mount_point,))
        if volume:
            point = MountPoint(mount_point, "folder", True, (), *volume.owner)
        record, others = of_machine(self.record, self.machine)
        return State(
            disks=tuple(disks),
            arrays=tuple(arrays),
            mounts=mounts,
            mount_point=point,
            fstab=self.fstab,
            record=record,
            machine=self.machine,
            others=others,
            declared=dict(self.declared),
        )

    def _disks_of(self, device: str) -> Tuple[str, ...]:
        if device in self.arrays:
            return tuple(sorted(self.drive(s).name for s in self.arrays[device][1]))
        return (device,)

    # What actions do ----------------------------------------------------------------------------------

    def _touch(self, serial: str) -> Drive:
        assert serial not in self.protected, "an action on the foreign disk " + serial
        return self.drive(serial)

    def _running(self, uuid: str) -> Optional[str]:
        return next((n for n, (u, dummy) in self.arrays.items() if u == uuid and self.whole(n)), None)

    def _volume_target(self, action: Any, writes: bool = True) -> str:
        if action.array_uuid is None:
            return (self._touch(action.serial) if writes else self.drive(action.serial)).name
        name = self._running(action.array_uuid)
        assert name is not None, "the array is not running"
        return name

    def _set_volume(self, device: str, volume: Optional[Volume]) -> None:
        if device not in self.arrays:
            drive = next(d for d in self.drives if d.name == device)
            drive.volume = volume
            return
        self.volumes.pop(self.arrays[device][0], None)
        if volume is not None:
            self.volumes[self.arrays[device][0]] = volume

    def apply(self, action: Any, half: bool = False) -> None:
        """``half``: the power goes in the middle of it."""
        if isinstance(action, Declare):
            if not half:
                self.declared.pop(action.section, None)
                if action.content is not None:
                    self.declared[action.section] = action.content
        elif isinstance(action, act.WriteRecord):
            if not half:
                self.record = action.record
        elif isinstance(action, act.StopArray):
            uuid, members = self.arrays[action.name]
            assert uuid == action.array_uuid and action.name not in self.mounts.values()
            assert not set(members) & self.protected
            del self.arrays[action.name]
        elif isinstance(action, act.EraseMark):
            drive = self._touch(action.serial)
            assert not any(drive.serial in members for dummy, members in self.arrays.values()), "it is held"
            assert drive.name not in self.mounts.values()
            assert not drive.held, "erased under the hands of a process"
            if action.array_uuid:
                assert drive.superblock is not None and drive.superblock[0] == action.array_uuid
                lost = not self.consented and self.readable(action.array_uuid)
                assert not lost, "{0} is erased, and the data of its array could be read".format(drive.serial)
                if not half:
                    drive.superblock, drive.residue = None, False
            else:
                assert drive.volume is not None and drive.volume.uuid == action.filesystem_uuid
                assert self.consented or not drive.volume.data, "data would be lost"
                if not half:
                    drive.volume, drive.residue = None, False
        elif isinstance(action, act.ClearDisk):
            drive = self._touch(action.serial)
            assert not drive.superblock and not drive.foreign and not drive.held
            assert not drive.volume or drive.volume.damaged
            if not half:
                drive.volume, drive.residue = None, False
        elif isinstance(action, act.CheckDisks):
            if any(self.drive(serial).held for serial in action.serials):
                raise StepFailed("a process holds one of them")
        elif isinstance(action, act.EraseFilesystem):
            name = self._running(action.array_uuid)
            assert name is not None and name not in self.mounts.values()
            self._set_volume(name, None)
            self.hidden = False
        elif isinstance(action, act.CreateArray):
            drives = [self._touch(serial) for serial in action.serials]
            for drive in drives:
                alone = not drive.superblock and not drive.volume and not drive.foreign
                assert alone and not drive.residue, "not blank: " + drive.serial
                assert not any(drive.serial in members for dummy, members in self.arrays.values())
            for role, drive in enumerate(drives[: len(drives) // 2] if half else drives):
                drive.superblock, drive.residue = (action.array_uuid, role, len(drives)), True
            if not half:
                self.arrays["md127"] = (action.array_uuid, action.serials)
                if self.hidden and not action.given_up:
                    self.volumes[action.array_uuid] = Volume("0" * 32, damaged=True, data=True)
                    raise StepFailed("the new array is not blank")
                assert not self.hidden or self.consented, "data that nobody gave up are cleared"
                self.hidden = False
        elif isinstance(action, act.AssembleArray):
            if not half:
                self.arrays["md126"] = (action.array_uuid, action.serials)
                self.unseen.add("md126")
                assert self.whole("md126")
        elif isinstance(action, act.MakeFilesystem):
            device = self._volume_target(action)
            assert device not in self.mounts.values()
            assert device in self.arrays or not self.drive(action.serial).residue or self.drive(action.serial).volume
            old = self.device_volume(device)
            ours = old is not None and old.uuid == action.filesystem_uuid and not old.damaged
            if old is None or (ours and old.in_progress and not old.data):
                stripe = (CHUNK, CHUNK * action.data_disks) if action.array_uuid else None
                self._set_volume(
                    device, Volume(action.filesystem_uuid, action.filesystem, action.label, half, stripe=stripe)
                )
            elif not ours:
                # The step itself looks first. What was there to be seen must not be planned.
                assert device in self.unseen, "a file system is to be made over another"
                raise StepFailed("something is on the array that was just assembled")
        elif isinstance(action, act.MakeFolder):
            self.folders.add(action.path)
        elif isinstance(action, act.EditFstab):
            if not half:
                self.fstab = fstab.edit(self.fstab, action.line, action.mount_point, action.filesystem_uuids)
                if self.fstab == "" and action.remove_if_empty:
                    self.fstab = None
        elif isinstance(action, act.MountFilesystem):
            device = self._volume_target(action, writes=False)
            volume = self.device_volume(device)
            if volume is None or volume.damaged:
                assert device in self.unseen
                raise StepFailed("nothing to mount on the array that was just assembled")
            assert volume.uuid == action.filesystem_uuid and not volume.in_progress
            assert action.mount_point in self.folders
            if not half:
                self.mounts[action.mount_point] = device
                volume.data = True
        elif isinstance(action, act.SetRoot):
            volume = self.device_volume(self.mounts[action.mount_point])
            assert volume is not None
            if not half:
                volume.owner = (action.owner, action.group, action.mode)
        elif isinstance(action, act.Unmount):
            del self.mounts[action.mount_point]
        elif isinstance(action, act.RemoveFolder):
            if action.path not in self.mounts:
                self.folders.discard(action.path)
        else:
            raise AssertionError("unknown action {0!r}".format(action))

    def reboot(self, number: int = 127) -> None:
        """Power off and on: md assembles what it finds under a number of its choice; fstab mounts what is whole."""
        self.mounts.clear()
        self.arrays.clear()
        self.unseen.clear()
        by_uuid: Dict[str, List[Drive]] = {}
        for drive in self.drives:
            if drive.superblock and not drive.foreign:
                by_uuid.setdefault(drive.superblock[0], []).append(drive)
        for uuid, drives in by_uuid.items():
            # Of two with the same role the first gets in (mdadm refuses the second).
            roles = {d.superblock[1]: d.serial for d in reversed(drives) if d.superblock}
            self.arrays["md{0}".format(number)] = (uuid, tuple(roles[role] for role in sorted(roles)))
            number -= 1
        for line in fstab.entries(self.fstab):
            uuid = line.uuid
            for device in list(self.arrays) + [d.name for d in self.drives]:
                volume = self.device_volume(device)
                sound = volume is not None and not volume.in_progress and not volume.damaged
                if volume and sound and volume.uuid == uuid and line.mount_point in self.folders:
                    self.mounts.setdefault(line.mount_point, device)


def _seen(volume: Optional[Volume]) -> Optional[Filesystem]:
    if volume is None or volume.damaged:
        return None
    unit, width = volume.stripe or (None, None)
    return Filesystem(volume.type, volume.uuid, volume.label, volume.in_progress, unit, width)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps that write to a device. Each first proves again, on the device and right before it writes, that it may."""

from __future__ import annotations

import os
from typing import List, Optional, Tuple

from ...core.host import Host
from ...core.resource import NodeError
from ...facts.scratch import disks
from ...facts.scratch.record import array_form, filesystem_form
from . import observe, proof, samples
from .actions import (
    AssembleArray,
    CheckDisks,
    ClearDisk,
    CreateArray,
    EraseFilesystem,
    EraseMark,
    MakeFilesystem,
    StopArray,
)
from .devices import array_path, disk_path, settle, sync_device
from .options import REBUILD

# A probe by udev may hold an array for a moment.
STOP_TRIES = 6


class Writer:
    def __init__(self, host: Host, limit_seconds: float) -> None:
        self.host = host
        self.limit = limit_seconds

    # Proofs -------------------------------------------------------------------------------------------

    def _size(self, path: str) -> int:
        return disks.size_bytes(self.host, os.path.basename(path))

    def _find(self, serial: str) -> Tuple[str, str]:
        """The path of a disk, and what it is called in an error."""
        path = disk_path(self.host, serial)
        return path, "disk {0} ({1})".format(serial, os.path.basename(path))

    def _silent(self, path: str, thing: str) -> None:
        """:raises NodeError: libblkid recognises something on it."""
        for signature in observe.signatures(self.host, path):
            raise NodeError(
                thing,
                "it carries {0} data that are not in our record, left from an earlier use".format(signature.type),
                "if nobody needs them, run wipefs --all {0} and run it again".format(path),
            )

    def _free(self, path: str, thing: str, but: Tuple[str, ...] = ()) -> None:
        """Nobody uses it, but the arrays ``but`` of ours, and no process has it open."""
        self._unused(path, thing, but)
        proof.nobody(self.host, [(path, thing)])

    def _unused(self, path: str, thing: str, but: Tuple[str, ...] = ()) -> None:
        """No file system, array or other device lies on it, but the arrays ``but`` of ours."""
        held = [
            name
            for name in disks.holders(self.host, os.path.basename(path))
            if not but or observe.array_detail(self.host, name)[0] not in (*but, None)
        ]
        if held:
            raise NodeError(thing, "{0} is built on it".format(", ".join(held)), "take that away, then run it again")
        if observe.in_use(self.host, path) and not disks.holders(self.host, os.path.basename(path)):
            raise NodeError(thing, "it is still in use", "end that use (lsblk {0}), then run it again".format(path))

    def _marked(self, action: EraseMark) -> Optional[str]:
        """Its path, with our mark alone on it; None where it has gone already.

        :raises NodeError: it carries something else.
        """
        path, thing = self._find(action.serial)
        found = observe.signatures(self.host, path)
        if not found:
            return None
        uuid = action.array_uuid or action.filesystem_uuid
        member = found[0].type == "linux_raid_member"
        if len(found) != 1 or found[0].uuid != uuid or member != (action.array_uuid is not None):
            raise NodeError(thing, "it does not carry our mark alone any more", "run it again")
        if action.array_uuid is not None:
            members = observe.examined(self.host, [path])
            if path not in members or members[path].array_uuid != action.array_uuid:
                raise NodeError(thing, "its superblock is not that of our array any more", "run it again")
        return path

    def check(self, action: CheckDisks) -> None:
        settle(self.host)
        given_up = tuple({*action.arrays, *(mark.array_uuid for mark in action.marks if mark.array_uuid is not None)})
        for uuid in given_up:
            self._nothing_else(uuid, action.filesystems)
        for mark in action.marks:
            path, thing = self._find(mark.serial)
            self._marked(mark)
            self._free(path, thing, (mark.array_uuid,) if mark.array_uuid is not None else ())
        for serial in tuple(one.serial for one in action.clear) + action.blank:
            path, thing = self._find(serial)
            self._silent(path, thing)
            # A member whose superblock was wiped is still in the array that is given up, and is stopped next.
            self._free(path, thing, given_up)

    def _nothing_else(self, array_uuid: str, filesystems: Tuple[str, ...]) -> None:
        """A running array contains only our data, and no mount of another namespace and no program uses it.

        :raises NodeError: it is not.
        """
        path = array_path(self.host, array_uuid)
        if path is None:
            return
        state = self.host.read_line("/sys/block/{0}/md/array_state".format(os.path.basename(path)))
        if state in ("inactive", "clear", None):
            return
        try:
            found = observe.signatures(self.host, path)
        except NodeError:
            if state != "broken":
                raise
            found = ()  # a member has gone, and its place cannot be read
        for signature in found:
            if signature.uuid not in filesystems:
                raise NodeError(path, "it contains {0} data of another owner".format(signature.type), "run it again")
        if observe.in_use(self.host, path):
            raise NodeError(path, "it is still in use", "end that use (lsblk {0}), then run it again".format(path))

    # Arrays -------------------------------------------------------------------------------------------

    def stop(self, action: StopArray) -> None:
        if action.name not in observe.array_names(self.host):
            return
        uuid, dummy = observe.array_detail(self.host, action.name)
        members = [os.path.basename(path) for path in self._carriers(action.array_uuid)]
        inside = observe.array_members(self.host, action.name)
        if (uuid is None and not set(inside) <= set(members)) or (uuid is not None and uuid != action.array_uuid):
            raise NodeError(action.name, "it is not our array any more", "run it again")
        message = ""
        for _dummy in range(STOP_TRIES):
            settle(self.host)
            stopped = self.host.run(["mdadm", "--stop", "/dev/" + action.name], self.limit, accept=(0, 1, 2))
            message = stopped.message
            if stopped.returncode == 0 or action.name not in observe.array_names(self.host):
                break
        else:
            raise NodeError(
                "our array {0} ({1})".format(array_form(action.array_uuid), action.name),
                "it could not be stopped ({0})".format(message),
                "end what uses it (lsblk /dev/{0}), then run it again".format(action.name),
            )
        settle(self.host)

    def _carriers(self, array_uuid: str) -> List[str]:
        paths = ["/dev/" + name for name in disks.disk_names(self.host)]
        members = observe.examined(self.host, paths)
        return [path for path in paths if path in members and members[path].array_uuid == array_uuid]

    def create(self, action: CreateArray) -> None:
        settle(self.host)
        found = [self._find(serial) for serial in action.serials]
        for path, thing in found:
            self._silent(path, thing)
            self._unused(path, thing)
        proof.demand(self.host, [(path, self._size(path), thing) for path, thing in found])
        paths = [path for path, dummy in found]
        folder = "/dev/md/" + action.array_name
        self.host.run(
            ["mdadm", "--create", folder, "--run", "--metadata=1.2", "--level=0", "--homehost=any"]
            + ["--name=" + action.array_name, "--uuid=" + array_form(action.array_uuid)]
            + ["--chunk={0}".format(action.chunk_kib), "--raid-devices={0}".format(len(paths))]
            + paths,
            self.limit,
        )
        settle(self.host)
        made = array_path(self.host, action.array_uuid, running=True)
        if made is None:
            raise NodeError("our array {0}".format(array_form(action.array_uuid)), "it is not running", "run it again")
        # What an older array left behind marks that were wiped shows through when the layout is the same.
        shown = observe.signatures(self.host, made)
        for signature in shown:
            if signature.uuid not in action.earlier:
                raise NodeError(
                    made,
                    "it carries {0} data of an earlier use, as only marks were wiped from its disks".format(
                        signature.type
                    ),
                    "mount it read-only and look; if nobody needs them, run wipefs --all {0} and {1}".format(
                        made, REBUILD
                    ),
                )
        at = samples.look(self.host.path(made), self._size(made)).other_at
        if at is None:
            return
        if not (shown or action.given_up):
            # It stays, so that somebody can look at them; what a power cut here leaves is refused in the same way.
            raise NodeError(
                made,
                "it holds data of an unknown kind (at byte {0}), which an earlier use left on its disks and which show "
                "on the array only".format(at),
                "look at it; if nobody needs them, " + REBUILD,
            )
        self._make_blank(made, made)

    def assemble(self, action: AssembleArray) -> None:
        settle(self.host)
        if array_path(self.host, action.array_uuid, running=True) is not None:  # udev was faster
            return
        paths = [disk_path(self.host, serial) for serial in action.serials]
        command = ["mdadm", "--assemble", "--run", "--uuid=" + array_form(action.array_uuid)]
        command += ["/dev/md/" + action.array_name, *paths]
        done = self.host.run(command, self.limit, accept=(0, 1, 2))
        settle(self.host)
        if array_path(self.host, action.array_uuid, running=True) is not None:
            return
        part = array_path(self.host, action.array_uuid)
        if part is not None:
            self.host.run(["mdadm", "--stop", part], self.limit, accept=(0, 1, 2))
            settle(self.host)
        forced = [*command[:2], "--force", *command[2:]]
        if action.force:
            done = self.host.run(forced, self.limit, accept=(0, 1, 2))
            settle(self.host)
        if array_path(self.host, action.array_uuid, running=True) is None:
            raise NodeError(
                "our array {0}".format(array_form(action.array_uuid)),
                "it could not be assembled ({0})".format(done.message),
                "look at mdadm --examine of its disks and at the kernel log; if only the events of its members differ, "
                "run {0}, then run it again".format(" ".join(forced)),
            )

    # Erasing and making -------------------------------------------------------------------------------

    def erase_mark(self, action: EraseMark) -> None:
        path, thing = self._find(action.serial)
        if self._marked(action) is None:
            return
        self._free(path, thing)
        # What lies behind the mark goes too, where the proof of blankness looks: else nobody could tell whose it is.
        self._make_blank(path, thing)

    def clear(self, action: ClearDisk) -> None:
        path, thing = self._find(action.serial)
        self._silent(path, thing)
        self._free(path, thing)
        self._make_blank(path, thing)

    def _make_blank(self, path: str, thing: str) -> None:
        samples.clear(self.host.path(path), disks.size_bytes(self.host, os.path.basename(path)))
        settle(self.host)
        left = observe.signatures(self.host, path)
        if left:
            raise NodeError(
                thing,
                "it was cleared and still carries {0} data".format(left[0].type),
                "wipe it (wipefs --all {0}) and run it again".format(path),
            )

    def erase_filesystem(self, action: EraseFilesystem) -> None:
        path = array_path(self.host, action.array_uuid, running=True)
        if path is None:
            return
        for signature in observe.signatures(self.host, path):
            if signature.uuid != action.filesystem_uuid:
                raise NodeError(path, "it contains {0} data of another owner".format(signature.type), "run it again")
        self._free(path, path)
        self._make_blank(path, path)

    def make_filesystem(self, action: MakeFilesystem) -> None:
        if action.array_uuid is not None:
            path = array_path(self.host, action.array_uuid, running=True) or ""
            if not path:
                raise NodeError(
                    "our array {0}".format(array_form(action.array_uuid)), "it is not running", "run it again"
                )
        else:
            path = disk_path(self.host, action.serial or "")
        seen = observe.filesystem(self.host, path)
        begun = seen is not None and (seen.type, seen.uuid) == (action.filesystem, action.filesystem_uuid)
        if begun and seen is not None and not seen.in_progress:
            return  # It is complete: the power went before that was on record. Somebody may have written to it since.
        if begun:
            # The plan has not seen what is on an array that was assembled after it.
            for signature in observe.signatures(self.host, path):
                if signature.uuid != action.filesystem_uuid:
                    reason = "it contains {0} data of another owner".format(signature.type)
                    raise NodeError(path, reason, "run it again, which reports what may be done")
        else:
            self._silent(path, path)
            proof.demand(self.host, [(path, self._size(path), path)])
        self._free(path, path)
        self.host.run(_mkfs(action, force=begun) + [path], self.limit)
        sync_device(self.host, path)
        settle(self.host)


def _mkfs(action: MakeFilesystem, force: bool) -> List[str]:
    uuid = filesystem_form(action.filesystem_uuid)
    if action.filesystem == "xfs":
        command = ["mkfs.xfs", "-q", "-m", "uuid=" + uuid, "-L", action.label]
        if action.chunk_kib is not None:
            command += ["-d", "su={0}k,sw={1}".format(action.chunk_kib, action.data_disks)]
        command += [] if action.discard else ["-K"]
        return command + (["-f"] if force else [])
    extended = ["discard" if action.discard else "nodiscard"]
    if action.chunk_kib is not None:
        stride = action.chunk_kib // 4  # in blocks of 4 KiB
        extended += ["stride={0}".format(stride), "stripe_width={0}".format(stride * action.data_disks)]
    command = ["mkfs.ext4", "-q", "-b", "4096", "-m", "0", "-U", uuid, "-L", action.label, "-E", ",".join(extended)]
    return command + (["-F"] if force else [])

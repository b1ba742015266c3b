# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step. Whatever writes to a device first proves again, on the device, that it may."""

from __future__ import annotations

import contextlib
import os
from typing import List, Optional, Tuple

from .. import declaration
from ..host import Host
from ..resource import Action, NodeError
from . import fstab, observe, record, users
from .actions import (
    AssembleArray,
    CreateArray,
    EditFstab,
    EraseFilesystem,
    EraseMark,
    MakeFilesystem,
    MakeFolder,
    MountFilesystem,
    RemoveFolder,
    SetRoot,
    StopArray,
    Unmount,
    WriteRecord,
)
from .desired import Desired
from .devices import array_path, disk_path, settle, sync_device
from .types import FSTAB_PATH, RECORD_PATH, array_form, filesystem_form


class Applier:
    """Knows the machine and the time limits; :meth:`__call__` does one step."""

    def __init__(self, host: Host, desired: Desired) -> None:
        self.host = host
        self.limit = float(desired.command_timeout_seconds)

    def __call__(self, action: Action) -> None:
        try:
            self._do(action)
        except OSError as error:
            raise NodeError(
                str(error.filename or "nvme_scratch"),
                "cannot {0} ({1})".format(action.describe(), error.strerror),
                "mend that, then run it again",
            ) from error

    def _do(self, action: Action) -> None:
        if isinstance(action, declaration.Declare):
            declaration.apply(self.host, action)
        elif isinstance(action, WriteRecord):
            self._record(action)
        elif isinstance(action, StopArray):
            self._stop(action)
        elif isinstance(action, EraseMark):
            self._erase_mark(action)
        elif isinstance(action, EraseFilesystem):
            self._erase_filesystem(action)
        elif isinstance(action, CreateArray):
            self._create(action)
        elif isinstance(action, AssembleArray):
            self._assemble(action)
        elif isinstance(action, MakeFilesystem):
            self._mkfs(action)
        elif isinstance(action, MakeFolder):
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.host.path(action.path), 0o755)
        elif isinstance(action, EditFstab):
            self._edit_fstab(action)
        elif isinstance(action, MountFilesystem):
            self._mount(action)
        elif isinstance(action, SetRoot):
            self._set_root(action)
        elif isinstance(action, Unmount):
            self._unmount(action)
        elif isinstance(action, RemoveFolder):
            with contextlib.suppress(OSError):  # somebody's files keep it
                os.rmdir(self.host.path(action.path))
        else:
            raise TypeError("unknown action {0!r}".format(action))

    # Bookkeeping --------------------------------------------------------------------------------------

    def _record(self, action: WriteRecord) -> None:
        if action.record is None:
            self.host.remove(RECORD_PATH, folder_too=True)
        else:
            self.host.write(RECORD_PATH, record.dump(action.record), 0o600)

    def _edit_fstab(self, action: EditFstab) -> None:
        text = fstab.edit(self.host.read(FSTAB_PATH), action.line, action.mount_point, action.filesystem_uuids)
        if text == "" and action.remove_if_empty:
            self.host.remove(FSTAB_PATH)
        else:
            self.host.write(FSTAB_PATH, text)
        # Else systemd would take a new mount down again, as its unit still waits for the old device.
        if self.host.exists("/run/systemd/system") and self.host.which("systemctl"):
            self.host.run(["systemctl", "daemon-reload"], 90.0)

    # Arrays -------------------------------------------------------------------------------------------

    def _stop(self, action: StopArray) -> None:
        if action.name not in observe.array_names(self.host):
            return
        uuid, dummy = observe.array_detail(self.host, action.name)
        members = [os.path.basename(path) for path in self._carriers(action.array_uuid)]
        inside = observe.array_members(self.host, action.name)
        if (uuid is None and not set(inside) <= set(members)) or (uuid is not None and uuid != action.array_uuid):
            raise NodeError(action.name, "it is not our array any more", "run it again")
        settle(self.host)
        stopped = self.host.run(["mdadm", "--stop", "/dev/" + action.name], self.limit, accept=(0, 1, 2))
        for _dummy in range(5):  # a probe by udev may hold it for a moment
            if stopped.returncode == 0 or action.name not in observe.array_names(self.host):
                break
            settle(self.host)
            stopped = self.host.run(["mdadm", "--stop", "/dev/" + action.name], self.limit, accept=(0, 1, 2))
        else:
            raise NodeError(
                "our array {0} ({1})".format(array_form(action.array_uuid), action.name),
                "it could not be stopped ({0})".format(stopped.message),
                "end what uses it (lsblk /dev/{0}), then run it again".format(action.name),
            )
        settle(self.host)

    def _carriers(self, array_uuid: str) -> List[str]:
        paths = ["/dev/" + name for name in observe.disk_names(self.host)]
        members = observe.examined(self.host, paths)
        return [path for path in paths if path in members and members[path].array_uuid == array_uuid]

    def _create(self, action: CreateArray) -> None:
        settle(self.host)
        paths = [disk_path(self.host, serial) for serial in action.serials]
        for path, serial in zip(paths, action.serials):
            self._must_be_blank(path, "disk {0} ({1})".format(serial, os.path.basename(path)), ())
            if observe.in_use(self.host, path):
                raise NodeError(path, "somebody has begun to use it", "run it again")
        folder = "/dev/md/" + action.array_name
        self.host.run(
            ["mdadm", "--create", folder, "--run", "--metadata=1.2", "--level=0", "--homehost=any"]
            + ["--name=" + action.array_name, "--uuid=" + array_form(action.array_uuid)]
            + ["--chunk={0}".format(action.chunk_kib), "--raid-devices={0}".format(len(paths))]
            + paths,
            self.limit,
        )
        settle(self.host)

    def _assemble(self, action: AssembleArray) -> None:
        settle(self.host)
        if array_path(self.host, action.array_uuid, running=True) is not None:  # udev was faster
            return
        paths = [disk_path(self.host, serial) for serial in action.serials]
        done = self.host.run(
            ["mdadm", "--assemble", "/dev/md/" + action.array_name, "--run", "--uuid=" + array_form(action.array_uuid)]
            + paths,
            self.limit,
            accept=(0, 1, 2),
        )
        settle(self.host)
        if array_path(self.host, action.array_uuid, running=True) is None:
            raise NodeError(
                "our array {0}".format(array_form(action.array_uuid)),
                "it could not be assembled ({0})".format(done.message),
                "look at mdadm --examine of its disks and at the kernel log",
            )

    # Erasing and making -------------------------------------------------------------------------------

    def _must_be_blank(self, path: str, thing: str, may_overwrite: Tuple[str, ...]) -> bool:
        """Whether there is something of ours to overwrite.

        :raises NodeError: when the device carries anything that is not in ``may_overwrite``.
        """
        found = observe.signatures(self.host, path)
        for signature in found:
            if signature.type not in ("xfs", "ext4") or signature.uuid not in may_overwrite:
                raise NodeError(
                    thing,
                    "it carries {0} data that are not in our record, left from an earlier use".format(signature.type),
                    "if nobody needs them, run wipefs --all {0} and run it again".format(path),
                )
        return bool(found)

    def _erase_mark(self, action: EraseMark) -> None:
        path = disk_path(self.host, action.serial)
        thing = "disk {0} ({1})".format(action.serial, os.path.basename(path))
        found = observe.signatures(self.host, path)
        if not found:
            return
        wanted = ("linux_raid_member", action.array_uuid) if action.array_uuid else (None, action.filesystem_uuid)
        if len(found) != 1 or found[0].uuid != wanted[1] or (wanted[0] and found[0].type != wanted[0]):
            raise NodeError(thing, "it does not carry our mark alone any more", "run it again")
        if action.array_uuid is not None:
            members = observe.examined(self.host, [path])
            if path not in members or members[path].array_uuid != action.array_uuid:
                raise NodeError(thing, "its superblock is not that of our array any more", "run it again")
        if observe.in_use(self.host, path):
            raise NodeError(thing, "it is still in use", "end that use (lsblk {0}), then run it again".format(path))
        if action.array_uuid is not None:
            self.host.run(["mdadm", "--zero-superblock", path], self.limit)
        else:
            self.host.run(["wipefs", "--all", "--types", found[0].type, path], self.limit)
        sync_device(self.host, path)

    def _erase_filesystem(self, action: EraseFilesystem) -> None:
        path = array_path(self.host, action.array_uuid, running=True)
        if path is None:
            return
        found = observe.signatures(self.host, path)
        for signature in found:
            if signature.uuid != action.filesystem_uuid:
                raise NodeError(path, "it carries {0} data that are not ours".format(signature.type), "run it again")
        for signature in found:
            self.host.run(["wipefs", "--all", "--types", signature.type, path], self.limit)
        sync_device(self.host, path)
        settle(self.host)

    def _mkfs(self, action: MakeFilesystem) -> None:
        if action.array_uuid is not None:
            path = array_path(self.host, action.array_uuid, running=True)
            if path is None:
                raise NodeError(
                    "our array {0}".format(array_form(action.array_uuid)), "it is not running", "run it again"
                )
        else:
            path = disk_path(self.host, action.serial or "")
        ours = self._must_be_blank(path, path, action.may_overwrite)
        if observe.in_use(self.host, path):
            raise NodeError(path, "it is in use, so no file system is made on it", "end that use, then run it again")
        uuid = filesystem_form(action.filesystem_uuid)
        command: List[str] = []
        if action.filesystem == "xfs":
            command = ["mkfs.xfs", "-q", "-m", "uuid=" + uuid, "-L", action.label]
            if action.chunk_kib is not None:
                command += ["-d", "su={0}k,sw={1}".format(action.chunk_kib, action.data_disks)]
            command += [] if action.discard else ["-K"]
            command += ["-f"] if ours else []
        else:
            extended = ["discard" if action.discard else "nodiscard"]
            if action.chunk_kib is not None:
                stride = action.chunk_kib // 4  # in blocks of 4 KiB
                extended += ["stride={0}".format(stride), "stripe_width={0}".format(stride * action.data_disks)]
            command = [
                "mkfs.ext4",
                "-q",
                "-b",
                "4096",
                "-m",
                "0",
                "-U",
                uuid,
                "-L",
                action.label,
                "-E",
                ",".join(extended),
            ]
            command += ["-F"] if ours else []
        self.host.run(command + [path], self.limit)
        sync_device(self.host, path)
        settle(self.host)

    # Mounting -----------------------------------------------------------------------------------------

    def _device(self, array_uuid: Optional[str], serial: Optional[str]) -> str:
        if array_uuid is None:
            return disk_path(self.host, serial or "")
        path = array_path(self.host, array_uuid, running=True)
        if path is None:
            raise NodeError("our array {0}".format(array_form(array_uuid)), "it is not running", "run it again")
        return path

    def _mount(self, action: MountFilesystem) -> None:
        options = ",".join(action.options)
        if action.remount:
            self.host.run(["mount", "-o", "remount," + options, action.mount_point], self.limit)
            return
        device = self._device(action.array_uuid, action.serial)
        seen = observe.filesystem(self.host, device)
        if seen is None or seen.uuid != action.filesystem_uuid:
            raise NodeError(
                device,
                "it does not carry our file system {0}".format(filesystem_form(action.filesystem_uuid)),
                "look at wipefs {0}; if nobody needs what is there, wipe it and run it again".format(device),
            )
        done = self.host.run(
            ["mount", "-t", action.filesystem, "-o", options, device, action.mount_point], self.limit, accept=(0, 32)
        )
        name = os.path.basename(device)
        # systemd may have mounted it in between, as the device came up: that is as good.
        if not any(m.mount_point == action.mount_point and m.device == name for m in observe.mounts(self.host)):
            raise NodeError(
                action.mount_point,
                "{0} could not be mounted there ({1})".format(device, done.message),
                "look at the kernel log for {0}".format(name),
            )

    def _set_root(self, action: SetRoot) -> None:
        path = self.host.path(action.mount_point)
        if not os.path.ismount(path):
            raise NodeError(action.mount_point, "it is not mounted any more", "run it again")
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchown(handle, action.owner, action.group)
            os.fchmod(handle, action.mode)
        finally:
            os.close(handle)

    def _unmount(self, action: Unmount) -> None:
        done = self.host.run(["umount", action.mount_point], self.limit, accept=(0, 1, 32))
        left = [
            m for m in observe.mounts(self.host) if m.mount_point == action.mount_point and m.device == action.device
        ]
        if not left:
            return
        who = users.describe(users.of(self.host, action.mount_point))
        raise NodeError(
            action.mount_point,
            "it is in use by {0}".format(who) if who else "it could not be unmounted ({0})".format(done.message),
            "end these processes, then run it again"
            if who
            else "end what uses it (lsof {0}), then run it again".format(action.mount_point),
        )

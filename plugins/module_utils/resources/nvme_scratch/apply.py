# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step: bookkeeping and mounting here, what writes to a device in ``writer.py``."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Optional

from ...core import declaration, unit_name
from ...core.host import Host
from ...core.resource import Action, NodeError
from . import fstab, mounted, mounting, observe, record, users
from .actions import (
    AssembleArray,
    CheckDisks,
    ClearDisk,
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
    StopAutomount,
    Unmount,
    WriteRecord,
)
from .desired import Desired
from .devices import array_path, disk_path
from .remains import repair
from .types import FSTAB_PATH, RECORD_PATH, array_form, filesystem_form
from .writer import Writer


class Applier:
    """Knows the machine and the time limits; :meth:`__call__` does one step."""

    def __init__(self, host: Host, desired: Desired) -> None:
        self.host = host
        self.limit = float(desired.command_timeout_seconds)
        self.writer = Writer(host, self.limit)

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
            self.writer.stop(action)
        elif isinstance(action, CheckDisks):
            self.writer.check(action)
        elif isinstance(action, EraseMark):
            self.writer.erase_mark(action)
        elif isinstance(action, ClearDisk):
            self.writer.clear(action)
        elif isinstance(action, EraseFilesystem):
            self.writer.erase_filesystem(action)
        elif isinstance(action, CreateArray):
            self.writer.create(action)
        elif isinstance(action, AssembleArray):
            self.writer.assemble(action)
        elif isinstance(action, MakeFilesystem):
            self.writer.make_filesystem(action)
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
        elif isinstance(action, StopAutomount):
            self.host.run(["systemctl", "stop", unit_name.of_path(action.mount_point, "automount")], 90.0)
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
                repair(action.filesystem, device),
            )
        done = self.host.run(
            ["mount", "-t", action.filesystem, "-o", options, device, action.mount_point], self.limit, accept=(0, 32)
        )
        name = os.path.basename(device)
        # systemd may have mounted it in between, as the device came up: that is as good.
        if not any(m.mount_point == action.mount_point and m.device == name for m in mounted.mounts(self.host)):
            raise NodeError(
                action.mount_point,
                "{0} could not be mounted there ({1})".format(device, done.message),
                "look at the kernel log for {0}; {1}; if nobody needs its data, run once with state: absent, which "
                "erases them, and build it anew".format(name, repair(action.filesystem, device)),
            )

    def _set_root(self, action: SetRoot) -> None:
        path = self.host.path(action.mount_point)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            told = mounting.shut_down(action.mount_point)
            raise NodeError(told.thing, told.reason, told.remedy) from error
        try:
            if not os.path.ismount(path):
                raise NodeError(action.mount_point, "it is not mounted any more", "run it again")
            os.fchown(
                handle, -1 if action.owner is None else action.owner, -1 if action.group is None else action.group
            )
            os.fchmod(handle, action.mode)
        finally:
            os.close(handle)

    def _unmount(self, action: Unmount) -> None:
        mine = [m for m in mounted.mounts(self.host) if m.mount_point == action.mount_point]
        if all(m.device != action.device for m in mine):
            return
        # umount takes what lies on top there, whatever it is.
        try:
            seen = os.lstat(self.host.path(action.mount_point)).st_dev
            number = "{0}:{1}".format(os.major(seen), os.minor(seen))
            ours = number == self.host.read_line("/sys/class/block/{0}/dev".format(action.device))
        except OSError:  # one that the kernel has shut down says nothing; the last line of the table is on top
            ours = mine[-1].device == action.device
        if not ours:
            raise NodeError(
                action.mount_point, "something lies on top of our file system", "unmount that first, then run it again"
            )
        done = self.host.run(["umount", action.mount_point], self.limit, accept=(0, 1, 32))
        left = [
            m for m in mounted.mounts(self.host) if m.mount_point == action.mount_point and m.device == action.device
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

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps: bookkeeping and mounting here, what writes to a device in ``writer.py``."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any, Callable, Mapping, Optional

from ...core import declaration, systemd
from ...core.host import Host
from ...core.node_packages import distribution
from ...core.resource import Action, NodeError, Step
from ...core.systemd import boot_unit
from ...facts.scratch import record
from ...facts.scratch.record import array_form, filesystem_form
from . import fstab, mount, mounted, observe, users
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
from .create import repair
from .devices import array_path, disk_path
from .options import Desired
from .types import FSTAB_PATH
from .writer import Writer


def _limit(desired: Desired) -> float:
    return float(desired.command_timeout_seconds)


def _by_writer(method: Callable[[Writer, Any], None]) -> Step:
    return lambda host, action, desired: method(Writer(host, _limit(desired)), action)


def _make_folder(host: Host, action: MakeFolder, dummy: Desired) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(host.path(action.path), 0o755)


def _remove_folder(host: Host, action: RemoveFolder, dummy: Desired) -> None:
    with contextlib.suppress(OSError):  # files of others keep it
        os.rmdir(host.path(action.path))


def _stop_automount(host: Host, action: StopAutomount, dummy: Desired) -> None:
    systemd.stop(host, (systemd.mount_unit(action.mount_point, "automount"),))


def _write_record(host: Host, action: WriteRecord, dummy: Desired) -> None:
    if action.record is None:
        host.remove(record.RECORD_PATH, folder_too=True)
    else:
        record.write(host, action.record)


def _edit_fstab(host: Host, action: EditFstab, dummy: Desired) -> None:
    text = fstab.edit(host.read_or_fail(FSTAB_PATH), action.line, action.mount_point, action.filesystem_uuids)
    if text == "" and action.remove_if_empty:
        host.remove(FSTAB_PATH)
    else:
        host.write(FSTAB_PATH, text)
    # Else systemd would take a new mount down again, as its unit still waits for the old device.
    systemd.daemon_reload(host)


def _device(host: Host, array_uuid: Optional[str], serial: Optional[str]) -> str:
    if array_uuid is None:
        return disk_path(host, serial or "")
    path = array_path(host, array_uuid, running=True)
    if path is None:
        raise NodeError("our array {0}".format(array_form(array_uuid)), "it is not running", "run it again")
    return path


def _mount(host: Host, action: MountFilesystem, desired: Desired) -> None:
    options = ",".join(action.options)
    device = _device(host, action.array_uuid, action.serial)
    if action.remount:
        # With a device mount(8) replaces all options; without one it adds to the existing options.
        options = ",".join(("remount", *fstab.for_remount(action.options)))
        done = host.run(["mount", "-o", options, device, action.mount_point], _limit(desired), accept=(0, 32))
        if done.returncode != 0:
            raise NodeError(
                action.mount_point,
                "the kernel does not accept these mount options for a mounted file system: {0} ({1})".format(
                    ",".join(action.options), done.message
                ),
                "correct mount_options; if they are right, unmount it (umount {0}) and run it again, which mounts it "
                "with them".format(action.mount_point),
            )
        return
    seen = observe.filesystem(host, device)
    others = [str(one) for one in observe.signatures(host, device) if one.uuid != action.filesystem_uuid]
    ours = seen is not None and seen.uuid == action.filesystem_uuid
    if others:
        # A repair, or the log of our file system, would write over a file system of another owner.
        raise NodeError(
            device,
            "it carries {0} {1} our file system {2}".format(
                "; ".join(others), "beside" if ours else "in place of", filesystem_form(action.filesystem_uuid)
            ),
            "run it again, which reports what may be done",
        )
    if not ours:
        raise NodeError(
            device,
            "it does not carry our file system {0}".format(filesystem_form(action.filesystem_uuid)),
            repair(action.filesystem, device),
        )
    done = host.run(
        ["mount", "-t", action.filesystem, "-o", options, device, action.mount_point], _limit(desired), accept=(0, 32)
    )
    name = os.path.basename(device)
    # systemd may have mounted it in between, as the device came up: that is as good.
    if not any(m.mount_point == action.mount_point and m.device == name for m in mounted.mounts(host)):
        raise NodeError(
            action.mount_point,
            "{0} could not be mounted there ({1})".format(device, done.message),
            "correct mount_options if the kernel log names one of them; look there for {0}; {1}; if nobody needs "
            "its data, run once with state: absent, which erases them, and build it anew".format(
                name, repair(action.filesystem, device)
            ),
        )


def _set_root(host: Host, action: SetRoot, dummy: Desired) -> None:
    path = host.path(action.mount_point)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        told = mount.shut_down(action.mount_point)
        raise NodeError(told.thing, told.reason, told.remedy) from error
    try:
        if not os.path.ismount(path):
            raise NodeError(action.mount_point, "it is not mounted any more", "run it again")
        os.fchown(handle, -1 if action.owner is None else action.owner, -1 if action.group is None else action.group)
        os.fchmod(handle, action.mode)
    finally:
        os.close(handle)


def _unmount(host: Host, action: Unmount, desired: Desired) -> None:
    mine = [m for m in mounted.mounts(host) if m.mount_point == action.mount_point]
    if all(m.device != action.device for m in mine):
        return
    # umount takes what lies on top there, whatever it is.
    try:
        seen = os.lstat(host.path(action.mount_point)).st_dev
        number = "{0}:{1}".format(os.major(seen), os.minor(seen))
        ours = number == host.read_line("/sys/class/block/{0}/dev".format(action.device))
    except OSError:  # one that the kernel has shut down says nothing; the last line of the table is on top
        ours = mine[-1].device == action.device
    if not ours:
        raise NodeError(
            action.mount_point, "something lies on top of our file system", "unmount that first, then run it again"
        )
    done = host.run(["umount", action.mount_point], _limit(desired), accept=(0, 1, 32))
    left = [m for m in mounted.mounts(host) if m.mount_point == action.mount_point and m.device == action.device]
    if not left:
        return
    who = users.describe(users.of(host, action.mount_point))
    who = "; ".join([*([who] if who else []), *users.without_process(host, action.mount_point)])
    raise NodeError(
        action.mount_point,
        "it is in use by {0}".format(who) if who else "it could not be unmounted ({0})".format(done.message),
        "end that use, then run it again"
        if who
        else "end what uses it (lsof {0}), then run it again".format(action.mount_point),
    )


def _check(host: Host, action: CheckDisks, desired: Desired) -> None:
    """The kernel keeps an unmounted file system as long as an overlay or another mount namespace uses it."""
    try:
        Writer(host, _limit(desired)).check(action)
    except NodeError as error:
        mount = action.unmounted
        if mount is None:
            raise
        others = users.without_process(host, mount.mount_point)
        others += users.namespaces(host, mount.device or "")
        command = ["mount", "-t", mount.filesystem, "-o", ",".join(mount.options), "/dev/{0}".format(mount.device)]
        done = host.run([*command, mount.mount_point], _limit(desired), accept=(0, 1, 32))
        again = "mounted again" if done.returncode == 0 else "unmounted now ({0})".format(done.message)
        who = " by {0}".format(", ".join(others)) if others else ""
        reason = "{0}{1}; {2} is {3}".format(error.reason, who, mount.mount_point, again)
        raise NodeError(error.thing, reason, error.remedy) from error


def _told(step: Step) -> Step:
    """What the kernel refuses is told with the step."""

    def told(host: Host, action: Action, desired: Desired) -> None:
        try:
            step(host, action, desired)
        except OSError as error:
            raise NodeError(
                str(error.filename or "nvme_scratch"),
                "cannot {0} ({1})".format(action.describe(), error.strerror),
                "correct that, then run it again",
            ) from error

    return told


_OWN: Mapping[type, Step] = {
    WriteRecord: _write_record,
    StopArray: _by_writer(Writer.stop),
    CheckDisks: _check,
    EraseMark: _by_writer(Writer.erase_mark),
    ClearDisk: _by_writer(Writer.clear),
    EraseFilesystem: _by_writer(Writer.erase_filesystem),
    CreateArray: _by_writer(Writer.create),
    AssembleArray: _by_writer(Writer.assemble),
    MakeFilesystem: _by_writer(Writer.make_filesystem),
    MakeFolder: _make_folder,
    EditFstab: _edit_fstab,
    MountFilesystem: _mount,
    SetRoot: _set_root,
    Unmount: _unmount,
    StopAutomount: _stop_automount,
    RemoveFolder: _remove_folder,
}
STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **distribution.STEPS,
    **boot_unit.STEPS,
    **{kind: _told(step) for kind, step in _OWN.items()},
}

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Closes our directories against other users before root reads or writes anything in them.

A service with umask 000, or a restored backup, can leave them open. A user who can write to such a directory can
replace node.json, which names programs that root runs, and the state by which a node is drained or returned.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from typing import Iterator, List, Tuple

from . import safe_files, trust
from .host import Host
from .resource import NodeError

DIRECTORIES = ("/etc/gpu_node", "/opt/gpu_node", "/run/gpu_node", "/var/lib/gpu_node")
# All files in these are ours; sites have files of their own in the others.
_VOLATILE, _STATE = "/run/gpu_node", "/var/lib/gpu_node"
_DEEPEST = 2
_DEFAULT_ACL = "system.posix_acl_default"
_ACL_ENTRY, _ACL_WRITE = struct.Struct("<HHI"), 2
# ACL_USER, ACL_GROUP and ACL_OTHER of acl(5): entries for other users than the owner.
_ACL_OF_OTHERS = (0x02, 0x08, 0x20)


def close(host: Host, root: int = 0, refuse: bool = True) -> List[str]:
    """Remove write permission from all users except root, in our directories and those below them.

    Files of state that another user owns are moved away, or removed if they do not outlive a boot: their readers treat
    them as lost.

    ``root``: the uid and gid of root. ``refuse``: whether a node.json of another user is refused. The hooks
    before and after a job do not refuse it, and run none of its programs (:mod:`.declaration`).

    :returns: one message for each directory or file that other users could write to.
    :raises NodeError: a directory cannot be closed, or another user can write to node.json.
    """
    told = []
    for top in DIRECTORIES:
        for path, names, handle in _directories(host, top):
            reason = safe_files.fault(os.fstat(handle), (root,), (root,), handle) or _default_acl(handle)
            if reason:
                try:
                    done = _repair(path, handle, reason, root)
                except NodeError as error:
                    if refuse:
                        raise
                    told.append(str(error))
                    continue
                told.append("{0}: {1}. {2}; check the files in it.".format(path, reason, done))
            if top in (_VOLATILE, _STATE):
                told += _claim(host, path, names, handle, root)
    from . import declaration  # not for a command that ends before this

    for path in (declaration.PRIVATE, declaration.WISH):
        told += _make_private(host, path, root)
    if refuse:
        for fault in trust.of_declaration(host, root):
            raise fault
    return told


def _directories(host: Host, top: str) -> Iterator[Tuple[str, List[str], int]]:
    """(path, names of its files, handle) of a directory of ours and of those below it, on the same file system. No
    link below it is followed."""
    real = os.path.realpath(host.path(top))
    device = None
    if not os.path.isdir(real):
        return  # It does not exist, or is not a directory, which the reader or writer of its files reports.
    for folder, folders, names, handle in os.fwalk(real):
        device = os.fstat(handle).st_dev if device is None else device
        below = folder[len(real) :]
        if below.count("/") >= _DEEPEST:
            folders.clear()
        if os.fstat(handle).st_dev == device:
            yield top + below, names, handle
        else:
            folders.clear()


def _default_acl(handle: int) -> str:
    """What is created in the directory could be written by others, whatever the umask."""
    try:
        entries = os.getxattr(handle, _DEFAULT_ACL)[4:]
    except OSError:
        return ""
    whole = entries[: len(entries) // _ACL_ENTRY.size * _ACL_ENTRY.size]
    if any(tag in _ACL_OF_OTHERS and rights & _ACL_WRITE for tag, rights, dummy in _ACL_ENTRY.iter_unpack(whole)):
        return "its default ACL gives other users write permission"
    return ""


def _repair(path: str, handle: int, reason: str, root: int) -> str:
    """What was done, in words.

    :raises NodeError: the directory cannot be closed.
    """
    try:
        if os.fstat(handle).st_uid != root:
            os.fchown(handle, root, root)
        os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
        if _default_acl(handle):
            os.removexattr(handle, _DEFAULT_ACL)
    except OSError as error:
        if error.errno == errno.EROFS:
            return "Its file system is read-only, so it stays as it is"  # Then no user can write either.
        remedy = "run 'chown root:root {0}' and 'chmod go-w {0}', then check the files in it".format(path)
        raise NodeError(path, "{0}, and it cannot be closed ({1})".format(reason, error.strerror), remedy) from error
    return "This is corrected now"


def _claim(host: Host, folder: str, names: List[str], handle: int, root: int) -> Iterator[str]:
    for name in names:
        path = "{0}/{1}".format(folder, name)
        with contextlib.suppress(OSError):  # it is gone, or on a read-only file system
            found = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode) and found.st_uid == root or name.endswith(safe_files.DAMAGED):
                continue
            # A path by the handle: a regular file of root in it has no link in its place.
            place = "/proc/self/fd/{0}/{1}".format(handle, name) if stat.S_ISREG(found.st_mode) else None
            reason = safe_files.fault(found, (root,), (root,), place)
            if not reason:
                continue
            # A user who has opened a lock file can hold its lock, whatever its mode is now.
            if name.endswith(".lock") or (found.st_uid != root and folder.startswith(_VOLATILE)):
                os.unlink(name, dir_fd=handle)
                yield "{0}: {1}. It is removed.".format(path, reason)
            elif found.st_uid != root:
                yield safe_files.set_aside(host.path(path), path, reason) + "."
            elif stat.S_ISREG(found.st_mode):
                _remove_write(name, handle)
                yield "{0}: {1}. This is corrected now; check its content.".format(path, reason)


def _make_private(host: Host, path: str, root: int) -> Iterator[str]:
    """A backup can restore a file with access keys so that other users can read it. A link, or a second name of another
    file, is left alone."""
    try:
        handle = os.open(host.path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        found = os.fstat(handle)
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != root or found.st_nlink > 1 or not mode & 0o077:
            return
        reason = "{0}: its mode is {1:04o}, and only root may read it".format(path, mode)
        try:
            os.fchmod(handle, 0o600)
        except OSError as error:
            yield "{0}, and its mode cannot be changed ({1}); run 'chmod 600 {2}'.".format(reason, error.strerror, path)
        else:
            yield reason + ". This is corrected now; replace the access keys in it."
    finally:
        os.close(handle)


def _remove_write(name: str, directory: int) -> None:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
    finally:
        os.close(handle)

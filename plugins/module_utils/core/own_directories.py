# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Closes our directories against other users before root reads or writes anything in them.

A service with umask 000, or a restored backup, can leave them open. A user who can write to such a directory can
replace node.json, which names programs that root runs.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import List

from . import trust
from .host import Host
from .resource import NodeError

DIRECTORIES = ("/etc/gpu_node", "/opt/gpu_node", "/run/gpu_node", "/var/lib/gpu_node")
# They name programs that root runs.
ACTED_ON = ("/etc/gpu_node/node.json", "/etc/gpu_node/private.json")


def close(host: Host, root: int = 0, refuse: bool = True) -> List[str]:
    """Remove write permission from all users except root.

    ``root``: the uid and gid of root. ``refuse``: whether a node.json of another user is refused. The hooks
    before and after a job do not refuse it: they run none of its programs.

    :returns: one message for each directory that other users could write to.
    :raises NodeError: a directory cannot be closed, or another user can write to node.json.
    """
    told = []
    for path in DIRECTORIES:
        try:
            handle = os.open(host.path(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue  # It does not exist, or is not a directory, which the reader or writer of its files reports.
        try:
            reason = trust.fault(os.fstat(handle), (root,), (root,), handle)
            if reason:
                try:
                    _repair(path, handle, reason, root)
                except NodeError as error:
                    if refuse:
                        raise
                    told.append(str(error))
                    continue
                told.append("{0}: {1}. This is corrected now; check the files in it.".format(path, reason))
        finally:
            os.close(handle)
    if refuse:
        _refuse_files_of_others(host, root)
    return told


def _repair(path: str, handle: int, reason: str, root: int) -> None:
    try:
        if os.fstat(handle).st_uid != root:
            os.fchown(handle, root, root)
        os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
    except OSError as error:
        if error.errno == errno.EROFS:
            return  # Then no user can write either.
        remedy = "run 'chown root:root {0}' and 'chmod go-w {0}', then check the files in it".format(path)
        raise NodeError(path, "{0}, and it cannot be closed ({1})".format(reason, error.strerror), remedy) from error


def _refuse_files_of_others(host: Host, root: int) -> None:
    for path in ACTED_ON:
        try:
            found = os.lstat(host.path(path))
        except OSError:
            continue
        reason = trust.fault(found, (root,), (root,)) if stat.S_ISREG(found.st_mode) else ""
        # A group that an administrator gave the file to can write to it; a declaration of that group is still valid.
        if reason and (found.st_uid != root or found.st_mode & stat.S_IWOTH):
            raise NodeError(
                path,
                "{0}, and it names programs that root runs".format(reason),
                "check its content, then run 'chown root:root {0}' and 'chmod go-w {0}'; or delete it and run site.yml "
                "again".format(path),
            )

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What root executes may be changed by root alone: files, and the directories that lead to them. One rule for all."""

from __future__ import annotations

import os
import stat
from typing import Collection, Iterator, Tuple

from .host import Host
from .resource import NodeError
from .safe_files import fault

# They name programs that root runs.
ACTED_ON = ("/etc/gpu_node/node.json", "/etc/gpu_node/private.json")


def of_root(path: str, sudo: bool = True, groups: Collection[int] = ()) -> str:
    """The real path of a file that root acts by; the directories above it are checked too.

    ``sudo``: whether it may belong to the user who became root to run this. ``groups``: may write, too.

    :raises NodeError: another user can change its content, or it is not a file.
    """
    told = os.environ.get("SUDO_UID", "") if sudo else ""
    owners = {0, os.geteuid()} | ({int(told)} if told.isdigit() else set())
    real = os.path.realpath(path)
    try:
        found = os.stat(real)
    except OSError as error:
        raise NodeError(path, "it cannot be read ({0})".format(error.strerror), "name a file that is there") from error
    if not stat.S_ISREG(found.st_mode):
        raise NodeError(path, "it is no file", "name a file")
    reason = fault(found, owners, groups)
    if reason:
        remedy = "run 'chown root:root {0}' and 'chmod go-w {0}', when what it says is right".format(path)
        raise NodeError(path, reason + ", and root acts by it", remedy)
    for folder, reason in above(real, owners, groups):
        raise NodeError(path, "{0}: {1}".format(folder, reason), "put it where only root may write")
    return real


def above(path: str, owners: Collection[int], groups: Collection[int]) -> Iterator[Tuple[str, str]]:
    """The directories above a path in which another user can put another file in its place, each with the reason; not
    where one is sticky, as /tmp is."""
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        found = os.stat(path)
        reason = fault(found, owners, groups)
        if reason and not (found.st_uid in owners and found.st_mode & stat.S_ISVTX):
            yield path, reason


def of_declaration(host: Host, root: int = 0) -> Iterator[NodeError]:
    """Why another user can change a file that names programs of root; nothing: nobody can."""
    for path in ACTED_ON:
        try:
            found = os.lstat(host.path(path))
            # Who owns a link decides what is read.
            if stat.S_ISLNK(found.st_mode) and found.st_uid == root:
                found = os.stat(host.path(path))
        except OSError:
            continue
        reason = fault(found, (root,), (root,))
        # A group that an administrator gave the file to can write to it; a declaration of that group is still valid.
        if reason and (found.st_uid != root or found.st_mode & stat.S_IWOTH):
            yield NodeError(
                path,
                "{0}, and it names programs that root runs".format(reason),
                "check its content, then run 'chown root:root {0}' and 'chmod go-w {0}'; or delete it and run site.yml "
                "again".format(path),
            )

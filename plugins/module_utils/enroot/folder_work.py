# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the folders of one user before a job, and remove them after the last one; for the hooks of Slurm, as root.

A scratch may be open for all (1777), so somebody may have put a name of ours there first. Nothing below ``top`` is
followed that is a symbolic link, and a ``top`` that is not root's is moved aside with all that is in it, never used.
The caller sets the time limit.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from typing import Iterator, List, Tuple

from ..host import Host
from ..resource import NodeError
from .user_folders import MODE, PARENT_MODE, UserFolder

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_REMEDY = "look at that folder as root, then start the job again"


def make(host: Host, folders: Tuple[UserFolder, ...], uid: int, gid: int) -> None:
    """:raises NodeError: when one cannot be made; those before it are there then."""
    for folder in folders:
        with _said(folder.path, "made"), _parent(host, folder, make_missing=True) as parent:
            name = os.path.basename(folder.path)
            try:
                os.mkdir(name, MODE, dir_fd=parent)
            except FileExistsError:
                # Of an earlier job; anything but a folder is nothing of ours and goes.
                if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                    os.unlink(name, dir_fd=parent)
                    os.mkdir(name, MODE, dir_fd=parent)
            handle = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=parent)
            try:
                os.fchmod(handle, MODE)
                os.fchown(handle, uid, gid)
            finally:
                os.close(handle)


def remove(host: Host, folders: Tuple[UserFolder, ...]) -> None:
    """Those that are not kept; they may be gone.

    :raises NodeError: when one cannot be removed.
    """
    for folder in folders:
        if not folder.remove or not os.path.lexists(host.path(folder.path)):
            continue
        with _said(folder.path, "removed"), _parent(host, folder, make_missing=False) as parent:
            # rm follows no link, stays on one file system, and minds neither depth nor number.
            done = subprocess.run(
                ["rm", "-rf", "--one-file-system", "--", "./" + os.path.basename(folder.path)],
                cwd="/proc/self/fd/{0}".format(parent),
                pass_fds=(parent,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                check=False,
            )
            if done.returncode != 0:
                raise OSError(0, (done.stderr.decode("utf-8", "replace").splitlines() or ["rm failed"])[-1])


@contextlib.contextmanager
def _parent(host: Host, folder: UserFolder, make_missing: bool) -> Iterator[int]:
    """A handle of the folder above the user's, which root alone may write."""
    above, first = os.path.split(folder.top)
    names = [first, *(one for one in folder.parent[len(folder.top) :].split("/") if one)]
    handles: List[int] = [os.open(host.path(above), _OPEN)]
    try:
        for name in names:
            if make_missing:
                _root_only(handles[-1], name)
            handles.append(os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=handles[-1]))
        yield handles[-1]
    finally:
        for handle in handles:
            os.close(handle)


def _root_only(above: int, name: str) -> None:
    """A folder of root's with this name, made when it is missing."""
    try:
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            return
        os.rename(name, "{0}.moved-aside-{1}".format(name, found.st_ino), src_dir_fd=above, dst_dir_fd=above)
    except FileNotFoundError:
        pass
    with contextlib.suppress(FileExistsError):  # two jobs may start at once
        os.mkdir(name, 0o700, dir_fd=above)
    handle = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=above)
    try:
        os.fchmod(handle, PARENT_MODE)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _said(path: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NodeError(path, "it could not be {0} ({1})".format(what, error.strerror or error), _REMEDY) from error

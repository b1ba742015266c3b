# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and replace files in directories that another user may own: no link is followed, nothing blocks.

The only writer of small files. It works within an open directory, so a rename of the directory or a link in place of
the file redirects nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import stat
from typing import IO, Collection, Iterator, Optional, Tuple, Union

MOST_BYTES = 8 << 20
#: A damaged state file is kept under its name with this ending.
DAMAGED = ".damaged"
_ACL = "system.posix_acl_access"
_DAMAGED_BYTES = 1 << 20
_RANDOM_BYTES = 8
_TRIES = 5
# No writer takes a day.
_OLD_SECONDS = 86400.0


def fault(
    found: os.stat_result, owners: Collection[int], groups: Collection[int] = (), where: Union[None, int, str] = None
) -> str:
    """Why another user can write to a file or directory; empty: none can. The only rule for it.

    ``groups`` may write, unless an ACL of ``where``, an open handle or a path, names other users.
    """
    if found.st_uid not in owners:
        return "it belongs to user {0}".format(found.st_uid)
    others = found.st_mode & stat.S_IWOTH
    group = found.st_mode & stat.S_IWGRP and (found.st_gid not in groups or where is not None and _has_acl(where))
    return "other users can write to it (mode {0:04o})".format(stat.S_IMODE(found.st_mode)) if others or group else ""


def _has_acl(where: Union[int, str]) -> bool:
    try:
        return bool(os.getxattr(where, _ACL))
    except OSError:
        return False


def load(
    name: str,
    most_bytes: int = MOST_BYTES,
    directory: Optional[int] = None,
    private: bool = False,
    follow: bool = False,
) -> Tuple[Optional[str], str]:
    """(text, why it is damaged) of a regular file; (None, ""): it does not exist.

    ``private``: only root and this user may be able to write it. ``follow``: a link is followed.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(name, flags, dir_fd=directory)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, "it cannot be opened ({0})".format(error.strerror)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return None, "it is not a regular file"
        reason = fault(found, (0, os.geteuid()), (0,), handle) if private else ""
        if reason:
            return None, reason
        with os.fdopen(handle, "rb", closefd=False) as stream:
            text = stream.read(most_bytes + 1)
    except OSError as error:
        return None, "it cannot be read ({0})".format(error.strerror)
    finally:
        os.close(handle)
    if len(text) > most_bytes:
        return None, "it is larger than {0} bytes".format(most_bytes)
    return text.decode("utf-8", "surrogateescape"), ""


def set_aside(place: str, path: str, damage: str) -> str:
    """Move a damaged file out of the way, and return the sentence about it. The first one is kept, up to a size; later
    ones are removed. ``path``: what ``place`` is on the node."""
    kept = os.path.lexists(place + DAMAGED)
    try:
        if kept:
            os.unlink(place)
        else:
            os.rename(place, place + DAMAGED)
            found = os.lstat(place + DAMAGED)
            if stat.S_ISREG(found.st_mode) and found.st_size > _DAMAGED_BYTES:
                os.truncate(place + DAMAGED, _DAMAGED_BYTES)
    except OSError as error:
        return "{0}: {1}; the damaged file cannot be moved ({2})".format(path, damage, error.strerror)
    text = "{0}: {1}; the damaged file is {2}"
    return text.format(path, damage, "removed, as {0}{1} exists" if kept else "moved to {0}{1}").format(path, DAMAGED)


def replace(path: str, text: str, mode: int) -> None:
    """Replace a file in one step, also for a power cut. No link is followed: the directory may belong to another user.

    :raises OSError: it could not be written.
    """
    folder, name = os.path.split(path)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with replaced_in(directory, name, mode, exact=True) as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
        os.fsync(directory)
    finally:
        os.close(directory)


@contextlib.contextmanager
def replaced_in(
    directory: int, name: str, mode: int, exact: bool = False, owner: Tuple[int, int] = (-1, -1)
) -> Iterator[IO[bytes]]:
    """Replace a file in one step within an open directory: a rename replaces a link, and does not follow it.

    ``exact``: ``mode`` counts whatever the umask. Temporary files of killed writers are removed: those of this node at
    once, those of other nodes after a day.

    :raises OSError: it could not be written, and nothing is left of it.
    """
    temporary, handle = _temporary(directory, name, 0o600 if exact else mode)
    try:
        _remove_leftovers(directory, name, temporary, os.fstat(handle).st_mtime)
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            if owner != (-1, -1):
                os.fchown(stream.fileno(), *owner)
            if exact:
                os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
            # Renamed while it is locked, so that no other writer takes it for a leftover.
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _temporary(directory: int, name: str, mode: int) -> Tuple[str, int]:
    """A new file that its writer holds a lock on. If another writer removes it before the lock, it is created again."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for _try in range(_TRIES):
        temporary = "{0}{1}{2}".format(_prefix(name), _node(), os.urandom(_RANDOM_BYTES - len(_node()) // 2).hex())
        handle = os.open(temporary, flags, mode, dir_fd=directory)
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_nlink:
            break
        os.close(handle)
    return temporary, handle


def _prefix(name: str) -> str:
    return ".{0}.".format(name[:200])


@functools.lru_cache(maxsize=1)
def _node() -> str:
    """Eight hexadecimal digits that tell this node, in this boot, from other nodes."""
    text = b""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", "rb") as stream:
        text = stream.read()
    import hashlib  # it loads OpenSSL, which costs a look before each job more than most of its checks

    return hashlib.sha256(text or os.urandom(8)).hexdigest()[:8]


def _remove_leftovers(directory: int, name: str, own: str, now: float) -> None:
    """``now``: by the clock of the file server, as the temporary file ``own`` has just been created."""
    pattern = re.compile(re.escape(_prefix(name)) + "[0-9a-f]{{{0}}}".format(2 * _RANDOM_BYTES))
    with contextlib.suppress(OSError):
        for one in os.listdir(directory):
            if one != own and pattern.fullmatch(one):
                _remove_leftover(directory, one, one.startswith(_prefix(name) + _node()), now)


def _remove_leftover(directory: int, name: str, of_this_node: bool, now: float) -> None:
    """Locks may be local to a node (NFS with local_lock, Lustre with localflock), so the lock of a writer on another
    node proves nothing. Its file has to be old as well."""
    with contextlib.suppress(OSError):
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        try:
            found = os.fstat(handle)
            if stat.S_ISREG(found.st_mode) and (of_this_node or now - found.st_mtime > _OLD_SECONDS):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its writer has one, or is dead
                os.unlink(name, dir_fd=directory)
        finally:
            os.close(handle)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of root's in places where every user may make files, such as a scratch with mode 1777.

A user may have taken a name of ours before. So all work goes through handles of folders, no symbolic link is followed,
a folder is used only when its handle says that root alone may write to it, and anything else with its name is moved
aside with all that is in it.

Removing may take minutes (millions of files). So a folder is renamed into a trash folder beside it, which takes no
time, and a process of its own empties that: at low priority, one for each trash folder, outliving its parent. What it
does not get to is removed by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import subprocess
from typing import Callable, Iterator, List, Optional, Sequence, Set, Tuple

from . import mounts
from .frozen import frozen
from .host import Host

# Others may pass through and see no names.
MODE = 0o711
TRASH = ".trash"
_TRASH_MODE = 0o700
# An entry of the trash with this prefix must be checked again, and is not removed. A unique word and its name follow.
_UNCHECKED = "unchecked-"
_LONGEST_NAME = 200
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK, _LOCK_SECONDS = "folders", 20.0
# On each folder that was made here; where a file system knows no such attributes, nothing is ever swept.
_MARK = "user.gpu_node"
# A user who takes the name again at once has to win this often in a row.
_ATTEMPTS = 100
# renameat2(2)
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2


@frozen
class Identity:
    """What has a name, so that it can be told from whatever has that name later. ``kind``: the type bits of its mode.
    ``changed``: its ctime, which no user can set."""

    device: int
    inode: int
    uid: int
    kind: int
    changed: int


# As many names as fit on a command line with room to spare; the next run takes the rest.
_MOST_NAMES = 1000


@contextlib.contextmanager
def opened(host: Host, top: str, names: Sequence[str], make: bool) -> Iterator[Optional[int]]:
    """The handle of ``top/name/name...``, where ``top`` is trusted and each name is a folder of root's.

    ``make``: they are made where they are not there. Without it None comes where one is not there or not root's.

    :raises OSError: one of them cannot be made.
    """
    handles: List[int] = [os.open(host.path(top), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        for name in names:
            found = made(host, handles[-1], name) if make else of_root(handles[-1], name)
            if found is None:
                yield None
                return
            handles.append(found)
        yield handles[-1]
    finally:
        for handle in handles:
            os.close(handle)


def of_root(above: int, name: str) -> Optional[int]:
    """The handle of a folder that root alone may write to; None: nothing like that has this name."""
    try:
        handle = os.open(name, _OPEN, dir_fd=above)
    except OSError:
        return None
    found = os.fstat(handle)
    if found.st_uid == os.geteuid() and not found.st_mode & 0o022:
        return handle
    os.close(handle)
    return None


def made(host: Host, above: int, name: str, mode: int = MODE) -> int:
    """The handle of a folder of root's with this name, and no other's.

    :raises OSError: it cannot be made.
    """
    handle = of_root(above, name)
    if handle is None:
        with host.lock(_LOCK, _LOCK_SECONDS):  # two hooks at once would move each other's folder aside
            handle = _taken(above, name)
    if stat.S_IMODE(os.fstat(handle).st_mode) != mode:
        os.fchmod(handle, mode)
    return handle


def _taken(above: int, name: str) -> int:
    """A folder of root's is made under a name that nobody knows, then takes the place of whatever has this name in one
    step: a user who takes it again and again never comes in between."""
    for _attempt in range(_ATTEMPTS):
        handle = of_root(above, name)
        if handle is not None:
            return handle
        aside = "{0}.moved-aside-{1}".format(name, unique())
        os.mkdir(aside, 0o700, dir_fd=above)
        if not _renamed(above, aside, name):
            os.rmdir(aside, dir_fd=above)
    raise FileExistsError(0, "somebody takes the name {0} again and again".format(name))


def _renamed(above: int, source: str, target: str) -> bool:
    """Rename, where nothing has that name, or else exchange; False: it came or went meanwhile.

    :raises OSError: neither can be done.
    """
    import ctypes  # hooks pay for each import, and almost never come here

    libc = ctypes.CDLL(None, use_errno=True)
    for flag in (_RENAME_EXCHANGE, _RENAME_NOREPLACE):
        if libc.renameat2(above, os.fsencode(source), above, os.fsencode(target), flag) == 0:
            return True
        code = ctypes.get_errno()
        if code in (errno.EINVAL, errno.ENOSYS):  # a file system (NFS) or a kernel that knows no exchange
            with contextlib.suppress(FileNotFoundError):
                os.rename(target, "{0}.moved-aside-{1}".format(target, unique()), src_dir_fd=above, dst_dir_fd=above)
            os.rename(source, target, src_dir_fd=above, dst_dir_fd=above)
            return True
        if code not in (errno.ENOENT, errno.EEXIST):
            raise OSError(code, os.strerror(code))
    return False


def given(host: Host, above: int, name: str, uid: int, gid: int) -> None:
    """A folder that is this user's alone (0700), in a folder of root's. One that this user had before is kept.

    The trash is made before it: where the user fills the file system, nothing can be made that takes the folder away.

    :raises OSError: it cannot be made.
    """
    os.close(made(host, above, TRASH, _TRASH_MODE))
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (uid, os.geteuid()):
            discard(host, above, name)
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    handle = os.open(name, _OPEN, dir_fd=above)
    try:
        os.fchmod(handle, 0o700)
        os.fchown(handle, uid, gid)
        with contextlib.suppress(OSError):
            os.setxattr(handle, _MARK, b"made")
    finally:
        os.close(handle)


def discard(host: Host, above: int, name: str) -> bool:
    """Put what has this name into the trash; False: there is none. ``above`` is a folder of root's.

    :raises OSError: it cannot be moved, or something is mounted in it.
    """
    if mounted_in(above, [name]):
        raise OSError(errno.EBUSY, "something is mounted in it")
    trash = made(host, above, TRASH, _TRASH_MODE)
    try:
        os.rename(name, "{0}-{1}".format(name, unique()), src_dir_fd=above, dst_dir_fd=trash)
        return True
    except FileNotFoundError:
        return False
    finally:
        os.close(trash)


def identity(above: int, name: str) -> Optional[Identity]:
    """Of what has this name, which is not followed where it is a link; None: there is nothing."""
    try:
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return of_stat(found)


def of_stat(found: os.stat_result) -> Identity:
    return Identity(found.st_dev, found.st_ino, found.st_uid, stat.S_IFMT(found.st_mode), found.st_ctime_ns)


def discard_same(host: Host, above: int, name: str, seen: Identity, still: Callable[[str], bool]) -> bool:
    """Put what has this name into the trash if it is what was seen, and ``still`` says so before the move (with "") and
    after it (with its name in the trash); if not, it keeps its name, and the result is False. ``above`` may be a
    directory that all users share, such as /tmp. If the caller is killed during the second check, :func:`put_back`
    restores the name.

    :raises OSError: it cannot be moved, or not be moved back.
    """
    trash = made(host, above, TRASH, _TRASH_MODE)
    try:
        if identity(above, name) != seen or not still(""):
            return False
        moved = "{0}{1}-{2}".format(_UNCHECKED, unique(), _short(name))
        try:
            os.rename(name, moved, src_dir_fd=above, dst_dir_fd=trash)
        except FileNotFoundError:
            return False
        # Nobody else can reach the trash, so what lies there stays what it is. The move itself changes the ctime.
        now = identity(trash, moved)
        same = now is not None and (now.device, now.inode, now.uid, now.kind) == _lasting(seen)
        if same and still(moved):
            os.rename(moved, moved[len(_UNCHECKED) :], src_dir_fd=trash, dst_dir_fd=trash)
            return True
        _back(trash, moved, above, name)
        return False
    finally:
        os.close(trash)


def _short(name: str) -> str:
    """With room for a prefix or a suffix."""
    return os.fsdecode(os.fsencode(name)[:_LONGEST_NAME])


def put_back(above: int) -> None:
    """Restore the names of entries that :func:`discard_same` moved and did not check again. The caller holds the lock
    that keeps other runs out.

    :raises OSError: an entry cannot be moved back.
    """
    trash = of_root(above, TRASH)
    if trash is None:
        return
    try:
        for moved in os.listdir(trash):
            if moved.startswith(_UNCHECKED):
                _back(trash, moved, above, moved[len(_UNCHECKED) + len(unique()) + 1 :] or moved)
    finally:
        os.close(trash)


def _lasting(one: Identity) -> Tuple[int, int, int, int]:
    return one.device, one.inode, one.uid, one.kind


def _back(source: int, moved: str, above: int, name: str) -> None:
    """To its old name, or to one beside it where that is taken by now."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    for target in (name, "{0}.moved-aside-{1}".format(_short(name), unique())):
        if libc.renameat2(source, os.fsencode(moved), above, os.fsencode(target), _RENAME_NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
        if code in (errno.EINVAL, errno.ENOSYS):
            target = "{0}.moved-aside-{1}".format(
                _short(name), unique()
            )  # no file system's rename may replace anything
            os.rename(moved, target, src_dir_fd=source, dst_dir_fd=above)
            return
        if code != errno.EEXIST:
            raise OSError(code, os.strerror(code))


def discard_old(host: Host, above: int, before: float, chosen: Callable[[str], bool]) -> None:
    """Put the chosen ones into the trash that were made here and have not changed since that moment, and have the trash
    emptied.

    A site may keep folders of its own beside them, so only those with our mark go. The time is that of the last change
    of a folder itself (ctime), which no user can set.

    :raises OSError: one cannot be moved.
    """
    names = [name for name in os.listdir(above) if chosen(name)]
    busy = mounted_in(above, names)
    for name in names:
        if name not in busy and _marked_before(above, name, before):
            discard(host, above, name)
    empty_trash(above)


def marked(above: int, name: str) -> bool:
    """Whether it is a folder that was made here."""
    return _marked_before(above, name, float("inf"))


def _marked_before(above: int, name: str, before: float) -> bool:
    try:
        handle = os.open(name, _OPEN, dir_fd=above)
    except OSError:
        return False
    try:
        os.getxattr(handle, _MARK)
        return os.fstat(handle).st_ctime < before
    except OSError:
        return False
    finally:
        os.close(handle)


def has_trash(above: int) -> bool:
    """Whether something still waits to be removed there."""
    trash = of_root(above, TRASH)
    if trash is None:
        return False
    try:
        return bool(_removable(trash))
    finally:
        os.close(trash)


def _removable(trash: int) -> List[str]:
    names = [name for name in os.listdir(trash) if not name.startswith(_UNCHECKED)]
    busy = mounted_in(trash, names)
    return [name for name in names if name not in busy]


def mounted_in(above: int, names: Sequence[str]) -> Set[str]:
    """Those at or in which something is mounted. A bind mount shows files of the same file system, which ``rm
    --one-file-system`` does not tell from those of the folder: it would remove what lies elsewhere."""
    if not names:
        return set()
    folder = os.readlink("/proc/self/fd/{0}".format(above)).rstrip("/") + "/"
    points = [one.point[len(folder) :] for one in mounts.read(Host()) if one.point.startswith(folder)]
    return {point.split("/")[0] for point in points} & set(names)


def empty_trash(above: int) -> bool:
    """Start a process that removes what lies in the trash; False: there is nothing, or one is at it already."""
    trash = of_root(above, TRASH)
    if trash is None:
        return False
    try:
        names = _removable(trash)[:_MOST_NAMES]
        if not names:
            return False
        # rm inherits this lock with the handle, and the kernel drops it when rm ends.
        fcntl.flock(trash, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A session of its own: slurmd ends the process group of a hook. rm follows no link, stays on one file system,
        # and minds neither depth nor number.
        subprocess.Popen(  # pylint: disable=consider-using-with  # it is not waited for
            ["nice", "-n", "19", "rm", "-rf", "--one-file-system", "--", *("./" + name for name in names)],
            cwd="/proc/self/fd/{0}".format(trash),
            pass_fds=(trash,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            start_new_session=True,
        )
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(trash)


def unique() -> str:
    """A name that nobody can take before; names that count, or tell an inode, can be."""
    return os.urandom(8).hex()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look for leftovers. Changes nothing, follows no link, and what hangs costs its own kind only."""

from __future__ import annotations

import os
import re
import stat
import time
from typing import Any, Callable, FrozenSet, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from ...core import declaration, mounts, root_folders, tree_users
from ...core.child import ChildDied, collect
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.resource import NodeError, printable
from ...resources.python_env import types as python_env
from ...resources.python_env.observe import read_mark
from ...slurm import folder_work, scratch, user_folders
from . import devices, jobs
from .types import (
    CLOCKS,
    CONTAINERS,
    CORE_DUMPS,
    ENVIRONMENTS,
    GPU_PROCESSES,
    JOB_FOLDERS,
    STOPPED_CONTAINERS,
    TMP_FILES,
    Leftover,
    Place,
    Seen,
    Settings,
)

SHARED = ("/tmp", "/dev/shm")  # noqa: S108  # they are looked through, and nothing is made there by name
_DUMPS = "/var/lib/systemd/coredump"
# systemd-coredump: COMM.UID.BOOT.PID.TIME, packed or not (coredump.c).
_DUMP = re.compile(r"core\..+\.\d+\.[0-9a-f]{32}\.\d+\.\d+(?:\.(?:zst|lz4|xz))?", re.DOTALL)
# Specifiers of kernel.core_pattern that stand for a number.
_NUMBERS = ("%c", "%d", "%g", "%i", "%I", "%p", "%P", "%s", "%t", "%u")
# For all that lies in one place; a file system without its disk hangs for ever.
_MEASURE_SECONDS, _HANG_SECONDS = 40.0, 60.0
_MOST = 2000


@frozen
class Measured:
    """``owners`` None: not all of it was seen. ``used``: the newest change of anything, or reading of a file."""

    size_bytes: Optional[int]
    owners: Optional[FrozenSet[int]]
    changed: float
    used: float


def look(host: Host, settings: Settings) -> Seen:
    """:raises NodeError: the declaration cannot be read."""
    declared = declaration.read(host)
    found: List[Leftover] = []
    notes: List[str] = []
    for kind, area in _AREAS:
        if kind in settings.kinds:
            some, unread = area(host, declared)
            found += some[:_MOST]
            notes += unread
            if len(some) > _MOST:
                notes.append("{0}: {1} were found, and {2} are looked at".format(kind, len(some), _MOST))
    slurm = jobs.slurm_of(host, declared)
    uptime = _uptime(host)
    # What is of an earlier boot needs nobody's word.
    asked = [one.job for one in found if one.job is not None and (uptime is None or one.idle_seconds <= uptime)]
    here, told = jobs.look(host, slurm, asked)
    notes += told
    found = _with_mounts(host, _with_openers(host, found))
    free, size = _space(host, declared)
    if CLOCKS in settings.kinds:
        some, unread = devices.clocks(host, declared)
        found += some
        notes += unread
    if GPU_PROCESSES in settings.kinds and jobs.has_slurm(host, slurm):
        some, unread = devices.processes(host, here)
        found += some
        notes += unread
    if STOPPED_CONTAINERS in settings.kinds:
        found += devices.stopped(host)
    return Seen(tuple(found), here, uptime, least_uid(host), free, size, tuple(dict.fromkeys(notes)))


def least_uid(host: Host) -> int:
    """The first number of people (login.defs(5))."""
    given = re.search(r"^\s*UID_MIN\s+(\d+)", host.read("/etc/login.defs") or "", re.MULTILINE)
    return max(1, int(given.group(1))) if given else 1000


def _uptime(host: Host) -> Optional[float]:
    words = (host.read_line("/proc/uptime") or "").split()
    return float(words[0]) if words and re.fullmatch(r"\d+(\.\d+)?", words[0]) else None


def _space(host: Host, declared: Mapping[str, Any]) -> Tuple[Optional[float], int]:
    try:
        point = scratch.usable(host, declared.get(scratch.SECTION))
    except NodeError:
        return None, 0
    if point is None:
        return None, 0
    some, dummy = _within(point, lambda: iter([mounts.space(host, point)]))
    return (100.0 * some[0].free_bytes / max(1, some[0].total_bytes), some[0].total_bytes) if some else (None, 0)


Found = Tuple[List[Leftover], List[str]]


def _within(what: str, act: Callable[[], Iterable[Any]]) -> Tuple[List[Any], List[str]]:
    """What ``act`` yields, in a child process."""

    def task(dummy: Any) -> Iterator[Any]:
        try:
            yield from act()
        except OSError as error:
            yield "{0}: it cannot be looked through ({1})".format(what, error.strerror or error)

    try:
        done = collect(task, _HANG_SECONDS)
    except ChildDied as error:
        return [], [str(error)]
    if done.hung_at is not None:
        return [], ["{0}: it did not answer within {1:g} s".format(what, _HANG_SECONDS)]
    texts = [one for one in done.items if isinstance(one, str)]
    return [one for one in done.items if not isinstance(one, str)], texts


# The places ----------------------------------------------------------------------------------------------


def _job_folders(host: Host, declared: Mapping[str, Any]) -> Found:
    try:
        point = scratch.usable(host, declared.get(scratch.SECTION))
    except NodeError as error:
        return [], [str(error)]
    if point is None:
        return [], []
    wanted = re.compile(r"[0-9]{1,10}")
    some, told = _within(point, lambda: _in_folder(host, JOB_FOLDERS, point, (scratch.JOBS,), wanted))
    return [replaced(one, job=int(one.place.name)) for one in some if one.place is not None], told


def _containers(host: Host, declared: Mapping[str, Any]) -> Found:
    found: List[Leftover] = []
    notes: List[str] = []
    for one in user_folders.templates(declared.get(user_folders.SECTION)):
        top, names = folder_work.above(one)
        wanted = re.compile(re.escape(os.path.basename(one.path)).replace(re.escape("{uid}"), "([0-9]{1,10})"))
        if not os.path.isdir(host.path(top)):
            continue

        def act(
            top: str = top, names: Tuple[str, ...] = names, wanted: "re.Pattern[str]" = wanted
        ) -> Iterator[Leftover]:
            return _in_folder(host, CONTAINERS, top, names, wanted)

        some, told = _within(one.parent, act)
        for left in some:
            match = wanted.fullmatch(left.place.name)
            owners = None if left.owners is None or match is None else left.owners | {int(match.group(1))}
            found.append(replaced(left, owners=owners, keeps=not one.remove))
        notes += told
    return found, notes


def _environments(host: Host, declared: Mapping[str, Any]) -> Found:
    folder = str((declared.get(python_env.SECTION) or {}).get("folder") or "")
    if not folder:
        try:
            point = scratch.usable(host, declared.get(scratch.SECTION))
        except NodeError:
            return [], []  # that was told of the folders of jobs
        if point is None:
            return [], []
        folder = "{0}/{1}".format(point, python_env.SCRATCH_FOLDER)
    if not os.path.isdir(host.path(folder)):
        return [], []
    if mounts.on_network(host, [folder]):
        return [], ["{0}: other nodes may use what lies there, so nothing of it is removed".format(folder)]
    above, name = os.path.split(folder.rstrip("/"))
    return _within(folder, lambda: _in_folder(host, ENVIRONMENTS, above, (name,), python_env.TREE))


def _core_dumps(host: Host, dummy: Mapping[str, Any]) -> Found:
    found, notes = _within(_DUMPS, lambda: _dumps(host, _DUMPS, _DUMP))
    folder, name = os.path.split(host.read_line("/proc/sys/kernel/core_pattern") or "")
    wanted = dump_name(name)
    if folder.startswith("/") and folder not in ("/", _DUMPS) and "%" not in folder and wanted is not None:
        some, told = _within(folder, lambda: _dumps(host, folder, wanted))
        found, notes = found + some, notes + told
    return found, notes


def dump_name(pattern: str) -> Optional["re.Pattern[str]"]:
    """The names that the kernel makes of this one (core(5)); None: it is not told apart from other files, as it has not
    both a text of its own and a number. Pure."""
    parts = re.findall(r"%.|[^%]+", pattern)
    texts = [one for one in parts if not one.startswith("%") and re.search(r"[^\W_]", one)]
    if not texts or not any(one in _NUMBERS for one in parts):
        return None
    made = (
        r"\d+" if one in _NUMBERS else "%" if one == "%%" else ".+" if one.startswith("%") else re.escape(one)
        for one in parts
    )
    return re.compile("".join(made) + r"(?:\.\d+)?", re.DOTALL)  # core_uses_pid


def _dumps(host: Host, folder: str, wanted: "re.Pattern[str]") -> Iterator[Leftover]:
    """Files only, in a folder that nobody but root may write to, all the way down."""
    names = tuple(one for one in folder.split("/") if one)
    return _in_folder(host, CORE_DUMPS, "/", names, wanted)


def _tmp_files(host: Host, dummy: Mapping[str, Any]) -> Found:
    found: List[Leftover] = []
    notes: List[str] = []
    least = least_uid(host)
    for top in SHARED:
        if os.path.isdir(host.path(top)) and not os.path.islink(host.path(top)):
            some, told = _within(top, lambda top=top: _in_shared(host, top, least))  # type: ignore[misc]
            found, notes = found + some, notes + told
    return found, notes


_AREAS = (
    (JOB_FOLDERS, _job_folders),
    (CONTAINERS, _containers),
    (ENVIRONMENTS, _environments),
    (CORE_DUMPS, _core_dumps),
    (TMP_FILES, _tmp_files),
)


# In the child process -------------------------------------------------------------------------------------


def _in_folder(
    host: Host, kind: str, top: str, folders: Tuple[str, ...], wanted: "re.Pattern[str]"
) -> Iterator[Leftover]:
    """:raises OSError: the folder cannot be read."""
    deadline = time.monotonic() + _MEASURE_SECONDS
    with root_folders.opened(host, top, folders, make=False) as above:
        for name in sorted(os.listdir(above)) if above is not None else ():
            if wanted.fullmatch(name) and above is not None:
                one = _leftover(kind, Place(top, folders, name), above, deadline)
                if one is not None and kind == ENVIRONMENTS:
                    # What is being built has no mark yet, and the mark of a copy is of another path.
                    one = replaced(one, ours=one.ours and read_mark(host, "/".join((top, *folders, name))) is not None)
                if one is not None:
                    yield one


def _in_shared(host: Host, top: str, least: int) -> Iterator[Leftover]:
    """What people have there; what is of root or a daemon is not even told.

    :raises OSError: it cannot be read.
    """
    deadline = time.monotonic() + _MEASURE_SECONDS
    above = os.open(host.path(top), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in sorted(os.listdir(above)):
            seen = root_folders.identity(above, name)
            if seen is not None and seen.uid >= least:
                one = _leftover(TMP_FILES, Place(top, (), name, shared=True), above, deadline)
                if one is not None:
                    yield one
    finally:
        os.close(above)


def _leftover(kind: str, place: Place, above: int, deadline: float) -> Optional[Leftover]:
    seen = root_folders.identity(above, place.name)
    if seen is None:
        return None
    folder = stat.S_ISDIR(seen.kind)
    if kind == CORE_DUMPS and not stat.S_ISREG(seen.kind):
        return None
    measured = measure(above, place.name, deadline)
    ours, keeps = False, False
    if kind in (JOB_FOLDERS, CONTAINERS):
        ours = folder and root_folders.marked(above, place.name)
    elif kind == ENVIRONMENTS:
        ours, keeps = folder and _has(above, place.name), _linked(above, place.name)
    used = measured.changed if kind == JOB_FOLDERS else measured.used
    return Leftover(
        kind,
        printable(place.path),
        place,
        seen,
        measured.size_bytes,
        max(0.0, time.time() - used),
        measured.owners,
        ours=ours,
        keeps=keeps,
        open=None if kind == ENVIRONMENTS and measured.owners is None else False,
        link=stat.S_ISLNK(seen.kind),
    )


def _has(above: int, name: str) -> bool:
    """Whether it has a mark of root's."""
    try:
        found = os.stat("{0}/{1}".format(name, python_env.MARK_NAME), dir_fd=above, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()


def _linked(above: int, name: str) -> bool:
    """Whether a link beside it leads to it."""
    for other in os.listdir(above):
        try:
            if os.path.basename(os.readlink(other, dir_fd=above).rstrip("/")) == name:
                return True
        except OSError:
            continue
    return False


def measure(above: int, name: str, deadline: float) -> Measured:
    """What lies there, without following a link or leaving its file system. A name that grows under our hands, or is
    nested beyond all measure, ends as not seen."""
    first = os.stat(name, dir_fd=above, follow_symlinks=False)
    size, changed, owners, whole = first.st_blocks * 512, first.st_ctime, {first.st_uid}, True
    used = max(first.st_ctime, first.st_atime) if stat.S_ISREG(first.st_mode) else first.st_ctime
    links: Set[int] = set()
    try:
        walk = os.fwalk(name, dir_fd=above, follow_symlinks=False) if stat.S_ISDIR(first.st_mode) else iter(())
        for _dummy, folders, files, handle in walk:
            for one in (*folders, *files):
                found = os.stat(one, dir_fd=handle, follow_symlinks=False)
                owners.add(found.st_uid)
                changed = max(changed, found.st_ctime)
                if stat.S_ISREG(found.st_mode):
                    used = max(used, found.st_atime)
                if found.st_dev != first.st_dev:
                    whole = False
                    folders[:] = [other for other in folders if other != one]
                elif found.st_nlink < 2 or stat.S_ISDIR(found.st_mode) or found.st_ino not in links:
                    size += found.st_blocks * 512
                    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                        links.add(found.st_ino)
                if time.monotonic() > deadline:
                    raise TimeoutError
    except (OSError, RecursionError):
        whole = False
    return Measured(size if whole else None, frozenset(owners) if whole else None, changed, max(used, changed))


# What all of them share -----------------------------------------------------------------------------------


def _with_mounts(host: Host, found: Iterable[Leftover]) -> List[Leftover]:
    points = [one.point for one in mounts.read(host)]

    def mounted(path: str) -> bool:
        return any(one == path or one.startswith(path + "/") for one in points)

    return [replaced(one, mounted=True) if one.place is not None and mounted(one.place.path) else one for one in found]


def _with_openers(host: Host, found: Iterable[Leftover]) -> List[Leftover]:
    asked = [one for one in found if one.kind in (CORE_DUMPS, ENVIRONMENTS, TMP_FILES) and one.place is not None]
    opened, whole = in_use(host, asked)
    result = []
    for one in found:
        if one.place is not None and one in asked:
            state = True if one.place.path in opened else (one.open if whole else None)
            one = replaced(one, open=state)
        result.append(one)
    return result


def in_use(host: Host, leftovers: Iterable[Leftover]) -> Tuple[FrozenSet[str], bool]:
    """Those that a process has open, mapped, runs from, or works in, and environments that one names; and whether every
    process could be asked."""
    kinds = {one.place.path: one.kind for one in leftovers if one.place is not None}
    wanted = tuple(kinds)
    whole = True
    if not wanted:
        return frozenset(), True
    trees = {path: [path.rsplit("-", 1)[0]] for path, kind in kinds.items() if kind == ENVIRONMENTS}
    found = set(tree_users.named_by(host, trees))
    for pid in host.names("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        used, all_of_it = _used(host, pid)
        whole = whole and all_of_it
        for path in used:
            head = path.split(" (deleted)")[0]
            found.update(one for one in wanted if head == one or head.startswith(one + "/"))
    return frozenset(found), whole


def _used(host: Host, pid: str) -> Tuple[Set[str], bool]:
    folder = "/proc/" + pid
    paths: Set[str] = set()
    whole = True
    links = ["{0}/{1}".format(folder, one) for one in ("exe", "cwd", "root")]
    try:
        links += ["{0}/fd/{1}".format(folder, one) for one in os.listdir(host.path(folder + "/fd"))]
    except FileNotFoundError:
        pass  # it has ended
    except OSError:
        whole = False
    for one in links:
        try:
            paths.add(os.readlink(host.path(one)))
        except (FileNotFoundError, ProcessLookupError):
            continue  # a kernel thread has no program
        except OSError:
            whole = False
    text = host.read(folder + "/maps")
    for line in (text or "").splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6:
            paths.add(fields[5])
    paths.discard("/")
    return paths, whole

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each kind of leftovers lies. What hangs costs its own place only."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Iterable, Iterator, List, Mapping, Optional, Tuple

from ...core import environments, mounts
from ...core.child import ChildDied, collect
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import NodeError
from ...core.system_processes import least_uid
from ...slurm import folder_work, scratch, user_folders
from .measure import in_folder, in_shared
from .types import CONTAINERS, CORE_DUMPS, ENVIRONMENTS, JOB_FOLDERS, TMP_FILES, Leftover

SHARED = ("/tmp", "/dev/shm")  # noqa: S108  # they are looked through, and nothing is made there by name
_DUMPS = "/var/lib/systemd/coredump"
# systemd-coredump: COMM.UID.BOOT.PID.TIME, packed or not (coredump.c).
_DUMP = re.compile(r"core\..+\.\d+\.[0-9a-f]{32}\.\d+\.\d+(?:\.(?:zst|lz4|xz))?", re.DOTALL)
# Specifiers of kernel.core_pattern that stand for a number.
_NUMBERS = ("%c", "%d", "%g", "%i", "%I", "%p", "%P", "%s", "%t", "%u")
# A file system without its disk hangs for ever.
_HANG_SECONDS = 60.0

Found = Tuple[List[Leftover], List[str]]


def within(what: str, act: Callable[[], Iterable[Any]]) -> Tuple[List[Any], List[str]]:
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


def _job_folders(host: Host, declared: Mapping[str, Any]) -> Found:
    try:
        point = scratch.usable(host, declared.get(scratch.SECTION))
    except NodeError as error:
        return [], [str(error)]
    if point is None:
        return [], []
    wanted = re.compile(r"[0-9]{1,10}")
    some, told = within(point, lambda: in_folder(host, JOB_FOLDERS, point, (scratch.JOBS,), wanted))
    return [replaced(one, job=int(one.place.name)) for one in some if one.place is not None], told


def _containers(host: Host, declared: Mapping[str, Any]) -> Found:
    found: List[Leftover] = []
    notes: List[str] = []
    for one in user_folders.templates(declared.get(user_folders.SECTION)):
        top, names = folder_work.above(one)
        wanted = re.compile(re.escape(os.path.basename(one.path)).replace(re.escape("{uid}"), "([0-9]{1,10})"))
        if not os.path.isdir(host.path(top)):
            continue
        if folder_work.shared(host, one):
            notes.append("{0}: other nodes may use what lies there, so nothing of it is removed".format(one.parent))
            continue

        def act(
            top: str = top, names: Tuple[str, ...] = names, wanted: "re.Pattern[str]" = wanted
        ) -> Iterator[Leftover]:
            return in_folder(host, CONTAINERS, top, names, wanted)

        some, told = within(one.parent, act)
        for left in some:
            match = wanted.fullmatch(left.place.name)
            owners = None if left.owners is None or match is None else left.owners | {int(match.group(1))}
            found.append(replaced(left, owners=owners, keeps=not one.remove))
        notes += told
    return found, notes


def _environments(host: Host, declared: Mapping[str, Any]) -> Found:
    folder = str((declared.get(environments.SECTION) or {}).get("folder") or "")
    if not folder:
        try:
            point = scratch.usable(host, declared.get(scratch.SECTION))
        except NodeError:
            return [], []  # that was told of the folders of jobs
        if point is None:
            return [], []
        folder = "{0}/{1}".format(point, environments.SCRATCH_FOLDER)
    if not os.path.isdir(host.path(folder)):
        return [], []
    if mounts.on_network(host, [folder]):
        return [], ["{0}: other nodes may use what lies there, so nothing of it is removed".format(folder)]
    above, name = os.path.split(folder.rstrip("/"))
    return within(folder, lambda: in_folder(host, ENVIRONMENTS, above, (name,), environments.TREE))


def _core_dumps(host: Host, dummy: Mapping[str, Any]) -> Found:
    found, notes = within(_DUMPS, lambda: _dumps(host, _DUMPS, _DUMP))
    folder, name = os.path.split(host.read_line("/proc/sys/kernel/core_pattern") or "")
    wanted = dump_name(name)
    if folder.startswith("/") and folder not in ("/", _DUMPS) and "%" not in folder and wanted is not None:
        some, told = within(folder, lambda: _dumps(host, folder, wanted))
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
    return in_folder(host, CORE_DUMPS, "/", names, wanted)


def _tmp_files(host: Host, dummy: Mapping[str, Any]) -> Found:
    found: List[Leftover] = []
    notes: List[str] = []
    least = least_uid(host)
    for top in SHARED:
        if os.path.isdir(host.path(top)) and not os.path.islink(host.path(top)):
            some, told = within(top, lambda top=top: in_shared(host, top, least))  # type: ignore[misc]
            found, notes = found + some, notes + told
    return found, notes


AREAS = (
    (JOB_FOLDERS, _job_folders),
    (CONTAINERS, _containers),
    (ENVIRONMENTS, _environments),
    (CORE_DUMPS, _core_dumps),
    (TMP_FILES, _tmp_files),
)

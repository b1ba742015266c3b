# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which leftovers are free. Pure.

Removed is only what our record, Slurm or the kernel proves free. Whatever is not known counts against it: a job that
nobody tells of may run, and a file that was not looked at may be open.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Optional, Tuple

from .types import (
    BESIDE_JOBS,
    CLOCKS,
    CONTAINERS,
    CORE_DUMPS,
    ENVIRONMENTS,
    FRESH_SECONDS,
    JOB_FOLDERS,
    KEEP,
    LIST,
    LISTED,
    REMOVE,
    TMP_FILES,
    Judged,
    Leftover,
    Seen,
    Settings,
)

#: (whether it is free, why or why not)
_Answer = Tuple[bool, str]
_UNKNOWN_JOBS = "Slurm does not tell which jobs are on this node"
_FREE_CACHE = "its user has no job here, and the scratch is short of space"


def judge(seen: Seen, settings: Settings) -> Tuple[Judged, ...]:
    """All leftovers, in their order."""
    found = [_one(one, seen, settings) for one in seen.leftovers if one.kind in settings.kinds]
    return tuple(_for_space(found, seen, settings))


def _one(one: Leftover, seen: Seen, settings: Settings) -> Judged:
    if one.kind in LISTED:
        return Judged(one, LIST, "it is told and never touched")
    against = _against(one, seen, settings)
    if against is not None:
        return Judged(one, KEEP, against)
    free, why = _RULES[one.kind](one, seen, settings)
    return Judged(one, REMOVE if free else KEEP, why)


def _against(one: Leftover, seen: Seen, settings: Settings) -> Optional[str]:
    """What holds for all kinds."""
    jobs = seen.jobs
    if jobs.names and not settings.beside_jobs:
        return "jobs run here, and nothing is removed beside them (cleanup_beside_jobs)"
    if one.kind not in BESIDE_JOBS and (jobs.names or not jobs.told):
        return "jobs run here, and one of them may need it" if jobs.names else _UNKNOWN_JOBS
    if one.kind == CLOCKS:
        return None
    if one.place is None or one.identity is None:
        return "it is gone"
    if one.link:
        return "it is a link"
    if one.mounted:
        return "something is mounted there"
    if one.idle_seconds < FRESH_SECONDS:
        return "it changed within the last ten minutes"
    return None


def _job_folder(one: Leftover, seen: Seen, dummy: Settings) -> _Answer:
    if not one.ours:
        return False, "it has no mark of ours"
    if one.job is None or str(one.job) in seen.jobs.names:
        return False, "its job runs"
    if one.job in seen.jobs.ended:
        return True, "its job is over"
    if seen.uptime_seconds is not None and one.idle_seconds > seen.uptime_seconds:
        return True, "its job was of an earlier boot"
    return False, "nobody says that its job is over"


def _users_are_away(one: Leftover, seen: Seen) -> Optional[str]:
    """None: whoever has files in it has neither a job nor a process here."""
    if one.owners is None:
        return "it was not looked through in time, so nobody knows whose it is"
    if not seen.jobs.told:
        return _UNKNOWN_JOBS
    if one.owners & seen.jobs.users:
        return "its user has a job here"
    if one.owners & seen.jobs.processes:
        return "its user has processes here"
    return None


def _container(one: Leftover, seen: Seen, settings: Settings) -> _Answer:
    if not one.ours:
        return False, "it has no mark of ours"
    why = _users_are_away(one, seen)
    if why is not None:
        return False, why
    if not one.keeps:
        return True, "its user has no job here"
    return _old(one, settings)


def _old(one: Leftover, settings: Settings) -> _Answer:
    limit = settings.days(one.kind)
    days = one.idle_seconds / 86400.0
    told = "it has not been used for {0:.0f} of {1:.0f} days".format(days, limit / 86400.0)
    return one.idle_seconds >= limit, told


def _unopened(one: Leftover) -> Optional[str]:
    if one.open is None:
        return "not every process could be asked whether it has it open"
    return "a process has it open" if one.open else None


def _environment(one: Leftover, seen: Seen, settings: Settings) -> _Answer:
    if not one.ours:
        return False, "it has no mark of ours"
    if one.keeps:
        return False, "it is in force"
    why = _unopened(one)
    return (False, why) if why is not None else _old(one, settings)


def _core_dump(one: Leftover, seen: Seen, settings: Settings) -> _Answer:
    why = _unopened(one)
    return (False, why) if why is not None else _old(one, settings)


def _tmp_file(one: Leftover, seen: Seen, settings: Settings) -> _Answer:
    if one.owners is not None and any(uid < seen.least_uid for uid in one.owners):
        return False, "root or a daemon has files in it"
    why = _users_are_away(one, seen) or _unopened(one)
    return (False, why) if why is not None else _old(one, settings)


def _clocks(one: Leftover, seen: Seen, dummy: Settings) -> _Answer:
    if one.open is None or not seen.jobs.told:
        return False, "nobody knows whether a job has this GPU"
    return (False, "a job has this GPU") if one.open else (True, "no job has this GPU")


_RULES: Mapping[str, Callable[[Leftover, Seen, Settings], _Answer]] = {
    JOB_FOLDERS: _job_folder,
    CONTAINERS: _container,
    ENVIRONMENTS: _environment,
    CORE_DUMPS: _core_dump,
    TMP_FILES: _tmp_file,
    CLOCKS: _clocks,
}


def _for_space(found: List[Judged], seen: Seen, settings: Settings) -> List[Judged]:
    """Where the scratch is short of space, kept caches go too, the oldest first, until it is not."""
    if seen.free_percent is None or not seen.scratch_bytes or not settings.keep_free_percent:
        return found
    wanted = (settings.keep_free_percent - seen.free_percent) / 100.0 * seen.scratch_bytes
    on_scratch = (JOB_FOLDERS, CONTAINERS)
    wanted -= sum(
        one.leftover.size_bytes or 0 for one in found if one.outcome == REMOVE and one.leftover.kind in on_scratch
    )
    kept = [(number, one) for number, one in enumerate(found) if _spare(one, seen, settings)]
    changed: Dict[int, Judged] = {}
    for number, one in sorted(kept, key=lambda pair: -pair[1].leftover.idle_seconds):
        if wanted <= 0:
            break
        wanted -= one.leftover.size_bytes or 0
        changed[number] = Judged(one.leftover, REMOVE, _FREE_CACHE)
    return [changed.get(number, one) for number, one in enumerate(found)]


def _spare(one: Judged, seen: Seen, settings: Settings) -> bool:
    left = one.leftover
    if one.outcome != KEEP or left.kind != CONTAINERS or not left.keeps or not left.ours:
        return False
    return _against(left, seen, settings) is None and _users_are_away(left, seen) is None


def removed(found: Tuple[Judged, ...]) -> Tuple[Leftover, ...]:
    return tuple(one.leftover for one in found if one.outcome == REMOVE)

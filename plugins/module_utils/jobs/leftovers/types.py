# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found on a node that somebody may have left behind, and what is known of its jobs and users."""

from __future__ import annotations

from typing import TYPE_CHECKING, FrozenSet, Optional, Tuple

from ...core.frozen import frozen
from ...core.options import option, options
from ...slurm.types import Jobs

if TYPE_CHECKING:  # the arguments of every command load this module, also before a job
    from ...core.root_folders import Identity

SECTION = "cleanup"
JOB_FOLDERS, CONTAINERS, ENVIRONMENTS = "job_folders", "containers", "environments"
CORE_DUMPS, TMP_FILES, CLOCKS = "core_dumps", "tmp_files", "clocks"
GPU_PROCESSES, STOPPED_CONTAINERS = "gpu_processes", "stopped_containers"
#: Those that are removed, or put back, where they are proven free.
REMOVED = (JOB_FOLDERS, CONTAINERS, ENVIRONMENTS, CORE_DUMPS, TMP_FILES, CLOCKS)
#: Those that are told and never touched.
LISTED = (GPU_PROCESSES, STOPPED_CONTAINERS)
KINDS = REMOVED + LISTED
#: What a job that runs beside it cannot need: it belongs to another job, another user, or another GPU.
BESIDE_JOBS = (JOB_FOLDERS, CONTAINERS, CORE_DUMPS, CLOCKS)
REMOVE, KEEP, LIST = "remove", "keep", "list"
# Between the start of a job and its first step, and between the making of a folder and its first use.
FRESH_SECONDS = 600.0
_DAY = 86400.0


_DAYS = (0, 3650)


@options
class Settings:
    """The options that ``gpunode cleanup`` needs."""

    kinds: Tuple[str, ...] = option(
        KINDS,
        "What is looked for. V(gpu_processes) and V(stopped_containers) are told and never touched.",
        choices=KINDS,
    )
    cache_days: int = option(
        30,
        "A cache of containers that is kept (option C(keep_cache) of M(trainyard.gpu_node.enroot)) goes after so long "
        "without use.",
        bounds=_DAYS,
        unit="days",
    )
    environment_days: int = option(
        90,
        "A former build of an environment on the scratch goes after so long without use.",
        bounds=_DAYS,
        unit="days",
    )
    core_days: int = option(7, "A core dump goes after so long.", bounds=_DAYS, unit="days")
    # As systemd-tmpfiles has it for /tmp.
    tmp_days: int = option(
        10,
        "Files of users in C(/tmp) and C(/dev/shm) go after so long without use, when their users have neither a job "
        "nor a process on the node.",
        bounds=_DAYS,
        unit="days",
    )
    keep_free_percent: int = option(
        0,
        "Share of the scratch that is to be free. Below it kept caches of users without jobs go too, the oldest first.",
        bounds=(0, 95),
        unit="percent",
    )
    beside_jobs: bool = option(
        True,
        "Whether it removes anything while jobs run. What they could need never goes then.",
    )

    def days(self, kind: str) -> float:
        days = {CONTAINERS: self.cache_days, ENVIRONMENTS: self.environment_days, CORE_DUMPS: self.core_days}
        return days.get(kind, self.tmp_days) * _DAY


@frozen
class Place:
    """Where something lies. ``top`` is trusted, and each of ``folders`` below it is a folder that only root may write
    to. ``shared``: ``top`` itself is everybody's, as /tmp is."""

    top: str
    folders: Tuple[str, ...]
    name: str
    shared: bool = False

    @property
    def path(self) -> str:
        return "/".join((self.top.rstrip("/"), *self.folders, self.name))


@frozen
class Leftover:
    """``what``: for people. ``size_bytes`` None: it was not looked through in time. ``idle_seconds``: since its last
    change or, where that is known, its last use. ``owners``: who has files in it; None: that is not known.

    ``ours``: it has our mark, or lies where only a record of ours puts such things. ``keeps``: it is meant to outlive
    jobs, as a cache is. ``open``: a process has it open, mapped or as its folder; None: not all could be asked.
    """

    kind: str
    what: str
    place: Optional[Place] = None
    identity: Optional[Identity] = None
    size_bytes: Optional[int] = None
    idle_seconds: float = 0.0
    owners: Optional[FrozenSet[int]] = None
    job: Optional[int] = None
    ours: bool = False
    keeps: bool = False
    open: Optional[bool] = False
    mounted: bool = False
    link: bool = False


@frozen
class Seen:
    """``uptime_seconds``: since the boot; None: not known. ``least_uid``: of people; those below are daemons'.
    ``free_percent`` and ``scratch_bytes``: of the scratch, where there is one."""

    leftovers: Tuple[Leftover, ...] = ()
    jobs: Jobs = Jobs()
    uptime_seconds: Optional[float] = None
    least_uid: int = 1000
    free_percent: Optional[float] = None
    scratch_bytes: int = 0
    notes: Tuple[str, ...] = ()


@frozen
class Judged:
    leftover: Leftover
    outcome: str
    why: str

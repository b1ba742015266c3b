# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/run/gpu_node/jobs: one small file for each job that runs on this node, from its prolog to its epilog.

They tell an epilog which GPUs other jobs still have (MPS, shards), and make it repeatable. They lie in /run, so a
reboot forgets them together with the jobs.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, Dict, List, Optional, Tuple

from ..host import Host
from .types import Job

FOLDER = "/run/gpu_node/jobs"


@dataclasses.dataclass(frozen=True)
class Running:
    """What is remembered of a job. ``folder`` is its folder on the scratch; ``stuck`` are processes (pid, start time
    in clock ticks after boot) that its epilog could not end."""

    id: int
    uid: int
    gpus: Tuple[str, ...] = ()
    folder: Optional[str] = None
    stuck: Tuple[Tuple[int, int], ...] = ()


def path(job_id: int) -> str:
    return "{0}/{1}.json".format(FOLDER, job_id)


def read(host: Host, job_id: int) -> Optional[Running]:
    """None when there is none; a file that is cut short or was edited counts as none."""
    try:
        content = json.loads(host.read(path(job_id)) or "")
    except ValueError:
        return None
    if not isinstance(content, dict) or not isinstance(content.get("uid"), int):
        return None
    folder = content.get("folder")
    return Running(
        job_id,
        content["uid"],
        tuple(str(gpu) for gpu in _list(content, "gpus")),
        folder if isinstance(folder, str) else None,
        tuple((one[0], one[1]) for one in _list(content, "stuck") if _pair(one)),
    )


def _list(content: Dict[str, Any], name: str) -> List[Any]:
    value = content.get(name)
    return value if isinstance(value, list) else []


def _pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(one, int) for one in value)


def all_of(host: Host) -> Tuple[Running, ...]:
    found = [re.fullmatch(r"(\d+)\.json", name) for name in host.names(FOLDER)]
    jobs = [read(host, int(one.group(1))) for one in found if one is not None]
    return tuple(job for job in jobs if job is not None)


def others(host: Host, job: Job) -> Tuple[Running, ...]:
    """All but this job; one whose processes could not be ended counts no more as running."""
    return tuple(one for one in all_of(host) if one.id != job.id and not one.stuck)


def write(host: Host, running: Running) -> None:
    content = dataclasses.asdict(running)
    del content["id"]
    host.write(path(running.id), json.dumps(content, sort_keys=True) + "\n", mode=0o600)


def remove(host: Host, job_id: int) -> None:
    host.remove(path(job_id))


def unshared(gpus: Tuple[str, ...], running: Tuple[Running, ...]) -> Tuple[str, ...]:
    """Those of ``gpus`` that none of these jobs has. Pure."""
    taken = {gpu for one in running for gpu in one.gpus}
    return tuple(gpu for gpu in gpus if gpu not in taken)

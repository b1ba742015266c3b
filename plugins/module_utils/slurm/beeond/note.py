# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/run/gpu_node/beeond: what a node notes of the file system of a job before anything of it is started.

So a prolog that is killed leaves a note, by which the epilog stops what there is.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from ...core.frozen import plain
from ...core.host import Host
from . import FOLDER
from .rules import Instance

_NOTE = re.compile(r"([0-9]{1,10})\.json")


def path(job_id: int) -> str:
    return "{0}/{1}.json".format(FOLDER, job_id)


def read(host: Host, job_id: int) -> Optional[Instance]:
    return parsed(host.read(path(job_id)) or "", job_id)


def parsed(text: str, job_id: int) -> Optional[Instance]:
    """None: it is cut short, or none of ours. Pure."""
    try:
        content = json.loads(text)
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    kinds: Dict[str, Any] = {"shift": int, "point": str, "data": str, "restart": str, "until": (int, float)}
    if not all(isinstance(content.get(name), kind) for name, kind in kinds.items()):
        return None
    nodes, by, refused = content.get("nodes"), content.get("by"), content.get("refused")
    if not isinstance(nodes, list):
        return None
    return Instance(
        job_id,
        tuple(str(one) for one in nodes),
        content["shift"],
        content["point"],
        content["data"],
        content["restart"],
        float(content["until"]),
        (int(by[0]), int(by[1])) if isinstance(by, list) and [type(one) for one in by] == [int, int] else None,
        refused if isinstance(refused, str) else "",
    )


def all_of(host: Host) -> Tuple[Instance, ...]:
    found: List[Instance] = []
    for name in host.names(FOLDER):
        match = _NOTE.fullmatch(name)
        one = read(host, int(match.group(1))) if match else None
        if one is not None:
            found.append(one)
    return tuple(found)


def write(host: Host, one: Instance) -> None:
    folder = host.path(FOLDER)
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o700)
    content = plain(one)
    del content["job"]
    host.write(path(one.job), json.dumps(content, sort_keys=True) + "\n", mode=0o600)


def forget(host: Host, one: Instance) -> None:
    """The note goes last."""
    for name in (one.status, one.node_file, one.output, path(one.job)):
        host.remove(name)

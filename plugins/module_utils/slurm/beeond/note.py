# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/run/gpu_node/beeond: what a node notes of the file system of a job before anything of it is started.

So a prolog that is killed leaves a note, by which the epilog stops what there is.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Tuple

from ...core.frozen import plain, replaced
from ...core.host import Host
from ...core.state_file import StateFile, document
from . import FOLDER
from .rules import Instance

_NOTE = re.compile(r"([0-9]{1,10})\.json")


def _parse(content: Dict[str, Any]) -> Instance:
    return document(Instance, dict(content, job=0), ("by", "refused"))


FILE = StateFile("beeond", FOLDER + "/{0}.json", _parse)


def path(job_id: int) -> str:
    return FILE.at(job_id)


def read(host: Host, job_id: int) -> Optional[Instance]:
    """None if there is none, or it is damaged."""
    return _of(job_id, FILE.read(host, job_id)[0])


def parsed(text: str, job_id: int) -> Optional[Instance]:
    """What another node printed. Pure."""
    return _of(job_id, FILE.parse(text)[0])


def _of(job_id: int, found: Optional[Instance]) -> Optional[Instance]:
    return None if found is None else replaced(found, job=job_id)


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
    FILE.write(host, content, one.job)


def forget(host: Host, one: Instance) -> None:
    """The note goes last."""
    for name in (one.status, one.node_file, one.output, path(one.job)):
        host.remove(name)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``dcgmi health -c``: the table for people and the JSON (-j) of 2.1 to 4.6.

Format from its sources (NVIDIA/DCGM: dcgmi/Health.cpp, dcgmi/DcgmiOutput.cpp): one tree in both, ``Overall Health`` and
below the name of an entity group (``GPU``, ``Switch``) each entity with its ``Errors`` by system. 2.x writes the
severity (10 or 20) where the number of the entity belongs, and leaves some errors out.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .common import ParseError, document, untagged

TOOL = "dcgmi health"
NOT_WATCHED = "Health watches not enabled"
STATUSES = {"Healthy": "pass", "Warning": "warn", "Failure": "fail"}
OVERALL = "overall"  # the system of an incident that only a state tells, and no error
_ORDER = ("pass", "warn", "fail")
_OVERALL, _ERRORS = "Overall Health", "Errors"
_SEVERITIES = {("10", "warn"), ("20", "fail")}  # dcgm_structs.h, dcgmHealthWatchResults_t
_ROW = re.compile(r"\| ((?: {3})*)(?:-> )?(.{0,60}?) *\| (.{0,200}?) *\|")
_MOST_DEPTH = 4


@dataclasses.dataclass(frozen=True)
class Incident:
    """What a watch says of one system of one thing. ``number`` is DCGM's number of it, None where it is not told."""

    group: str
    number: Optional[int]
    system: str
    status: str
    message: str


@dataclasses.dataclass(frozen=True)
class Report:
    """``status``: pass, warn or fail, over all. It covers only the systems that are watched."""

    status: str
    incidents: Tuple[Incident, ...]


@dataclasses.dataclass
class _Node:
    value: str = ""
    more: List[str] = dataclasses.field(default_factory=list)
    children: "Dict[str, _Node]" = dataclasses.field(default_factory=dict)


def parse(text: str) -> Report:
    """:raises ParseError: when this is no whole answer of ``dcgmi health -c``."""
    text = untagged(text)
    body = _of_json(text) if '"body"' in text else _of_table(text)
    overall = body.pop(_OVERALL, None)
    if overall is None:
        raise ParseError(TOOL, _words(text))
    status = _status(_OVERALL, overall.value)
    incidents = [
        one
        for group, entities in body.items()
        for number, entity in entities.children.items()
        for one in _incidents(group, number, entity)
    ]
    if any(_ORDER.index(one.status) > _ORDER.index(status) for one in incidents):
        raise ParseError(TOOL, "its errors and its overall health contradict each other")
    return Report(status, tuple(incidents))


def worse(status: str, incidents: Sequence[Incident]) -> bool:
    """Whether no incident says why it is so bad."""
    return _ORDER.index(status) > max((_ORDER.index(one.status) for one in incidents), default=0)


def _incidents(group: str, number: str, entity: _Node) -> List[Incident]:
    """Of one entity: its errors, and its own state where no error is as bad."""
    status = _status("{0} {1}".format(group, number), entity.value)
    known = number.isascii() and number.isdigit() and len(number) < 6 and (number, status) not in _SEVERITIES
    place = int(number) if known else None
    errors = entity.children.get(_ERRORS, _Node()).children
    incidents = [
        Incident(group[:40], place, system[:40], _status(system, told.value), " ".join(told.more)[:300])
        for system, told in errors.items()
    ]
    if worse(status, incidents):
        incidents.append(Incident(group[:40], place, OVERALL, status, "no more is told"))
    return incidents


def _status(thing: str, value: str) -> str:
    status = STATUSES.get(value)
    if status is None:
        raise ParseError(TOOL, "{0!r} has the unknown state {1!r}".format(thing[:40], value[:40]))
    return status


def _of_json(text: str) -> Dict[str, _Node]:
    body = document(TOOL, text).get("body")
    if not isinstance(body, dict):
        raise ParseError(TOOL, "it has no body")
    return {name: _json_node(one) for name, one in body.items()}


def _json_node(value: Any, depth: int = 0) -> _Node:
    if not isinstance(value, dict) or depth > _MOST_DEPTH:
        raise ParseError(TOOL, "a part of it has another shape")
    children, more = value.get("children") or {}, value.get("overflow") or []
    if not isinstance(children, dict) or not isinstance(more, list):
        raise ParseError(TOOL, "a part of it has another shape")
    below = {name: _json_node(child, depth + 1) for name, child in children.items()}
    return _Node(str(value.get("value", "")), [str(line) for line in more], below)


def _of_table(text: str) -> Dict[str, _Node]:
    body: Dict[str, _Node] = {}
    path: List[_Node] = []
    begun = ended = False
    for line in (line.strip() for line in text.splitlines()):
        if re.fullmatch(r"\+=+\+=+\+", line):
            begun = True
        elif begun and re.fullmatch(r"\+-+\+-+\+", line):
            ended = True
        row = _ROW.fullmatch(line) if begun and not ended else None
        if row is None:
            continue
        indent, name, value = row.groups()
        if not name:
            if not path:
                raise ParseError(TOOL, "it begins in the middle")
            path[-1].more.append(value)
            continue
        level = 0 if "-> " not in line.split("|")[1] else len(indent) // 3 + 1
        if level > min(len(path), _MOST_DEPTH):
            raise ParseError(TOOL, "a row of it belongs to none above it")
        siblings = path[level - 1].children if level else body
        path[level:] = [siblings.setdefault(name, _Node(value))]
    if body and not ended:
        raise ParseError(TOOL, "its table has no end")
    return body


def _words(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return "there is no health report in it ({0})".format(first[:160]) if first else "it is empty"

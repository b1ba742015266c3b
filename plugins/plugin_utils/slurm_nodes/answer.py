# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer of scontrol as nodes. Pure.

JSON is what ``scontrol --json show node`` gives (23.02 and later; sinfo of 21.08 and slurmrestd write much the same),
text is ``scontrol -o show node``, a line a node. An answer that is not whole is an error, never half of it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Tuple

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError

from .node import Node, made, words_of

_FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_REASON = re.compile(r"\sReason=(.*?)(?=\s(?:Comment|Extra|ReservationName|InstanceId|InstanceType)=|$)")


def parse(answer: str, origin: str) -> Tuple[Node, ...]:
    """The nodes of an answer in either form. ``origin``: where it is from, for people.

    :raises NodeError: it is no such answer, not whole, or has no nodes.
    """
    begun = answer.lstrip()
    if not begun:
        raise _wrong(origin, "the answer is empty")
    nodes = _of_json(begun, origin) if begun[0] in "{[" else _of_text(answer, origin)
    if not nodes:
        raise _wrong(origin, "Slurm tells of no node")
    names = [node.name for node in nodes]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise _wrong(origin, "the answer has node {0} twice".format(twice))
    return nodes


def _wrong(origin: str, reason: str) -> NodeError:
    return NodeError(origin, reason, "run it by hand, and see whether slurmctld is well ('scontrol ping')")


def _of_json(answer: str, origin: str) -> Tuple[Node, ...]:
    try:
        content = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise _wrong(origin, "the answer is broken JSON, cut short or not ({0})".format(error)) from error
    listed = content.get("nodes") if isinstance(content, dict) else None
    errors = content.get("errors") if isinstance(content, dict) else None
    if errors:
        raise _wrong(origin, "Slurm reports an error: {0}".format(_said(errors)))
    if not isinstance(listed, list):
        raise _wrong(origin, "the JSON has no list 'nodes'")
    return tuple(_json_node(one, origin) for one in listed)


def _said(errors: Any) -> str:
    first = errors[0] if isinstance(errors, list) else errors
    if isinstance(first, dict):
        first = first.get("description") or first.get("error") or first
    return str(first)[:200]


def _json_node(one: Any, origin: str) -> Node:
    if not isinstance(one, dict) or not isinstance(one.get("name"), str):
        raise _wrong(origin, "an entry of 'nodes' has no name")
    return made(
        name=one["name"],
        words=[*words_of(one.get("state")), *words_of(one.get("state_flags"))],
        address=one.get("address"),
        reason=one.get("reason"),
        partitions=one.get("partitions"),
        features=one.get("active_features") or one.get("features"),
        gres=one.get("gres"),
        reservation=one.get("reservation"),
        cpus=one.get("cpus"),
        memory_mib=one.get("real_memory"),
        boot_time=one.get("boot_time"),
        version=one.get("version") or one.get("slurmd_version"),
    )


def _of_text(answer: str, origin: str) -> Tuple[Node, ...]:
    if not answer.endswith("\n"):
        raise _wrong(origin, "the answer is cut short: its last line has no end")
    return tuple(_text_node(line, origin) for line in _lines(answer, origin))


def _lines(answer: str, origin: str) -> List[str]:
    lines: List[str] = []
    for line in answer.splitlines():
        if line.startswith("NodeName="):
            lines.append(line)
        elif line.strip() and lines:
            lines[-1] += " " + line.strip()  # a reason of several lines
        elif line.strip():
            raise _wrong(origin, "this is not what scontrol writes: {0!r}".format(line.strip()[:80]))
    return lines


def _text_node(line: str, origin: str) -> Node:
    fields: Dict[str, str] = {}
    # What people wrote comes after all that is read here, so the first of a name is Slurm's own.
    for key, value in _FIELD.findall(line):
        fields.setdefault(key, value)
    missing = [key for key in ("State", "CPUTot", "RealMemory") if key not in fields]
    if missing:
        raise _wrong(origin, "the line of node {0} has no {1}".format(fields["NodeName"][:80], missing[0]))
    reason = _REASON.search(line)
    return _from_fields(fields, reason.group(1) if reason else "")


def _from_fields(fields: Mapping[str, str], reason: str) -> Node:
    return made(
        name=fields["NodeName"],
        words=[fields["State"]],
        address=fields.get("NodeAddr"),
        reason=reason,
        partitions=fields.get("Partitions"),
        features=words_of(fields.get("ActiveFeatures")) or fields.get("AvailableFeatures"),
        gres=fields.get("Gres"),
        reservation=fields.get("ReservationName"),
        cpus=fields.get("CPUTot"),
        memory_mib=fields.get("RealMemory"),
        boot_time=fields.get("BootTime"),
        version=fields.get("Version"),
    )

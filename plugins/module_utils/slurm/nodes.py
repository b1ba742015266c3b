# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only parser of nodes, for the node and for the controller: an answer of scontrol or sinfo as records. Pure.

JSON is what ``scontrol --json show node`` gives (23.02 and later; sinfo of 21.08 and slurmrestd write much the same),
text is ``scontrol show node``, also with ``-o``. An answer that is cut short is an error, never half of it.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..core.resource import NodeError
from . import states
from .types import SlurmNode

# What Slurm writes where it has nothing to say.
_NOTHING = ("", "(null)", "N/A", "n/a", "None", "NONE", "Unknown")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")
_ADDRESS = re.compile(r"[A-Za-z0-9_:]([A-Za-z0-9._:%-]{0,251}[A-Za-z0-9_:])?")
_FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_REASON = re.compile(
    r"\sReason=(.*?)(?=\s(?:Comment|Extra|ReservationName|InstanceId|InstanceType)=|\n   [A-Z]\w*=|\Z)", re.DOTALL
)
# Who gave a reason and when, ``[root@2026-01-31T12:00:00]``: at the end of its first line, and no part of it.
# With -o eight blanks divide the lines (slurm_sprint_node).
_GIVEN_BY = re.compile(r"\s*\[[^\[\]\n]*@[^\[\]\n]*\](?=\s*\n| {8}|\s*\Z)")
# Columns of sinfo -N with their widths: no sign divides them that a reason could not hold. The names of all states that
# a node can have are 200 characters at most.
_COLUMNS = (("NodeList", 256), ("PartitionName", 128), ("StateComplete", 256), ("Reason", 1024))
COLUMNS = ",".join("{0}:{1}".format(name, width) for name, width in _COLUMNS)


def parse(answer: str, origin: str) -> Tuple[SlurmNode, ...]:
    """The nodes of an answer of scontrol. ``origin``: where it is from, for people.

    :raises NodeError: it is no such answer, is cut short, or has no nodes.
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


def of_columns(answer: str) -> Dict[str, SlurmNode]:
    """The answer of ``sinfo -N`` for ``COLUMNS``, a line for each node and partition; others are ignored.

    ``scontrol show node NAME`` has slurmctld send all nodes (seen up to 26.05), ``sinfo --nodes NAME`` this one only.

    :raises NodeError: two lines disagree on a node.
    """
    found: Dict[str, SlurmNode] = {}
    for line in answer.split("\n"):
        cells, begin = [], 0
        for column in _COLUMNS:
            cells.append(line[begin : begin + column[1]].strip())
            begin += column[1]
        name, partition, state, reason = cells
        if not name or not re.fullmatch(r"[a-z_]+(\+[a-z_]+)*", state):
            continue
        flags, why = states.normalised([state]), None if reason in ("", "none") else reason
        before = found.get(name, SlurmNode(flags, why))
        if (before.flags, before.reason) != (flags, why):
            # An answer is of one moment.
            told = "slurmctld tells of two nodes of this name, as from two clusters"
            raise NodeError("node " + name, told, "look at 'sinfo --local -a -N', and unset SLURM_CLUSTERS")
        found[name] = SlurmNode(flags, why, tuple(dict.fromkeys((*before.partitions, partition))), name=name)
    return found


def _wrong(origin: str, reason: str) -> NodeError:
    return NodeError(origin, reason, "run it by hand, and see whether slurmctld is well ('scontrol ping')")


def _of_json(answer: str, origin: str) -> Tuple[SlurmNode, ...]:
    import json  # a node asks for text

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


def _json_node(one: Any, origin: str) -> SlurmNode:
    if not isinstance(one, dict) or not isinstance(one.get("name"), str):
        raise _wrong(origin, "an entry of 'nodes' has no name")
    return record(
        name=one["name"],
        words=(*words_of(one.get("state")), *words_of(one.get("state_flags"))),
        address=one.get("address"),
        host=one.get("hostname"),
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


def _of_text(answer: str, origin: str) -> Tuple[SlurmNode, ...]:
    if not answer.endswith("\n"):
        raise _wrong(origin, "the answer is cut short: its last line has no end")
    return tuple(_text_node(block) for block in _blocks(answer, origin))


def _blocks(answer: str, origin: str) -> List[str]:
    blocks: List[str] = []
    for line in answer.split("\n"):
        if line.startswith("NodeName="):
            blocks.append(line)
        elif line.strip() and blocks:
            blocks[-1] += "\n" + line  # of the form without -o, or of a reason of several lines
        elif line.strip():
            raise _wrong(origin, "this is not what scontrol writes: {0!r}".format(line.strip()[:80]))
    return blocks


def _text_node(block: str) -> SlurmNode:
    fields: Dict[str, str] = {}
    # What people wrote comes after all that is read here, so the first of a name is Slurm's own.
    for key, value in _FIELD.findall(block):
        fields.setdefault(key, value)
    reason = _REASON.search(block)
    return _from_fields(fields, _GIVEN_BY.sub("", reason.group(1), count=1) if reason else "")


def _from_fields(fields: Mapping[str, str], reason: str) -> SlurmNode:
    return record(
        name=fields["NodeName"],
        words=words_of(fields.get("State")),
        address=fields.get("NodeAddr"),
        host=fields.get("NodeHostName"),
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


def record(
    name: str,
    words: Tuple[str, ...],
    address: Any = "",
    host: Any = "",
    reason: Any = "",
    partitions: Any = (),
    features: Any = (),
    gres: Any = "",
    reservation: Any = "",
    cpus: Any = None,
    memory_mib: Any = None,
    boot_time: Any = None,
    version: Any = "",
) -> SlurmNode:
    """A node of what an answer has; lists may be text with commas, numbers text.

    :raises NodeError: its name or its address is none, or it has no state.
    """
    remedy = "compare with 'scontrol show node', and correct slurm.conf or what changes the answer"
    if not _HOST.fullmatch(name):
        raise NodeError("node name {0!r}".format(name[:80]), "it is no host name", remedy)
    where = text(address) or name
    # Ansible hands it to ssh: a word that begins with a hyphen would be an option there.
    if not _ADDRESS.fullmatch(where):
        raise NodeError("node {0}".format(name), "its NodeAddr {0!r} is no address".format(where[:80]), remedy)
    flags = states.normalised(words)
    if not flags:
        raise NodeError("node {0}".format(name), "the answer has no state of it", remedy)
    return SlurmNode(
        flags=flags,
        # What a person wrote is compared with what a node has, so its blanks stay.
        reason=" ".join(line.strip() for line in re.split(r"\n| {8,}", text(reason))).strip() or None,
        partitions=words_of(partitions),
        gres=text(gres),
        name=name,
        address=where,
        host=text(host),
        features=words_of(features),
        reservation=text(reservation),
        cpus=number(cpus),
        memory_mib=number(memory_mib),
        boot_time=number(boot_time) or None,
        version=text(version),
    )


def text(value: Any) -> str:
    """The text of a field; what is none, or says nothing, is empty."""
    stripped = value.strip() if isinstance(value, str) else ""
    return "" if stripped in _NOTHING else stripped


def words_of(value: Any) -> Tuple[str, ...]:
    parts = value if isinstance(value, (list, tuple)) else text(value).split(",")
    return tuple(dict.fromkeys(one for one in (text(part) for part in parts) if one))


def number(value: Any) -> Optional[int]:
    """An integer, its text, or JSON's {"set": true, "infinite": false, "number": 5}."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") is True and value.get("infinite") is not True else None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value) else None

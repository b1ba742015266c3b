# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When this node is drained and when it is resumed. Pure.

The only proof of who drained a node is its reason. So ours begins with a fixed prefix; a node that somebody else
drained, or took down, keeps that reason and is never resumed by us.
"""

from __future__ import annotations

import re
from typing import Optional

from ..core.frozen import frozen
from ..core.resource import printable
from .types import SlurmNode

PREFIX = "gpu_node: "
# Drained for its health: resumed by the gate (health_gate) after clean verdicts, and by nothing else.
HEALTH = "health: "
# Drained while somebody works on it: taken back by the same work (slurm_node), and by nothing else.
ROLLING = "rolling: "
# Behind HEALTH: a remedy was begun, and the node has not come back since; no more remedies until a person releases it.
REMEDY = "remedy "
LATCHED = "remedies latched: "
DRAIN, RESUME, LEAVE = "drain", "resume", "leave"
# slurmctld cuts nothing, but squeue and sinfo do; a reason is one line of plain words.
_LONGEST = 200
_OUT_OF_SERVICE = frozenset(("DOWN", "FAIL", "FAILING", "DRAIN", "DRAINED", "DRAINING"))
_DRAINED = frozenset(("DRAIN", "DRAINED", "DRAINING"))


@frozen
class Decision:
    """``action``: one of drain, resume and leave. ``reason`` is the text to drain with; ``why`` is for people."""

    action: str
    why: str
    reason: Optional[str] = None


def reason_text(finding: str, room: int = 0) -> str:
    """What goes into Slurm for a finding: prefixed, one line, without quotes or control characters.

    ``room``: so many characters are kept free at its end.
    """
    words = re.sub(r"[\x00-\x1f\x7f\"'`\\\[\]]+", " ", finding).split()
    text = PREFIX + printable(" ".join(words))
    longest = _LONGEST - room
    return text if len(text) <= longest else text[: longest - 3] + "..."


def is_ours(node: SlurmNode) -> bool:
    return bool(node.flags & _DRAINED) and node.reason is not None and node.reason.startswith(PREFIX)


def is_for_health(node: SlurmNode) -> bool:
    return is_ours(node) and (node.reason or "").startswith(PREFIX + HEALTH)


def is_for_rolling(node: SlurmNode) -> bool:
    return is_ours(node) and (node.reason or "").startswith(PREFIX + ROLLING)


def finding(reason: str) -> str:
    """What a node was drained for its health for, without our words before it."""
    return re.sub(r"{0}{1}(?:{2}\w+: |{3})?".format(PREFIX, HEALTH, REMEDY, LATCHED), "", reason, count=1)


def out_of_service(node: SlurmNode) -> bool:
    return bool(node.flags & _OUT_OF_SERVICE)


def decide(node: SlurmNode, finding: Optional[str]) -> Decision:
    """``finding`` tells in one sentence why this node can take no job; None: there is nothing."""
    if is_for_health(node):
        return Decision(LEAVE, "it is drained for its health, and 'gpunode hook health' resumes it")
    if finding is None:
        if is_for_rolling(node):
            return Decision(LEAVE, "it is drained for work on it, and the play that did so resumes it")
        if is_ours(node):
            return Decision(RESUME, "what it was drained for is gone")
        if node.flags & _OUT_OF_SERVICE:
            return Decision(LEAVE, "it was not this collection that took it out of service")
        return Decision(LEAVE, "it is in service")
    text = reason_text(finding)
    if is_ours(node):
        if node.reason == text:
            return Decision(LEAVE, "it is drained for this already")
        return Decision(DRAIN, "it is drained by us, for another reason", text)
    if node.flags & _OUT_OF_SERVICE:
        return Decision(LEAVE, "somebody else took it out of service, and that reason stays")
    return Decision(DRAIN, "it is in service", text)


# The columns of sinfo for one node, with their widths: no sign divides them that a reason could not hold. The names of
# all states that a node can have are 200 characters at most; of a reason the beginning is enough.
OWN_COLUMNS = (("PartitionName", 128), ("StateComplete", 256), ("Reason", 512))


def parse_own(text: str) -> Optional[SlurmNode]:
    """The answer of ``sinfo`` for one node and ``OWN_COLUMNS``, a line for each partition; None: there is no such node.

    ``scontrol show node NAME`` has slurmctld send all nodes (seen up to 26.05), ``sinfo --nodes NAME`` this one only.
    """
    found: Optional[SlurmNode] = None
    partitions = []
    for line in text.splitlines():
        cells, begin = [], 0
        for column in OWN_COLUMNS:
            cells.append(line[begin : begin + column[1]].strip())
            begin += column[1]
        name, state, reason = cells
        if not re.fullmatch(r"[a-z_]+(\+[a-z_]+)*", state):
            continue
        partitions.append(name)
        found = SlurmNode(frozenset(state.upper().split("+")), None if reason in ("", "none") else reason)
    return None if found is None else SlurmNode(found.flags, found.reason, tuple(dict.fromkeys(partitions)))


def parse_node(text: str) -> Optional[SlurmNode]:
    """The answer of ``scontrol show node NAME``; None when it names no state.

    The reason ends with who gave it and when, ``[root@2026-01-31T12:00:00]``, which is no part of it.
    """
    state = re.search(r"\bState=([A-Z_+*~#!%$@^-]+)", text)
    if state is None:
        return None
    reason = re.search(r"^\s*Reason=(.*)$", text, re.MULTILINE)
    told = re.sub(r"\s*\[[^\[\]]*@[^\[\]]*\]\s*$", "", reason.group(1)).strip() if reason else ""
    gres = re.search(r"^\s*Gres=(?!\(null\))(\S+)", text, re.MULTILINE)
    flags = frozenset(re.findall(r"[A-Z_]+", state.group(1)))
    return SlurmNode(flags, told or None, gres=gres.group(1) if gres else "")

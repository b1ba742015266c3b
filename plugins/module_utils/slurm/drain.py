# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When this node is drained and when it is resumed. Pure.

The only proof of who drained a node is its reason. So ours begins with a fixed prefix; a node that somebody else
drained, or took down, keeps that reason and is never resumed by us. :func:`read` is the only reader of reasons.

``gpu_node: health: reset_gpu: GPU 3 (0000:0b:00.0): ...``
"""

from __future__ import annotations

import re
from typing import Optional

from ..core.frozen import frozen
from ..core.resource import printable
from . import states
from .types import SlurmNode

PREFIX = "gpu_node: "
# Drained for its health: resumed by the gate (health_gate) after clean verdicts, and by nothing else.
HEALTH = "health: "
# Drained while somebody works on it: taken back by the same work (slurm_node), and by nothing else.
ROLLING = "rolling: "
# Drained for what a cloud does to the machine: resumed by the service of cloud_events, and by nothing else.
EVENT = "event: "
# Drained for good by the node itself, at the end of its lease or for a reset: a person or a longer lease resumes it.
LEASE = "lease: "
RESET = "reset: "
KINDS = (HEALTH, ROLLING, EVENT, LEASE, RESET)
# After HEALTH: the least that may help (the values of health.types.Remedy), for the programs of a site.
REMEDIES = ("watch", "configure", "restart_service", "reset_gpu", "reboot", "replace", "look")
# Behind HEALTH: a remedy was begun, and the node has not come back since; no more remedies until a person releases it.
REMEDY = "remedy "
LATCHED = "remedies latched: "
_MARKS = re.compile(r"^(?:{0}\w+: |{1})".format(REMEDY, LATCHED))
# What slurmctld puts behind the reason that a node has (node_mgr.c: set_node_reason; set_node_reboot_reason before).
_ADDED = re.compile(
    r"(?: : (?:Not responding|ResumeTimeout reached|reboot issued|reboot timed out|reboot complete))+\s*\Z"
)
DRAIN, RESUME, LEAVE = "drain", "resume", "leave"
# slurmctld cuts nothing, but squeue and sinfo do; a reason is one line of plain words.
_LONGEST = 200
# The reason of a node that we put back, which is no drain of ours. Some versions of Slurm keep
# the reason of a drain that has ended, and drain the node under it the next time, for whatever they find
# (clusteracct_storage_g_node_up and _drain_node of 23.11 to 25.11, with accounting_storage/none).
RESUMED = "resumed by gpu-node"
# slurmctld took what a node registered with for too little, and put these words in place of any reason, ours as well
# (validate_node_specs of node_mgr.c, from 23.02 on). They stay when the node has registered well.
_REGISTRATION = re.compile(
    r"gres/|Low (?:socket|CPUs|RealMemory|TmpDisk)|CoreSpec differ|Could not unpack gres data", re.IGNORECASE
)
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


def health_reason(finding: str, remedy: str = "") -> str:
    """``remedy``: one of ``REMEDIES``; "" where nobody knows it any more."""
    return reason_text(HEALTH + ("{0}: ".format(remedy) if remedy in REMEDIES else "") + finding)


def bare(reason: str) -> str:
    """A reason as it was given, without what slurmctld has put behind it since."""
    return _ADDED.sub("", reason)


@frozen
class Ours:
    """A reason of ours, taken apart. ``kind``: one of ``KINDS``, or "". ``remedy``: one of ``REMEDIES``; "" on a drain
    that is not for health, or that an older version made."""

    kind: str
    remedy: str
    words: str


def read(reason: Optional[str]) -> Optional[Ours]:
    """None: it is not ours."""
    if reason is None or not reason.startswith(PREFIX):
        return None
    words = bare(reason)[len(PREFIX) :]
    kind = next((one for one in KINDS if words.startswith(one)), "")
    words = _MARKS.sub("", words[len(kind) :])
    remedy, found, rest = words.partition(": ")
    if kind == HEALTH and found and remedy in REMEDIES:
        return Ours(kind, remedy, rest)
    return Ours(kind, "", words)


def is_ours(node: SlurmNode) -> bool:
    return _ours(node) is not None


def is_for_health(node: SlurmNode) -> bool:
    ours = _ours(node)
    return ours is not None and ours.kind == HEALTH


def is_for_rolling(node: SlurmNode) -> bool:
    ours = _ours(node)
    return ours is not None and ours.kind == ROLLING


def _ours(node: SlurmNode) -> Optional[Ours]:
    return read(node.reason) if is_drained(node) else None


def is_for_event(node: SlurmNode) -> bool:
    ours = _ours(node)
    return ours is not None and ours.kind == EVENT


def kind(node: SlurmNode) -> Optional[str]:
    """Of a drain of ours; None: it has none."""
    ours = _ours(node)
    return None if ours is None else ours.kind


def is_drained(node: SlurmNode) -> bool:
    return bool(node.flags & _DRAINED)


def is_stale(node: SlurmNode) -> bool:
    """It is in service, and has the reason of a drain of ours that is over."""
    return not out_of_service(node) and read(node.reason) is not None


def is_refused(node: SlurmNode) -> bool:
    """slurmctld does not take its registration: no job comes, whoever drains or resumes it."""
    return "INVALID_REG" in states.normalised(node.flags)


def is_by_registration(node: SlurmNode) -> bool:
    """slurmctld drained it for what it registered with, or put its own words in place of a reason for that."""
    told = is_refused(node) or _REGISTRATION.match(node.reason or "") is not None
    return is_drained(node) and not is_ours(node) and told


def finding(reason: str) -> str:
    """What a node was drained for its health for, with the word of its remedy and without what :mod:`..health.remedies`
    put before it."""
    reason = bare(reason)
    words = reason[len(PREFIX + HEALTH) :] if reason.startswith(PREFIX + HEALTH) else reason
    return _MARKS.sub("", words)


def out_of_service(node: SlurmNode) -> bool:
    return bool(node.flags & _OUT_OF_SERVICE)


def decide(node: SlurmNode, finding: Optional[str]) -> Decision:
    """``finding`` tells in one sentence why this node can take no job; None: there is nothing."""
    if is_for_health(node):
        return Decision(LEAVE, "it is drained for its health, and 'gpunode hook health' resumes it")
    if is_for_event(node):
        return Decision(LEAVE, "it is drained for an event of the cloud, and its service resumes it (cloud_events)")
    if kind(node) in (LEASE, RESET):
        return Decision(LEAVE, "it is drained for good: its lease is over, or it was reset")
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
        if bare(node.reason or "") == text:
            return Decision(LEAVE, "it is drained for this already")
        return Decision(DRAIN, "it is drained by us, for another reason", text)
    if node.flags & _OUT_OF_SERVICE:
        return Decision(LEAVE, "somebody else took it out of service, and that reason stays")
    return Decision(DRAIN, "it is in service", text)

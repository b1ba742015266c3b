# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""File systems that fill up: those that the system itself writes to, and the scratch."""

from __future__ import annotations

import os
from typing import List, Optional, Tuple

from ...core import mounts
from ...core.frozen import frozen
from ...core.resource import NodeError
from .. import scratch
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

USED = "filesystem_used_percent"
INODES = "filesystem_inodes_used_percent"
SCRATCH_USED = "scratch_used_percent"
SCRATCH_INODES = "scratch_inodes_used_percent"
SCRATCH_SIZE = "scratch_size_gigabytes"
# Where slurmd, the journal and programs write; those on one file system are told once.
PATHS = ("/", "/var", "/tmp", "/var/log", "/var/tmp")  # noqa: S108 nothing is made there
_GIB = 1024.0**3


@frozen
class Filesystem:
    path: str
    space: mounts.Space


def look_at_system(evidence: Evidence) -> Tuple[Filesystem, ...]:
    found = []
    seen = set()
    for path in PATHS:
        try:
            device = os.stat(evidence.host.path(path)).st_dev
            if device not in seen:
                found.append(Filesystem(path, mounts.space(evidence.host, path)))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _silent("file system " + path, error) from error
        seen.add(device)
    return tuple(found)


def _silent(thing: str, error: OSError) -> NodeError:
    return NodeError(thing, "it does not answer ({0})".format(error.strerror), "look at 'dmesg'")


def look_at_scratch(evidence: Evidence) -> Optional[Filesystem]:
    table = mounts.read(evidence.host)
    for path in scratch.places(evidence.declared):
        if mounts.at(table, path) is not None:
            try:
                return Filesystem(path, mounts.space(evidence.host, path))
            except OSError as error:
                raise _silent("scratch " + path, error) from error
    return None


def judge_system(seen: Tuple[Filesystem, ...], expected: Expected) -> Judgement:
    findings: List[Finding] = []
    measured: List[Measured] = []
    for one in seen:
        remedy = "find what fills it with 'du -xh --max-depth=2 {0} | sort -h | tail'".format(one.path)
        figures = ((USED, one.space.used_percent), (INODES, one.space.inodes_used_percent))
        findings += _judge("file system " + one.path, one, figures, remedy, expected)
        measured += _measured(one, figures)
    return Judgement(", ".join(_seen(one) for one in seen), tuple(findings), tuple(measured))


def judge_scratch(seen: Optional[Filesystem], expected: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable="no scratch is declared and mounted")
    figures = ((SCRATCH_USED, seen.space.used_percent), (SCRATCH_INODES, seen.space.inodes_used_percent))
    remedy = "remove what jobs left there (du -xh --max-depth=2 {0} | sort -h | tail)".format(seen.path)
    findings = _judge("scratch " + seen.path, seen, figures, remedy, expected)
    size = Measured(SCRATCH_SIZE, seen.space.total_bytes / 1e9, seen.path, better="higher")
    limit = expected.thresholds.get(SCRATCH_SIZE)
    if limit is not None and limit.outcome(size.value) is not Outcome.PASS:
        reason = "it has {0:.0f} GB (limit {1:g} GB)".format(size.value, limit.limit(size.value) or 0)
        remedy = "look at the disks under it with 'gpunode scratch status'"
        outcome = limit.outcome(size.value)
        findings.append(
            Finding(outcome, "scratch " + seen.path, reason, remedy, Remedy.LOOK, key=seen.path, code="size")
        )
    return Judgement(_seen(seen), tuple(findings), (*_measured(seen, figures), size))


_Figures = Tuple[Tuple[str, Optional[float]], ...]


def _seen(one: Filesystem) -> str:
    return "{0} has {1:.0f} GiB free".format(one.path, one.space.free_bytes / _GIB)


def _measured(one: Filesystem, figures: _Figures) -> List[Measured]:
    return [Measured(name, value, one.path, better="lower") for name, value in figures if value is not None]


def _judge(thing: str, one: Filesystem, figures: _Figures, remedy: str, expected: Expected) -> List[Finding]:
    found = []
    for name, value in figures:
        limit = expected.thresholds.get(name)
        if value is None or limit is None or limit.outcome(value) is Outcome.PASS:
            continue
        what, code = ("inodes", "inodes") if "inodes" in name else ("space", "space")
        reason = "{0:.0f} % of its {1} are used (limit {2:g} %)".format(value, what, limit.limit(value) or 0)
        found.append(Finding(limit.outcome(value), thing, reason, remedy, Remedy.LOOK, key=one.path, code=code))
    return found


CHECKS = (
    Check("filesystem_space", "The system has room to write", Cost.QUICK, judge_system, look_at_system, lane="storage"),
)
SCRATCH = Check("scratch_space", "The scratch has room", Cost.PASSIVE, judge_scratch, look_at_scratch, lane="storage")

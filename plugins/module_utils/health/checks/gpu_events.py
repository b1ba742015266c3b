# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a GPU is slowed down by heat or power.

A slowdown by the hardware that gpu_info tells lasts half a second at least, which may be a moment under load: one look
alone warns. It fails when it holds for most of some minutes: by the time that newer drivers count, or, of what the
driver does not count, when every look of those minutes has seen it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ...facts.gpu_info import GpuInformation
from ..data.event_reasons import EVENT_REASONS, EventReason, known
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy, worst
from .gpu_common import each, figure, finding, lasted, over, unread

SHARE = "gpu_hardware_slowdown_percent"
PER_DAY = "gpu_hardware_slowdown_seconds_per_day"
_WINDOW_SECONDS = 600.0
# Looks that lie further apart say nothing of the time between them.
_APART_SECONDS = 900.0
_SAMPLED_SECONDS = 0.5  # that of one look, see gpu_info
_BY_HARDWARE = tuple(reason for reason in EVENT_REASONS if reason.outcome is Outcome.FAIL)


def _one(gpu: GpuInformation, expected: Expected) -> Judgement:
    missed = unread(gpu, "clocks.event_reasons", "clocks.event_reasons_mask")
    clocks = gpu.groups.get("clocks")
    names = None if clocks is None else clocks.event_reasons
    if missed:
        return Judgement(findings=tuple(missed[:1]))
    if names is None:
        return Judgement(not_applicable="this driver does not tell why clocks are low")
    held = [reason for reason in map(known, names) if reason is not None and not set(reason.part_of) & set(names)]
    measured: Dict[str, Tuple[Measured, ...]] = {}
    findings: List[Finding] = []
    for reason in _BY_HARDWARE:
        counted = _counted(gpu, reason.name, clocks)
        measured[reason.name] = counted or _seen(gpu, reason.name, reason in held, expected)
        if counted and reason.name not in names:
            findings += _before(gpu, reason, counted[0], expected)
    for name in names:
        if known(name) is None:
            text = "its clocks are held by a reason that is newer than this check: {0}".format(name)
            remedy = "see nvidia-smi -q -d PERFORMANCE"
            findings.append(finding(gpu, Outcome.WARN, text, remedy, Remedy.LOOK, "unknown", Certainty.POSSIBLE))
    for reason in held:
        if reason.outcome is Outcome.FAIL:
            (time,) = measured[reason.name]
            findings.append(_held(gpu, reason, time, bool(_counted(gpu, reason.name, clocks)), expected))
        elif reason.outcome is not Outcome.PASS:
            findings.append(
                finding(gpu, reason.outcome, reason.text, reason.remedy, reason.action, reason.name, reason.certainty)
            )
    return Judgement(findings=tuple(findings), measured=tuple(time for times in measured.values() for time in times))


def _counted(gpu: GpuInformation, name: str, clocks: Any) -> Tuple[Measured, ...]:
    """How long it has lasted, where the driver counts that: since the driver was loaded."""
    return figure(gpu, "gpu_{0}_seconds".format(name), getattr(clocks, name + "_seconds", None), True, "lower")


def _seen(gpu: GpuInformation, name: str, held: bool, expected: Expected) -> Tuple[Measured, ...]:
    """For how long every look has seen it: a counter of ours, which begins anew when one does not."""
    counter = "gpu_{0}_seen_seconds".format(name)
    (none,) = figure(gpu, counter, 0.0, True, "lower")
    if not held:
        return (none,)
    last = expected.last(none)
    if last is None or not last.value or last.hours * 3600 > _APART_SECONDS:
        return figure(gpu, counter, _SAMPLED_SECONDS, True, "lower")
    return figure(gpu, counter, last.value + last.hours * 3600, True, "lower")


def _held(gpu: GpuInformation, reason: EventReason, time: Measured, counted: bool, expected: Expected) -> Finding:
    """Now. One look warns; for most of the last minutes, it fails."""
    share, day = None, None
    if not counted:
        share = time.value / _WINDOW_SECONDS
        text = "seen by this look" if time.value < 1 else "seen by every look for {0}".format(lasted(time.value))
    else:
        lately, day = expected.growth(time, _WINDOW_SECONDS), expected.growth(time)
        if lately is None:
            # Since the driver was loaded, which may be months ago.
            text = "so far for {0} since the driver was loaded".format(lasted(time.value))
        else:
            share = lately.by / max(_WINDOW_SECONDS, lately.hours * 3600)
            text = "so far for {0} within {1}".format(lasted(lately.by), lasted(lately.hours * 3600))
    outcomes = (
        over(expected, SHARE, None if share is None else 100 * share)[0],
        over(expected, PER_DAY, None if day is None else day.by)[0],
    )
    outcome = worst((Outcome.WARN, *outcomes))
    certainty = reason.certainty if outcome is Outcome.FAIL else Certainty.POSSIBLE
    text = "{0}; {1}".format(reason.text, text)
    return finding(gpu, outcome, text, reason.remedy, reason.action, reason.name, certainty)


def _before(gpu: GpuInformation, reason: EventReason, time: Measured, expected: Expected) -> List[Finding]:
    """Not now, but for long within a day."""
    growth = expected.growth(time)
    outcome, limit = over(expected, PER_DAY, None if growth is None else growth.by)
    if growth is None or limit is None:
        return []
    text = "{0}; not now, and for {1} within {2}".format(reason.text, lasted(growth.by), lasted(growth.hours * 3600))
    return [finding(gpu, outcome, text, reason.remedy, reason.action, reason.name + "_before", reason.certainty)]


CHECKS = (
    Check(
        "gpu_slowdown",
        "No GPU is slowed down by heat or power",
        Cost.PASSIVE,
        each("clock event reasons", _one, ("clocks.event_reasons",)),
        lane=GPU_LANE,
        gpu_groups=("clocks",),
    ),
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What active checks measure, and how that is judged: by the limits of the profile, and by the other GPUs beside it."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Callable, Collection, Dict, List, Mapping, Optional, Tuple

from ...core.frozen import replaced
from ...core.resource import NodeError
from ..types import Certainty, Expected, Finding, Judgement, Measured, Outcome, Remedy, Threshold
from .survey import Found


@dataclasses.dataclass(frozen=True)
class Reading:
    """Figures of one thing, or why there are none. ``fault``: the reason is the thing's own (see ``data.tools``).
    ``no_limit``: why the limits of its product do not apply, or ""."""

    thing: str
    key: str
    figures: Tuple[Tuple[str, float], ...] = ()
    reason: str = ""
    remedy: str = ""
    fault: Optional[str] = None
    kind: str = ""  # things of one kind are compared with each other
    code: str = ""
    no_limit: str = ""


@dataclasses.dataclass(frozen=True)
class Readings:
    """``means`` tells how it was measured. ``not_applicable``: why there is nothing to measure here."""

    means: str = ""
    readings: Tuple[Reading, ...] = ()
    not_applicable: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Figure:
    """How a figure is told: its name for people, and what to do about a bad one."""

    title: str
    unit: str
    remedy: str
    action: Remedy
    ratio: Optional[str] = None  # the limit in data/limits.py for its ratio to the median of its siblings
    limit_of: Optional[Callable[[str], Optional[Threshold]]] = None  # of a kind, where no profile or setting has one


# Below this number there is no majority to tell which one is odd.
FEWEST_SIBLINGS = 3


def unmeasured(thing: str, key: str, error: NodeError) -> Reading:
    reason = error.reason if error.thing == thing else "{0}: {1}".format(error.thing, error.reason)
    fault = getattr(error, "fault", None)
    return Reading(thing, key, reason=reason, remedy=error.remedy, fault=fault, code=getattr(error, "code", ""))


def of_silent(found: Found) -> Tuple[Reading, ...]:
    return tuple(
        Reading(one.thing, one.key, reason=one.reason, remedy=one.remedy, fault=one.fault, code=one.code)
        for one in found.silent
    )


def judge(seen: Readings, expected: Expected, figures: Mapping[str, Figure]) -> Judgement:
    """Pure."""
    if seen.not_applicable is not None:
        return Judgement(not_applicable=seen.not_applicable)
    findings: List[Finding] = []
    measured: List[Measured] = []
    for reading in seen.readings:
        if reading.reason:
            findings.append(untold(reading))
        for name, value in reading.figures:
            measured.append(Measured(name, value, reading.key, better="higher"))
            findings += _against_limit(reading, name, value, expected, figures[name])
    told = {(finding.key, finding.code) for finding in findings}
    for name, figure in figures.items():
        findings += [one for one in _against_siblings(seen, name, figure, expected) if (one.key, one.code) not in told]
    return Judgement(_summary(seen, figures), tuple(findings), tuple(measured))


def untold(reading: Reading) -> Finding:
    """What is told of a thing without figures: a fault of its own, or that nothing is known."""
    if reading.fault is not None:
        action = Remedy(reading.fault)
        return Finding(
            Outcome.FAIL, reading.thing, reading.reason, reading.remedy, action, key=reading.key, code=reading.code
        )
    return Finding(Outcome.UNKNOWN, reading.thing, reading.reason, reading.remedy, Remedy.LOOK, key=reading.key)


def code_of(name: str) -> str:
    """``host_to_device_gigabytes_per_second``: ``low_host_to_device``."""
    for unit in ("gigabytes", "gigabits", "teraflops", "teraops", "gigaflops"):
        if name.endswith("_{0}_per_second".format(unit)):
            return "low_" + name[: -len("_{0}_per_second".format(unit))]
    return "low_" + name


def _against_limit(reading: Reading, name: str, value: float, expected: Expected, figure: Figure) -> List[Finding]:
    threshold = expected.thresholds.get(name)
    if threshold is None and figure.limit_of is not None and not reading.no_limit:
        threshold = figure.limit_of(reading.kind)
        # The limit of a product knows nothing of clocks and power that this node declares, so it warns at the most; a
        # limit of the profile or of the settings is meant for this node.
        if threshold is not None:
            from ...gpus.settings.options import SECTION, makes_slower

            if makes_slower(expected.declared.get(SECTION)):
                threshold = replaced(threshold, fail=None)
    limit = None if threshold is None else threshold.limit(value)
    if threshold is None or limit is None:
        return []
    outcome = threshold.outcome(value)
    reason = "{0} {1:.4g} {2}, below the {3} of {4}".format(
        figure.title, value, figure.unit, "{0:g} {1}".format(limit, figure.unit), threshold.source
    )
    if outcome is Outcome.FAIL:
        return [_low(outcome, reading, reason, figure.remedy, figure.action, Certainty.LIKELY, name)]
    return [_low(outcome, reading, reason, "watch it, and " + figure.remedy, Remedy.WATCH, Certainty.POSSIBLE, name)]


def _low(
    outcome: Outcome, reading: Reading, reason: str, remedy: str, action: Remedy, certainty: Certainty, name: str
) -> Finding:
    return Finding(outcome, reading.thing, reason, remedy, action, certainty, reading.key, code_of(name))


def _against_siblings(seen: Readings, name: str, figure: Figure, expected: Expected) -> List[Finding]:
    """Also where nobody has published a limit: one of several equal GPUs that is far behind the others is sick."""
    threshold = None if figure.ratio is None else expected.thresholds.get(figure.ratio)
    if threshold is None:
        return []
    kinds: Dict[str, List[Tuple[Reading, float]]] = {}
    for reading in seen.readings:
        for other, value in reading.figures:
            if other == name:
                kinds.setdefault(reading.kind, []).append((reading, value))
    findings = []
    for members in kinds.values():
        middle = statistics.median([value for dummy, value in members])
        if len(members) < FEWEST_SIBLINGS or middle <= 0:
            continue
        for reading, value in members:
            outcome = threshold.outcome(value / middle)
            if outcome is not Outcome.PASS:
                reason = "{0} {1:.4g} {2}, the others beside it reach {3:.4g} {2}".format(
                    figure.title, value, figure.unit, middle
                )
                findings.append(_low(outcome, reading, reason, figure.remedy, figure.action, Certainty.LIKELY, name))
    return findings


def _summary(seen: Readings, figures: Mapping[str, Figure]) -> str:
    parts = []
    for name, figure in figures.items():
        values = [value for reading in seen.readings for other, value in reading.figures if other == name]
        if values:
            low, high = min(values), max(values)
            span = "{0:.4g}".format(low) if len(values) == 1 else "{0:.4g} to {1:.4g}".format(low, high)
            parts.append("{0} {1} {2}".format(figure.title, span, figure.unit))
    limited = [figure.limit_of for figure in figures.values() if figure.limit_of is not None]
    reasons = {
        reading.no_limit
        for reading in seen.readings
        if reading.no_limit and any(limit_of(reading.kind) is not None for limit_of in limited)
    }
    if reasons:
        parts.append(without_limits(reasons))
    return ", ".join(parts) + (" ({0})".format(seen.means) if seen.means else "")


def without_limits(reasons: Collection[str]) -> str:
    return "limits by product do not apply ({0})".format(" and ".join(sorted(reasons)))

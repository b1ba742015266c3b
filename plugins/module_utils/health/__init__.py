# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of a node: look (in child processes, under limits), judge (pure), and a verdict.

Nothing here changes the node. :func:`record` is for the run that keeps watch (a timer, HealthCheckProgram): it stores
the counters that the next verdicts are compared with.
"""

from __future__ import annotations

import fnmatch
import time
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ..core import declaration, processes
from ..core.frozen import frozen, plain, replaced
from ..core.host import Host
from ..core.resource import Misuse, NodeError
from ..facts.nvml.session import CALL_TIMEOUT_SECONDS
from . import baseline, registry, run, silences, thresholds
from .course import Show
from .data.limits import LIMITS
from .evidence import Evidence
from .lanes import Tell
from .types import (
    ORDER,
    SCHEMA,
    Certainty,
    Check,
    Cost,
    Expected,
    Finding,
    Judgement,
    Measured,
    Outcome,
    Remedy,
    Result,
    Silence,
    Verdict,
    finding_name,
)
from .verdict import judge

__all__ = [
    "SCHEMA",
    "Certainty",
    "Check",
    "Cost",
    "Finding",
    "Judgement",
    "Measured",
    "Options",
    "Outcome",
    "Remedy",
    "Result",
    "Silence",
    "Verdict",
    "examine",
    "finding_name",
    "reached",
    "record",
    "to_dict",
    "undone",
]

SECTION = "health"
# A day. dcgmi diag -r 3 takes a quarter of an hour, and all other checks together some minutes.
LONGEST_SECONDS = 86400.0
_PROFILE = "profile"


@frozen
class Options:
    """What to look at. ``only`` and ``without`` are ids of checks, or patterns such as ``gpu_*``.

    ``profile``: the section that a run would declare, which takes the place of the declared one; None: that one.
    ``patient``: after a boot, GPUs may still register with their fabric. ``seconds``: the time budget of all active
    checks together; None: they take what they need.

    :raises Misuse: a time limit that is none.
    """

    level: Cost = Cost.PASSIVE
    only: Sequence[str] = ()
    without: Sequence[str] = ()
    call_timeout_seconds: float = CALL_TIMEOUT_SECONDS
    profile: Optional[Mapping[str, Any]] = None
    patient: bool = True
    seconds: Optional[float] = None

    def __post_init__(self) -> None:
        if not 0.1 <= self.call_timeout_seconds <= 600:
            raise Misuse(
                "call_timeout {0:g}".format(self.call_timeout_seconds), "it is out of range", "give 0.1 to 600 seconds"
            )
        if self.seconds is not None and not 0 < self.seconds <= LONGEST_SECONDS:
            raise Misuse(
                "{0:g} seconds for the active checks".format(self.seconds),
                "it is out of range",
                "give more than 0 and at most {0:g}".format(LONGEST_SECONDS),
            )


def examine(host: Host, node: str, options: Optional[Options] = None, tell: Tell = None, show: Show = None) -> Verdict:
    """Look at this node and judge it. ``node`` is the name that the verdict bears.

    ``tell`` hears the id of each check that was looked for. ``show`` gets the plan and the progress of active checks.

    :raises Misuse: the budget is too short for every active check, an option names a check that there is not, or the
        options leave none.
    :raises NodeError: the declaration cannot be read, or a setting of it means nothing or leaves no check.
    """
    started = time.monotonic()
    options = options or Options()
    declared = declaration.read(host)
    if options.profile is not None:
        declared = dict(declared, **{_PROFILE: options.profile})
    settings = declared.get(SECTION, {})
    now = time.time()
    chosen = _left(registry.chosen(options.level, options.only, options.without), settings)
    evidence = Evidence(host, declared, settings)
    looked, again = run.with_load(chosen, evidence, options.call_timeout_seconds, tell, options.seconds, show)
    verdict = judge(
        node,
        options.level,
        chosen,
        looked,
        _expected(host, node, declared, settings, now, options.patient),
        silences.of_node(settings, node)[0],
        after=(again, _expected(host, node, declared, settings, time.time(), options.patient)) if again else None,
        observe=silences.observe_of(settings)[0],
    )
    return replaced(verdict, seconds=time.monotonic() - started)


def _left(chosen: Sequence[Check], settings: Mapping[str, Any]) -> Tuple[Check, ...]:
    """Those that the declaration does not leave out. What is no name of a check leaves nothing out, since a node must
    not lose its verdict by its declaration: check ``silences`` warns of it."""
    thing = "setting without of section " + SECTION
    patterns = registry.patterns(settings.get("without", []))[0]
    kept = tuple(check for check in chosen if not any(fnmatch.fnmatchcase(check.id, one) for one in patterns))
    if not kept:
        raise NodeError(
            thing,
            "it leaves out all that was asked for",
            "take that out of health_gate, then converge the node",
        )
    return kept


def _expected(
    host: Host,
    node: str,
    declared: Mapping[str, Mapping[str, Any]],
    settings: Mapping[str, Any],
    now: float,
    patient: bool,
) -> Expected:
    section = declared.get(_PROFILE, {})
    data = section.get("data", {})
    own: Dict[str, Any] = {"thresholds": thresholds.usable(settings.get("thresholds", {}))[0]}
    return Expected(
        profile_name=str(section.get("name", "unknown")),
        profile=data,
        declared=declared,
        thresholds=thresholds.merged(LIMITS, data, own),
        origins=baseline.origins(baseline.read(host), now),
        settings=settings,
        now=now,
        node=node,
        uptime_seconds=processes.uptime(host) if patient else None,
        no_checks=_no_checks(settings),
    )


def _no_checks(settings: Mapping[str, Any]) -> Tuple[Tuple[str, str], ...]:
    patterns, odd = registry.patterns(settings.get("without", []))
    found = [(repr(one), "it is no name of a check") for one in odd]
    for pattern in patterns:
        try:
            registry.known((pattern,))
        except Misuse as error:
            found.append((repr(pattern), error.remedy))
    return tuple(found)


def undone(node: str, error: NodeError, level: Cost = Cost.PASSIVE) -> Verdict:
    """The verdict on a node where none could be made: all that is known is why."""
    finding = Finding(Outcome.UNKNOWN, error.thing, error.reason, error.remedy, Remedy.LOOK, code="not_checked")
    result = Result("gpunode", "The checks were made", Outcome.UNKNOWN, "", (finding,), (), 0.0)
    return Verdict(node, time.time(), level, "unknown", Outcome.UNKNOWN, (result,), {}, (), 0.0)


def record(host: Host, verdict: Verdict) -> str:
    """Store the counters of a verdict for the growth that later ones tell. Returns the sentence about a damaged file.

    :raises NodeError: they cannot be written.
    """
    with host.lock("health"):
        return baseline.write(host, baseline.updated(baseline.read(host), verdict.measured, verdict.time))


def reached(outcome: Outcome, limit: str) -> bool:
    """Whether an outcome is ``limit`` (``warn``, ``unknown``, ``fail``) or worse. No outcome reaches ``never``."""
    return limit != "never" and ORDER.index(outcome) >= ORDER.index(Outcome(limit))


def to_dict(verdict: Verdict) -> Dict[str, Any]:
    """The verdict as JSON has it, see docs/health.md."""
    return dict(plain(verdict), schema=SCHEMA)

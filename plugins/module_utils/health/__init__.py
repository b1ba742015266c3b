# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of a node: look (in child processes, under limits), judge (pure), and a verdict.

Nothing here changes the node. :func:`record` is for the run that keeps watch (a timer, HealthCheckProgram): it stores
the counters that the next verdicts are compared with.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from .. import declaration
from ..frozen import frozen, plain, replaced
from ..host import Host
from ..nvml.session import CALL_TIMEOUT_SECONDS
from ..resource import NodeError
from . import baseline, registry, run, silences, thresholds
from .data.limits import LIMITS
from .evidence import Evidence
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
]

SECTION = "health"
_PROFILE = "profile"


@frozen
class Options:
    """What to look at. ``only`` and ``without`` are ids of checks, or patterns such as ``gpu_*``.

    :raises NodeError: a time limit that is none.
    """

    level: Cost = Cost.PASSIVE
    only: Sequence[str] = ()
    without: Sequence[str] = ()
    call_timeout_seconds: float = CALL_TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if not 0.1 <= self.call_timeout_seconds <= 600:
            raise NodeError(
                "call_timeout {0:g}".format(self.call_timeout_seconds), "it is out of range", "give 0.1 to 600 seconds"
            )


def examine(
    host: Host, node: str, options: Optional[Options] = None, tell: Optional[Callable[[str], None]] = None
) -> Verdict:
    """Look at this node and judge it. ``node`` is the name that the verdict bears.

    ``tell`` hears the id of each check that was looked for.

    :raises NodeError: the declaration cannot be read, or an option or setting names a check that there is not.
    """
    started = time.monotonic()
    options = options or Options()
    declared = declaration.read(host)
    settings = declared.get(SECTION, {})
    now = time.time()
    chosen = registry.chosen(options.level, options.only, tuple(options.without) + tuple(settings.get("without", ())))
    evidence = Evidence(host, declared, settings)
    looked = run.look(chosen, evidence, options.call_timeout_seconds, tell)
    verdict = judge(
        node,
        options.level,
        chosen,
        looked,
        _expected(host, node, declared, settings, now),
        silences.of_node(settings, node)[0],
    )
    return replaced(verdict, seconds=time.monotonic() - started)


def _expected(
    host: Host, node: str, declared: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any], now: float
) -> Expected:
    section = declared.get(_PROFILE, {})
    data = section.get("data", {})
    own: Dict[str, Any] = {"thresholds": settings.get("thresholds", {})}
    return Expected(
        profile_name=str(section.get("name", "unknown")),
        profile=data,
        declared=declared,
        thresholds=thresholds.merged(LIMITS, data, own),
        origins=baseline.origins(baseline.read(host), now),
        settings=settings,
        now=now,
        node=node,
    )


def record(host: Host, verdict: Verdict) -> None:
    """Store the counters of a verdict for the growth that later ones tell.

    :raises NodeError: they cannot be written.
    """
    with host.lock("health"):
        baseline.write(host, baseline.updated(baseline.read(host), verdict.measured, verdict.time))


def reached(outcome: Outcome, limit: str) -> bool:
    """Whether an outcome is ``limit`` (``warn``, ``unknown``, ``fail``) or worse. No outcome reaches ``never``."""
    return limit != "never" and ORDER.index(outcome) >= ORDER.index(Outcome(limit))


def to_dict(verdict: Verdict) -> Dict[str, Any]:
    """The verdict as JSON has it, see docs/health.md."""
    return dict(plain(verdict), schema=SCHEMA)

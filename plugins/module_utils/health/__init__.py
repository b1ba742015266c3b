# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of a node: look (in child processes, under limits), judge (pure), and a verdict.

Nothing here changes the node. :func:`record` is for the run that keeps watch (a timer, HealthCheckProgram): it stores
the counters that the next verdicts are compared with.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from .. import declaration
from ..host import Host
from ..nvml.session import CALL_TIMEOUT_SECONDS
from . import baseline, registry, run, thresholds
from .data.limits import LIMITS
from .evidence import Evidence
from .types import (
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
    plain,
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
    "record",
    "to_dict",
]

SECTION = "health"
_PROFILE = "profile"


@dataclasses.dataclass(frozen=True)
class Options:
    """What to look at. ``only`` and ``without`` are ids of checks, or patterns such as ``gpu_*``."""

    level: Cost = Cost.PASSIVE
    only: Sequence[str] = ()
    without: Sequence[str] = ()
    call_timeout_seconds: float = CALL_TIMEOUT_SECONDS


def examine(
    host: Host, node: str, options: Options = Options(), tell: Optional[Callable[[str], None]] = None
) -> Verdict:
    """Look at this node and judge it. ``node`` is the name that the verdict bears.

    ``tell`` hears the id of each check that was looked for.

    :raises NodeError: the declaration cannot be read, or an option or setting names a check that there is not.
    """
    started = time.monotonic()
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
        _expected(host, declared, settings, now),
        (),
    )
    return dataclasses.replace(verdict, seconds=time.monotonic() - started)


def _expected(
    host: Host, declared: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any], now: float
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
    )


def record(host: Host, verdict: Verdict) -> None:
    """Store the counters of a verdict for the growth that later ones tell.

    :raises NodeError: they cannot be written.
    """
    with host.lock("health"):
        baseline.write(host, baseline.updated(baseline.read(host), verdict.measured, verdict.time))


def to_dict(verdict: Verdict) -> Dict[str, Any]:
    """The verdict as JSON has it, see docs/health.md."""
    return dict(plain(verdict), schema=SCHEMA)

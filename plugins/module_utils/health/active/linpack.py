# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of High-Performance Linpack, read from the file that a job wrote (setting ``hpl_output``).

HPL takes the whole node and a container, so it runs as a job; here its answer is held against the limits.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Optional, Tuple

from ...core.resource import NodeError
from ..evidence import Evidence
from ..parse import hpl
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Machine, Outcome, Remedy, Span
from .readings import Figure, Reading, Readings
from .readings import judge as judge_readings

SETTING = "hpl_output"
FIGURES: Dict[str, Figure] = {
    kind + "_gigaflops_per_second": Figure(
        title,
        "Gflop/s",
        "compare the GPUs with the checks of bandwidth and arithmetic: the slowest one sets the pace",
        Remedy.LOOK,
    )
    for kind, title in (("hpl", "HPL"), ("hpl_mxp", "HPL-MxP"))
}
_MOST_BYTES = 16 * 2**20


@dataclasses.dataclass(frozen=True)
class Seen:
    path: str = ""
    runs: Tuple[hpl.Run, ...] = ()
    not_applicable: Optional[str] = None


def look(evidence: Evidence) -> Seen:
    path = evidence.settings.get(SETTING)
    if path is None:
        return Seen(not_applicable="no output of HPL is named (setting {0})".format(SETTING))
    if not isinstance(path, str) or not path.startswith("/"):
        raise NodeError("setting " + SETTING, "{0!r} is no path".format(path), "give the whole path of HPL.out")
    text = evidence.host.read(path)
    if text is None:
        raise NodeError(path, "it cannot be read", "run HPL as a job that writes it there, or take the setting out")
    return Seen(path, hpl.parse(text[:_MOST_BYTES]))


def judge(seen: Seen, expected: Expected) -> Judgement:
    """Pure. Of several runs the best counts; a wrong answer in any of them is a fault."""
    if seen.not_applicable is not None:
        return Judgement(not_applicable=seen.not_applicable)
    best: Dict[str, float] = {}
    for run in seen.runs:
        name = run.kind.replace("-", "_") + "_gigaflops_per_second"
        best[name] = max(run.gigaflops, best.get(name, 0.0))
    readings = Readings(seen.path, (Reading("this node", "", tuple(best.items())),))
    judgement = judge_readings(readings, expected, FIGURES)
    wrong = [run for run in seen.runs if not run.passed]
    if not wrong:
        return judgement
    finding = Finding(
        Outcome.FAIL,
        "this node",
        "{0} of {1} runs in {2} failed the residual check ({3:.3g})".format(
            len(wrong), len(seen.runs), seen.path, wrong[0].residual
        ),
        "keep jobs off it; find the GPU that computes wrong with gpu_memory_test and gpu_compute",
        Remedy.REPLACE,
        Certainty.LIKELY,
        code="wrong_result",
    )
    return dataclasses.replace(judgement, findings=(finding, *judgement.findings))


def span(machine: Machine) -> Optional[Span]:
    """It only reads a file."""
    return Span(0.5, 0.5) if SETTING in machine.settings else None


CHECK = Check(
    id="hpl_result",
    title="High-Performance Linpack ran right and fast",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    seconds=10.0,
    span=span,
)

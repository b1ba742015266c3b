# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matrix products on each GPU: how fast, and whether the same product comes out the same, bit by bit.

Needs a Python interpreter with PyTorch or CuPy, which a node has in a container or a virtual environment: setting
``tools.python`` names it. What it runs is one small script (:mod:`gemm_script`), handed over as text. One GPU after
another, or, where setting ``gemm_together`` says so, all at once, which tells whether power and cooling of the machine
are enough for all of them. Clocks and why they are not higher are read meanwhile.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import pkgutil
from typing import Any, Dict, List, Optional, Tuple

from ...core.resource import NodeError
from ..data.gemm_limits import of_product
from ..evidence import Evidence
from ..parse import ParseError
from ..parse.common import document, plain_number
from ..settings import flag, number
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Machine, Outcome, Remedy, Span
from . import apart, survey, tools, under_load
from .readings import Figure, Reading, Readings, of_silent, unmeasured
from .readings import judge as judge_readings

FIGURE = "gemm_teraflops_per_second"
TOOL, SETTING = "the GEMM script", "python"
_SETUP_SECONDS = 120.0
_REMEDY = "look at its clocks, power limit and temperature under load; replace it if it stays slow"
FIGURES: Dict[str, Figure] = {
    FIGURE: Figure("matrix products", "Tflop/s", _REMEDY, Remedy.LOOK, "gemm_share_of_siblings", of_product)
}


@dataclasses.dataclass(frozen=True)
class Burnt:
    """``different``: how many repeats of one product came out otherwise."""

    teraflops: float
    repeats: int
    different: int
    framework: str


@dataclasses.dataclass(frozen=True)
class Seen:
    readings: Readings
    wrong: Tuple[Tuple[str, str, Burnt], ...] = ()
    loads: Tuple[under_load.Load, ...] = ()


def look(evidence: Evidence) -> Seen:
    python = tools.configured(evidence.settings, SETTING)
    if python is None:
        return Seen(Readings(not_applicable="no Python with PyTorch or CuPy is named (setting tools.python)"))
    seconds, together = number(evidence.settings, "gemm_seconds"), flag(evidence.settings, "gemm_together")
    found = survey.gpus(evidence)
    if found is None or not (found.gpus or found.silent):
        return Seen(Readings(not_applicable="no GPU of this node is there to be loaded as a whole"))
    readings: List[Reading] = list(of_silent(found))
    wrong: List[Tuple[str, str, Burnt]] = []
    loads: List[under_load.Load] = []
    means = ""
    for gpus in [found.gpus] if together else [(gpu,) for gpu in found.gpus]:
        watch = under_load.Watch(evidence.host)
        tasks = [
            apart.Task(gpu.label, functools.partial(_burn, python, seconds, gpu.uuid), gpu.numa_node, gpu.cpus)
            for gpu in gpus
        ]
        for gpu, answer in zip(gpus, apart.side_by_side(tasks, seconds + _SETUP_SECONDS, watch.look)):
            try:
                burnt = answer()
            except NodeError as error:
                readings.append(unmeasured(gpu.label, gpu.pci_address, error))
                continue
            means = burnt.framework + (", all at once" if together else "")
            readings.append(Reading(gpu.label, gpu.pci_address, ((FIGURE, burnt.teraflops),), kind=gpu.name))
            loads.append(watch.load(gpu.label, gpu.pci_address))
            if burnt.different:
                wrong.append((gpu.label, gpu.pci_address, burnt))
    return Seen(Readings(means, tuple(readings)), tuple(wrong), tuple(loads))


def _burn(python: str, seconds: float, uuid: str) -> Burnt:
    argv = [python, "-I", "-c", script(), "{0:g}".format(seconds)]
    ended = apart.run(argv, seconds + _SETUP_SECONDS - 5, apart.environment([uuid]))
    if ended.returncode:
        raise ParseError(TOOL, "it failed: " + ended.words)
    return of_output(ended.stdout)


def script() -> str:
    """Its text, also from inside the zip file that the node command is."""
    name = __name__.rpartition(".")[0] + ".gemm_script"
    spec = importlib.util.find_spec(name)
    source: Any = None if spec is None or spec.loader is None else getattr(spec.loader, "get_source", None)
    text: Optional[str] = source(name) if source is not None else None
    if text is None:
        data = pkgutil.get_data(__name__.rpartition(".")[0], "gemm_script.py")
        text = None if data is None else data.decode("utf-8")
    if text is None:
        raise NodeError(TOOL, "its text is not with this program", "install the node command again")
    return text


def of_output(text: str) -> Burnt:
    """:raises ParseError: when it is not what the script prints."""
    content = document(TOOL, text)
    figures = {name: plain_number(TOOL, name, content.get(name)) for name in ("teraflops", "repeats", "different")}
    if figures["teraflops"] <= 0 or figures["repeats"] < 1 or figures["different"] < 0:
        raise ParseError(TOOL, "its figures are impossible")
    framework = str(content.get("framework"))[:40]
    return Burnt(figures["teraflops"], int(figures["repeats"]), int(figures["different"]), framework)


def judge(seen: Seen, expected: Expected) -> Judgement:
    """Pure."""
    judgement = judge_readings(seen.readings, expected, FIGURES)
    findings = tuple(
        Finding(
            Outcome.FAIL,
            thing,
            "{0} of {1} repeats of one matrix product came out different".format(burnt.different, burnt.repeats),
            "let no job on it, and have the GPU replaced: it computes wrong without saying so",
            Remedy.REPLACE,
            Certainty.CERTAIN,
            key,
            "wrong_result",
        )
        for thing, key, burnt in seen.wrong
    )
    slowed = tuple(finding for load in seen.loads for finding in under_load.findings(load))
    figures = tuple(figure for load in seen.loads for figure in under_load.measured(load))
    return dataclasses.replace(
        judgement,
        seen=", ".join(part for part in (judgement.seen, under_load.summary(seen.loads)) if part),
        findings=findings + judgement.findings + slowed,
        measured=judgement.measured + figures,
    )


def span(machine: Machine) -> Optional[Span]:
    """One GPU after another."""
    if not machine.gpus or not machine.settings.get(tools.SETTING, {}).get(SETTING):
        return None
    seconds = number(machine.settings, "gemm_seconds")
    return Span(machine.gpus * 11.0, machine.gpus * (10.0 + seconds))


CHECK = Check(
    id="gpu_gemm",
    title="GPUs compute at full rate, and the same each time",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    seconds=2400.0,
    span=span,
)

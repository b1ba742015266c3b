# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who tells the metrics of the GPUs of a node: DCGM's exporter, or a timer of our own. One resource."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import declaration
from ...core.resource import Line, Outcome, Resource
from ...facts import dcgm
from ...metrics.settings import DCGM, NVML, SECTION
from .apply import STEPS
from .observe import observe
from .options import Desired
from .plan import plan, source
from .types import UNIT, State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: who tells, where, and what is left out."""
    state = outcome.after
    found: Dict[str, Any] = {"source": None, "textfile": None, "exporter": None, "missing_fields": []}
    found["owners_textfile"] = None
    if not desired.present:
        return found
    chosen = source(state, desired)
    if state.owners and (chosen == DCGM or state.textfile):
        found["owners_textfile"] = state.owners
    if chosen == NVML and state.textfile:
        found.update(source=NVML, textfile=state.textfile)
    elif chosen == DCGM:
        found.update(source=DCGM, exporter=state.exporter.unit or None)
        if state.exporter.told is not None:
            fields = dcgm.chosen(desired.fields, state.profiling)
            found["missing_fields"] = dcgm.missing(fields, state.exporter.told)
    return found


def _line(result: Mapping[str, Any]) -> str:
    if result.get("source") == NVML:
        return "GPUs in {0}".format(result.get("textfile"))
    left = result.get("missing_fields") or []
    return "GPUs by {0}{1}".format(
        result.get("exporter") or "nobody", "; {0} fields are not told".format(len(left)) if left else ""
    )


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=UNIT.shown,
    title="the files of the metrics and the section of {0}".format(declaration.PATH),
    needs_command=True,
    line=Line("metrics", _line, foresees=True),
)

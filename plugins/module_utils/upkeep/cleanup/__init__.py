# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clean-up of a node by itself: a timer that runs ``gpunode cleanup``. One resource."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import declaration, managed_files, timer_unit
from ...core.resource import Line, Outcome, Resource, Step
from ..leftovers.types import SECTION
from .observe import observe
from .options import Desired
from .plan import plan
from .types import State

__all__ = ["RESOURCE", "Desired", "State"]

_STEPS: Mapping[type, Step] = {**declaration.STEPS, **managed_files.STEPS, **timer_unit.STEPS}


def _facts(dummy: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: when it runs."""
    return {"on_calendar": desired.on_calendar if desired.present else None}


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    before, actions = outcome.before, outcome.plan.actions if planned else ()
    files = managed_files.text(managed_files.after(before.files, actions))
    return declaration.text({SECTION: before.declared or None}, (SECTION,), actions) + files


def _line(result: Mapping[str, Any]) -> str:
    return "{0}".format(result.get("on_calendar") or "never")


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=_STEPS,
    facts=_facts,
    shown=_shown,
    title="the units of the clean-up and the section of {0}".format(declaration.PATH),
    needs_command=True,
    line=Line("clean-up", _line, foresees=True),
)

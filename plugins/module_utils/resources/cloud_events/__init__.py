# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows the events of a cloud on a node: a service, and what it goes by. One resource."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import declaration, managed_files
from ...core.resource import Line, Outcome, Resource
from ...core.systemd import boot_unit
from ...health.events.settings import SECTION
from .observe import observe
from .options import Desired
from .plan import plan, provider
from .types import UNIT, State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: who is asked, and what the node is drained for."""
    state = outcome.after
    return {
        "provider": provider(state, desired) if desired.present else None,
        "drained_for": list(state.drained),
    }


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    before, actions = outcome.before, outcome.plan.actions if planned else ()
    section = {SECTION: before.declared or None}
    return declaration.text(section, (SECTION,), actions) + boot_unit.text(before.unit, UNIT, actions)


def _line(result: Mapping[str, Any]) -> str:
    drained = result.get("drained_for") or []
    asked = {"azure": "Scheduled Events of Azure are followed", "command": "a program of the site is asked"}
    told = asked.get(str(result.get("provider")), "nobody is asked")
    return told + ("; drained for {0}".format(", ".join(drained)) if drained else "")


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps={**declaration.STEPS, **managed_files.STEPS, **boot_unit.STEPS},
    facts=_facts,
    shown=_shown,
    title="the unit and its section of {0}".format(declaration.PATH),
    needs_command=True,
    line=Line("events", _line, foresees=True),
)

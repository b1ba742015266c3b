# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gate has on a node: two sections of the declaration, a timer with its service, a script for Slurm."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import declaration, managed_files
from ...core.resource import Line, Outcome, Resource
from ...core.systemd.timer import STEPS
from ...health.gate.settings import SECTION
from .observe import observe
from .options import Desired
from .plan import HEALTH, plan
from .types import State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: whether there is one, which program Slurm runs, and what is silenced."""
    state = outcome.after
    return {
        "active": desired.present,
        "enforced": desired.present and bool(state.slurm_conf or desired.labels_file or desired.kubernetes_node),
        "health_check_program": state.program,
        "program_reached": state.program == desired.program if desired.present and state.program else None,
        "silences": [one.to_dict() for one in desired.silences] if desired.present else [],
    }


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    before, actions = outcome.before, outcome.plan.actions if planned else ()
    files = managed_files.text(managed_files.after(before.files, actions))
    return declaration.text(before.declared, (HEALTH, SECTION), actions) + files


def _line(result: Mapping[str, Any]) -> str:
    if not result["active"]:
        return "off"
    if not result.get("enforced", True):
        return "verdicts are recorded; nothing on this node keeps jobs away by them"
    return "what is sick takes no job" + ("; slurmd looks between jobs" if result.get("program_reached") else "")


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="the gate's files and its sections of {0}".format(declaration.PATH),
    needs_command=True,
    line=Line("gate", _line, foresees=True),
)

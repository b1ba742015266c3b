# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of what this node has, for Kubernetes: a timer that writes them for Node Feature Discovery. One resource."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import declaration
from ...core.resource import Line, Outcome, Resource
from ...core.systemd.timer import STEPS
from .observe import observe
from .options import Desired
from .plan import plan
from .types import SECTION, UNIT, State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: where the labels go."""
    return {"file": (outcome.after.file or None) if desired.present else None}


def _line(result: Mapping[str, Any]) -> str:
    return "in {0}".format(result.get("file") or "no file")


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=UNIT.shown,
    title="the units of the labels and the section of {0}".format(declaration.PATH),
    needs_command=True,
    line=Line("labels", _line, foresees=True),
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clean-up of a node by itself: a timer that runs ``gpunode cleanup``. One resource."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import declaration
from ...core.resource import Line, Outcome, Resource
from ...core.systemd.timer import STEPS
from ...jobs.leftovers.types import SECTION
from .observe import observe
from .options import Desired
from .plan import plan
from .types import UNIT, State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(dummy: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: when it runs."""
    return {"on_calendar": desired.on_calendar if desired.present else None}


def _line(result: Mapping[str, Any]) -> str:
    return "{0}".format(result.get("on_calendar") or "never")


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=UNIT.shown,
    title="the units of the clean-up and the section of {0}".format(declaration.PATH),
    needs_command=True,
    line=Line("clean-up", _line, foresees=True),
)

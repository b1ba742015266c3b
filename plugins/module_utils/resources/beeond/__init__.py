# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file system over the scratch disks of a job's nodes (BeeOND): what a node needs for it. One resource."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import declaration, managed_files
from ...core.resource import Line, Outcome, Resource
from .apply import STEPS
from .observe import observe
from .options import Desired
from .plan import plan
from .types import SECTION, State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], dummy: Desired) -> Dict[str, Any]:
    state = outcome.after
    return {"built_for": state.built.get("kernel"), "kernel": state.kernel or None, "module": state.module}


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    """The key is in neither of them."""
    before, actions = outcome.before, outcome.plan.actions if planned else ()
    files = managed_files.text(managed_files.after(before.files, actions))
    return declaration.text({SECTION: before.declared or None}, (SECTION,), actions) + files


def _line(result: Mapping[str, Any]) -> str:
    return "client built for {0}".format(result.get("built_for") or "no kernel")


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="the configuration of BeeOND and the section of {0}".format(declaration.PATH),
    # It may be built meanwhile.
    lock_seconds=1000.0,
    needs_command=True,
    line=Line("shared scratch", _line),
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node needs to copy checkpoints into a store of blobs: azcopy, where to, how fast, as whom. One resource."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...checkpoints.settings import SECTION
from ...core import declaration, managed_files
from ...core.resource import Line, Outcome, Resource
from .apply import STEPS
from .observe import observe
from .options import Desired
from .plan import after, plan
from .types import ENV_FILE, State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    state = outcome.after
    return {
        "azcopy": state.program or None,
        "version": state.version or None,
        "file": ENV_FILE if desired.present else None,
    }


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    state = after(outcome.before, outcome.plan.actions) if planned else outcome.before
    program = "{0}\n".format(state.program) if state.program else ""
    section = declaration.text({SECTION: state.declared or None}, (SECTION,))
    return program + section + managed_files.text(state.files)


def _line(result: Mapping[str, Any]) -> str:
    return "azcopy {0}".format(result.get("version") or result.get("azcopy") or "none")


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="checkpoints",
    predict=lambda state, actions, dummy: after(state, actions),
    needs_command=True,
    # Packages come over a network, and another run may wait for that.
    lock_seconds=1800.0,
    line=Line("checkpoints", _line),
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gate has on a node: two sections of the declaration, a timer with its service, a script for Slurm.

Front ends use :func:`run`, and :func:`facts` and :func:`text` for results.
"""

from __future__ import annotations

import os
from typing import Any, Dict

from ...core import managed_files
from ...core.host import Host
from ...core.resource import NodeError, Outcome, converge
from ..gate.settings import Settings
from .apply import apply
from .desired import Desired
from .observe import observe
from .plan import plan
from .types import State

__all__ = ["Desired", "Settings", "State", "facts", "run", "text"]


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Bring the gate on this node to what is desired. No check is run, and Slurm is not touched.

    :raises NodeError: one sentence; a refusal changed nothing.
    """
    if check_mode:
        return _converged(host, desired, True)
    if os.geteuid() != 0:
        raise NodeError("health_gate", "only root may write its files", "run it as root (become: true)")
    with host.lock("health_gate_files"):
        return _converged(host, desired, False)


def _converged(host: Host, desired: Desired, check_mode: bool) -> Outcome[State]:
    return converge(
        lambda: observe(host, desired),
        lambda state: plan(state, desired),
        lambda action: apply(host, action),
        check_mode,
    )


def facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: which program Slurm runs, and what is silenced."""
    state = outcome.after
    return {
        "health_check_program": state.program,
        "program_reached": state.program == desired.program if desired.present and state.program else None,
        "silences": [one.to_dict() for one in desired.silences] if desired.present else [],
    }


def text(outcome: Outcome[State], planned: bool) -> str:
    """The files as diff mode shows them; ``planned``: as they will be."""
    return managed_files.text(managed_files.after(outcome.before.files, outcome.plan.actions if planned else ()))

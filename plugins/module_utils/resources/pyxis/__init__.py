# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pyxis on this node: Slurm's plugin for containers, built for the Slurm that is installed, and its plugstack line.

Front ends use :func:`run`, and :func:`facts` and :func:`text` for results.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict

from ...core import managed_files
from ...core.host import Host
from ...core.resource import NodeError, Outcome, converge
from .apply import apply
from .observe import observe
from .plan import after, plan, restart_pending
from .types import PLUGIN, SECTION, Desired, Prebuilt, State

__all__ = ["Desired", "Prebuilt", "State", "facts", "run", "text"]


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Two runs at once take turns.

    :raises NodeError: one sentence; a refusal changed nothing.
    """
    if check_mode:
        return _converged(host, desired, True)
    if os.geteuid() != 0:
        raise NodeError("pyxis", "only root may install it", "run it as root (become: true)")
    with host.lock(SECTION, timeout_seconds=900.0):
        return _converged(host, desired, False)


def _converged(host: Host, desired: Desired, check_mode: bool) -> Outcome[State]:
    return converge(
        lambda: observe(host, desired),
        lambda state: plan(state, desired),
        lambda action: apply(host, action),
        check_mode,
    )


def facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    state = outcome.after
    if outcome.before is outcome.after and outcome.changed:  # check mode: as it will be
        state = after(outcome.before, outcome.plan.actions, desired)
    adopted = state.adopted if desired.present else None
    return {
        "slurm_version": state.slurm_version,
        "built_for": state.built.slurm_version if state.built is not None else None,
        "plugin": adopted.plugin if adopted is not None else PLUGIN if state.plugin_sha256 is not None else None,
        "adopted": adopted.file if adopted is not None else None,
        "plugstack": state.plugstack.path or None,
        "plugstack_reached": state.plugstack.reached or adopted is not None,
        "restart_pending": restart_pending(outcome.before, outcome.after, outcome.plan.actions),
    }


def text(outcome: Outcome[State], desired: Desired, planned: bool) -> str:
    """Files and plugin as diff mode shows them; ``planned``: as they will be."""
    state = outcome.before
    if planned:
        state = after(state, outcome.plan.actions, desired)
    shown = dataclasses.asdict(state.built) if state.built is not None and state.plugin_sha256 is not None else {}
    lines = ["{0}, built for Slurm {1}\n".format(PLUGIN, shown["slurm_version"])] if shown else []
    return "".join(lines) + managed_files.text(state.files)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pyxis on this node: Slurm's plugin for containers, built for the Slurm that is installed, and its plugstack line."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping

from ...core import managed_files
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import Line, Outcome, Resource, Unread
from ...slurm import containers
from .apply import STEPS
from .observe import observe
from .options import Desired, Prebuilt
from .plan import after, plan, restart_pending
from .types import DROP_IN, PLUGIN, SECTION, State

__all__ = ["RESOURCE", "Desired", "Prebuilt", "State"]


def _look(host: Host, desired: Desired) -> State:
    """slurmctld is asked for the jobs here only if something is to be changed."""
    state = observe(host, desired)
    return replaced(state, users=containers.users(host)) if plan(state, desired).actions else state


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    state = outcome.after
    adopted = state.adopted if desired.present else None
    return {
        "slurm_version": state.slurm_version,
        "built_for": state.built.slurm_version if state.built is not None else None,
        "plugin": adopted.plugin if adopted is not None else PLUGIN if state.plugin_sha256 is not None else None,
        "adopted": adopted.file if adopted is not None else None,
        "plugstack": state.plugstack.path or None,
        "plugstack_reached": state.plugstack.reached or adopted is not None,
        "restart_pending": outcome.plan.skipped is None and restart_pending(state, outcome.plan.actions, desired),
    }


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    """Files and plugin as diff mode shows them; ``planned``: as they will be."""
    state = outcome.after if planned else outcome.before
    shown = dataclasses.asdict(state.built) if state.built is not None and state.plugin_sha256 is not None else {}
    lines = ["{0}, built for Slurm {1}\n".format(PLUGIN, shown["slurm_version"])] if shown else []
    return "".join(lines) + managed_files.text(state.files)


def _line(result: Mapping[str, Any]) -> str:
    pending = "; slurmd has yet to be restarted" if result.get("restart_pending") else ""
    return "for Slurm {0}{1}".format(result.get("built_for") or "none", pending)


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=_look,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="pyxis",
    predict=after,
    # It may be built meanwhile.
    lock_seconds=900.0,
    line=Line("pyxis", _line),
    unread=Unread(
        lambda result: DROP_IN if result["restart_pending"] else "", lambda dummy: {"restart_pending": False}
    ),
)

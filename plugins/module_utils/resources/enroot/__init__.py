# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""enroot on this node: its packages, its settings for many users on one scratch, and what the kernel must allow."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import managed_files
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import Line, Outcome, Resource
from ...slurm import containers
from ...slurm.user_folders import SECTION
from . import texts
from .apply import STEPS
from .observe import observe
from .options import Desired
from .plan import after, plan
from .types import State

__all__ = ["RESOURCE", "Desired", "State"]


def _look(host: Host, desired: Desired) -> State:
    """slurmctld is asked for the jobs here only if something is to be changed."""
    state = observe(host, desired)
    return replaced(state, users=containers.users(host)) if plan(state, desired).actions else state


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    state = outcome.after
    managing = desired.present and outcome.plan.skipped is None
    found = state.packages.installed("enroot")
    return {
        "version": None if found is None else found.version,
        "user_folders": [
            {"purpose": one.purpose, "path": one.path, "remove": one.remove}
            for one in (texts.folders(state, desired) if managing else ())
        ],
        "settings": texts.values(state, desired) if managing else {},
        "nvidia_container_cli": state.nvidia_container_cli,
    }


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    """The files, packages and settings of the kernel as diff mode shows them; ``planned``: as they will be."""
    state = after(outcome.before, outcome.plan.actions) if planned else outcome.before
    packages = "".join("package {0} {1}\n".format(one.name, one.version) for one in state.packages.found)
    links = "".join("{0} -> {1}\n".format(one.path, one.target) for one in state.links if one.kind == "ours")
    values = "".join("{0} = {1}\n".format(key, value) for key, value in sorted(state.kernel.values.items()))
    return packages + links + values + managed_files.text(state.files)


def _line(result: Mapping[str, Any]) -> str:
    temporary = next((one["path"] for one in result.get("user_folders") or [] if one.get("purpose") == "temp"), None)
    return "enroot {0}{1}".format(result.get("version") or "none", ", folders in " + temporary if temporary else "")


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=_look,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="enroot",
    predict=lambda state, actions, dummy: after(state, actions),
    # Packages come over a network, and another run may wait for that.
    lock_seconds=1800.0,
    line=Line("enroot", _line),
)

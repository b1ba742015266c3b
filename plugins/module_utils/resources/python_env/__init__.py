# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python environments on a node or for a cluster: built beside the former ones, switched by a link. One resource."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import managed_files, trees
from ...core.environments import SECTION
from ...core.resource import Line, Outcome, Resource
from .apply import STEPS
from .observe import observe
from .options import Desired, Environment
from .plan import plan
from .resolve import wishes
from .types import BuildTree, RemoveTree, State

__all__ = ["RESOURCE", "Desired", "Environment", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """The environments that are wanted, and all builds of ours; in check mode those of before."""
    state = outcome.after
    built = {one.path for one in state.trees}
    return {
        "folder": state.folder or None,
        "environments": [
            {
                "name": wish.name,
                "kind": wish.kind,
                "path": wish.path(state.folder),
                "link": "{0}/{1}".format(state.folder, wish.name),
                "sha256": wish.digest,
                "machine": str(wish.machine),
                "built": wish.path(state.folder) in built,
            }
            for wish in wishes(state.inputs, desired)[0]
        ],
        "installed": [{"path": one.path, "name": one.name, "sha256": one.digest} for one in state.trees],
    }


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    """The trees, the links and the files."""
    actions = outcome.plan.actions if planned else ()
    paths = {tree.path for tree in outcome.before.trees} | {one.path for one in actions if isinstance(one, BuildTree)}
    paths -= {one.path for one in actions if isinstance(one, RemoveTree)}
    files = managed_files.after(outcome.before.files, actions)
    return trees.shown(outcome.before.links, paths, actions) + managed_files.text(files)


def _line(result: Mapping[str, Any]) -> str:
    names = [one["name"] for one in result.get("environments") or []]
    return "{0} in {1}".format(", ".join(names), result.get("folder")) if names else "none"


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="Python environments",
    # One node may build all of them for all others.
    lock_seconds=7200.0,
    shared=lambda desired: (desired.folder,) if desired.folder else (),
    line=Line("python", _line),
)

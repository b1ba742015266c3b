# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HPC-X on a node: one of the image adopted or one installed, the link to it, and its modulefiles. One resource."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import managed_files, trees
from ...core.resource import Line, Outcome, Resource
from ...core.trees import PointLink, resolved
from .apply import STEPS
from .choose import choose, link_path
from .observe import observe
from .options import Desired
from .plan import plan
from .types import SECTION, InstallTree, RemoveTree, State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Which HPC-X jobs get; in check mode, would get."""
    choice = choose(outcome.after, desired) if desired.present else None
    tree = choice.tree if choice is not None else None
    state, path = outcome.after, link_path(desired)
    target = {one.path: one.target for one in outcome.plan.actions if isinstance(one, PointLink)}.get(path)
    link = state.link(path)
    if target is None and link.kind == "link":
        target = link.target
    return {
        "home": tree.path if tree else None,
        "version": tree.version if tree else None,
        "adopted": choice.adopted if choice is not None else False,
        "current": path if tree and target is not None and resolved(path, target) == tree.path else None,
        "installed": [
            {"path": one.path, "version": one.version, "sha256": one.sha256}
            for one in sorted(state.trees, key=lambda one: one.path)
        ],
        "found": [{"path": one.path, "version": one.version} for one in state.found],
    }


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    """The trees, the links and the modulefiles."""
    actions = outcome.plan.actions if planned else ()
    paths = {tree.path for tree in outcome.before.trees} | {one.path for one in actions if isinstance(one, InstallTree)}
    paths -= {one.path for one in actions if isinstance(one, RemoveTree)}
    files = managed_files.after(outcome.before.files, actions)
    return trees.shown(outcome.before.links, paths, actions) + managed_files.text(files)


def _line(result: Mapping[str, Any]) -> str:
    version, home = result.get("version"), result.get("home")
    if not version and not home:
        return "none"
    how = ", adopted as it was" if result.get("adopted") else ""
    return "{0} in {1}{2}".format(version or "unknown version", home, how)


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="HPC-X",
    # One node may download and unpack it for all others.
    lock_seconds=1800.0,
    shared=lambda desired: (desired.prefix,),
    line=Line("HPC-X", _line),
)

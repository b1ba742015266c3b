# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HPC-X on a node: one of the image adopted or one installed, the link to it, and its modulefiles. One resource.

Front ends use :func:`run`, and :func:`facts` and :func:`text` for results.
"""

from __future__ import annotations

import os
from typing import Any, Dict

from ...core import managed_files
from ...core.host import Host
from ...core.resource import NodeError, Outcome, converge
from .apply import apply
from .choose import choose, link_path, resolved
from .desired import ADOPT, ADOPT_PATHS, CONFLICTS, MODULEFILES, PREFIX, Desired
from .observe import observe
from .plan import plan
from .types import SECTION, InstallTree, PointLink, State

__all__ = [
    "ADOPT",
    "ADOPT_PATHS",
    "CONFLICTS",
    "MODULEFILES",
    "PREFIX",
    "Desired",
    "State",
    "facts",
    "run",
    "text",
]


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Bring HPC-X on this node to what is desired.

    :raises NodeError: one sentence; a refusal changed nothing, and a failed download leaves what was there.
    """
    if check_mode:
        return _converged(host, desired, True)
    if os.geteuid() != 0:
        raise NodeError("hpcx", "only root may install it", "run it as root (become: true)")
    with host.lock(SECTION):
        return _converged(host, desired, False)


def _converged(host: Host, desired: Desired, check_mode: bool) -> Outcome[State]:
    return converge(
        lambda: observe(host, desired),
        lambda state: plan(state, desired),
        lambda action: apply(host, action, desired),
        check_mode,
    )


def facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
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


def text(outcome: Outcome[State], planned: bool) -> str:
    """The modulefiles and the link as diff mode shows them; ``planned``: as they will be."""
    actions = outcome.plan.actions if planned else ()
    links = {one.path: one.target for one in outcome.before.links if one.kind == "link"}
    links.update({one.path: one.target for one in actions if isinstance(one, PointLink)})
    gone = {getattr(one, "path", "") for one in actions if type(one).__name__.startswith("Remove")}
    trees = {tree.path for tree in outcome.before.trees}
    trees |= {one.path for one in actions if isinstance(one, InstallTree)}
    lines = ["{0}\n".format(path) for path in sorted(trees - gone)]
    lines += ["{0} -> {1}\n".format(path, target) for path, target in sorted(links.items()) if path not in gone]
    return "".join(lines) + managed_files.text(managed_files.after(outcome.before.files, actions))

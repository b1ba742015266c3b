# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which HPC-X jobs get: one that was there, or one of ours; no I/O."""

from __future__ import annotations

import re
from typing import List, Optional, Sequence, Tuple

from ...core.artefact import Source
from ...core.frozen import frozen
from ...core.resource import Refusal
from ...core.trees import resolved
from .options import Desired
from .types import LINK, State, Tree


@frozen
class Choice:
    """``tree`` None: there is none, for ``reason`` or by ``refusal``. ``install``: it has yet to be put there."""

    tree: Optional[Tree] = None
    install: bool = False
    reason: str = ""
    refusal: Optional[Refusal] = None
    notes: Tuple[str, ...] = ()

    @property
    def adopted(self) -> bool:
        return self.tree is not None and self.tree.sha256 is None


def choose(state: State, desired: Desired) -> Choice:
    found = sorted(state.found, key=_order, reverse=True) if desired.adopt != "never" else []
    same = [tree for tree in found if tree.version == desired.version]
    if desired.archive is not None:
        if desired.adopt == "any" and found and not same:
            note = "HPC-X {0} in {1} was there and is used instead of {2}; adopt: same_version installs that"
            return Choice(found[0], notes=(note.format(found[0].version or "?", found[0].path, desired.version),))
        return _from_source(state, desired, desired.archive, same)
    if desired.version:
        ours = [tree for tree in state.trees if tree.version == desired.version]
        if ours or same:
            return Choice((ours or same)[0])
        remedy = "give source and sha256 of its tarball, or another version"
        thing = "HPC-X {0}".format(desired.version)
        return Choice(refusal=Refusal(thing, "it is neither in the image nor installed", remedy))
    # Nothing is asked for: what jobs have already, then the newest that is there.
    path = link_path(desired)
    target = resolved(path, state.link(path).target)
    current = [tree for tree in state.trees if tree.path == target]
    every = current or sorted(state.trees, key=_order, reverse=True) or found
    return Choice(every[0]) if every else Choice(reason="this node has no HPC-X, and no source is given to install it")


def _from_source(state: State, desired: Desired, source: Source, same: Sequence[Tree]) -> Choice:
    path = "{0}/{1}".format(desired.prefix, desired.version)
    for tree in state.trees:
        if tree.path == path and tree.sha256 == source.sha256:
            return Choice(tree)
        if tree.path == path:
            reason = "it was installed from another file (sha256 {0})".format(tree.sha256)
            remedy = "name this one by a version of its own, such as {0}-2".format(desired.version)
            return Choice(refusal=Refusal(path, reason, remedy))
    if same:
        return Choice(same[0])
    if state.prefix in ("hpcx", "other"):
        what = "it is an HPC-X that is not ours" if state.prefix == "hpcx" else "it is not a folder"
        return Choice(refusal=Refusal(desired.prefix, what, "give another prefix"))
    if state.occupied:
        return Choice(refusal=Refusal(path, "it is there and is not ours", "move it away, or give another version"))
    return Choice(Tree(path, desired.version, source.sha256), install=True)


def _order(tree: Tree) -> Tuple[List[int], str]:
    return [int(one) for one in re.findall(r"\d+", tree.version or "")][:8], tree.path


def link_path(desired: Desired) -> str:
    return "{0}/{1}".format(desired.prefix, LINK)


def old_trees(state: State, tree: Optional[Tree]) -> List[Tree]:
    """Ours beside the chosen one, the latest first."""
    others = [one for one in state.trees if tree is None or one.path != tree.path]
    return sorted(others, key=lambda one: (one.installed, one.path), reverse=True)


def may_go(state: State, desired: Desired) -> List[Tree]:
    """The trees of ours that are to be removed, unless somebody runs from them."""
    if not desired.present:
        return list(state.trees)
    choice = choose(state, desired)
    return [] if choice.refusal is not None else old_trees(state, choice.tree)[desired.keep :]

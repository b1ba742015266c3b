# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ...core import declaration, managed_files
from ...core.frozen import replaced
from ...core.managed_files import MakeFolder, RemoveFile, RemoveFolder, Wanted
from ...core.module_systems import SUFFIXES
from ...core.resource import Action, Plan, Refusal
from ...core.trees import PointLink, RemoveLeftover, RemoveLink, resolved
from . import modulefile
from .choose import Choice, choose, link_path, may_go, old_trees
from .options import Desired
from .types import SECTION, InstallTree, RemoveTree, State, Tree

_SHARED = (
    "{0}: on a network file system, where other nodes run from it too, so it stays; remove it when no node needs it"
)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state)
    choice = choose(state, desired)
    if choice.refusal is not None:
        return Plan(refusals=(choice.refusal,))
    if choice.tree is not None:
        return _present(state, desired, choice, choice.tree)
    # The HPC-X that was adopted is gone: so are our modulefiles for it.
    rest = _absent(state)
    if not rest.actions:
        return Plan(skipped=choice.reason)
    return replaced(rest, notes=rest.notes + (choice.reason,))


def _present(state: State, desired: Desired, choice: Choice, tree: Tree) -> Plan:
    link, refusal = _link(state, desired, tree)
    if refusal is not None and choice.install:
        return Plan(refusals=(refusal,))
    notes = list(choice.notes)
    if refusal is not None:
        notes.append("there is no link {0}: {1}".format(refusal.thing, refusal.reason))
    busy = dict(state.busy)
    surplus = may_go(state, desired)
    notes += [
        "{0} is kept while {1} runs from it".format(one.path, busy[one.path]) for one in surplus if one.path in busy
    ]
    notes += [_SHARED.format(one.path) for one in surplus if state.of_others_too(one.path)]
    surplus = [one for one in surplus if one.path not in busy and not state.of_others_too(one.path)]
    kept = [one for one in old_trees(state, tree) if one not in surplus]
    wanted, more = _modulefiles(state, desired, tree, kept)
    files = managed_files.write(state.files, wanted)
    section = _section(state, desired, tree, kept, wanted, link)
    declare = declaration.plan({SECTION: dict(state.declared)} if state.declared else {}, SECTION, section)
    actions: List[Action] = [] if declare is None else [declare]
    actions += [RemoveLeftover(path) for path in state.leftovers]
    if choice.install or link is not None:
        folders = [one for one in state.files.missing_folders if (desired.prefix + "/").startswith(one + "/")]
        actions += [MakeFolder(one) for one in folders if MakeFolder(one) not in files]
    if choice.install and desired.archive is not None:
        actions.append(InstallTree(tree.path, desired.version, desired.archive.shown, desired.archive.sha256))
    if link is not None:
        actions.append(link)
    actions += files
    actions += [
        RemoveLink(one.path) for one in state.links if one.path != link_path(desired) and _link_is_ours(state, one.path)
    ]
    actions += [RemoveTree(one.path, one.version or "?") for one in surplus]
    return Plan(tuple(actions), notes=tuple(notes + more))


def _link(state: State, desired: Desired, tree: Tree) -> Tuple[Optional[PointLink], Optional[Refusal]]:
    """The step that the link ``current`` needs, or why it cannot be set."""
    path = link_path(desired)
    if state.prefix == "hpcx":
        return None, None  # nothing is put into a tree of another owner
    if state.prefix == "other":
        return None, Refusal(path, "{0} is not a folder".format(desired.prefix), "give another prefix")
    link = state.link(path)
    if link.kind == "link" and resolved(path, link.target) == tree.path:
        return None, None
    if link.kind != "missing" and not _link_is_ours(state, path):
        return None, Refusal(path, "something that is not ours is there", "move it away, or give another prefix")
    inside = tree.path.startswith(desired.prefix + "/")
    return PointLink(path, tree.path[len(desired.prefix) + 1 :] if inside else tree.path), None


def _link_is_ours(state: State, path: str, chosen: Optional[Tree] = None) -> bool:
    """By the declaration, or because it leads to a tree of ours: one that is there, or the ``chosen`` one to come."""
    link = state.link(path)
    if link.kind != "link":
        return False
    ours = [tree.path for tree in state.trees] + ([chosen.path] if chosen is not None and chosen.sha256 else [])
    return state.declared.get("link") == path or resolved(path, link.target) in ours


def _modulefiles(state: State, desired: Desired, tree: Tree, kept: Sequence[Tree]) -> Tuple[List[Wanted], List[str]]:
    """One without a version for the chosen tree, and one for each; each names its own folder and not the link, so that
    a job that runs while another version is chosen keeps what it has loaded."""
    wanted, notes = [], []
    if not state.systems and desired.modulefiles == "auto":
        notes.append("neither Lmod nor Environment Modules is installed, so no modulefile is written")
    named = {desired.module_name: tree}
    for one in [tree] + list(kept):
        if one.version:
            named.setdefault("{0}-{1}".format(desired.module_name, one.version), one)
    for kind, folder in state.systems:
        for name, one in named.items():
            path = "{0}/{1}{2}".format(folder, name, SUFFIXES[kind])
            if state.files.seen(path).foreign:
                remedy = "give another module_name or modulefile_dir"
                notes.append("{0} is not ours, so it is left as it is; {1}".format(path, remedy))
            else:
                wanted.append(Wanted(path, modulefile.text(kind, one.path, one.version or "?", desired)))
    return wanted, notes


def _section(
    state: State,
    desired: Desired,
    tree: Tree,
    kept: Sequence[Tree],
    wanted: Sequence[Wanted],
    link: Optional[PointLink],
) -> Dict[str, Any]:
    """What ``state: absent`` has to take away again. Which HPC-X it is stands in the link: that is never ahead."""
    path = link_path(desired)
    section: Dict[str, Any] = {}
    if link is not None or _link_is_ours(state, path, tree):
        section["link"] = path
    section["prefixes"] = sorted({desired.prefix} | {one.path.rsplit("/", 1)[0] for one in kept})
    return dict(section, **managed_files.remembered(state.files, [one.path for one in wanted]))


def _absent(state: State) -> Plan:
    busy = dict(state.busy)
    trees = [tree for tree in state.trees if not state.of_others_too(tree.path)]
    refusals = tuple(
        Refusal(tree.path, "{0} runs from it".format(busy[tree.path]), "let its job end, then run it again")
        for tree in trees
        if tree.path in busy
    )
    if refusals:
        return Plan(refusals=refusals)
    files = managed_files.remove(state.files, [path for path, dummy in state.files.found])
    leftovers = [path for path in state.leftovers if not state.of_others_too(path)]
    actions: List[Action] = [RemoveLeftover(path) for path in leftovers]
    actions += [one for one in files if isinstance(one, RemoveFile)]
    links = [link.path for link in state.links if _link_is_ours(state, link.path)]
    actions += [RemoveLink(path) for path in links if not state.of_others_too(path)]
    actions += [RemoveTree(tree.path, tree.version or "?") for tree in trees]
    actions += [one for one in files if isinstance(one, RemoveFolder)]
    # Last: until everything is gone it tells what there is to take away.
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    stay = tuple(_SHARED.format(tree.path) for tree in state.trees if tree not in trees)
    return Plan(tuple(actions), notes=stay + managed_files.foreign_notes(state.files))

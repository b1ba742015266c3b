# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ...core import declaration, managed_files, mounts
from ...core.environments import SECTION, Tree
from ...core.managed_files import RemoveFile, RemoveFolder, Wanted
from ...core.resource import Action, Plan, Refusal
from ...core.trees import PointLink, RemoveLeftover, RemoveLink
from . import user_files
from .options import Desired
from .resolve import Wish, wishes
from .types import BuildTree, MakeTop, RemoveHalf, RemoveTree, State

_SHARED = (
    "{0}: on a network file system, where processes of other nodes may use it, so it stays; remove it when no node "
    "needs it"
)
WORKED_ON = "a program that an interrupted build started still works in it"


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state)
    wanted, refusals, notes = wishes(state.inputs, desired)
    if desired.environments and state.fault[0]:
        refusals.insert(0, Refusal(*state.fault))
    if state.former:
        reason = "environments of ours lie there, and they are to lie in {0}".format(state.folder or "no folder")
        refusals.append(Refusal(state.former, reason, "keep that folder, or run it with state: absent first"))
    if not refusals and desired.environments:
        refusals = _occupied(state, wanted)
    if refusals:
        return Plan(refusals=tuple(refusals))
    if not (desired.environments or user_files.wanted(desired) or state.declared):
        return Plan(skipped="no environment is declared")
    return _present(state, desired, wanted, notes)


def _occupied(state: State, wanted: Sequence[Wish]) -> List[Refusal]:
    refusals = []
    for wish in wanted:
        path, link = wish.path(state.folder), _link_path(state, wish.name)
        remedy = "move it away, or give another folder"
        if path in state.occupied:
            refusals.append(Refusal(path, "it is there and is not ours", remedy))
        if link in state.occupied and not _link_is_ours(state, link):
            refusals.append(Refusal(link, "it is there and is not ours", remedy))
        # In a shared folder it may be another node that is building: who has the turn looks once more.
        if not state.shared and any(half.path == path and half.worked_on for half in state.halves):
            refusals.append(Refusal(path, WORKED_ON, "wait for it to end, then run it again"))
    return refusals


def _link_path(state: State, name: str) -> str:
    return "{0}/{1}".format(state.folder, name)


def _link_is_ours(state: State, path: str) -> bool:
    """By the declaration, or because it leads to a tree of ours."""
    link = state.link(path)
    if link.kind != "link":
        return False
    links = state.declared.get("links")
    return path in (links if isinstance(links, list) else ()) or link.leads_to in [one.path for one in state.trees]


def _of_another_machine(state: State, wish: Wish) -> Optional[Tree]:
    """Where nodes that differ share a folder, the link stays with the machine that came first, or they would switch it
    to and fro; each has its own tree, to which its modulefile leads."""
    if not state.shared:
        return None
    leads_to = state.link(_link_path(state, wish.name)).leads_to
    tree = next((one for one in state.trees if one.path == leads_to), None)
    differs = tree is not None and tree.spec == wish.spec and tree.machine != str(wish.machine)
    return tree if differs else None


def surplus(state: State, desired: Desired) -> List[Tree]:
    """The trees of ours that nobody asked to keep, the latest first."""
    if not desired.present:
        return list(state.trees)
    found, refusals, dummy = wishes(state.inputs, desired)
    if refusals:
        return []
    by_name = {wish.name: wish for wish in found}
    kept = {wish.name: 0 for wish in found}
    gone = []
    for tree in sorted(state.trees, key=lambda one: (one.built, one.path), reverse=True):
        wish = by_name.get(tree.name)
        if wish is not None and tree.digest == wish.digest:
            continue
        if wish is not None and kept[tree.name] < desired.keep:
            kept[tree.name] += 1
            continue
        gone.append(tree)
    return gone


def may_go(state: State, desired: Desired) -> List[Tree]:
    """Those of :func:`surplus` that go unless somebody uses them: of a shared folder this node does not know."""
    return [] if state.shared else surplus(state, desired)


def _present(state: State, desired: Desired, wanted: Sequence[Wish], notes: List[str]) -> Plan:
    busy, going = dict(state.busy), may_go(state, desired)
    notes = list(notes)
    notes += ["{0} is kept while {1} uses it".format(one.path, busy[one.path]) for one in going if one.path in busy]
    if state.shared:
        notes += [_SHARED.format(one.path) for one in surplus(state, desired)]
    going = [one for one in going if one.path not in busy]
    files, more = _files(state, desired, wanted)
    notes += more
    have = {one.path for one in state.trees}
    actions: List[Action] = [RemoveLeftover(path) for path in state.leftovers]
    actions += [RemoveHalf(half.path) for half in state.halves if not half.worked_on]
    if wanted and not state.there:
        actions += [MakeTop(one) for one in state.files.missing_folders if _inside(state.folder, one)]
    links = []
    for wish in wanted:
        path, link = wish.path(state.folder), _link_path(state, wish.name)
        if path not in have:
            actions.append(BuildTree(path, wish.name, wish.kind, wish.digest))
        other = _of_another_machine(state, wish)
        if other is not None:
            notes.append(
                "{0}: it leads to a build for {1}, so this node ({2}) has its own only by module {3}/{4}".format(
                    link, other.machine, wish.machine, desired.module_prefix, wish.name
                )
            )
        elif state.link(link).leads_to != path:
            actions.append(PointLink(link, path.rsplit("/", 1)[1]))
        links.append(link)
    gone = {one.path for one in going}
    left = [] if state.shared else [one for one in state.trees if one.path not in gone]
    done = not (wanted or files or left)
    steps = managed_files.remove(state.files) if done else managed_files.write(state.files, files)
    folders = [one for one in steps if isinstance(one, RemoveFolder)]
    actions += [one for one in steps if one not in folders]
    names = {wish.name for wish in wanted}
    stale = [
        one.path for one in state.links if one.path.rsplit("/", 1)[1] not in names and _link_is_ours(state, one.path)
    ]
    if not state.shared:
        actions += [RemoveLink(path) for path in stale]
    actions += [RemoveTree(one.path) for one in going]
    actions += folders
    section = None if done else _section(state, links, files)
    declare = declaration.plan({SECTION: dict(state.declared)} if state.declared else {}, SECTION, section)
    if declare is not None:
        # What is taken out goes last: until all is gone it tells what there is to take away.
        actions = [*actions, declare] if done else [declare, *actions]
    return Plan(tuple(actions), notes=tuple(dict.fromkeys(notes)))


def _inside(path: str, outer: str) -> bool:
    return path == outer or path.startswith(outer + "/")


def _files(state: State, desired: Desired, wanted: Sequence[Wish]) -> Tuple[List[Wanted], List[str]]:
    found, notes = user_files.wanted(desired), []
    if wanted and not state.systems and desired.modulefiles == "auto":
        notes.append("neither Lmod nor Environment Modules is installed, so no modulefile is written")
    for kind, folder in state.systems:
        for wish in wanted:
            path = user_files.modulefile_path(kind, folder, desired, wish.name)
            found.append(Wanted(path, user_files.modulefile(kind, wish, wish.path(state.folder), desired)))
    foreign = [one.path for one in found if state.files.seen(one.path).foreign]
    notes += ["{0} is not ours, so it is left as it is".format(path) for path in foreign]
    if desired.user_folder and mounts.is_network(state.extensions.filesystem):
        notes.append(
            "{0}: a network file system, where the ranks of a job wait for each other's locks; give extensions_folder "
            "on the scratch of the node".format(state.extensions.path)
        )
    return [one for one in found if one.path not in foreign], notes


def _section(state: State, links: Sequence[str], files: Sequence[Wanted]) -> Dict[str, Any]:
    """What ``state: absent`` has to take away again. Which trees are ours say their marks."""
    section = managed_files.remembered(state.files, [one.path for one in files])
    return dict(section, folder=state.folder, links=sorted(links))


def _absent(state: State) -> Plan:
    if state.fault[0] and state.trees:
        return Plan(refusals=(Refusal(*state.fault),))
    busy = dict(state.busy)
    trees = [] if state.shared else list(state.trees)
    refusals = [
        Refusal(one.path, "{0} uses it".format(busy[one.path]), "let its job end, then run it again")
        for one in trees
        if one.path in busy
    ]
    refusals += [
        Refusal(one.path, WORKED_ON, "wait for it to end, then run it again")
        for one in state.halves
        if one.worked_on and not state.shared
    ]
    if refusals:
        return Plan(refusals=tuple(refusals))
    files = managed_files.remove(state.files, [path for path, dummy in state.files.found])
    actions: List[Action] = [one for one in files if isinstance(one, RemoveFile)]
    if not state.shared:
        actions += [RemoveLeftover(path) for path in state.leftovers]
        actions += [RemoveHalf(half.path) for half in state.halves]
        actions += [RemoveLink(one.path) for one in state.links if _link_is_ours(state, one.path)]
        actions += [RemoveTree(one.path) for one in trees]
    actions += [one for one in files if isinstance(one, RemoveFolder)]
    # Last: until everything is gone it tells what there is to take away.
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    stay = tuple(_SHARED.format(one.path) for one in state.trees) if state.shared else ()
    return Plan(tuple(actions), notes=stay + managed_files.foreign_notes(state.files))

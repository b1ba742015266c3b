# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner of environments on every state: planned twice it is empty, and nothing that is somebody's is touched."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.environments import Tree, tree_name
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.folder_given import Folder
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import (
    Files,
    RemoveFile,
    Seen,
    WriteFile,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.trees import (
    Link,
    PointLink,
    RemoveLeftover,
    RemoveLink,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env import Desired, user_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.plan import may_go, plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.resolve import wishes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.types import (
    BuildTree,
    Half,
    Inputs,
    MakeTop,
    RemoveHalf,
    RemoveTree,
    State,
)
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

FOLDER = "/shared/envs"
PYTHON = "/usr/bin/python3"
HERE, THERE = (Inputs("x86_64", cuda, ((PYTHON, "3.10"),)) for cuda in ("", "12"))
LMOD = ("lmod", "/etc/lmod/modules")


def desired_of(names, **rest):
    given = [{"name": name, "packages": [package]} for name, package in names.items()]
    return of(Desired, dict({"folder": FOLDER, "environments": given}, **rest))


def tree_of(wish, built=5):
    return Tree(wish.path(FOLDER), wish.name, wish.digest, built, str(wish.machine), wish.spec)


def old(name, letter, built):
    digest = letter * 64
    return Tree("{0}/{1}".format(FOLDER, tree_name(name, digest)), name, digest, built, "Python 3.9", "x")


OLD = [old("a", "1", 1), old("a", "2", 2), old("a", "3", 3), old("b", "4", 4), old("gone", "5", 5)]


@st.composite
def nodes(draw):
    """A node and a wish, each as odd as it may be."""
    desired = desired_of(
        draw(st.sampled_from([{}, {"a": "x"}, {"a": "x", "b": "y"}])),
        state=draw(st.sampled_from(["present", "absent"])),
        keep=draw(st.integers(0, 2)),
        user_folder=draw(st.sampled_from(["", "/scratch/$USER"])),
        unset_conda_paths=draw(st.booleans()),
    )
    found = wishes(HERE, desired)[0]
    others = wishes(THERE, desired)[0]
    trees = draw(st.sets(st.sampled_from(OLD + [tree_of(one) for one in found + others])))
    rest = [one for one in OLD + [tree_of(one) for one in found] if one not in trees]
    halves = draw(st.sets(st.sampled_from([one.path for one in rest]))) if rest else set()
    occupied = {one.path for one in rest if one.path not in halves} if draw(st.booleans()) else set()
    names = sorted({one.name for one in trees} | {one.name for one in desired.environments})
    links = []
    for name in names:
        path = "{0}/{1}".format(FOLDER, name)
        targets = [tree.path.rsplit("/", 1)[1] for tree in trees if tree.name == name] + ["/srv/theirs", "gone-0"]
        kind = draw(st.sampled_from(["missing", "link", "other"]))
        links.append(Link(path, kind, draw(st.sampled_from(targets)) if kind == "link" else ""))
        if kind != "missing":
            occupied.add(path)
    systems = draw(st.sampled_from([(), (LMOD,)]))
    paths = user_files.paths() + [
        user_files.modulefile_path(kind, folder, desired, one.name)
        for kind, folder in systems
        for one in desired.environments
    ]
    seen = st.sampled_from([Seen(), Seen("file", "-- theirs\n", 0o644), Seen("link"), ours()])
    declared = draw(st.sampled_from([{}, {"folder": FOLDER, "links": [FOLDER + "/a"], "files": ["/x"]}, {"links": 7}]))
    there = bool(trees or halves or occupied) or draw(st.booleans())
    state = State(
        inputs=HERE,
        files=Files(
            found=tuple((path, draw(seen)) for path in paths) + (("/x", ours()),),
            missing_folders=() if there else ("/shared", FOLDER),
            former=tuple(declared.get("files", ())),
        ),
        declared=declared,
        folder=FOLDER,
        there=there,
        trees=tuple(sorted(trees, key=lambda one: one.path)),
        halves=tuple(Half(one, draw(st.booleans()) and draw(st.booleans())) for one in sorted(halves)),
        leftovers=draw(st.sampled_from([(), (FOLDER + "/.gpu_node.a.partial",)])),
        links=tuple(links),
        occupied=tuple(sorted(occupied)),
        shared=draw(st.booleans()),
        systems=systems,
        extensions=Folder("/scratch", True, draw(st.sampled_from(["ext4", "nfs4"]))),
    )
    going = may_go(state, desired)
    if going and draw(st.booleans()):
        state = dataclasses.replace(state, busy=((going[0].path, "process 1 (job)"),))
    return state, desired


def ours():
    return Seen("file", "-- " + managed_files.MARK + "\nold\n", 0o644)


def applied(state, desired, result):
    """The state after the actions of a plan, as the node would be."""
    trees, links, halves = list(state.trees), {one.path: one for one in state.links}, list(state.halves)
    declared, leftovers, there = dict(state.declared), list(state.leftovers), state.there
    wanted = {wish.path(FOLDER): wish for wish in wishes(state.inputs, desired)[0]}
    for action in result.actions:
        if isinstance(action, Declare):
            declared = dict(action.content or {})
        elif isinstance(action, MakeTop):
            there = True
        elif isinstance(action, BuildTree):
            # In a shared folder another node may be at it: the step looks once more.
            assert there and (state.shared or action.path not in [one.path for one in halves if one.worked_on])
            assert action.path not in state.occupied
            trees.append(tree_of(wanted[action.path], 1000))
        elif isinstance(action, PointLink):
            assert "{0}/{1}".format(FOLDER, action.target) in [one.path for one in trees], "it leads to nothing"
            links[action.path] = Link(action.path, "link", action.target)
        elif isinstance(action, RemoveLink):
            links[action.path] = Link(action.path)
        elif isinstance(action, RemoveTree):
            trees = [one for one in trees if one.path != action.path]
        elif isinstance(action, RemoveHalf):
            halves = [one for one in halves if one.path != action.path]
        elif isinstance(action, RemoveLeftover):
            leftovers.remove(action.path)
    return dataclasses.replace(
        state,
        files=managed_files.after(state.files, result.actions),
        declared=declared,
        there=there,
        trees=tuple(trees),
        links=tuple(links.values()),
        halves=tuple(halves),
        leftovers=tuple(leftovers),
    )


@examples(300)
@given(nodes())
def test_a_plan_applied_twice_is_empty_and_what_is_somebodys_stays(node):
    state, desired = node
    first = plan(state, desired)
    own = [one.path for one in state.trees]
    for action in first.actions:
        if isinstance(action, RemoveTree):
            assert action.path in own and action.path not in dict(state.busy) and not state.shared
        if isinstance(action, RemoveHalf):
            assert not [one for one in state.halves if one.path == action.path and one.worked_on]
        if isinstance(action, (RemoveFile, WriteFile)):
            assert not state.files.seen(action.path).foreign
        if isinstance(action, (PointLink, RemoveLink)):
            link = state.link(action.path)
            listed = state.declared.get("links")
            known = link.leads_to in own or action.path in (listed if isinstance(listed, list) else ())
            assert link.kind == "missing" or (link.kind == "link" and known)
    second = applied(state, desired, first)
    rest = plan(second, desired)
    assert not rest.actions and (first.refusals or not rest.refusals), (first, rest)
    if desired.present and not first.refusals:
        for wish in wishes(HERE, desired)[0]:
            assert wish.path(FOLDER) in [one.path for one in second.trees]
            leads_to = second.link("{0}/{1}".format(FOLDER, wish.name)).leads_to
            # Always to a whole build of it, and to this node's own unless nodes that differ share the folder.
            assert leads_to in [one.path for one in second.trees] and (leads_to == wish.path(FOLDER) or state.shared)
            former = [one for one in second.trees if one.name == wish.name and one.path != wish.path(FOLDER)]
            assert state.shared or len(former) <= desired.keep + len(state.busy)


def test_nodes_that_differ_do_not_switch_the_link_to_and_fro():
    desired = desired_of({"a": "x"})
    (here,), (there,) = wishes(HERE, desired)[0], wishes(THERE, desired)[0]
    link = Link(FOLDER + "/a", "link", there.path(FOLDER).rsplit("/", 1)[1])
    state = State(HERE, folder=FOLDER, there=True, trees=(tree_of(there),), links=(link,), systems=(LMOD,), shared=True)
    done = plan(state, desired)
    kinds = [type(one).__name__ for one in done.actions]
    assert "BuildTree" in kinds and "PointLink" not in kinds
    assert any("it leads to a build for Python 3.10, x86_64, CUDA 12" in one for one in done.notes)
    (module,) = [one for one in done.actions if isinstance(one, WriteFile)]
    assert here.path(FOLDER) in module.text
    # Another content takes the link over, whoever comes first.
    newer = plan(dataclasses.replace(state), desired_of({"a": "x>1"}))
    assert "PointLink" in [type(one).__name__ for one in newer.actions]


def test_another_folder_is_refused_while_the_former_one_has_environments():
    state = State(HERE, folder=FOLDER, former="/old/envs", declared={"folder": "/old/envs"})
    (refusal,) = plan(state, desired_of({"a": "x"})).refusals
    assert refusal.thing == "/old/envs" and "environments of ours lie there" in refusal.reason


def test_nothing_is_managed_where_nothing_is_declared():
    assert plan(State(), of(Desired, {})).skipped == "no environment is declared"

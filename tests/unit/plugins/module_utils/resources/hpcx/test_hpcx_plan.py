# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner of HPC-X on every state: planned twice it is empty, and nothing that is somebody's is touched."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import (
    Files,
    RemoveFile,
    Seen,
    WriteFile,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.trees import (
    Link,
    PointLink,
    RemoveLeftover,
    RemoveLink,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import hpcx
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.hpcx.choose import choose, may_go
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.hpcx.observe import possible_modulefiles
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.hpcx.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.hpcx.types import (
    InstallTree,
    RemoveTree,
    State,
    Tree,
)
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

SHA = "a" * 64
SOURCE = {"source": "https://mirror/hpcx.tbz?sig=secret", "sha256": SHA}
LMOD = ("lmod", "/etc/lmod/modules")
TCL = ("environment_modules", "/etc/environment-modules/modules")
LINK = "/opt/hpcx/current"
OURS = [Tree("/opt/hpcx/" + version, version, SHA, number) for number, version in enumerate(("2.9", "2.23", "2.24.1"))]
FORMER = Tree("/old/hpcx/2.8", "2.8", SHA, 7)
FOUND = [Tree("/opt/hpcx-v2.18", "2.18"), Tree("/opt/hpcx-v2.24.1", "2.24.1"), Tree("/usr/local/hpcx", None)]


def applied(state, desired, result):
    """The state after the actions of a plan, as the node would be."""
    declared, trees, links = dict(state.declared), list(state.trees), {one.path: one for one in state.links}
    leftovers, prefix, occupied = list(state.leftovers), state.prefix, state.occupied
    for action in result.actions:
        if isinstance(action, Declare):
            declared = dict(action.content or {})
        elif isinstance(action, InstallTree):
            assert prefix in ("missing", "folder") and not occupied
            trees.append(Tree(action.path, action.version, action.sha256, 1000))
            prefix = "folder"
        elif isinstance(action, PointLink):
            links[action.path] = Link(action.path, "link", action.target)
        elif isinstance(action, RemoveLink):
            links[action.path] = Link(action.path)
        elif isinstance(action, RemoveTree):
            trees = [one for one in trees if one.path != action.path]
        elif isinstance(action, RemoveLeftover):
            leftovers.remove(action.path)
    return dataclasses.replace(
        state,
        files=managed_files.after(state.files, result.actions),
        declared=declared,
        trees=tuple(trees),
        links=tuple(links.values()),
        leftovers=tuple(leftovers),
        prefix=prefix,
    )


@st.composite
def nodes(draw):
    """A node and a wish, each as odd as it may be."""
    desired = hpcx.Desired(
        present=draw(st.booleans()),
        **draw(st.sampled_from([{}, SOURCE, {"source": "/srv/other.tbz", "sha256": "b" * 64}])),
        version=draw(st.sampled_from(["2.24.1", "2.23", "2.18", "3.0"])),
        keep=draw(st.integers(0, 2)),
        adopt=draw(st.sampled_from(("same_version", "any", "never"))),
        modulefiles=draw(st.sampled_from(("auto", "lmod", "environment_modules", "none"))),
    )
    if not desired.source and draw(st.booleans()):
        desired = dataclasses.replace(desired, version="")
    trees = tuple(draw(st.sets(st.sampled_from(OURS + [FORMER]))))
    found = tuple(draw(st.sets(st.sampled_from(FOUND))))
    systems = tuple(sorted(draw(st.sets(st.sampled_from([LMOD, TCL])))))
    if desired.modulefiles != "auto":
        systems = tuple(one for one in [LMOD, TCL] if one[0] == desired.modulefiles)
    paths = possible_modulefiles(systems, desired, [one.version for one in trees + found] + [desired.version])
    seen = st.sampled_from([Seen(), Seen("file", "-- theirs\n", 0o644), Seen("link"), ours()])
    declared = draw(st.sampled_from([{}, {"link": LINK, "prefixes": ["/old/hpcx"], "files": ["/x"]}, {"link": 7}]))
    links = [Link(LINK, *draw(st.sampled_from([("missing", ""), ("other", ""), ("link", "2.23"), ("link", "/srv")])))]
    if FORMER in trees:
        links.append(Link("/old/hpcx/current", "link", "2.8"))
    state = State(
        files=Files(
            found=tuple((path, draw(seen)) for path in paths) + (("/x", ours()),),
            missing_folders=draw(st.sampled_from([(), ("/opt/hpcx",), ("/etc/lmod/modules/mpi", "/opt/hpcx")])),
            former=tuple(declared.get("files", ())),
        ),
        declared=declared,
        trees=trees,
        found=found,
        links=tuple(links),
        prefix=draw(st.sampled_from(["folder", "missing", "hpcx", "other"])),
        occupied=draw(st.booleans()) and "/opt/hpcx/" + desired.version not in [one.path for one in trees],
        leftovers=draw(st.sampled_from([(), ("/opt/hpcx/.gpu_node.download.partial",)])),
        systems=systems,
    )
    if draw(st.booleans()):
        some = may_go(state, desired)[:1]
        state = dataclasses.replace(state, busy=tuple((one.path, "process 1 (job)") for one in some))
    return state, desired


def ours():
    return Seen("file", "-- " + managed_files.MARK + "\nold\n", 0o644)


@examples(200)
@given(nodes())
def test_a_plan_applied_twice_is_empty_and_what_is_somebodys_stays(node):
    state, desired = node
    first = plan(state, desired)
    for action in first.actions:
        if isinstance(action, (RemoveTree, RemoveLeftover)):
            assert action.path in [one.path for one in state.trees] + list(state.leftovers)
            assert action.path not in dict(state.busy)
        if isinstance(action, (RemoveFile, WriteFile)):
            assert not state.files.seen(action.path).foreign
        if isinstance(action, (PointLink, RemoveLink)):
            link = state.link(action.path)
            assert (
                link.kind == "missing" or (link.kind == "link" and link.target != "/srv") or state.declared.get("link")
            )
            assert link.kind != "other"
        assert "secret" not in str(action.to_dict())
    second = applied(state, desired, first)
    rest = plan(second, desired)
    assert not rest.actions and (first.refusals or not rest.refusals), (first, rest)
    if desired.present and first.actions and not rest.skipped:
        tree = choose(second, desired).tree
        assert tree in second.trees + second.found and tree.path not in [
            one.path for one in first.actions if isinstance(one, RemoveTree)
        ]
    if not desired.present and not first.refusals:
        assert not second.trees and not second.leftovers and not second.declared


def chosen(state, **options):
    return choose(state, hpcx.Desired(**options))


def test_which_one_jobs_get():
    image, mine = State(found=tuple(FOUND)), State(trees=tuple(OURS), found=tuple(FOUND))
    assert chosen(image).tree.path == "/opt/hpcx-v2.24.1"
    assert chosen(image, version="2.18").tree.path == "/opt/hpcx-v2.18"
    assert chosen(mine).tree.path == "/opt/hpcx/2.24.1"  # by number, not by letter: 2.9 is older
    assert chosen(dataclasses.replace(mine, links=(Link(LINK, "link", "2.9"),))).tree.version == "2.9"
    assert chosen(image, **SOURCE, version="2.24.1").adopted
    assert chosen(image, **SOURCE, version="2.24.1", adopt="never").install
    assert chosen(image, **SOURCE, version="2.25").tree.path == "/opt/hpcx/2.25"
    assert chosen(image, **SOURCE, version="2.25", adopt="any").tree.version == "2.24.1"
    assert chosen(image, version="2.25").refusal and chosen(image, adopt="never").tree is None
    assert "no source is given" in plan(State(), hpcx.Desired()).skipped


def test_the_modulefile_names_the_version_and_not_the_link():
    state = State(trees=tuple(OURS), systems=(LMOD,), links=(Link(LINK, "link", "2.23"),))
    texts = {one.path: one.text for one in plan(state, hpcx.Desired(keep=2)).actions if isinstance(one, WriteFile)}
    assert sorted(texts) == [
        "/etc/lmod/modules/mpi/hpcx{0}.lua".format(name) for name in ("-2.23", "-2.24.1", "-2.9", "")
    ]
    assert 'local root = "/opt/hpcx/2.23"' in texts["/etc/lmod/modules/mpi/hpcx.lua"]
    assert not any("current" in text for text in texts.values())


@pytest.mark.parametrize(
    "options, told",
    [
        ({"version": "latest"}, "'latest' is no version"),
        (SOURCE, "option source: it is nothing without option"),
        ({"prefix": "opt"}, "no absolute path"),
        ({"prefix": "/"}, "no absolute path"),
        ({"prefix": "/opt/../etc"}, "no absolute path"),
        ({"prefix": "/opt/$x"}, "no absolute path"),
        ({"adopt": "yes"}, "use one of same_version, any, never"),
        ({"adopt_paths": ("hpcx-*",)}, "no absolute path or pattern"),
        ({"modulefiles": "tcl"}, "use one of auto, lmod"),
        ({"module_name": "mpi hpcx"}, "no name of a module"),
        ({"conflicts": ("a;b",)}, "no name of a module"),
        ({"keep": -1}, "out of range"),
        ({"timeout_seconds": 0}, "out of range"),
        ({"ucx": {"TLS": "rc"}}, "no setting of UCX"),
        ({"environment": {"PATH": "/x"}}, "no variable that can be set here"),
        ({"environment": {"A B": "x"}}, "no variable that can be set here"),
        ({"environment": {"A": "x\ny"}}, "no single line"),
        ({"environment": {"A": ["x"]}}, "no single line"),
    ],
)
def test_a_wrong_option_is_one_sentence(options, told):
    with pytest.raises(NodeError) as error:
        hpcx.Desired(**options)
    assert told in str(error.value)


def test_which_variables_win():
    desired = of(
        hpcx.Desired,
        {
            "version": "v2.24.1",
            "ucx": {"UCX_TLS": "rc", "UCX_IB_PCI_RELAXED_ORDERING": True},
            "environment": {"UCX_TLS": "tcp", "OMPI_MCA_pml": "ob1"},
        },
    )
    assert desired.version == "2.24.1" and hpcx.Desired(hcoll=True).variables["OMPI_MCA_coll_hcoll_enable"] == "1"
    assert desired.variables == {
        "OMPI_MCA_btl": "^openib",
        "OMPI_MCA_coll_hcoll_enable": "0",
        "OMPI_MCA_opal_warn_on_missing_libcuda": "0",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_pml_ucx_devices": "any",
        "OMPI_MCA_pml_ucx_tls": "any",
        "UCX_IB_PCI_RELAXED_ORDERING": "1",
        "UCX_TLS": "tcp",
    }


def test_what_other_nodes_run_from_stays():
    mine = State(
        trees=tuple(OURS),
        links=(Link(LINK, "link", "2.23"),),
        leftovers=("/opt/hpcx/.gpu_node.x.partial",),
        shared=("/opt/hpcx",),
        declared={"prefixes": ["/opt/hpcx"], "link": LINK},
    )
    assert {tree.path.rpartition("/")[0] for tree in OURS} == {"/opt/hpcx"}
    away = plan(mine, hpcx.Desired(present=False))
    assert [type(one).__name__ for one in away.actions] == ["Declare"]
    assert [note.partition(":")[0] for note in away.notes] == [tree.path for tree in OURS]
    alone = plan(dataclasses.replace(mine, shared=()), hpcx.Desired(present=False))
    assert {"RemoveTree", "RemoveLink", "RemoveLeftover"} <= {type(one).__name__ for one in alone.actions}

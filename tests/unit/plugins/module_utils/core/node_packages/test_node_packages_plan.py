# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages are fetched, installed and removed: golden plans, and properties over every state of a node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import node_packages
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.node_packages import Installed, Package, Packages
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.node_packages.observe import (
    dpkg_answer,
    rpm_answer,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.node_packages.types import Record, records
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError

SUM = "ab" * 32
ENROOT = Package("enroot", "4.1.2-1", "https://mirror.example/enroot_4.1.2-1_amd64.deb", SUM)
CAPS = Package("enroot+caps", "4.1.2-1", "/srv/enroot+caps_4.1.2-1_amd64.deb", "cd" * 32)
WANTED = (ENROOT, CAPS)


def applied(state, wanted):
    section = node_packages.remembered(state, wanted)
    actions = [*node_packages.fetch(state, wanted), Declare("x", section), *node_packages.install(state, wanted)]
    return node_packages.after(state, actions)


NAMES = st.sampled_from(["enroot", "enroot+caps"])
VERSIONS = st.sampled_from(["4.1.2-1", "3-1"])
INSTALLED = st.lists(
    st.builds(Installed, NAMES | st.just("site-tool"), VERSIONS, st.booleans()),
    max_size=3,
    unique_by=lambda one: one.name,
)
RECORDS = st.lists(
    st.builds(Record, NAMES, VERSIONS, st.sampled_from(["", "2-1"]), st.sampled_from(["", "3-1", "4.1.2-1"])),
    max_size=2,
    unique_by=lambda one: one.name,
)
STATES = st.builds(
    lambda manager, found, newer, kept: Packages(manager, tuple(found), tuple(newer), tuple(kept)),
    st.sampled_from([None, "dpkg", "rpm"]),
    INSTALLED,
    st.lists(st.sampled_from(["enroot", "enroot+caps"]), unique=True),
    RECORDS,
)
SOME = st.lists(st.sampled_from(WANTED), unique=True)


@given(STATES, SOME, st.booleans())
def test_applied_twice_it_is_empty_and_what_is_refused_is_not_done(state, wanted, allowed):
    if node_packages.refusals(state, wanted, allowed):
        return
    made = applied(state, wanted)
    assert node_packages.fetch(made, wanted) == [] == node_packages.install(made, wanted)
    assert not node_packages.refusals(made, wanted, allowed)
    assert node_packages.remembered(made, wanted) == node_packages.remembered(state, wanted)


@given(STATES, SOME, SOME)
def test_each_that_is_installed_was_fetched_and_verified_before(state, wanted, others):
    fetched = [one.package for one in node_packages.fetch(state, wanted)]
    assert [package for one in node_packages.install(state, wanted) for package in one.packages] == fetched


@given(STATES, SOME)
def test_only_what_was_not_there_before_us_is_ever_removed(state, wanted):
    there = {one.name for one in state.found}
    kept = {one.name for one in state.records}
    made = applied(state, wanted)
    for action in node_packages.remove(made):
        for name in action.names:
            assert name in kept or name not in there
    gone = node_packages.after(made, node_packages.remove(made))
    assert node_packages.remove(gone) == []
    node_packages.kept_notes(made)


def test_a_newer_one_a_wrong_kind_and_no_package_manager_are_refused():
    newer = Packages("dpkg", (Installed("enroot", "5-1"),), ("enroot",))
    assert [str(one) for one in node_packages.refusals(newer, WANTED)] == [
        "package enroot 4.1.2-1: the newer 5-1 is installed; allow the downgrade, or ask for that version."
    ]
    assert not node_packages.refusals(newer, WANTED, allow_downgrade=True)
    assert "is not for this node, whose package manager is rpm" in str(
        node_packages.refusals(Packages("rpm"), WANTED)[0]
    )
    assert "neither dpkg nor rpm" in str(node_packages.refusals(Packages(), WANTED)[0])


def test_one_that_is_wanted_no_more_stays_ours():
    made = applied(Packages("dpkg"), WANTED)
    later = applied(made, ())
    assert later == made
    assert [one.names for one in node_packages.remove(later)] == [("enroot", "enroot+caps")]


def test_an_upgrade_that_failed_is_forgotten_by_nobody():
    """The wish is declared before anything is installed; what was ours until then is still ours."""
    made = applied(Packages("dpkg"), (ENROOT,))
    for version in ("4.2.0-1", "4.3.0-1"):
        wish = Package("enroot", version, ENROOT.source, SUM)
        failed = Declare("x", node_packages.remembered(made, (wish,)))
        made = node_packages.after(made, [failed])
        assert made.installed("enroot") == Installed("enroot", "4.1.2-1")
        assert [one.names for one in node_packages.remove(made)] == [("enroot",)]
        assert node_packages.kept_notes(made) == ()
    assert node_packages.remembered(made, (wish,)) == failed.content


def test_one_that_somebody_exchanged_since_stays():
    made = applied(Packages("dpkg"), (ENROOT,))
    exchanged = Packages("dpkg", (Installed("enroot", "5-1"),), (), made.records)
    assert node_packages.remove(exchanged) == []
    assert node_packages.kept_notes(exchanged) == (
        "package enroot stays: it was installed here in version 4.1.2-1, and somebody made it 5-1",
    )


def test_each_machine_gets_its_own_file():
    arm = Package("enroot", "4.1.2-1", "/srv/enroot_arm64.deb", SUM, "arm64")
    intel = Package("enroot", "4.1.2-1", "/srv/enroot_amd64.deb", SUM, "amd64")
    assert node_packages.for_machine([arm, intel, CAPS], "x86_64") == (intel, CAPS)
    assert node_packages.for_machine([arm, intel], "aarch64") == (arm,)
    with pytest.raises(NodeError, match="no file is given for the architecture aarch64"):
        node_packages.for_machine([intel], "aarch64")
    with pytest.raises(NodeError, match="more than one file"):
        node_packages.for_machine([intel, ENROOT], "x86_64")


@pytest.mark.parametrize(
    "change, told",
    [
        ({"name": "en root"}, "no name of a package"),
        ({"name": "-f"}, "no name of a package"),
        ({"version": ""}, "is no version of a package"),
        ({"version": "1;rm"}, "is no version of a package"),
        ({"sha256": "12"}, "64 hexadecimal digits"),
        ({"source": "enroot.deb"}, "no URL and no path"),
        ({"source": "https://mirror.example/enroot.tar.gz"}, "is no .deb and no .rpm"),
        ({"architecture": "mips"}, "its architecture 'mips' is not known"),
    ],
)
def test_a_wrong_element_is_one_sentence(change, told):
    given_ = {"name": "enroot", "version": "4.1.2-1", "source": ENROOT.source, "sha256": SUM, "architecture": "amd64"}
    assert of(Package, given_).architecture == "x86_64"
    with pytest.raises(NodeError, match=told):
        of(Package, dict(given_, **change))


def test_answers_of_dpkg_and_rpm():
    text = "enroot\t4.1.2-1\tii \nheld\t1\thi \nhalf\t1\tiU \nbroken\t1\tiF \n"
    text += "bad\t1\tiiR\nrest\t1\trc \ngone\t\tun \nodd\n"
    assert dpkg_answer(text) == (
        Installed("enroot", "4.1.2-1"),
        Installed("held", "1"),
        Installed("half", "1", whole=False),
        Installed("broken", "1", whole=False),
        Installed("bad", "1", whole=False),
    )
    assert rpm_answer("enroot\t4.1.2-1.el8\npackage enroot+caps is not installed\nx\t2:1-1\n") == (
        Installed("enroot", "4.1.2-1.el8"),
        Installed("x", "2:1-1"),
    )


def test_a_declaration_that_somebody_edited_is_read_as_far_as_it_makes_sense():
    section = {"packages": {"enroot": {"version": "1"}, "a b": {"version": "1"}, "x": 7, "y": {"version": None}}}
    assert records(section) == (Record("enroot", "1"),)
    assert records({"packages": [1]}) == records({}) == ()

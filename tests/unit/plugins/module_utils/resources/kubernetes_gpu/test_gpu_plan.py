# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps for the GPU nodes of a cluster: what is refused, what helm does, and in which order."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.helm import Release
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu import Desired, chart
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu.marks import Node
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu.types import (
    Cluster,
    SeenNode,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu.values import values

ON_HOST = {"name": "n1", "host_driver": True, "host_toolkit": True}
SEEN = Cluster(nodes=(SeenNode("n1", "7", Node(), ()),))


def wish(*nodes, **given):
    return of(Desired, {"nodes": list(nodes) or [ON_HOST], **given})


HELM = wish(apply="helm")
THERE = Release(chart.VERSION, "deployed", True, values(HELM))


def steps(release, desired=HELM):
    made = plan(State(cluster=SEEN, release=release), desired)
    assert not made.refusals, made.refusals
    return [type(one).__name__ for one in made.actions]


def refusals(release, desired=HELM):
    made = plan(State(cluster=SEEN, release=release), desired)
    assert not made.refusals or not made.actions
    return " ".join("{0}: {1}".format(one.thing, one.reason) for one in made.refusals)


def test_the_release_comes_before_the_taint():
    assert steps(None) == ["UpgradeRelease", "MarkNode"]
    assert steps(THERE) == ["MarkNode"] == steps(None, wish())


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "uninstalled"},
        {"state": "failed"},
        {"state": "superseded"},
        {"version": "v26.3.0"},
        {"values": {**THERE.values, "operator": {"upgradeCRD": False}}},
        {"values": {key: value for key, value in THERE.values.items() if key != "cdi"}},
    ],
)
def test_a_release_that_is_otherwise_is_upgraded(changed):
    assert steps(replaced(THERE, **changed)) == ["UpgradeRelease", "MarkNode"]


def test_a_release_that_was_uninstalled_is_installed_whole():
    (step, dummy) = plan(State(cluster=SEEN, release=replaced(THERE, state="uninstalled")), HELM).actions
    assert step.before == "" and step.keys == ()


@pytest.mark.parametrize("state", ["pending-upgrade", "pending-install", "uninstalling"])
def test_another_helm_at_work_is_not_disturbed(state):
    assert "it is {0}, so another helm is at work".format(state) in refusals(replaced(THERE, state=state))


def test_values_of_others_are_lost_only_where_it_is_asked_for():
    theirs = replaced(THERE, ours=False, values={**THERE.values, "operator": {"upgradeCRD": False}})
    assert "these values of it would be lost: operator.upgradeCRD" in refusals(theirs)
    assert not refusals(replaced(theirs, ours=True)) and not refusals(replaced(theirs, values=THERE.values))
    assert not refusals(theirs, wish(apply="helm", take_over=True))
    assert not refusals(theirs, wish(apply="helm", values={"operator": {"upgradeCRD": True}}))


def test_what_is_not_known_of_the_nodes_stops_values_and_nothing_else():
    unknown = {"name": "n1"}
    assert "it is not known" in refusals(None, wish(unknown, apply="helm"))
    assert "it is not known" in refusals(None, wish(unknown, folder="/srv/x"))
    assert not refusals(None, wish(unknown))
    # One thing at a time: what helm would lose is judged of values that are known.
    assert "pending" not in refusals(replaced(THERE, state="pending-upgrade"), wish(unknown, apply="helm"))


def test_a_file_of_others_in_the_folder_stops_it(tmp_path):
    (tmp_path / "gpu-operator-values.yaml").write_text("theirs: true\n")
    desired = wish(folder=str(tmp_path))
    paths = [str(tmp_path / name) for name in ("gpu-operator-values.yaml", "gpu-node-marks.sh")]
    seen = managed_files.observe(Host(), paths, {})
    assert "gpu-operator-values.yaml" in plan(State(seen, SEEN), desired).refusals[0].thing
    gone = plan(State(seen, SEEN), replaced(desired, present=False))
    assert not gone.refusals and not gone.actions and "gpu-operator-values.yaml" in gone.notes[0]

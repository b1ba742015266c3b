# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which drains of ours end when their machines are gone: by hand, over every state, and before a stand-in of Slurm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node import sweep
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.slurm_stand_in import Cluster

GONE = "IDLE+CLOUD+DRAIN+POWERED_DOWN"
HEALTH = "gpu_node: health: GPU 3 (0000:0b:00.0): it is lost"


def node(state, reason=None):
    return SlurmNode(frozenset(state.split("+")), reason)


@pytest.mark.parametrize(
    "state, reason, swept, left",
    [
        (GONE, HEALTH, True, False),
        (GONE, "gpu_node: scratch /mnt/resource_nvme: it is not mounted", True, False),
        (GONE, "gpu_node: rolling: failed: GPU 3 is slow (active)", True, False),
        (GONE + "+NOT_RESPONDING", HEALTH, True, False),
        # It would go back to somebody else's drain.
        (GONE, "gpu_node: rolling: being converged; before: anna: new memory", False, True),
        # The same machine comes back.
        ("IDLE+DRAIN+POWERED_DOWN", HEALTH, False, True),
        ("DOWN+CLOUD+DRAIN+POWERED_DOWN", HEALTH, False, True),
        # Of others, or not powered down.
        (GONE, "anna: new memory", False, False),
        (GONE, None, False, False),
        ("IDLE+CLOUD+DRAIN", HEALTH, False, False),
        ("IDLE+CLOUD+DRAIN+POWERING_DOWN", HEALTH, False, False),
        ("IDLE+CLOUD+DRAIN+POWERING_UP", HEALTH, False, False),
        ("IDLE+CLOUD+POWERED_DOWN", HEALTH, False, False),
    ],
)
def test_whose_drain_ends(state, reason, swept, left):
    found = sweep.plan({"gpu01": node(state, reason)}, 20.0)
    assert (found.names == ("gpu01",), [name for name, dummy in found.left] == ["gpu01"]) == (swept, left)


FLAGS = ("IDLE", "MIXED", "DOWN", "CLOUD", "DRAIN", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "FAIL")
NODES = st.builds(
    SlurmNode,
    st.frozensets(st.sampled_from(FLAGS), min_size=1),
    st.sampled_from((None, HEALTH, "anna: new memory", "gpu_node: rolling: x; before: anna: y")),
)


@given(st.dictionaries(st.sampled_from(["gpu{0:02}".format(n) for n in range(30)]), NODES), st.floats(0, 100))
def test_only_ours_on_machines_that_are_gone_and_never_more_than_the_share(nodes, percent):
    clouds = sum("CLOUD" in one.flags for one in nodes.values())
    try:
        found = sweep.plan(nodes, percent)
    except NodeError as error:
        assert "may come back at once" in str(error)
        return
    assert len(found.names) <= max(1, clouds * percent / 100)
    for name in found.names:
        assert {"CLOUD", "DRAIN", "POWERED_DOWN"} <= nodes[name].flags and nodes[name].reason == HEALTH
        assert not nodes[name].flags & {"DOWN", "FAIL"}


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    found = Cluster(tmp_path / "bin", ["gpu{0:02}".format(number) for number in range(10)])
    for name in found.names:
        found.set(name, "IDLE+CLOUD")
    monkeypatch.setenv("PATH", "{0}:/usr/bin:/bin".format(found.folder))
    return found


def test_check_real_check_real(cluster):
    for name, reason in (("gpu01", HEALTH), ("gpu02", HEALTH), ("gpu03", "anna: new memory")):
        cluster.set(name, GONE, reason, partitions=["gpu", "all"])
    planned = sweep.run(Host(), 20.0, check_mode=True)
    assert planned.names == ("gpu01", "gpu02") and cluster.drained == ["gpu01", "gpu02", "gpu03"]
    assert sweep.run(Host(), 20.0) == planned and cluster.drained == ["gpu03"]
    assert cluster.node("gpu01") == ("IDLE+CLOUD+POWERED_DOWN", "")
    assert sweep.run(Host(), 20.0).names == ()
    calls = cluster.calls
    assert sum("update" in call for call in calls) == 1
    assert all(" --local " in call for call in calls if call.startswith("sinfo"))


def test_a_reason_that_slurm_keeps_is_ours_no_more(cluster):
    cluster.change(keeps_reasons=True)
    cluster.set("gpu01", GONE, HEALTH)
    assert sweep.run(Host(), 20.0).names == ("gpu01",)
    assert cluster.node("gpu01") == ("IDLE+CLOUD+POWERED_DOWN", "resumed by gpu-node")


def test_with_more_than_the_share_nothing_is_done(cluster):
    for name in ("gpu01", "gpu02", "gpu03"):
        cluster.set(name, GONE, HEALTH)
    with pytest.raises(NodeError, match=r"3 of 10 cloud nodes: so many are powered down with a drain of ours"):
        sweep.run(Host(), 20.0)
    assert cluster.drained == ["gpu01", "gpu02", "gpu03"]
    assert len(sweep.run(Host(), 50.0).names) == 3


def test_a_slurmctld_that_does_not_answer_is_told(cluster):
    cluster.down()
    with pytest.raises(NodeError, match="slurmctld: it does not answer"):
        sweep.run(Host(), 20.0)


@pytest.mark.parametrize("state", ["DOWN", "FAIL", "FAILING"])
def test_a_node_that_is_down_as_well_stays(state):
    found = sweep.plan({"gpu01": SlurmNode(frozenset(GONE.split("+")) | {state}, HEALTH)}, 100.0)
    assert found.names == () and found.left == (("gpu01", "it is down as well, which is not ours to end"),)


def test_with_0_percent_not_even_one_comes_back():
    with pytest.raises(NodeError, match="1 of 1 cloud nodes"):
        sweep.plan({"gpu01": SlurmNode(frozenset(GONE.split("+")), HEALTH)}, 0.0)

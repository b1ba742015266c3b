# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sharing of GPUs in a cluster: written through the real kubectl, to a stand-in for the API."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refused, Unfinished
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import result, run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_sharing import RESOURCE, Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_sharing.observe import used
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Fault

GPU = "nvidia.com/gpu"
LABEL = "nvidia.com/device-plugin.config"
OURS = "trainyard.io/gpu-sharing-config"
CONFIGS = {"slice-4": {"time_slicing": {GPU: 4}}, "slice-2": {"time_slicing": {GPU: 2}}}


def node(name, label=None, offers="8", **annotations):
    labels = {"kubernetes.io/hostname": name, GPU + ".count": "8", GPU + ".replicas": "1", GPU + ".product": "A100"}
    labels.update({LABEL: label} if label else {})
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "status": {"capacity": {"cpu": "96", "memory": "900Gi", GPU: offers}},
    }


def plugin(config_map="gpu-node-sharing"):
    volumes = [{"name": "x", "emptyDir": {}}, {"name": "available-configs", "configMap": {"name": config_map}}]
    metadata = {"name": "nvidia-device-plugin-daemonset", "namespace": "gpu-operator"}
    return {"metadata": metadata, "spec": {"template": {"spec": {"volumes": volumes}}}}


@pytest.fixture
def share(quick_api, tmp_path):
    path = quick_api.kubeconfig(tmp_path / "kubeconfig")

    def go(nodes, check=False, **given):
        entries = [dict(zip(("name", "config"), one if isinstance(one, tuple) else (one,))) for one in nodes]
        asked = {"configs": CONFIGS, "nodes": entries, "kubeconfig": path, "context": "test", "seconds": 30, **given}
        desired = of(Desired, asked)
        told = result(run(Host(), RESOURCE, desired, check), RESOURCE, desired)
        assert "a-token-of-a-test" not in str(told)
        return told

    return go


def labels(api, *names):
    return [api.get("nodes", name)["metadata"]["labels"].get(LABEL) for name in names]


def test_check_real_check_real_absent(api, share):
    for name in ("n1", "n2", "n3"):
        api.add("nodes", node(name))
    api.add("daemonsets", plugin())
    wanted = [("n1", "slice-4"), ("n2", "slice-4"), "n3", ("n4", "slice-2")]

    told = share(wanted, check=True)
    assert told["changed"] and not api.written() and api.get("configmaps", "gpu-node-sharing", "gpu-operator") is None
    assert "node n1: nvidia.com/device-plugin.config=slice-4" in told["diff"]["after"]
    assert "nvidia.com/device-plugin.config=" not in told["diff"]["before"]

    real = share(wanted)
    assert (
        real["changed"]
        and real["actions"] == told["actions"]
        and labels(api, "n1", "n2", "n3") == ["slice-4"] * 2 + [None]
    )
    made = api.get("configmaps", "gpu-node-sharing", "gpu-operator")
    assert set(made["data"]) == {"whole", "slice-2", "slice-4"} and "replicas: 4" in made["data"]["slice-4"]
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "trainyard.gpu_node"}
    assert [one["pending"] for one in real["nodes"]] == [False, False, False, True]
    assert real["nodes"][0]["capacity_expected"] == {GPU: 32} and not real["nodes"][0]["in_force"]

    api.requests.clear()
    for check in (True, False):
        again = share(wanted, check=check)
        assert not again["changed"] and not api.written() and again["diff"]["before"] == again["diff"]["after"]
        assert not [one for one in api.requests if one.endswith("/pods")]  # of use before a change alone

    # The plugin has read its config, and a node has joined.
    changed = api.get("nodes", "n1")
    changed["status"]["capacity"][GPU] = "32"
    api.add("nodes", changed)
    api.add("nodes", node("n4"))
    told = share(wanted)
    assert told["nodes"][0]["in_force"] and labels(api, "n4") == ["slice-2"]

    told = share([one[0] if isinstance(one, tuple) else one for one in wanted], state="absent")
    assert labels(api, "n1", "n2", "n3", "n4") == [None] * 4 and told["changed"]
    assert not any(OURS in api.get("nodes", name)["metadata"]["annotations"] for name in ("n1", "n2", "n3", "n4"))
    # Pods mount it: without it none of them would start again.
    assert api.get("configmaps", "gpu-node-sharing", "gpu-operator") and "stays" in told["notes"][0]
    api.remove("daemonsets", "nvidia-device-plugin-daemonset", "gpu-operator")
    assert share([], state="absent")["changed"]
    assert api.get("configmaps", "gpu-node-sharing", "gpu-operator") is None
    api.requests.clear()
    assert not share([], state="absent")["changed"] and not api.written()


def test_what_others_have_on_the_objects_stays(api, share):
    api.add("nodes", node("n1", other="theirs"))
    share([("n1", "slice-4")])
    made = api.get("configmaps", "gpu-node-sharing", "gpu-operator")
    made["metadata"]["labels"]["team"] = "theirs"
    made["metadata"]["annotations"] = {"tool": "theirs"}
    api.add("configmaps", made)
    share([("n1", "slice-4")], configs=dict(CONFIGS, more={"mps": {GPU: 2}}))
    made = api.get("configmaps", "gpu-node-sharing", "gpu-operator")
    assert (
        "more" in made["data"]
        and made["metadata"]["labels"]["team"] == made["metadata"]["annotations"]["tool"] == "theirs"
    )
    seen = api.get("nodes", "n1")["metadata"]
    assert (
        seen["annotations"] == {"other": "theirs", OURS: "slice-4"} and seen["labels"]["kubernetes.io/hostname"] == "n1"
    )


def test_a_label_that_was_set_by_hand_is_left_when_ours_go(api, share):
    """As the users of seed clusters do it: kubectl label node N nvidia.com/device-plugin.config=slice-4."""
    api.add("nodes", node("n1", "slice-4"))
    api.add("nodes", node("n2"))
    share(["n1", ("n2", "slice-4")])
    told = share(["n1", "n2"], state="absent")
    assert labels(api, "n1", "n2") == ["slice-4", None] and "n1 is labelled by somebody else" in told["notes"][0]


def test_each_node_gets_label_and_annotation_in_one_request_of_a_manager_of_its_own(api, share):
    names = ["n{0}".format(number) for number in range(10)]
    for name in names:
        api.add("nodes", node(name))
    share([(name, "slice-4") for name in names])
    patches = [one for one in api.requests if one.startswith("PATCH")]
    assert sorted(patches) == sorted("PATCH /api/v1/nodes/" + name for name in names)
    assert set(api.managers) == {"trainyard-gpu-node"}
    share(names)
    assert set(api.managers) == {"trainyard-gpu-node"} and labels(api, *names) == [None] * 10


def test_a_run_where_some_nodes_fail_names_them_and_the_next_run_does_only_these(api, share):
    for name in ("n1", "n2", "n3", "n4"):
        api.add("nodes", node(name))
    wanted = [(name, "slice-4") for name in ("n1", "n2", "n3", "n4")]
    api.faults += [Fault("PATCH .*/n2", 500, "no", times=1), Fault("PATCH .*/n4", 500, "no", times=1)]
    with pytest.raises(Unfinished) as failed:
        share(wanted)
    assert "nodes n2, n4: kubectl patch node: no" in str(failed.value)
    assert "The label of n2, n4 could not be changed." in str(failed.value)
    assert labels(api, "n1", "n2", "n3", "n4") == ["slice-4", None, "slice-4", None]
    api.requests.clear()
    share(wanted)
    assert sorted(api.written()) == ["PATCH /api/v1/nodes/n2", "PATCH /api/v1/nodes/n4"]
    assert labels(api, "n2", "n4") == ["slice-4"] * 2 and not share(wanted)["changed"]


@pytest.mark.parametrize("named", [True, False])
def test_nodes_that_an_earlier_version_left_half_done_are_ours(api, share, named):
    """It wrote 200 annotations, ended at its time limit, and wrote the labels."""
    share([])
    halves = {"a": (None, {OURS: "slice-4"}), "b": ("slice-4", {}), "c": ("slice-4", {OURS: "slice-2"})}
    for name, (label, ours) in halves.items():
        api.add("nodes", node(name, label, **ours))
    wanted = [(name, "slice-4") for name in halves]
    if named:  # the next run goes on
        told = share(wanted)
        assert "somebody else" not in " ".join(told["notes"]) and labels(api, *halves) == ["slice-4"] * 3
        assert all(api.get("nodes", one)["metadata"]["annotations"] == {OURS: "slice-4"} for one in halves)
    share(wanted, state="absent")
    assert labels(api, *halves) == [None] * 3
    assert not any(api.get("nodes", one)["metadata"]["annotations"] for one in halves)


def test_an_api_that_is_away_is_not_asked_for_each_node(api, share):
    names = ["n{0:02}".format(number) for number in range(40)]
    for name in names:
        api.add("nodes", node(name))
    api.faults.append(Fault("PATCH .*", 401, "no"))
    with pytest.raises(Unfinished, match="nodes n00, n01, n02, n03, n04 and 35 more: .* renew the credentials"):
        share([(name, "slice-4") for name in names])
    assert 8 <= len([one for one in api.requests if one.startswith("PATCH")]) < 20


@pytest.mark.parametrize("request_, nth", [("PUT .*/configmaps/.*", 1), ("GET .*/configmaps/.*", 2)])
def test_somebody_changes_the_config_map_at_the_same_time(api, share, request_, nth):
    """Just before it is replaced, and between our look at it and the step."""
    share([])
    times = iter(range(1, 100))

    def other():
        if next(times) != nth:
            return
        made = api.get("configmaps", "gpu-node-sharing", "gpu-operator")
        made["data"]["theirs"] = "version: v1\n"
        api.add("configmaps", made)

    api.add("nodes", node("n1"))
    api.faults.append(Fault(request_, first=other))
    with pytest.raises(NodeError, match="somebody else changed it at the same time .* run it again"):
        share([("n1", "slice-4")], configs=dict(CONFIGS, more={"mps": {GPU: 2}}))
    made = api.get("configmaps", "gpu-node-sharing", "gpu-operator")
    assert "theirs" in made["data"] and "more" not in made["data"] and labels(api, "n1") == [None]


def test_somebody_makes_or_takes_the_config_map_at_the_same_time(api, share):
    foreign = {"metadata": {"name": "gpu-node-sharing", "namespace": "gpu-operator"}, "data": {"a": "b"}}
    api.faults.append(Fault("POST .*/configmaps", first=lambda: api.add("configmaps", foreign), times=1))
    with pytest.raises(NodeError, match="somebody else changed it at the same time"):
        share([])
    with pytest.raises(Refused, match="it is there and was not made here; name another config_map"):
        share([])
    assert api.get("configmaps", "gpu-node-sharing", "gpu-operator")["data"] == {"a": "b"}
    told = share([], state="absent")
    assert not told["changed"] and "was not made here" in told["notes"][0]


def test_a_node_that_got_a_label_at_the_same_time_keeps_it_and_the_others_get_theirs(api, share):
    api.add("nodes", node("n1"))
    api.add("nodes", node("n2"))
    # Between our look and our patch.
    api.faults.append(Fault("PATCH /api/v1/nodes/n2", first=lambda: api.add("nodes", node("n2", "slice-2")), times=1))
    with pytest.raises(
        Unfinished, match="somebody else changed it to 'slice-2' .* The label of n2 could not be changed"
    ):
        share([("n1", "slice-4"), ("n2", "slice-4")])
    assert labels(api, "n1", "n2") == ["slice-4", "slice-2"]
    share([("n1", "slice-4"), ("n2", "slice-4")])
    assert labels(api, "n1", "n2") == ["slice-4", "slice-4"]


def test_a_label_that_could_not_be_taken_away_is_still_known_to_be_ours(api, share):
    api.add("nodes", node("n1", "slice-4", **{OURS: "slice-4"}))
    api.faults.append(Fault("PATCH /api/v1/nodes/n1", 403, "not now", times=1))
    with pytest.raises(Unfinished, match="not now.* The label of n1 could not be changed"):
        share(["n1"])
    assert api.get("nodes", "n1")["metadata"]["annotations"] == {OURS: "slice-4"}
    share(["n1"])
    assert labels(api, "n1") == [None] and not api.get("nodes", "n1")["metadata"]["annotations"]


def test_a_daemon_set_of_another_config_map_holds_ours_up_by_nothing(api, share):
    share([])
    api.add("daemonsets", plugin("theirs"))
    assert "no DaemonSet in namespace gpu-operator mounts" in " ".join(share([])["notes"])
    share([], state="absent")
    assert api.get("configmaps", "gpu-node-sharing", "gpu-operator") is None


@pytest.mark.parametrize(
    "request_, status, words",
    [
        ("GET .*/nodes", 403, "kubectl get nodes: this account may not do it"),
        ("GET .*/daemonsets", 403, "kubectl get daemonsets.apps: this account may not do it"),
        ("GET .*/pods", 403, "kubectl get pods: this account may not do it"),
        ("POST .*/configmaps", 403, "kubectl create"),
        ("PATCH .*/nodes/.*", 403, "The label of n1 could not be changed"),
        ("GET .*/configmaps/.*", 500, "kubectl get configmap"),
    ],
)
def test_what_this_account_may_not_do_is_told_and_no_node_is_labelled(api, share, request_, status, words):
    api.add("nodes", node("n1"))
    api.faults.append(Fault(request_, status, "you may not"))
    with pytest.raises(NodeError) as told:
        share([("n1", "slice-4")])
    assert words in str(told.value) and "you may not" in str(told.value) and labels(api, "n1") == [None]


def test_a_namespace_that_may_not_be_asked_about_is_no_obstacle(api, share):
    api.faults.append(Fault("GET /api/v1/namespaces/gpu-operator", 403, "no"))
    assert share([])["changed"]
    api.remove("namespaces", "gpu-operator")
    api.remove("configmaps", "gpu-node-sharing", "gpu-operator")
    api.faults.clear()
    with pytest.raises(Refused, match="namespace gpu-operator: there is none in the cluster"):
        share([], check=True)


def test_an_api_that_hangs_ends_the_run_in_time(api, share):
    api.faults.append(Fault("GET /api/v1/nodes", hang=True))
    with pytest.raises(NodeError, match="kubectl get nodes: .*context test"):
        share([("n1", "slice-4")], seconds=2)


def test_pods_that_are_in_the_way_of_a_smaller_node_are_told(api, share):
    api.add("nodes", node("n1", "slice-4", "32", **{OURS: "slice-4"}))
    container = {"resources": {"limits": {GPU: "1", "cpu": "2"}}}
    for number in range(20):
        phase = "Running" if number < 18 else "Succeeded"
        pod = {"metadata": {"name": "p{0}".format(number), "namespace": "users"}, "status": {"phase": phase}}
        api.add("pods", dict(pod, spec={"nodeName": "n1", "containers": [container]}))
    told = share([("n1", "slice-2")], check=True)
    assert "pods on node n1 hold 18 of nvidia.com/gpu, and it will offer 16" in " ".join(told["warnings"])


def test_files_are_written_without_a_cluster(api, share, tmp_path):
    folder = tmp_path / "made" / "here"
    wanted = {"apply": "files", "folder": str(folder)}
    assert share([("n1", "slice-4")], check=True, **wanted)["changed"] and not folder.exists()
    told = share([("n1", "slice-4")], **wanted)
    assert told["nodes"][0]["capacity_expected"] is None and not told["nodes"][0]["pending"]
    assert "slice-4: |" in (folder / "gpu-sharing-config-map.yaml").read_text() and not api.requests
    assert (folder / "gpu-sharing-labels.sh").stat().st_mode & 0o111
    assert not share([("n1", "slice-4")], **wanted)["changed"]
    (folder / "mine").write_text("")
    assert share([], state="absent", **wanted)["changed"]
    assert [one.name for one in folder.iterdir()] == ["mine"]


def test_what_pods_hold():
    def pod(node_, containers, first=()):
        spec = {"containers": [{"resources": {"limits": one}} for one in containers]}
        spec["initContainers"] = [dict({"resources": {"limits": limits}}, **rest) for limits, rest in first]
        return {"spec": dict(spec, **({"nodeName": node_} if node_ else {}))}

    found = used(
        [
            pod("n1", [{GPU: "1"}, {GPU: "2", "cpu": "4"}]),
            pod("n1", [{GPU: "1"}], [({GPU: "4"}, {}), ({GPU: "2"}, {"restartPolicy": "Always"})]),
            pod("n2", [{}, {"memory": "1Gi"}]),
            pod(None, [{GPU: "8"}]),
            {"spec": {}},
            {},
        ]
    )
    assert found == {"n1": {GPU: 7}, "n2": {}}

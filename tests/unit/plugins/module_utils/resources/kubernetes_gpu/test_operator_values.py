# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values for the GPU operator: what is asked and what is on the nodes decides, and the chart reads each key."""

from __future__ import annotations

import itertools

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes import yaml as ours
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu import Desired, chart
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu.values import (
    unsettled,
    values,
)

HOST = {"host_driver": True, "host_toolkit": True, "host_ofed": True}
NONE = {"host_driver": False, "host_toolkit": False, "host_ofed": False}
SEED_TAINT = "node-role.kubernetes.io/gpu=true:NoSchedule"


def desired(*nodes, **given):
    return of(Desired, {"nodes": [dict(one, name="n{0}".format(at)) for at, one in enumerate(nodes)], **given})


def refusal(*nodes, **given):
    (error,) = unsettled(desired(*nodes, **given))
    return str(error)


def test_each_key_that_is_made_is_one_of_the_chart():
    choices = {
        "driver": ["host", "operator"],
        "mig_manager": [False, True],
        "mig_strategy": ["mixed", "single"],
        "sharing_config_map": ["", "gpu-node-sharing"],
        "exporter": ["host", "operator"],
        "nfd": [False, True],
        "rdma": ["none", "host_ofed"],
    }
    for chosen in itertools.product(*choices.values()):
        given = dict(zip(choices, chosen), toolkit="host")
        if given["mig_manager"]:
            given["mig_configs"] = {"all": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]}
        made = values(desired(**given))
        assert not list(chart.wrong(made)), given
        assert yaml.safe_load(ours.dump(made)) == made


def test_the_values_of_the_dra_stack():
    """The chart refuses a GPUCluster beside a ClusterPolicy, and a driver that is not of the kind NVIDIADriver."""
    for nodes, driver in (
        ([HOST], {"enabled": False}),
        ([NONE], {"enabled": True, "nvidiaDriverCRD": {"enabled": True}}),
    ):
        made = values(desired(*nodes, stack="dra", values={"draDriver": {"computeDomains": {"enabled": False}}}))
        assert not list(chart.wrong(made)) and yaml.safe_load(ours.dump(made)) == made
        assert made["clusterPolicy"] == {"deployCR": False} and made["gpuCluster"] == {"deployCR": True}
        assert {key: made["driver"][key] for key in driver} == driver
        assert made["draDriver"] == {"computeDomains": {"enabled": False}} and made["dcgmExporter"]["enabled"]
        assert not {"toolkit", "mig", "migManager", "devicePlugin", "cdi"} & set(made)
    # Who brings the toolkit is not asked.
    assert not list(unsettled(desired({"host_driver": True}, stack="dra")))
    assert "clusterPolicy" not in values(desired(HOST))


@pytest.mark.parametrize(
    "given", [{"mig_manager": True}, {"sharing_config_map": "gpu-node-sharing"}, {"toolkit": "operator"}]
)
def test_what_the_dra_stack_does_not_have_is_refused(given):
    (name,) = given
    with pytest.raises(
        NodeError, match="option {0}: the GPU operator has no part for it where stack is dra".format(name)
    ):
        desired(HOST, stack="dra", **given)


def test_what_is_on_the_nodes_decides_who_brings_driver_and_toolkit():
    made = values(desired(HOST, HOST))
    assert made["driver"] == {"enabled": False} and made["toolkit"] == {"enabled": False}
    made = values(desired(NONE, NONE))
    assert made["driver"] == {"enabled": True, "rdma": {"enabled": False, "useHostMofed": False}}
    assert made["toolkit"] == {"enabled": True}
    made = values(desired(dict(NONE, host_ofed=True), NONE))
    assert made["driver"]["rdma"] == {"enabled": True, "useHostMofed": True}
    assert values(desired(NONE, driver="host"))["driver"] == {"enabled": False}
    # A second driver is worse than none.
    assert values(desired(HOST, {}))["driver"] == {"enabled": False} and values(desired({}))["toolkit"]["enabled"]
    made = values(desired(dict(NONE, host_ofed=True), rdma="none"))
    assert made["driver"]["rdma"] == {"enabled": False, "useHostMofed": False}
    assert values(desired(NONE, rdma="host_ofed"))["driver"]["rdma"] == {"enabled": True, "useHostMofed": True}


def test_what_is_asked_is_a_value():
    made = values(desired(HOST, sharing_config_map="shared", sharing_default="whole"))
    assert made["devicePlugin"] == {"config": {"create": False, "name": "shared", "default": "whole"}}
    assert made["cdi"] == made["nfd"] == {"enabled": True}
    assert made["node-feature-discovery"]["master"] == {"config": {"extraLabelNs": ["nvidia.com", "trainyard.io"]}}
    made = values(desired(HOST, cdi=False, nfd=False))
    assert made["cdi"] == made["nfd"] == {"enabled": False} and "node-feature-discovery" not in made
    assert "devicePlugin" not in made


def test_nodes_with_two_drivers_or_none_are_refused():
    assert not list(unsettled(desired(HOST, HOST))) and not list(unsettled(desired(NONE)))
    told = refusal(HOST, dict(NONE, host_toolkit=True))
    assert "NVIDIA's driver is on n0, and not on n1" in told and "label nvidia.com/gpu.deploy.driver=false" in told
    told = refusal(dict(NONE, host_driver=True), HOST)
    assert "NVIDIA's container toolkit is on n1, and not on n0" in told and "deploy.driver" not in told
    assert "it is not known whether NVIDIA's driver is on n1" in refusal(HOST, {"host_toolkit": True})
    assert len(list(unsettled(desired()))) == 2
    assert "the operator is to bring it, and n0 has one of its own" in refusal(HOST, driver="operator")
    label = {"labels": {"nvidia.com/gpu.deploy.driver": "false"}}
    assert not list(unsettled(desired(dict(HOST, **label), dict(NONE, host_toolkit=True), driver="operator")))
    assert "there is none on n1" in refusal(HOST, dict(NONE, host_toolkit=True), driver="host")
    # A second toolkit does no harm.
    assert not list(unsettled(desired(HOST, driver="host", toolkit="operator")))
    # Nobody looked: whoever says it knows it.
    assert not list(unsettled(desired({}, driver="host", toolkit="operator")))


def test_the_operator_gets_the_toleration_of_the_taint_beside_its_own():
    its_own = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    made = values(desired(HOST))
    assert made["daemonsets"]["tolerations"][0] == its_own
    assert [one["key"] for one in made["daemonsets"]["tolerations"]] == [
        "nvidia.com/gpu",
        "trainyard.io/gpu-node-health",
        "trainyard.io/gpu-node-not-ready",
    ]
    made = values(desired(HOST, taint=SEED_TAINT))
    for one in (made["daemonsets"], made["node-feature-discovery"]["worker"]):
        assert its_own in one["tolerations"]
        assert {"key": "node-role.kubernetes.io/gpu", "operator": "Exists", "effect": "NoSchedule"} in one[
            "tolerations"
        ]
    assert made["node-feature-discovery"]["worker"]["tolerations"][0]["key"] == "node-role.kubernetes.io/control-plane"
    made = values(desired(HOST, taint="a=b:PreferNoSchedule"))["daemonsets"]["tolerations"]
    assert {"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"} in made


def test_one_owner_of_mig_and_of_metrics():
    made = values(desired(HOST))
    assert made["migManager"] == {"enabled": False} and made["mig"] == {"strategy": "mixed"}
    config = made["dcgmExporter"]["config"]
    assert config["create"] and "\nDCGM_FI_DEV_GPU_TEMP, gauge, " in config["data"]
    assert made["dcgmExporter"]["serviceMonitor"] == {"honorLabels": True}
    assert values(desired(HOST, exporter="host"))["dcgmExporter"] == {"enabled": False}
    layouts = {"all-1g.10gb": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]}
    made = values(desired(HOST, mig_manager=True, mig_configs=layouts))["migManager"]
    text = made["config"]["data"]["config.yaml"]
    assert made["enabled"] and yaml.safe_load(text) == {"version": "v1", "mig-configs": layouts}


def test_values_of_the_site_are_over_ours_and_checked():
    made = values(desired(HOST, values={"driver": {"enabled": True, "version": "570.1"}, "operator": {"logging": {}}}))
    assert made["driver"] == {"enabled": True, "version": "570.1"} and made["toolkit"] == {"enabled": False}
    for wrong, words in (
        ({"drivr": {}}, "drivr is no key of the GPU operator's chart; did you mean 'driver'?"),
        ({"driver": {"verzion": "1"}}, "driver.verzion is no key of the GPU operator's chart; did you mean 'version'?"),
        ({"driver": {"enabled": "false"}}, "driver.enabled is 'false', and neither true nor false"),
        (
            {"driver": True},
            "driver is no mapping; give it keys such as args, certConfig, enabled, env, hostNetwork, image.",
        ),
        ({"driver": {"version": ["1"]}}, "driver.version is not a single value"),
        ({"driver": {"version": {"a": "1"}}}, "driver.version is not a single value"),
        ({"node-feature-discovery": {"wrker": {}}}, "node-feature-discovery.wrker is no key"),
    ):
        with pytest.raises(NodeError) as told:
            desired(HOST, values=wrong)
        assert words in str(told.value), str(told.value)
    # What the chart hands on as a whole is of others.
    desired(HOST, values={"daemonsets": {"labels": {"a": "b"}}, "driver": {"env": [{"name": "A", "value": "b"}]}})
    desired(
        HOST,
        values={"driver": {"startupProbe": {"periodSeconds": 3}}, "node-feature-discovery": {"master": {"port": 1}}},
    )


def test_values_are_merged_and_compared_as_helm_does():
    assert chart.merged({"a": {"b": 1, "c": [1]}}, {"a": {"c": [2]}, "d": {}}) == {"a": {"b": 1, "c": [2]}, "d": {}}
    assert chart.merged({"a": {"b": 1}}, {"a": 2}) == {"a": 2} and chart.merged({"a": 2}, {"a": {"b": 1}}) == {
        "a": {"b": 1}
    }
    assert chart.flat({"a": {"b": {}, "c": {"d": 1}}, "e": []}) == {"a.b": {}, "a.c.d": 1, "e": []}
    assert chart.differences({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 4}, "e": 5}) == ["a.c", "d"]


@pytest.mark.parametrize(
    "given, words",
    [
        (
            {"taint": "nvidia.com/gpu=present:NoExecute"},
            "is no taint that nodes may have; write it as key=value:NoSchedule",
        ),
        ({"taint": "gpu"}, "is no taint that nodes may have"),
        ({"taint": "a b=c:NoSchedule"}, "is no taint that nodes may have"),
        ({"apply": "files"}, "option folder: there is none, and apply is files"),
        ({"mig_configs": {"a": []}}, "option mig_configs: the MIG manager that reads them is off"),
        ({"mig_manager": True, "mig_strategy": "none"}, "option mig_strategy: it is none, and the MIG manager is on"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "a is named twice"),
        ({"nodes": [{"name": "A_b"}]}, "is no name of an object in Kubernetes"),
        ({"nodes": [{"name": "a", "labels": {"x y": "1"}}]}, "'x y' cannot be the name of a label"),
        ({"nodes": [{"name": "a", "labels": {"x": "1g.5gb+me"}}]}, "x: '1g.5gb+me' cannot be its value"),
        ({"nodes": [{"name": "a", "labels": {"x": "y" * 64}}]}, "cannot be its value"),
        ({"nodes": [{"name": "a", "labels": {"x": None}}]}, "x: null cannot be its value; give a text, or ''"),
        (
            {"nodes": [{"name": "a", "labels": {"nvidia.com/device-plugin.config": "s"}}]},
            "is set by the role gpu_sharing",
        ),
        ({"chart_version": "newest"}, "is no version; write it as v26.7.0"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(given, words):
    with pytest.raises(NodeError) as told:
        of(Desired, given)
    assert words in str(told.value), str(told.value)


@pytest.mark.parametrize("section", [("daemonsets",), ("node-feature-discovery", "worker")])
def test_tolerations_of_the_site_without_the_taint_are_refused(section):
    """A list replaces ours, and the operator's pods would not come back to a node."""

    def given(*tolerations, tainted=True, **rest):
        content = {"tolerations": list(tolerations)}
        for name in reversed(section):
            content = {name: content}
        return of(Desired, {"nodes": [{"name": "a", "tainted": tainted}], "values": content, **rest})

    other = {"key": "team", "operator": "Exists"}
    words = "option values: {0}.tolerations tolerates nvidia.com/gpu=present:NoSchedule no more".format(
        ".".join(section)
    )
    with pytest.raises(NodeError, match=words):
        given(other)
    given(other, {"key": "nvidia.com/gpu", "operator": "Exists"})
    given({"operator": "Exists"})
    given(other, taint="")
    given(other, taint="nvidia.com/gpu=present:PreferNoSchedule")
    given(other, tainted=False)
    given(other, state="absent")


def test_switches_and_numbers_are_labels_as_kubectl_writes_them():
    (node,) = desired({"labels": {"a": True, "b": 4, "c": ""}}).nodes
    assert node.labels == {"a": "true", "b": "4", "c": ""}


@pytest.mark.parametrize(
    "value",
    [
        {"a": {"b": ["x", {"c": [1, 2], "d": "e"}, []], "f": {}, "true": "no", "4": None}},
        {"a": "one\ntwo\n", "b": " one\ntwo\n", "c": "one\n\n", "d": "\n", "e": "", "f": "x: y # z", "g h": "'"},
        {"list": [{"first": {"x": "one\n\ntwo\n"}, "second": True}, {"a": [[1]]}], "é": "ü"},
    ],
)
def test_yaml_is_read_as_it_was_meant(value):
    assert yaml.safe_load(ours.dump(value)) == value

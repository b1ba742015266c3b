# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configs of the device plugin: what is refused, and that what is written is what the plugin would take."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes import sharing_configs as configs
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_sharing import Desired, files

GPU = "nvidia.com/gpu"


def whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def plugin_reads(text):
    """The rules of the plugin's own reader (api/config/v1 of k8s-device-plugin 0.20), written down anew: what it makes
    of a file, or ValueError."""
    content = yaml.safe_load(text)
    if set(content) - {"version", "sharing"} or content["version"] != "v1":
        raise ValueError("unknown fields or version")
    sharing = content.get("sharing", {})
    if set(sharing) - {"timeSlicing", "mps"} or len(sharing) > 1:
        raise ValueError("two ways, or an unknown one")
    for way, one in sharing.items():
        if set(one) != {"renameByDefault", "failRequestsGreaterThanOne", "resources"} or not one["resources"]:
            raise ValueError("fields of " + way)
        for resource in one["resources"]:
            if set(resource) != {"name", "replicas"} or not whole(resource["replicas"]):
                raise ValueError("fields of a resource")
            if resource["replicas"] < 2 or len(resource["name"]) > 63:
                raise ValueError("value of a resource")
            if not resource["name"].startswith("nvidia.com/"):
                raise ValueError("prefix")
    return sharing


def test_a_config_in_the_format_of_the_plugin():
    made = configs.read({"slice-4": {"time_slicing": {GPU: 4, "nvidia.com/mig-1g.10gb.me": 2}, "rename": True}})
    assert configs.rendered(made["slice-4"]) == (
        "version: v1\n"
        "sharing:\n"
        "  timeSlicing:\n"
        "    renameByDefault: true\n"
        "    failRequestsGreaterThanOne: true\n"
        "    resources:\n"
        "      - name: nvidia.com/gpu\n"
        "        replicas: 4\n"
        "      - name: nvidia.com/mig-1g.10gb.me\n"
        "        replicas: 2\n"
    )
    assert configs.data(made)["whole"] == "version: v1\n"


def test_mps_and_the_switches():
    made = configs.read({"m": {"mps": {GPU: 48}, "fail_requests_greater_than_one": False}})
    assert plugin_reads(configs.rendered(made["m"])) == {
        "mps": {
            "renameByDefault": False,
            "failRequestsGreaterThanOne": False,
            "resources": [{"name": GPU, "replicas": 48}],
        }
    }


NAMES = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True).filter(
    lambda one: one != "whole"
)
PROFILES = st.sampled_from(["1g.5gb", "1g.10gb", "2g.20gb", "3g.71gb", "1g.10gb.me", "1c.3g.40gb", "4g.96gb.gfx"])
RESOURCES = st.one_of(st.just(GPU), PROFILES.map(lambda one: "nvidia.com/mig-" + one))
SLICED = st.dictionaries(RESOURCES, st.integers(2, 4096), min_size=1, max_size=4)
CONFIG = st.one_of(
    st.builds(
        lambda replicas, rename, fail: {
            "time_slicing": replicas,
            "rename": rename,
            "fail_requests_greater_than_one": fail,
        },
        SLICED,
        st.booleans(),
        st.booleans(),
    ),
    st.integers(2, 48).map(lambda number: {"mps": {GPU: number}}),
)


@given(st.dictionaries(NAMES, CONFIG, max_size=4))
def test_whatever_is_taken_is_what_the_plugin_takes(asked):
    made = configs.read(asked)
    assert set(made) == {*asked, "whole"}
    for name, text in configs.data(made).items():
        sharing = plugin_reads(text)
        wanted = asked.get(name, {})
        assert set(sharing) == {
            {"time_slicing": "timeSlicing", "mps": "mps"}[one] for one in wanted if "_s" in one or one == "mps"
        }
        for one in sharing.values():
            replicas = wanted.get("time_slicing") or wanted.get("mps")
            assert {entry["name"]: entry["replicas"] for entry in one["resources"]} == replicas
            assert one["renameByDefault"] == wanted.get("rename", False)
            assert one["failRequestsGreaterThanOne"] == wanted.get("fail_requests_greater_than_one", True)


@pytest.mark.parametrize("profile", ["1g.24gb", "1g.24gb-me", "1g.24gb.me.all", "1c.2g.48gb-me", "1c.2g.48gb.gfx"])
def test_an_instance_is_called_what_the_plugin_calls_it(profile):
    resource = "nvidia.com/mig-" + profile
    assert configs.read({"a": {"time_slicing": {resource: 2}}})["a"].replicas == ((resource, 2),)


@given(st.dictionaries(NAMES, CONFIG, max_size=4))
def test_the_manifest_in_a_file_is_the_one_of_the_cluster(asked):
    desired = of(Desired, {"configs": asked, "apply": "files", "folder": "/x"})
    made = {one.path: one for one in files.wanted(desired)}
    manifest = yaml.safe_load(made["/x/gpu-sharing-config-map.yaml"].text)
    assert manifest["data"] == configs.data(desired.configs) and manifest["kind"] == "ConfigMap"
    assert manifest["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "trainyard.gpu_node"}
    assert yaml.safe_load(made["/x/gpu-sharing-values.yaml"].text) == files.operator_values(
        desired.config_map, desired.default
    )


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=12) | NAMES, ANY | st.fixed_dictionaries({"time_slicing": ANY}), max_size=3))
def test_nothing_that_a_user_writes_is_a_crash_or_a_file_that_the_plugin_refuses(asked):
    try:
        made = configs.read(asked)
    except NodeError:
        return
    for text in configs.data(made).values():
        plugin_reads(text)


@pytest.mark.parametrize(
    "name, content, words",
    [
        (
            "a",
            {"time_slicing": {GPU: 1}},
            "a: nvidia.com/gpu has 1 replicas, and one replica shares nothing; give 2 or more",
        ),
        ("a", {"time_slicing": {GPU: 0}}, "has 0 replicas"),
        ("a", {"time_slicing": {GPU: True}}, "has True replicas, which is no whole number"),
        ("a", {"time_slicing": {GPU: 2.5}}, "has 2.5 replicas, which is no whole number"),
        ("a", {"time_slicing": {GPU: "four"}}, "has 'four' replicas, which is no whole number"),
        ("a", {"mps": {GPU: 49}}, "more than an MPS server has clients; give at most 48"),
        ("a", {"mps": {"nvidia.com/mig-1g.5gb": 2}}, "an instance of MIG, which MPS does not share; use time_slicing"),
        ("a", {"time_slicing": {"gpu": 2}}, "a: gpu cannot be shared; use nvidia.com/gpu"),
        (
            "a",
            {"time_slicing": {"nvidia.com/gpu.shared": 2}},
            "is renamed; name it without .shared, and give rename: true",
        ),
        ("a", {"time_slicing": {"nvidia.com/mig-1g.10gb+me": 2}}, "write it as nvidia.com/mig-1g.10gb.me"),
        ("a", {"time_slicing": {"amd.com/gpu": 2}}, "amd.com/gpu cannot be shared"),
        ("a", {"time_slicing": {"nvidia.com/mig-all": 2}}, "nvidia.com/mig-all cannot be shared"),
        ("a", {"time_slicing": {"nvidia.com/gpu\n": 2}}, "cannot be shared"),
        ("a", {"time_slicing": {}}, "a: time_slicing names no resources"),
        ("a", {"time_slicing": [GPU]}, "a: time_slicing names no resources"),
        ("a", {"time_slicing": {GPU: 2}, "mps": {GPU: 2}}, "a has both time_slicing and mps; choose one"),
        ("a", {"rename": True}, "a shares nothing; give it time_slicing or mps"),
        ("a", {"time_slicing": {GPU: 2}, "rename": "yes"}, "a: rename is 'yes'; give true or false"),
        ("a", {"time_slicig": {GPU: 2}}, "a has 'time_slicig', which means nothing; did you mean 'time_slicing'?"),
        ("a", [GPU], "a is no mapping"),
        ("whole", {"time_slicing": {GPU: 2}}, "whole is the config that shares nothing; give yours another name"),
        ("slice 4", {"time_slicing": {GPU: 2}}, "'slice 4' cannot be the value of a label"),
        ("a" * 64, {}, "cannot be the value of a label"),
        ("-a", {}, "'-a' cannot be the value of a label"),
    ],
)
def test_what_the_plugin_would_refuse_is_refused_in_a_sentence(name, content, words):
    with pytest.raises(NodeError) as told:
        configs.read({name: content})
    assert str(told.value).startswith("option configs: ") and words in str(told.value)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(NodeError) as told:
        configs.read({"a": {"time_slicing": {GPU: 1, "gpu": 2}}, "b": {"mps": {GPU: 100}}})
    assert all(word in str(told.value) for word in ("one replica", "gpu cannot be shared", "b: nvidia.com/gpu has 100"))


def test_a_number_of_a_command_line_and_an_empty_config_are_taken():
    made = configs.read({"a": {"time_slicing": {GPU: "4"}}, "b": None, "c": {}, "whole": {}})
    assert made["a"].of(GPU) == 4 and not made["b"].replicas and set(made) == {"a", "b", "c", "whole"}


@pytest.mark.parametrize(
    "given_, words",
    [
        (
            {"nodes": [{"name": "n1", "config": "slice-4"}]},
            "option config: 'slice-4' is no config; did you mean 'slice-2'? use one of slice-2, whole",
        ),
        ({"default": "slice2"}, "option default: 'slice2' is no config; did you mean 'slice-2'?"),
        ({"nodes": [{"name": "n1"}, {"name": "n1", "config": "slice-2"}]}, "option nodes: n1 is named twice"),
        ({"nodes": [{"name": "Node_1"}]}, "option nodes[0].name: 'Node_1' is no name of an object in Kubernetes"),
        ({"nodes": [{"config": "slice-2"}]}, "option nodes[0].name: it is missing"),
        ({"config_map": "My_Map"}, "option config_map: 'My_Map' is no name of an object"),
        ({"namespace": "a/b"}, "option namespace: 'a/b' is no name"),
        ({"apply": "files"}, "option folder: there is none, and apply is files"),
        ({"folder": "here"}, "option folder: 'here' is no absolute path"),
        ({"seconds": 0}, "option seconds: 0 seconds is out of range"),
        ({"nodes": [{"name": "n1", "gpus": 0}]}, "option nodes[0].gpus: 0 is out of range"),
    ],
)
def test_other_options(given_, words):
    with pytest.raises(NodeError) as told:
        of(Desired, {"configs": {"slice-2": {"time_slicing": {GPU: 2}}}, **given_})
    assert words in str(told.value)


def test_the_node_of_a_wrong_config_is_named_among_several():
    nodes = [{"name": "n1", "config": "whole"}, {"name": "n2", "config": "none"}]
    with pytest.raises(NodeError, match=r"'none' \(node n2\) is no config"):
        of(Desired, {"nodes": nodes})


def test_what_goes_away_is_not_held_up_by_configs():
    desired = of(
        Desired, {"state": "absent", "configs": {"a": {"mps": {GPU: 1}}}, "nodes": [{"name": "n", "config": "a"}]}
    )
    assert not desired.present and desired.nodes[0].name == "n"

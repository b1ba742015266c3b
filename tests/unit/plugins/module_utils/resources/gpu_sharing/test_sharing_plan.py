# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the sharing of GPUs: every decision, without a cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import Files, Seen, WriteFile
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes import sharing_configs as configs
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_sharing import (
    Desired,
    State,
    changes,
    told,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_sharing.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_sharing.types import (
    Cluster,
    CreateConfigMap,
    LabelNode,
    RemoveConfigMap,
    ReplaceConfigMap,
    SeenMap,
    SeenNode,
    manifest,
)

GPU = "nvidia.com/gpu"
CONFIGS = {"slice-4": {"time_slicing": {GPU: 4}}, "mps-2": {"mps": {GPU: 2}}}
LABELS = ((GPU + ".count", "8"), (GPU + ".replicas", "1"))
PLUGIN = ("nvidia-device-plugin-daemonset",)


def node(name="n1", label=None, set_here=None, offers=8, labels=LABELS):
    return SeenNode(name, labels, ((GPU, offers),), label, set_here)


def our_map(given_=None, ours=True):
    data = configs.data(configs.read(CONFIGS)) if given_ is None else given_
    made = manifest("gpu-operator", "gpu-node-sharing", data)
    made["metadata"].update({"resourceVersion": "7"}, **({} if ours else {"labels": {}}))
    return SeenMap(data, made)


def wish(*nodes, **given_):
    entries = [dict(zip(("name", "config"), one if isinstance(one, tuple) else (one,))) for one in nodes]
    return of(Desired, {"configs": CONFIGS, "nodes": entries, **given_})


def cluster(*nodes, **rest):
    return State(cluster=Cluster(nodes=nodes, **{"config_map": our_map(), "readers": PLUGIN, **rest}))


def after(state, desired, actions):
    """The cluster when these steps were taken."""
    seen = state.cluster
    for one in actions:
        if isinstance(one, (CreateConfigMap, ReplaceConfigMap)):
            seen = replaced(seen, config_map=our_map(dict(one.data)))
        elif isinstance(one, RemoveConfigMap):
            seen = replaced(seen, config_map=None)
        elif isinstance(one, LabelNode):
            nodes = [replaced(n, label=one.after, set_here=one.note) if n.name == one.node else n for n in seen.nodes]
            seen = replaced(seen, nodes=tuple(nodes))
    return State(state.files, seen)


def test_a_new_cluster_gets_the_configs_before_the_labels():
    made = plan(cluster(node(), node("n2"), config_map=None), wish(("n1", "slice-4"), "n2"))
    assert [type(one) for one in made.actions] == [CreateConfigMap, LabelNode]
    create, label = made.actions
    assert set(create.data) == {"whole", "slice-4", "mps-2"} and (create.namespace, create.name) == (
        "gpu-operator",
        "gpu-node-sharing",
    )
    assert label == LabelNode("n1", None, "slice-4", "slice-4")
    assert label.describe() == "label node n1 with nvidia.com/device-plugin.config=slice-4"


def test_what_is_as_asked_is_left():
    state = cluster(node(label="slice-4", set_here="slice-4", offers=32), node("n2"))
    assert plan(state, wish(("n1", "slice-4"), "n2")) == plan(state, wish(("n1", "slice-4")))
    assert (
        not plan(state, wish(("n1", "slice-4"), "n2")).actions and not plan(state, wish(("n1", "slice-4"), "n2")).notes
    )


@pytest.mark.parametrize(
    "label, set_here, config, action",
    [
        (None, None, "slice-4", ("slice-4", "slice-4")),
        ("mps-2", "mps-2", "slice-4", ("slice-4", "slice-4")),
        ("mps-2", None, "slice-4", ("slice-4", "slice-4")),
        # The half that an earlier version left, where it was cut off.
        ("slice-4", None, "slice-4", ("slice-4", "slice-4")),
        ("slice-4", "mps-2", "slice-4", ("slice-4", "slice-4")),
        (None, "slice-4", "slice-4", ("slice-4", "slice-4")),
        ("slice-4", "slice-4", "slice-4", None),
        ("slice-4", "slice-4", "", (None, None)),
        ("slice-4", None, "", None),
        # Our annotation beside a label of our configs: cut off in the middle of a change.
        ("mps-2", "slice-4", "", (None, None)),
        # It was changed by hand after us: the label is left, and what we noted is no longer true.
        ("other", "slice-4", "", ("other", None)),
        (None, "slice-4", "", (None, None)),
        (None, None, "", None),
    ],
)
def test_whose_label_it_is_decides(label, set_here, config, action):
    made = plan(cluster(node(label=label, set_here=set_here)), wish(("n1", config)))
    found = [(one.after, one.note) for one in made.actions]
    assert found == ([] if action is None else [action])


def test_a_label_that_somebody_set_is_replaced_and_told():
    made = plan(cluster(node(label="mps-2")), wish(("n1", "slice-4")))
    assert "the label of n1 was set by somebody else, and is replaced" in made.notes
    for set_here in ("mps-2", "slice-4"):
        made = plan(cluster(node(label="mps-2", set_here=set_here)), wish(("n1", "slice-4")))
        assert not any("somebody else" in note for note in made.notes)


def test_a_label_without_our_annotation_that_is_the_one_asked_for_becomes_ours_and_is_told():
    made = plan(cluster(node(label="slice-4")), wish(("n1", "slice-4")))
    assert [one.describe() for one in made.actions] == [
        "add our annotation to node n1, which has label nvidia.com/device-plugin.config=slice-4"
    ]
    assert "n1 had the label that is asked for, without our annotation: it counts as set here" in made.notes[0]
    # Where it is given with its config, it goes with ours; where no node is named, it is told.
    state = cluster(node(label="slice-4"), readers=())
    made = plan(state, wish(("n1", "slice-4"), state="absent"))
    assert (made.actions[0].after, made.actions[0].note) == (None, None)
    made = plan(state, wish(state="absent"))
    assert "n1 is labelled with a config of ours and without our annotation, which is left" in made.notes[0]


def test_a_node_that_is_not_registered_waits_and_is_no_failure():
    made = plan(cluster(node()), wish(("n1", "slice-4"), ("n2", "slice-4")))
    assert [one.node for one in made.actions] == ["n1"]
    assert made.notes == ("n2 is not registered in the cluster yet; run it again when the label can be set",)
    alone = plan(cluster(node()), wish(("n8", "slice-4"), ("n9", "slice-4")))
    assert not alone.refusals and "n8, n9 are not registered" in alone.notes[0]
    assert "check kubeconfig, context and the names of the nodes" in alone.notes[1]
    # Without a label there is nothing to wait for.
    assert not plan(cluster(node()), wish("n9")).notes


def test_a_config_that_changed_is_replaced_and_the_restart_told():
    former = dict(our_map().data, **{"slice-4": "version: v1\n"})
    state = cluster(node(label="slice-4", set_here="slice-4"), config_map=our_map(former))
    made = plan(state, wish(("n1", "slice-4")))
    (action,) = made.actions
    assert (action.version, action.changed) == (
        "7",
        ("slice-4",),
    ) and "change slice-4 in config map" in action.describe()
    restart = "kubectl -n gpu-operator rollout restart daemonset/nvidia-device-plugin-daemonset"
    assert any("reads its config when the label of its node changes" in note and restart in note for note in made.notes)
    # Nobody uses it: no restart.
    assert not plan(cluster(node(), config_map=our_map(former)), wish("n1")).notes


def test_a_config_that_goes_while_a_node_uses_it_is_refused():
    former = dict(our_map().data, old="version: v1\n")
    users = [node(), *(node("u{0}".format(number), label="old") for number in range(7))]
    made = plan(cluster(*users, config_map=our_map(former)), wish("n1"))
    (refusal,) = made.refusals
    assert "config old would go, and u0, u1, u2, u3, u4 and 2 more are labelled with it; keep the config" in str(
        refusal
    )
    # Those that this run moves are no longer users of it.
    moved = cluster(node(label="old", set_here="old"), node("n2", label="old"), config_map=our_map(former))
    assert plan(moved, wish("n1", "n2")).refusals
    assert not plan(moved, wish("n1", ("n2", "slice-4"))).refusals


def test_what_is_in_the_way_is_refused():
    foreign = plan(cluster(node(), config_map=our_map(ours=False)), wish(("n1", "slice-4")))
    assert "gpu-operator/gpu-node-sharing: it is there and was not made here" in str(foreign.refusals[0])
    nowhere = plan(cluster(node(), config_map=None, namespace=False), wish(("n1", "slice-4")))
    assert "namespace gpu-operator: there is none in the cluster; install the GPU operator" in str(nowhere.refusals[0])
    mixed = node(labels=(*LABELS, ("nvidia.com/mig.strategy", "mixed")))
    assert "node n1: config mps-2 shares by MPS" in str(plan(cluster(mixed), wish(("n1", "mps-2"))).refusals[0])
    assert not plan(cluster(mixed), wish(("n1", "slice-4"))).refusals
    assert not plan(cluster(mixed), wish("n1")).refusals


def test_pods_that_hold_more_than_there_will_be_are_told():
    used = {"n1": {GPU: 12}, "n2": {GPU: 100}}
    state = cluster(node(label="slice-4", set_here="slice-4", offers=32), used=used)
    (note,) = [note for note in plan(state, wish("n1")).notes if "pods" in note]
    assert note == (
        "pods on node n1 hold 12 of nvidia.com/gpu, and it will offer 8: they go on, and no other starts until they end"
    )
    assert not [note for note in plan(state, wish(("n1", "slice-4"))).notes if "pods" in note]
    renamed = {"slice-4": {"time_slicing": {GPU: 4}, "rename": True}}
    notes = plan(state, wish(("n1", "slice-4"), configs=renamed)).notes
    assert any("hold 12 of nvidia.com/gpu, and it will offer 0" in note for note in notes)


def test_what_does_not_take_effect_is_told():
    wanted = wish(("n1", "slice-4"))
    labelled = node(label="slice-4", set_here="slice-4")
    (note,) = plan(cluster(labelled), wanted).notes
    assert note.startswith(
        "node n1 offers 8 nvidia.com/gpu, and with config slice-4 it should be 32 nvidia.com/gpu; where"
    )
    (note,) = plan(cluster(labelled, readers=()), wanted).notes
    assert "devicePlugin.config.name=gpu-node-sharing and devicePlugin.config.default=whole" in note
    unknown = plan(cluster(labelled, node("n5", label="slice-9")), wanted).notes
    assert any("node n5 is labelled with slice-9, which no config has" in note for note in unknown)
    sliced = {"m": {"time_slicing": {"nvidia.com/mig-1g.5gb": 2}}}
    notes = plan(cluster(node()), wish(("n1", "m"), configs=sliced)).notes
    assert "config m shares nvidia.com/mig-1g.5gb, and node n1 has none" in notes
    invalid = node(labels=((GPU + ".count", "0"), (GPU + ".product", "A100-MIG-INVALID")), offers=0)
    assert any("unequal MIG instances" in note for note in plan(cluster(invalid), wanted).notes)


def test_absent_takes_what_is_ours_and_nothing_else():
    nodes = (node("a", "slice-4", "slice-4"), node("b", "slice-4"), node("c", "other", "slice-4"), node("d"))
    state = cluster(*nodes, readers=())
    made = plan(state, wish(state="absent"))
    assert [(one.node, one.after, one.note) for one in made.actions[:-1]] == [("a", None, None), ("c", "other", None)]
    assert made.actions[-1] == RemoveConfigMap("gpu-operator", "gpu-node-sharing")
    assert made.notes[0] == "c is labelled by somebody else, which is left"
    assert made.notes[1].startswith("b is labelled with a config of ours and without our annotation")
    assert not plan(after(state, None, made.actions), wish(state="absent")).actions
    named = plan(state, wish("a", "b", state="absent"))
    assert [type(one) for one in named.actions] == [LabelNode, RemoveConfigMap]
    assert named.notes == ("b is labelled by somebody else, which is left",)


@pytest.mark.parametrize(
    "rest, words",
    [
        (
            {},
            "stays: nvidia-device-plugin-daemonset mount it; take devicePlugin.config out of the GPU operator's values",
        ),
        ({"config_map": our_map(ours=False), "readers": ()}, "stays: it was not made here"),
        ({"readers": ()}, "stays: b is labelled for it"),
    ],
)
def test_a_config_map_that_is_in_use_or_not_ours_stays(rest, words):
    state = cluster(node("a", "slice-4", "slice-4"), node("b", "slice-4", "slice-4"), **rest)
    made = plan(state, wish("a", state="absent"))
    assert [type(one) for one in made.actions] == [LabelNode] and words in made.notes[0]


def test_what_is_gone_already_is_no_step():
    assert not plan(cluster(node(), config_map=None), wish("n1", state="absent")).actions


def test_files_need_no_cluster(tmp_path):
    desired = wish(("n1", "slice-4"), ("n2", "mps-2"), ("n3", "slice-4"), "n4", apply="files", folder="/x/y")
    made = plan(State(Files(missing_folders=("/x/y",))), desired)
    texts = {one.path: one.text for one in made.actions if isinstance(one, WriteFile)}
    assert list(texts) == [
        "/x/y/gpu-sharing-config-map.yaml",
        "/x/y/gpu-sharing-values.yaml",
        "/x/y/gpu-sharing-labels.sh",
    ]
    assert texts["/x/y/gpu-sharing-labels.sh"].splitlines()[-2:] == [
        "kubectl label node n2 nvidia.com/device-plugin.config=mps-2 --overwrite",
        "kubectl label node n1 n3 nvidia.com/device-plugin.config=slice-4 --overwrite",
    ]
    # Where the inventory names a context, whoever pastes a command meets that cluster.
    there = plan(State(Files(missing_folders=("/x/y",))), replaced(desired, context="lab one"))
    config_map, operator, labels = [one.text for one in there.actions if isinstance(one, WriteFile)]
    assert "# kubectl --context 'lab one' apply -f" in config_map and "--kube-context 'lab one' RELEASE" in operator
    assert labels.count("kubectl --context 'lab one' label node") == 2
    foreign = Files(found=(("/x/y/gpu-sharing-values.yaml", Seen("file", "theirs", 0o644)),))
    assert "it is there and is not ours" in str(plan(State(foreign), desired).refusals[0])


def test_each_node_is_told():
    state = cluster(node(labels=(*LABELS, (GPU + ".product", "A100"), (GPU + ".memory", "40960"))))
    one, two = told.of_nodes(state, wish(("n1", "slice-4"), ("n2", "mps-2")))
    assert one == {
        "name": "n1",
        "label": "slice-4",
        "pending": False,
        "strategy": "time-slicing",
        "capacity_expected": {GPU: 32},
        "capacity": {GPU: 8},
        "in_force": False,
        "product_label": "A100-SHARED",
        "memory_per_replica_mib": 10240,
        "memory_enforced": False,
    }
    assert two["pending"] and two["memory_enforced"] and two["capacity_expected"] is None and two["in_force"] is None
    assert told.lines([one, two]) == [
        "n1: slice-4, will offer 32 nvidia.com/gpu, offers 8 nvidia.com/gpu now",
        "n2: mps-2, waits until it is registered, will offer what cannot be told yet "
        "(gpu_sharing_gpus says how many GPUs it has)",
    ]
    # A label of somebody else's, and none at all.
    (one,) = told.of_nodes(cluster(node(label="slice-4")), wish("n1"))
    assert (one["label"], one["capacity_expected"]) == (None, {GPU: 32})
    (one,) = told.of_nodes(cluster(node()), wish("n1", default="slice-4"))
    assert one["capacity_expected"] == {GPU: 32} and told.of_nodes(state, wish("n1", state="absent")) == []


VALUES = st.sampled_from([None, "slice-4", "mps-2", "whole", "other"])
NODES = st.lists(
    st.builds(
        lambda label, set_here, offers, labels: node("", label, set_here, offers, labels),
        VALUES,
        VALUES,
        st.integers(0, 40),
        st.sampled_from([LABELS, (), ((GPU + ".count", "x"),), (("nvidia.com/mig-1g.5gb.count", "7"),)]),
    ),
    max_size=5,
)
DATA = st.dictionaries(st.sampled_from(["whole", "slice-4", "old", "other"]), st.sampled_from(["a\n", "version: v1\n"]))


@given(
    NODES,
    st.none() | st.builds(our_map, DATA, st.booleans()),
    st.sampled_from([(), PLUGIN]),
    st.booleans(),
    st.lists(st.sampled_from(["", "slice-4", "whole", "mps-2"]), max_size=6),
    st.booleans(),
    st.dictionaries(st.sampled_from(["n0", "n1"]), st.dictionaries(st.just(GPU), st.integers(0, 50))),
)
def test_a_plan_is_total_and_empty_when_it_was_carried_out(nodes, config_map, readers, namespace, asked, present, used):
    named = tuple(replaced(one, name="n{0}".format(number)) for number, one in enumerate(nodes))
    state = cluster(*named, config_map=config_map, readers=readers, namespace=namespace, used=used)
    entries = [("n{0}".format(number), config) for number, config in enumerate(asked)]
    desired = wish(*entries, state="present" if present else "absent")
    made = plan(state, desired)
    told.of_nodes(state, desired)
    if made.refusals:
        assert not made.actions and present
        return
    left = after(state, desired, made.actions)
    assert not plan(left, desired).actions
    for one, was in zip(left.cluster.nodes, named):
        # A label that was not ours is changed for a wish alone, and never taken away.
        if one.label != was.label and not changes.is_ours(state.cluster, was, dict(entries).get(was.name, "")):
            assert present and one.label == dict(entries)[one.name] != ""
    if config_map is not None and not config_map.ours:
        assert left.cluster.config_map == config_map

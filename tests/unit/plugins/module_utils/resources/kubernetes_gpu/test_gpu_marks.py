# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taints and labels: what is of others never goes, what is ours does, and twice is once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu import marks
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

KEYS = ("nvidia.com/gpu", "node-role.kubernetes.io/gpu", "team")
TAINTS = some.builds(
    marks.Taint,
    some.sampled_from(KEYS),
    some.sampled_from(["", "present", "true"]),
    some.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
)


def one_of_each(taints):
    """The API keeps one taint of a key and an effect."""
    return tuple({(one.key, one.effect): one for one in taints}.values())


LABELS = some.dictionaries(some.sampled_from(["a", "b", "example.com/c"]), some.sampled_from(["", "1", "2"]))
MARKS = some.builds(
    lambda taint, labels: marks.Marks(taint, tuple(sorted(labels.items()))), some.none() | TAINTS, LABELS
)
NOTES = some.one_of(
    some.none(), MARKS.map(marks.Marks.text), some.sampled_from(["", "x", "[]", "3", '{"labels": 3}', '{"taint": 7}'])
)
NODES = some.builds(
    lambda taints, labels, note: marks.Node(one_of_each(taints), tuple(sorted(labels.items())), note),
    some.lists(TAINTS, max_size=4),
    LABELS,
    NOTES,
)


def after(node, change):
    labels = {**dict(node.labels), **dict(change.labels)}
    left = {key: value for key, value in labels.items() if value is not None}
    return marks.Node(change.taints, tuple(sorted(left.items())), change.note)


@examples(400)
@given(NODES, MARKS)
def test_a_second_time_changes_nothing_and_the_node_is_as_asked(node, wanted):
    change = marks.change(node, wanted)
    made = after(node, change)
    again = marks.change(made, wanted)
    assert again.taints == made.taints and not again.labels and again.note == made.note
    assert set(dict(wanted.labels).items()) <= set(dict(made.labels).items())
    if wanted.taint is not None:
        assert wanted.taint in made.taints or change.foreign in made.taints
    assert len(one_of_each(made.taints)) == len(made.taints)


@examples(400)
@given(NODES, MARKS)
def test_what_is_of_others_stays(node, wanted):
    ours = marks.remembered(node.note)
    change = marks.change(node, wanted)
    assert [one for one in node.taints if one != ours.taint] == [
        one for one in change.taints if one in node.taints and one != ours.taint
    ]
    for key, value in change.labels:
        if value is None:  # only what we set, with the value that we gave
            assert dict(node.labels)[key] == dict(ours.labels)[key] and key not in dict(wanted.labels)
    told = {key for key, dummy in change.replaces}
    assert told == {
        key
        for key, value in wanted.labels
        if key in dict(node.labels) and dict(node.labels)[key] not in (value, dict(ours.labels).get(key))
    }


@examples(400)
@given(NODES.filter(lambda node: node.note is None), MARKS, MARKS)
def test_undo_gives_back_what_was_there_but_for_replaced_labels(node, first, second):
    made = after(node, marks.change(node, first))
    made = after(made, marks.change(made, second))
    gone = after(made, marks.change(made, marks.Marks()))
    assert gone.note is None and gone.taints == node.taints
    asked = {**dict(first.labels), **dict(second.labels)}
    untouched = {key: value for key, value in node.labels if key not in asked}
    assert {key: value for key, value in gone.labels if key not in asked} == untouched


@pytest.mark.parametrize(
    "text, taint",
    [
        ("nvidia.com/gpu=present:NoSchedule", marks.Taint("nvidia.com/gpu", "present", "NoSchedule")),
        ("a:NoExecute", marks.Taint("a", "", "NoExecute")),
        ("a=:NoExecute", marks.Taint("a", "", "NoExecute")),
        ("a", None),
        ("a=b=c:NoSchedule", None),
    ],
)
def test_taints_are_read_as_kubectl_writes_them(text, taint):
    assert marks.taint(text) == taint
    assert taint is None or str(taint) == text.replace("=:", ":")


TAINT = marks.Taint("nvidia.com/gpu", "present", "NoSchedule")


def test_what_is_ours_is_noted_and_nothing_else():
    wanted = marks.Marks(TAINT, (("a", "1"), ("b", "2")))
    # A label and a taint that were there as they are asked for stay somebody's.
    change = marks.change(marks.Node((TAINT,), (("a", "1"),)), wanted)
    assert (change.taints, change.labels, change.note) == ((TAINT,), (("b", "2"),), '{"labels": {"b": "2"}}')
    change = marks.change(marks.Node(), wanted)
    assert change.note == '{"labels": {"a": "1", "b": "2"}, "taint": "nvidia.com/gpu=present:NoSchedule"}'
    assert marks.change(marks.Node((TAINT,), wanted.labels, change.note), wanted).note == change.note
    # One of the same key and another effect is another taint.
    other = marks.Taint(TAINT.key, TAINT.value, "NoExecute")
    assert marks.change(marks.Node((other,)), wanted).taints == (other, TAINT)
    # Ours stays at its place, and one of ours that is no longer asked for goes.
    seen = marks.Node((TAINT, other), (), marks.Marks(TAINT).text())
    assert marks.change(seen, marks.Marks(TAINT)).taints == (TAINT, other)
    seen = marks.Node((TAINT, other), (), marks.Marks(other).text())
    assert marks.change(seen, wanted).taints == (TAINT,)


@pytest.mark.parametrize(
    "toleration, tolerated",
    [
        ({"operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "true"}, False),
        ({"key": "nvidia.com/gpu", "effect": "NoSchedule"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "", "operator": "Equal", "value": "present"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": ""}, True),
    ],
)
def test_tolerations_are_judged_as_kubernetes_does(toleration, tolerated):
    assert marks.tolerates([toleration], TAINT) == tolerated


def test_a_taint_without_a_value_is_tolerated_by_a_toleration_without_one():
    taint = marks.Taint("a", "", "NoSchedule")
    assert marks.tolerates([{"key": "a"}], taint) and not marks.tolerates([{"key": "a", "value": "b"}], taint)


def pod(name, node, tolerations=(), owner=None, **annotations):
    metadata = {"name": name, "namespace": "ns", "annotations": annotations}
    if owner:
        metadata["ownerReferences"] = [{"kind": "Other", "name": "x"}, dict(owner, controller=True)]
    return {"metadata": metadata, "spec": {"nodeName": node, "tolerations": list(tolerations)}}


def test_pods_that_would_not_come_back_are_told_by_their_owner():
    agent = {"kind": "DaemonSet", "name": "agent"}
    pods = [
        pod("agent-1", "n1", owner=agent),
        pod("agent-2", "n2", owner=agent),
        pod("agent-3", "n3", owner=agent),
        pod("alone", "n1"),
        pod("gpu", "n1", [{"key": "nvidia.com/gpu", "operator": "Exists"}]),
        pod("static", "n1", **{"kubernetes.io/config.mirror": "x"}),
        pod("waits", None),
    ]
    assert marks.stranded(pods[:1], TAINT, ["n1"]) == ["DaemonSet ns/agent (1 pod)"]
    assert marks.stranded(pods, TAINT, ["n1", "n2"]) == ["DaemonSet ns/agent (2 pods)", "pod ns/alone"]

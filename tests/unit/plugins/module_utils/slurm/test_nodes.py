# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of all versions give the same nodes; what is no whole answer gives one sentence and no node."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gres_conf, nodes
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.slurm.slurm_answers import (
    ANSWERS,
    LATE,
    NODES,
    TEXT,
)


@pytest.mark.parametrize("form", sorted(ANSWERS))
def test_every_version_tells_the_same(form):
    assert nodes.parse(ANSWERS[form], "test") == NODES


def changed(**fields):
    return json.dumps(dict(LATE, nodes=[dict(LATE["nodes"][0], **fields)]))


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "test: the answer is empty; run it by hand"),
        (" \n", "the answer is empty"),
        (ANSWERS["late"][:-40], "broken JSON, cut short or not"),
        (ANSWERS["late"][:200], "broken JSON, cut short or not"),
        ("[" * 100000, "broken JSON"),
        ("[]", "has no list 'nodes'"),
        ("{}", "has no list 'nodes'"),
        ('{"nodes": {}}', "has no list 'nodes'"),
        ('{"nodes": [], "errors": []}', "Slurm tells of no node"),
        (
            '{"nodes": [], "errors": [{"description": "Unable to contact slurm controller", "error_number": 1}]}',
            "Slurm reports an error: Unable to contact slurm controller",
        ),
        (json.dumps(dict(LATE, errors=["half of it"])), "Slurm reports an error: half of it"),
        ('{"nodes": [5]}', "an entry of 'nodes' has no name"),
        ('{"nodes": [{"name": "gpu01"}]}', "node gpu01: the answer has no state of it"),
        (changed(name="gpu 01"), "node name 'gpu 01': it is no host name"),
        (changed(name="-oProxyCommand=x"), "it is no host name"),
        (changed(name="ünode"), "it is no host name"),
        (changed(name="a" * 300), "it is no host name"),
        (changed(address="-oProxyCommand=touch x"), "its NodeAddr '-oProxyCommand=touch x' is no address"),
        (changed(address="{{ 1 }}"), "is no address"),
        (json.dumps(dict(LATE, nodes=LATE["nodes"] * 2)), "has node gpu01 twice"),
        (TEXT[:-1], "cut short: its last line has no end"),
        (TEXT[: len(TEXT) // 2], "cut short: its last line has no end"),
        ("NodeName=gpu01 Arch=x86_64\n", "node gpu01: the answer has no state of it"),
        ("No nodes in the system\n", "this is not what scontrol writes: 'No nodes in the system'"),
        ("Willkommen auf login01!\n" + TEXT, "this is not what scontrol writes: 'Willkommen auf login01!'"),
        ("Knotenname=gpu01 Zustand=FREI\n", "this is not what scontrol writes"),
        (TEXT.replace("NodeName=gpu01", "NodeName=$(id)"), "it is no host name"),
    ],
)
def test_what_is_no_answer(text, told):
    with pytest.raises(NodeError) as caught:
        nodes.parse(text, "test")
    assert told in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "text, gres",
    [
        ("(null)", ()),
        ("N/A", ()),
        ("gpu:8", (("gpu", "", 8),)),
        ("gpu", (("gpu", "", 1),)),
        ("gpu:tesla", (("gpu", "tesla", 1),)),
        ("gpu:a100:4(S:0),gpu:a100_3g.20gb:8(S:0-1,3)", (("gpu", "a100", 4), ("gpu", "a100_3g.20gb", 8))),
        ("bandwidth:lustre:no_consume:4G", (("bandwidth", "lustre", 4 * 1024**3),)),
    ],
)
def test_gres(text, gres):
    assert gres_conf.entries(text) == gres


# Anything, and anything done to an answer -----------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def either_nodes_or_a_sentence(text):
    try:
        found = nodes.parse(text, "test")
    except NodeError as error:
        assert "\n" not in str(error)
        return None
    assert found and all(one.flags and one.name for one in found)
    return found


@given(st.text(max_size=200))
def test_any_text(text):
    either_nodes_or_a_sentence(text)


@given(st.sampled_from(sorted(LATE["nodes"][0])), JSON)
def test_any_value_of_any_field(field, value):
    either_nodes_or_a_sentence(changed(**{field: value}))


@pytest.mark.parametrize("form", sorted(ANSWERS))
def test_no_answer_that_is_cut_gives_fewer_nodes(form):
    """At any place but the end of a line of text, where nobody can tell: there the status of the command must."""
    text = ANSWERS[form]
    for end in range(len(text)):
        if not (form == "text" and text[:end].endswith("\n")):
            found = either_nodes_or_a_sentence(text[:end])
            assert found is None or found == NODES, text[:end][-80:]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("a  b [root@2026-01-31T12:00:00]\n", "a  b"),
        ("kernel [me@host]  new [root@2026-01-31T12:00:00]\n", "kernel [me@host]  new"),
        ("one [root@2026-01-31T12:00:00]\n   two [me@host]\n", "one two [me@host]"),
        ("one [root@1795306581]        two [me@host] Comment=x\n", "one two [me@host]"),
        ("kernel [me@host]\n", "kernel"),
    ],
)
def test_the_reason_of_a_person_stays_as_it_was_written(written, reason):
    (node,) = nodes.parse("NodeName=n1 State=IDLE+DRAIN\n   Reason=" + written, "scontrol")
    assert node.reason == reason


def test_json_has_the_reason_without_who_gave_it():
    answer = json.dumps({"nodes": [{"name": "n1", "state": ["IDLE"], "reason": "see [me@host]"}]})
    assert nodes.parse(answer, "scontrol")[0].reason == "see [me@host]"

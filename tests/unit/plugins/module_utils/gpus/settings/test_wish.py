# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every wrong argument ends in one sentence that names the option; what is declared comes back the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.wish import Clocks, Wish


@pytest.mark.parametrize(
    "options, words",
    [
        ({"persistence": "perhaps"}, ["option persistence", "true or false"]),
        ({"ecc": 1}, ["option ecc", "true or false"]),
        ({"clocks": "fast"}, ["option clocks", "'fast'", "max, default"]),
        ({"clocks": {}}, ["option clocks", "names no clock"]),
        ({"clocks": {"sm_mhz": 1000}}, ["option clocks.sm_mhz", "graphics_mhz, memory_mhz"]),
        ({"clocks": {"graphics_mhz": 0}}, ["option clocks.graphics_mhz", "whole number of MHz"]),
        ({"clocks": {"graphics_mhz": 1410.5}}, ["option clocks.graphics_mhz", "1410.5"]),
        ({"clocks": {"graphics_mhz": True}}, ["option clocks.graphics_mhz", "True"]),
        ({"clocks": {"graphics_mhz": 0xFFFFFF01}}, ["option clocks.graphics_mhz", "4294967041"]),
        ({"power_limit_watts": "lots"}, ["option power_limit_watts", "watts, default or max"]),
        ({"power_limit_watts": -1}, ["option power_limit_watts", "-1"]),
        ({"power_limit_watts": "nan"}, ["option power_limit_watts", "'nan'"]),
        ({"power_limit_watts": 0.0001}, ["option power_limit_watts", "0.0001"]),
        ({"compute_mode": "shared"}, ["option compute_mode", "default, exclusive_process, prohibited"]),
        ({"gpus": []}, ["option gpus", "empty"]),
        ({"gpus": ["all", "0"]}, ["option gpus", "all alone"]),
        ({"gpus": [True]}, ["option gpus", "index, a UUID or a PCI address"]),
        ({"gpus": [" "]}, ["option gpus", "index, a UUID or a PCI address"]),
        ({"overrides": {"gpu": 0}}, ["option overrides", "list of mappings"]),
        ({"overrides": [7]}, ["option overrides[0]", "mapping"]),
        ({"overrides": [{"clocks": "max"}]}, ["option overrides[0].gpu", "missing"]),
        ({"overrides": [{"gpu": 0}, {"gpu": 1, "clocks": "fast"}]}, ["option overrides[1].clocks", "'fast'"]),
        ({"overrides": [{"gpu": 0, "clocks": "between_jobs"}]}, ["option overrides[0].clocks", "max, default"]),
        ({"overrides": [{"gpu": 0, "snap": True}]}, ["option overrides[0].snap", "no such option"]),
        ({"state": "default"}, ["option state", "no such option"]),
        ({"call_timeout_seconds": 0}, ["option call_timeout_seconds", "number of seconds"]),
        ({"clock": "max"}, ["option clock", "no such option", "clocks"]),
        ({"snap": "x"}, ["option snap", "true or false"]),
    ],
)
def test_a_wrong_option_ends_in_one_sentence_that_names_it(options, words):
    with pytest.raises(NodeError) as caught:
        Wish.from_section(options)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence
    for word in words:
        assert word in sentence


def test_unset_options_ask_for_nothing():
    assert Wish.from_section({}).asks_nothing
    assert Wish.from_section({"clocks": None, "gpus": None, "overrides": None}).asks_nothing


def test_numbers_from_templates_are_taken():
    desired = Wish.from_section(
        {"clocks": {"graphics_mhz": "1410"}, "power_limit_watts": "300", "call_timeout_seconds": "5"}
    )
    assert desired.settings.clocks == Clocks(graphics_mhz=1410)
    assert desired.settings.power_limit.milliwatts == 300000
    assert desired.call_timeout_seconds == 5.0


def test_all_is_the_same_as_no_selection():
    assert Wish.from_section({"gpus": "all"}) == Wish.from_section({"gpus": ["all"]}) == Wish.from_section({})


settings = st.fixed_dictionaries(
    {},
    optional={
        "persistence": st.booleans(),
        "clocks": st.one_of(
            st.sampled_from(["max", "default"]),
            st.fixed_dictionaries(
                {"graphics_mhz": st.integers(1, 3000)}, optional={"memory_mhz": st.integers(1, 9000)}
            ),
        ),
        "power_limit_watts": st.one_of(st.sampled_from(["max", "default"]), st.integers(1, 1000)),
        "ecc": st.booleans(),
        "compute_mode": st.sampled_from(["default", "exclusive_process", "prohibited"]),
    },
)
options = settings.flatmap(
    lambda base: st.fixed_dictionaries(
        {},
        optional={
            "gpus": st.lists(st.sampled_from(["0", "0001:00:00.0", "GPU-1"]), min_size=1, max_size=3),
            "overrides": st.lists(settings.map(lambda own: dict(own, gpu="1")), min_size=1, max_size=2),
            "snap": st.booleans(),
            "call_timeout_seconds": st.integers(1, 600),
        },
    ).map(lambda rest: dict(base, **rest))
)


@given(options)
def test_what_is_declared_is_the_same_wish_when_it_is_read_back(chosen):
    desired = Wish.from_section(chosen)
    stored = json.loads(json.dumps(desired.to_dict()))
    assert Wish.from_section(stored) == desired
    assert Wish.from_section(stored).to_dict() == stored


@given(
    st.dictionaries(
        st.sampled_from(
            ["clocks", "gpus", "overrides", "power_limit_watts", "ecc", "state", "snap", "call_timeout_seconds"]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=5,
        ),
    )
)
def test_no_options_whatever_end_in_anything_but_a_wish_or_a_sentence(chosen):
    try:
        Wish.from_section(chosen)
    except NodeError as error:
        assert "\n" not in str(error)

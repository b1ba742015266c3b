# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every wrong argument ends in one sentence that names the option; what is declared comes back the same, and a damaged
section stops nothing that reads it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import given as given_options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import invalid, of, of_section
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.options import (
    Settings,
    makes_slower,
)


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
        ({"gpus": [True]}, ["option gpus", "it is true and no text"]),
        ({"gpus": [" "]}, ["option gpus", "index, a UUID or a PCI address"]),
        ({"overrides": {"gpu": 0}}, ["option overrides", "no list"]),
        ({"overrides": [7]}, ["option overrides[0]", "mapping"]),
        ({"overrides": [{"clocks": "max"}]}, ["option overrides[0].gpu", "missing"]),
        ({"overrides": [{"gpu": 0}, {"gpu": 1, "clocks": "fast"}]}, ["option overrides[1].clocks", "'fast'"]),
        ({"overrides": [{"gpu": 0, "clocks": "between_jobs"}]}, ["option overrides[0].clocks", "max, default"]),
        ({"overrides": [{"gpu": 0, "snap": True}]}, ["option overrides[0].snap", "no such option"]),
        ({"state": "default"}, ["option state", "no such option"]),
        ({"call_timeout_seconds": 0}, ["option call_timeout_seconds", "0.1 to 600 seconds"]),
        ({"clock": "max"}, ["option clock", "no such option", "clocks"]),
        ({"snap": "x"}, ["option snap", "true or false"]),
    ],
)
def test_a_wrong_option_ends_in_one_sentence_that_names_it(options, words):
    with pytest.raises(NodeError) as caught:
        of(Settings, options)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence
    for word in words:
        assert word in sentence


def test_unset_options_ask_for_nothing():
    assert of(Settings, {"clocks": None, "gpus": None, "overrides": None}) == Settings() == of_section(Settings, None)
    assert given_options(Settings()) == {}


def test_numbers_from_templates_are_taken():
    settings = of(Settings, {"clocks": {"graphics_mhz": "1410"}, "power_limit_watts": "300"})
    assert settings.clocks == {"graphics_mhz": 1410} and settings.power_limit_watts == 300.0


def test_all_is_the_same_as_no_selection():
    assert of(Settings, {"gpus": "all"}) == of(Settings, {"gpus": ["all"]}) == Settings()


def test_an_invalid_setting_leaves_the_others_in_force():
    section = {"clocks": "fast", "power_limit_watts": 300, "overrides": [{"gpu": "all", "ecc": True}], "snap": True}
    assert of_section(Settings, section) == Settings(power_limit_watts=300.0, snap=True)
    assert [str(error).partition(";")[0] for error in invalid(Settings, section)] == [
        "option clocks: 'fast' names no clock",
        "option overrides[0].gpu: all is not one GPU",
    ]


@pytest.mark.parametrize(
    "section, slower",
    [
        (None, False),
        ({"clocks": "max", "power_limit_watts": "default"}, False),
        ({"clocks": {"graphics_mhz": 1005}}, True),
        ({"power_limit_watts": 300}, True),
        ({"power_limit_watts": "lots"}, False),
        ({"overrides": [{"gpu": "1", "power_limit_watts": 300}]}, True),
    ],
)
def test_what_makes_a_gpu_slower(section, slower):
    assert makes_slower(section) is slower


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
def test_what_is_declared_is_the_same_when_it_is_read_back(chosen):
    settings = of(Settings, chosen)
    stored = json.loads(json.dumps(given_options(settings)))
    assert of_section(Settings, stored) == of(Settings, stored) == settings
    assert given_options(of_section(Settings, stored)) == stored and invalid(Settings, stored) == []


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
def test_whatever_the_options_are_they_end_in_settings_or_a_sentence(chosen):
    try:
        of(Settings, chosen)
    except NodeError as error:
        assert "\n" not in str(error)

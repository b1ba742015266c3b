# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of gpu_settings: what is refused in which words, and what settings they make."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import argument_spec, of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.options import Override
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_settings import Desired

WRONG = [
    ({"persistence": "perhaps"}, "option persistence: 'perhaps' is neither true nor false"),
    ({"clocks": "fast"}, "option clocks: 'fast' names no clock; use max, default, or a mapping"),
    ({"clocks": {"graphics_mhz": 0}}, "option clocks.graphics_mhz: 0 is not a clock"),
    ({"power_limit_watts": "lots"}, "option power_limit_watts: 'lots' is not a power limit"),
    ({"compute_mode": "shared"}, "option compute_mode: 'shared' is not known here; use one of default, exclusive_proc"),
    ({"gpus": []}, "option gpus: the list is empty"),
    ({"gpus": ["all", "0"]}, "option gpus: all stands beside single GPUs"),
    ({"clocks": "between_jobs"}, "option clocks: 'between_jobs' names no clock"),
    ({"overrides": [{"gpu": "0"}, {"gpu": "1", "clocks": "auto"}]}, r"option overrides\[1\].clocks: 'auto' names no"),
    ({"overrides": [{"gpu": "all"}]}, r"option overrides\[0\].gpu: all is not one GPU"),
    ({"overrides": [7]}, r"option overrides\[0\]: 7 is no mapping"),
    ({"call_timeout_seconds": 0}, "option call_timeout_seconds: 0 seconds is out of range; give 0.1 to 600 seconds"),
    ({"boot_timeout_seconds": 0}, "option boot_timeout_seconds: 0 seconds is out of range"),
    ({"before_units": ["slurmd"]}, "option before_units: 'slurmd' is no name of a unit"),
    ({"clock": "max"}, "option clock: there is no such option; "),
]


@pytest.mark.parametrize("given, words", WRONG)
def test_a_wrong_option_ends_in_one_sentence_that_names_it(given, words):
    with pytest.raises(NodeError, match="^" + words) as caught:
        of(Desired, given)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_what_is_undone_does_not_fail_for_a_setting():
    given = {"state": "default", "clocks": "fast", "gpus": ["all", "7"], "overrides": [{}], "power_limit_watts": []}
    settings = of(Desired, given).settings(False)
    assert not settings.present and settings.gpus == ("all",) and not settings.overrides
    with pytest.raises(NodeError, match="option call_timeout_seconds"):
        of(Desired, {"state": "default", "call_timeout_seconds": 0})


@pytest.mark.parametrize(
    "clocks, raised, wanted",
    [
        (None, False, "max"),
        ("auto", False, "max"),
        ("auto", True, "between_jobs"),
        ("leave", True, None),
        ("max", True, "max"),
        ("default", False, "default"),
        ({"graphics_mhz": "1410"}, True, {"graphics_mhz": 1410}),
    ],
)
def test_the_clocks_that_are_wanted(clocks, raised, wanted):
    assert of(Desired, {"clocks": clocks}).settings(raised).clocks == wanted


def test_all_options_become_the_settings():
    given = {
        "persistence": False,
        "clocks": "default",
        "power_limit_watts": 300,
        "ecc": True,
        "compute_mode": "prohibited",
        "gpus": ["0", "1"],
        "overrides": [{"gpu": "1", "ecc": None, "clocks": "max"}],
        "snap": True,
        "declare": False,
        "require_gpus": True,
        "call_timeout_seconds": 3,
    }
    assert of(Desired, given).settings(False) == Desired(
        persistence=False,
        clocks="default",
        power_limit_watts=300.0,
        ecc=True,
        compute_mode="prohibited",
        gpus=("0", "1"),
        overrides=(Override("1", clocks="max"),),
        snap=True,
        declare=False,
        require_gpus=True,
        call_timeout_seconds=3.0,
    )


def test_what_the_module_takes():
    spec = argument_spec(Desired)
    assert spec["state"] == {"type": "str", "choices": ["present", "default"], "default": "present"}
    assert spec["clocks"] == {"type": "raw", "default": "auto"}
    assert spec["gpus"] == {"type": "list", "elements": "str", "default": ["all"]}
    assert spec["overrides"]["elements"] == "dict" and spec["overrides"]["options"]["gpu"]["required"]
    settings = {"persistence", "clocks", "power_limit_watts", "ecc", "compute_mode"}
    assert set(spec["overrides"]["options"]) == settings | {"gpu"} and settings < set(spec)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of NCCL's configuration: what is wrong with it, and what it is where nothing is given."""

from __future__ import annotations

import os

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.schema import problems
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl import Desired

PROFILES = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 6, "roles", "node_profile", "files", "profiles"
)
# Azure's ndv4-topo.xml and ndv5-topo.xml.
HIDDEN = {
    "nd96asr_v4": ("numa_node", "16.0"),
    "nd96amsr_a100_v4": ("numa_node", "16.0"),
    "nd96isr_h100_v5": ("pair", "32.0"),
    "nd96isr_h200_v5": ("pair", "32.0"),
    "nd96isrf_h200_v5": ("pair", "32.0"),
}
BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
RELAXED = dict(BUS, UCX_IB_PCI_RELAXED_ORDERING="on")


def profile(name):
    with open(os.path.join(PROFILES, name), encoding="utf-8") as stream:
        return yaml.safe_load(stream)


@pytest.mark.parametrize("name", sorted(os.listdir(PROFILES)))
def test_each_profile_says_what_its_machine_hides_and_names_no_file(name):
    content = profile(name)
    desired = of(Desired, {}, content)
    assert (desired.switches, desired.link_speed) == HIDDEN.get(name[: -len(".yml")], ("none", ""))
    settings = content.get("nccl", {}).get("settings", {})
    assert "NCCL_TOPO_FILE" not in desired.settings
    assert desired.settings == {key: str(value) for key, value in settings.items() if key != "NCCL_TOPO_FILE"}
    assert desired.variables == (RELAXED if settings.get("NCCL_IB_PCI_RELAXED_ORDERING") == 1 else BUS)


def test_what_is_given_wins_over_the_profile():
    content = profile("nd96asr_v4.yml")
    given = {"settings": {"NCCL_DEBUG": "WARN"}, "switches": "none", "link_speed": ""}
    desired = of(Desired, given, content)
    assert (desired.settings, desired.switches, desired.link_speed) == ({"NCCL_DEBUG": "WARN"}, "none", "")
    # What is given is never left out without a word.
    with pytest.raises(NodeError, match="option settings, NCCL_TOPO_FILE: a file is only used when it fits"):
        of(Desired, {"settings": {"NCCL_TOPO_FILE": "/x"}}, content)
    with pytest.raises(NodeError, match="option settings: 3 is no mapping"):
        of(Desired, {}, {"nccl": {"settings": 3}})


def test_a_profile_with_what_nccl_does_not_know():
    content = profile("nd96asr_v4.yml")
    content["nccl"].update(switches="some", link_speed=16.0)
    assert problems(content) == (
        "nccl.switches must be one of none, pair, numa_node, and is 'some'.",
        "nccl.link_speed must be one of 2.5, 5.0, 8.0, 16.0, 32.0, 64.0, and is 16.0.",
    )


@pytest.mark.parametrize("yes", [1, "1", True])
def test_variables_for_logins_follow_the_settings(yes):
    relaxed = {"NCCL_IB_PCI_RELAXED_ORDERING": yes}
    assert Desired(settings=relaxed).variables == RELAXED
    assert Desired(settings={"NCCL_IB_PCI_RELAXED_ORDERING": 2}).variables == BUS == Desired().variables
    for own in ({}, {"A": "1"}):
        assert Desired(settings=relaxed, environment=own).variables == own


def test_values_become_texts():
    given = {"NCCL_A": 1, "NCCL_B": True, "NCCL_C": "x", "NCCL_D": 0.5, "NCCL_E": False}
    assert list(Desired(settings=given).settings.items()) == [
        ("NCCL_A", "1"),
        ("NCCL_B", "1"),
        ("NCCL_C", "x"),
        ("NCCL_D", "0.5"),
        ("NCCL_E", "0"),
    ]
    for wrong in (None, ["a"], {}):
        with pytest.raises(NodeError, match="option settings, NCCL_A: its value is"):
            Desired(settings={"NCCL_A": wrong})


@pytest.mark.parametrize(
    "options, told",
    [
        ({"settings": {"UCX_TLS": "rc"}}, "into option environment"),
        ({"settings": {"NCCL_debug": "1"}}, "NCCL reads only names of its own"),
        ({"settings": {"NCCL_TOPO_FILE": "/x"}}, "give its path in option topology"),
        ({"settings": {"NCCL_CONF_FILE": "/x"}}, "from the environment, before any file"),
        ({"settings": {"NCCL_DEBUG": "A\nB=1"}}, "no value on one line"),
        ({"settings": {"NCCL_DEBUG": " WARN"}}, "blanks at its ends"),
        ({"settings": {"NCCL_DEBUG": ""}}, "no value on one line"),
        ({"settings": {"NCCL_DEBUG": "x" * 1024}}, "cuts values at 1023"),
        ({"extra": ("NCCL_DEBUG",)}, "no line of an nccl.conf"),
        ({"extra": ("# a\nLD_PRELOAD=/x",)}, "NCCL reads only names of its own"),
        ({"extra": ("NCCL_DEBUG = WARN",)}, "NCCL reads only names of its own"),
        ({"extra": ("NCCL_TOPO_FILE=/x",)}, "give its path in option topology"),
        ({"extra": ("NCCL_DEBUG=INFO",), "settings": {"NCCL_DEBUG": "WARN"}}, "option settings has it too"),
        ({"environment": {"LD_LIBRARY_PATH": "/x"}}, "every login would have it"),
        ({"environment": {"A B": "x"}}, "no name of a variable"),
        ({"environment": {"A": "x\ny"}}, "more than one line"),
        ({"limits": {"memory": "1"}}, "not known here"),
        ({"limits": {"memlock": "-1"}}, "is no limit"),
        ({"limits": {"nofile": "unlimited"}}, "a login with more fails"),
        ({"limits": {"nofile": "1048577"}}, "a login with more fails"),
        ({"sysctl": {"vm/zone": "1"}}, "this is no name"),
        ({"sysctl": {"..": "1"}}, "this is no name"),
        ({"sysctl": {"vm.zone_reclaim_mode": "1\n2"}}, "is no value"),
        ({"topology": "topo.xml"}, "is no choice and no absolute path"),
        ({"topology": "/etc/../x"}, "is no choice and no absolute path"),
        ({"switches": "some"}, "'some' is not known here; use one of none, pair, numa_node"),
        ({"link_speed": "12"}, "'12' is no PCIe link speed that NCCL knows"),
    ],
)
def test_a_wrong_option_is_one_sentence(options, told):
    with pytest.raises(NodeError, match=told) as error:
        Desired(**options)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)
    assert not Desired(present=False, **options).present

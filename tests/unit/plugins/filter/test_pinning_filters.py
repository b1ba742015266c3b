# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters, as a template calls them."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.filter import pinning as plugin
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared

FILTERS = plugin.FilterModule().filters()


@pytest.fixture(scope="module")
def node():
    def read(name):
        return json.loads(json.dumps(topology.to_dict(topology.look(Host(shared(name)), ask_nvml=False))))

    found = {name: read(name) for name in ("ndv4", "hb176")}
    return lambda name: found[name]


def test_pin_masks(node):
    masks = FILTERS["pin_masks"](node("ndv4"), 8, bind="numa")
    assert ",".join(masks) == (
        "ffffff000000,ffffff000000,ffffff,ffffff,"
        "ffffff000000000000000000,ffffff000000000000000000,ffffff000000000000,ffffff000000000000"
    )
    assert FILTERS["pin_masks"](node("ndv4"), "2", threads="4", gpus=["0", 2]) == ["f000000", "f"]
    assert FILTERS["pin_masks"](node("ndv4"), 1, cpus="24-25") == ["3000000"]


def test_hpl_affinity(node):
    found = FILTERS["hpl_affinity"](node("ndv4"))
    assert found["cpu_affinity"] == "24-35:36-47:0-11:12-23:72-83:84-95:48-59:60-71"
    assert (found["cpu_cores_per_rank"], found["mem_affinity"]) == (8, "1:1:0:0:3:3:2:2")
    assert found["arguments"].startswith("--cpu-affinity 24-35:36-47:") and "per-rank" not in found["arguments"]
    found = FILTERS["hpl_affinity"](node("hb176"), 4)
    assert found["gpu_affinity"] is None and found["ucx_affinity"] == "mlx5_ib0:mlx5_ib0:mlx5_ib0:mlx5_ib0"


def test_cuda_visible_devices(node):
    assert FILTERS["cuda_visible_devices"](node("ndv4")) == "2,3,0,1,6,7,4,5"
    assert FILTERS["cuda_visible_devices"](node("ndv4"), order="gpu") == "0,1,2,3,4,5,6,7"
    assert FILTERS["cuda_visible_devices"](node("ndv4"), 3) == "2,0,1"


def test_transfer_limits():
    assert FILTERS["transfer_limits"](20, 8, 96) == {
        "cap_megabits_per_second": 2300,
        "concurrency": 10,
        "total_gigabits_per_second": 18.4,
    }
    assert FILTERS["transfer_limits"]("2.5", "16", 8)["concurrency"] == 1
    # The limit is the account's, and four nodes at 2300 would ask for 73.6 Gb/s.
    shared = FILTERS["transfer_limits"](20, 8, 96, nodes=4)
    assert (shared["cap_megabits_per_second"], shared["concurrency"]) == (575, 10)
    assert FILTERS["transfer_limits"](20, 8, 96, headroom_percent=0)["total_gigabits_per_second"] == 20


@given(st.integers(1, 400), st.integers(1, 64), st.integers(1, 512), st.integers(1, 16), st.integers(0, 60))
def test_transfers_stay_under_the_limit_and_leave_cores(ingress, files, cores, nodes, headroom):
    found = FILTERS["transfer_limits"](ingress + files * nodes, files, cores, nodes, headroom)
    usable = Fraction(100 - headroom, 100) * (ingress + files * nodes) * 1000
    assert found["cap_megabits_per_second"] * files * nodes <= usable
    total = Fraction(str(found["total_gigabits_per_second"]))
    assert total * 1000 == found["cap_megabits_per_second"] * files * nodes
    assert found["concurrency"] == 1 or found["concurrency"] * files <= cores * Fraction(5, 6)


@pytest.mark.parametrize(
    "name, arguments, words",
    [
        ("pin_masks", ("ndv4", 9), "pin_masks: 9 ranks with a GPU each: this node has 8 GPU(s) to give; "),
        ("pin_masks", ("ndv4", "many"), "pin_masks: ranks 'many': it is no whole number; give one."),
        ("pin_masks", ({"cpus": 1}, 1), "this topology: it has another shape"),
        ("pin_masks", ({}, 1), "this topology: cpus is missing in it; give the whole result of "),
        ("pin_masks", ("text", 1), "this topology: it has another shape"),
        ("pin_masks", ("ndv4",), "missing 1 required positional argument: 'ranks'"),
        ("hpl_affinity", ("ndv4", 8, 13), "hpl_affinity: 8 rank(s) of 13 threads: "),
        ("cuda_visible_devices", ("hb176",), "cuda_visible_devices: 0 ranks: a placement needs one at least; "),
        ("cuda_visible_devices", ("hb176", 2), "this node has no GPU that answers; ask for gpus none."),
        ("transfer_limits", (0, 8, 96), "transfer_limits: ingress limit 0: it must be more than 0; give Gb/s"),
        ("transfer_limits", ("fast", 8, 96), "transfer_limits: ingress limit 'fast': it is no number; "),
        ("transfer_limits", (20, 2.5, 96), "these are counts; give whole numbers."),
        ("transfer_limits", (0.001, 8, 96), "less than 1 Mb/s of 0.001 Gb/s is left for each; "),
        ("transfer_limits", (0.02, 8, 96, 4), "8 files at once on each of 4 nodes: less than 1 Mb/s of 0.02 Gb/s is "),
        ("transfer_limits", (0.02, 8, 96, 4), "write at most 4 at once."),
        ("transfer_limits", (20, 8, 96, 1, 100), "headroom 100: nothing of the limit would be left; give less than "),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(node, name, arguments, words):
    first, *rest = arguments
    if first in ("ndv4", "hb176"):
        first = node(first)
    with pytest.raises(AnsibleFilterError) as error:
        FILTERS[name](first, *rest)
    assert words in str(error.value) and "\n" not in str(error.value)

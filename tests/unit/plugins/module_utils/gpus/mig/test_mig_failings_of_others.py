# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known to go wrong with nvidia-mig-parted 0.15, each on the simulated machine, and does not go wrong here.

By its source (cmd/nvidia-mig-parted/apply, assert, pkg/mig/config) and its issues.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Tuple

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.mig_machine import (
    A100,
    H100,
    Machine,
    layout_of,
    of,
)

TWO_THREES = [("3g.20gb", 0, [3]), ("3g.20gb", 4, [3])]


def parted(*specs: Dict[str, Any]) -> Dict[str, Any]:
    return {"parted_config": {"version": "v1", "mig-configs": {"a": list(specs)}}}


def spec(devices: Any, instances: Dict[str, int], enabled: bool = True) -> Dict[str, Any]:
    return {"devices": devices, "mig-enabled": enabled, "mig-devices": instances}


def ids(node: Machine, gpu: int = 0) -> List[Tuple[int, str]]:
    found = node.run(check=True, require_gpus=True)["gpus"][gpu]["instances"]
    return sorted((instance["gi"], instance["profile"]) for instance in found)


def test_a_mode_that_differs_on_one_gpu_wipes_and_resets_no_other(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.0.mig_mode=1")
    wish = parted(spec("all", {"3g.20gb": 2}))
    node.run(of("3g", "3g", gpus=["0"]))
    before = ids(node)
    done = node.run(**wish)
    assert "error" not in done and ids(node) == before
    assert [gpu["needs"] for gpu in done["gpus"]] == ["none", "gpu_reset"]
    assert any("GPU 1" in note and "waits for a reset" in note for note in done["notes"])


def test_a_gpu_instance_without_a_compute_instance_is_seen(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.mig_mode=1", "gpu.0.gi.1=2 0")  # as a run leaves it that was killed in between
    done = node.run(**parted(spec([0], {"3g.20gb": 2})))
    assert "error" not in done and layout_of(done) == TWO_THREES
    assert (1, "3g.20gb") in ids(node)  # that one, with a compute instance now


def test_a_configuration_of_some_gpus_holds_once_it_is_made(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.mig_mode=1")
    wish = parted(spec([0], {"3g.20gb": 2}))
    assert (
        node.run(**wish)["changed"] and not node.run(**wish)["changed"] and not node.run(**wish, check=True)["changed"]
    )


def test_a_gpu_without_mig_among_all_is_no_difference(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.mig_mode=1", "gpu.1.feature.mig=no")
    wish = parted(spec("all", {"3g.20gb": 2}))
    assert node.run(**wish)["changed"] and not node.run(**wish)["changed"]


def test_one_changed_instance_leaves_the_others_and_one_in_use_elsewhere(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.mig_mode=1")
    node.run(**parted(spec([0], {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1})))
    before = node.run(check=True, require_gpus=True)["gpus"][0]["instances"]
    kept = next(one for one in before if one["profile"] == "3g.20gb")
    node.control("process", "add", "0", "4242", "100", str(kept["gi"]), str(kept["compute"][0]["ci"]))
    done = node.run(**parted(spec([0], {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2})))
    assert "error" not in done and [name for name in done["actions"] if name.startswith("end")] == []
    assert kept["gi"] in [gi for gi, dummy in ids(node)]


def test_a_creation_that_fails_does_not_leave_the_gpu_empty(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.mig_mode=1")
    node.run(**parted(spec([0], {"3g.20gb": 2})))
    node.control(
        "fault", "call", "nvmlDeviceCreateGpuInstanceWithPlacement", "gpu", "0", "nth", "2", "return",
        "INSUFFICIENT_RESOURCES",
    )  # fmt: skip
    told = node.run(**parted(spec([0], {"2g.10gb": 3})))
    assert "what was there before stands again" in told["error"]
    node.control("clear", "call", "nvmlDeviceCreateGpuInstanceWithPlacement")
    assert node.layout() == TWO_THREES


def test_an_impossible_request_is_answered_at_once(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.mig_mode=1")
    node.run(**parted(spec([0], {"3g.20gb": 2})))
    started = time.monotonic()
    told = node.run(**parted(spec([0], {"1g.5gb": 5, "2g.10gb": 2, "3g.20gb": 1, "1g.10gb": 2})))
    assert time.monotonic() - started < 5 and "would fit" in told["error"]  # Python's start included
    assert node.layout() == TWO_THREES


def test_a_profile_that_nobody_knows_empties_no_gpu(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.mig_mode=1")
    node.run(**parted(spec([0], {"3g.20gb": 2})))
    told = node.run(**parted(spec([0], {"3g.21tb": 2})))
    assert "3g.21tb" in told["error"] and node.layout() == TWO_THREES


def test_a_count_of_nothing_is_no_difference(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.mig_mode=1")
    wish = parted(spec([0], {"3g.20gb": 2, "1g.5gb": 0}))
    assert node.run(**wish)["changed"] and not node.run(**wish)["changed"]


def test_a_place_can_be_chosen_and_a_check_changes_nothing(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.mig_mode=1")
    wish = of({"profile": "2g.10gb", "start": 2}, gpus=["0"])
    told = node.run(wish, check=True)
    assert "make 2g.10gb at 2" in " ".join(told["described"]) and node.layout() == []
    assert layout_of(node.run(wish)) == [("2g.10gb", 2, [2])]


@pytest.mark.parametrize("order", [("3g", "2g", "1g", "1g"), ("1g", "1g", "2g", "3g"), ("2g", "1g", "3g", "1g")])
def test_the_order_of_a_wish_decides_nothing(machine: Callable[..., Machine], order: Tuple[str, ...]) -> None:
    """The driver's own places make an ascending order fail, which is why that program tries all orders."""
    node = machine(H100, "gpu.mig_mode=1")
    made = layout_of(node.run(of(*order, gpus=["0"])))
    assert sorted(name for name, *dummy in made) == ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"]

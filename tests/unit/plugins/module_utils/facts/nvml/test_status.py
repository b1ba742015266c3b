# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a machine, exhaustively enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.call import CODES, CallError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.pci import PciGpu
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.status import Status, conclude

A, B = PciGpu("0001:00:00.0", "nvidia"), PciGpu("0002:00:00.0", None)
GUEST = PciGpu("0003:00:00.0", "vfio-pci")


def failure(code):
    return CallError.of_code("NVML", "nvmlInit", code)


@pytest.mark.parametrize(
    ("code", "on_bus", "status"),
    [
        (12, (), Status.NO_GPU),
        (12, (A,), Status.NO_LIBRARY),
        (9, (), Status.NO_GPU),  # an image with the driver, on a machine without a GPU
        (9, (A, B), Status.DRIVER_NOT_LOADED),
        (18, (A,), Status.DRIVER_MISMATCH),
        (18, (), Status.DRIVER_MISMATCH),
        (4, (A,), Status.NO_PERMISSION),
        (999, (A,), Status.FAILED),
    ],
)
def test_no_gpu_no_library_and_no_driver_are_told_apart(code, on_bus, status):
    verdict = conclude(failure(code), (), on_bus)
    assert verdict.status is status
    assert (verdict.error is None) == (status is Status.NO_GPU)
    assert verdict.message.endswith(".")


def test_the_message_names_the_gpus_that_wait_for_a_driver():
    assert conclude(failure(9), (), (A, B)).message == (
        "2 GPUs on the PCI bus (0001:00:00.0 … 0002:00:00.0): the NVIDIA kernel driver is not loaded "
        "(nvmlInit: DRIVER_NOT_LOADED); load it with modprobe nvidia, and see the kernel log when that fails."
    )


def test_all_answered():
    verdict = conclude(None, ("0001:00:00.0", "0002:00:00.0"), (A, B))
    assert (verdict.status, verdict.message) == (Status.OK, "2 GPUs answered.")


def test_a_gpu_that_the_driver_does_not_know_makes_it_partial():
    verdict = conclude(None, ("0001:00:00.0",), (A, B))
    assert verdict.status is Status.PARTIAL
    assert verdict.message.startswith("GPU 0002:00:00.0: the PCI bus has it, the driver does not;")


def test_a_gpu_that_was_given_to_a_guest_is_not_missing():
    assert conclude(None, ("0001:00:00.0",), (A, GUEST)).status is Status.OK


def test_a_lost_gpu_without_an_address_is_not_counted_twice():
    lost = "GPU 1 (PCI address unknown): it is lost; reset it."
    verdict = conclude(None, ("0001:00:00.0", None), (A, B), faults=(lost,))
    assert verdict.status is Status.PARTIAL
    assert verdict.message == "GPU 1 (PCI address unknown): it is lost; reset it."


def test_other_gpus_do_not_matter_to_who_asked_for_one():
    assert conclude(None, ("0001:00:00.0",), (A, B), whole_machine=False).status is Status.OK


def test_a_driver_that_finds_nothing():
    assert conclude(None, (), ()).status is Status.NO_GPU
    assert conclude(None, (), (A,)).status is Status.PARTIAL


@given(
    some.none() | some.sampled_from(sorted(CODES)),
    some.lists(some.none() | some.sampled_from(["0001:00:00.0", "0002:00:00.0", "0009:00:00.0"]), max_size=4),
    some.lists(some.sampled_from([A, B, GUEST]), max_size=3, unique=True),
    some.lists(some.just("GPU 0: it is lost; reset it."), max_size=2),
    some.booleans(),
)
def test_every_machine_has_a_verdict_and_only_whole_ones_are_ok(code, addresses, on_bus, faults, whole):
    verdict = conclude(
        None if code is None else failure(code), tuple(addresses), on_bus, faults=tuple(faults), whole_machine=whole
    )
    assert verdict.message
    if verdict.status is Status.OK:
        assert code is None and not faults and addresses

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names for NVML's numbers, against the constants of NVIDIA's own binding."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import names
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml import values

pynvml = pytest.importorskip("pynvml", reason="needs nvidia-ml-py")


def constants(prefix, without=()):
    return {
        getattr(pynvml, name)
        for name in dir(pynvml)
        if name.startswith(prefix) and isinstance(getattr(pynvml, name), int) and not name.endswith(tuple(without))
    }


@pytest.mark.parametrize(
    ("table", "prefix", "without"),
    [
        (names.BRANDS, "NVML_BRAND_", ("COUNT", "DLA", "NPU")),
        (names.ARCHITECTURES, "NVML_DEVICE_ARCH_", ("UNKNOWN", "DLA", "DLA2", "NPU3")),
        (names.COMPUTE_MODES, "NVML_COMPUTEMODE_", ("COUNT",)),
        (names.RECOVERY_ACTIONS, "NVML_GPU_RECOVERY_ACTION_", ()),
        (names.FABRIC_STATES, "NVML_GPU_FABRIC_STATE_", ()),
        (names.FABRIC_SUMMARIES, "NVML_GPU_FABRIC_HEALTH_SUMMARY_", ()),
        (names.COMMON_ANCESTORS, "NVML_TOPOLOGY_", ()),
        (names.P2P_STATUSES, "NVML_P2P_STATUS_", ()),
        (names.NVLINK_REMOTE_TYPES, "NVML_NVLINK_DEVICE_TYPE_", ()),
        (names.VIRTUALIZATION_MODES, "NVML_GPU_VIRTUALIZATION_MODE_", ()),
    ],
)
def test_every_number_of_the_binding_has_a_name(table, prefix, without):
    found = constants(prefix, without)
    assert found and found <= set(table)


def test_every_event_reason_of_the_binding_has_a_name():
    found = constants("nvmlClocksThrottleReason", ("All", "None")) | constants("nvmlClocksEventReason", ("All", "None"))
    assert found == set(names.EVENT_REASONS)


def test_every_nvlink_version_of_the_binding_has_its_name():
    for name in dir(pynvml):
        match = re.fullmatch(r"NVML_NVLINK_VERSION_(\d)_(\d)", name)
        if match is not None:
            assert names.NVLINK_VERSIONS[getattr(pynvml, name)] == "{0}.{1}".format(*match.groups())


def test_a_number_that_is_newer_than_the_table_is_shown():
    assert names.named(names.ARCHITECTURES)(99) == "unknown (99)"


def test_event_reasons_are_decoded_lowest_first_and_unknown_bits_are_shown():
    assert names.event_reasons(0) == ()
    assert names.event_reasons(0x1 | 0x40 | 0x8) == ("gpu_idle", "hardware_slowdown", "hardware_thermal_slowdown")
    assert names.event_reasons(0x4 | 0x800) == ("software_power_cap", "unknown (0x800)")


def test_a_healthy_fabric_of_an_h100():
    # degraded bandwidth: false, route recovery: false, route unhealthy: false, access timeout: false,
    # configuration: none wrong, partition assigned: true.
    mask = 2 | 2 << 2 | 2 << 4 | 2 << 6 | 1 << 8 | 1 << 12
    assert names.fabric_health(mask) == {
        "degraded_bandwidth": False,
        "route_recovery": False,
        "route_unhealthy": False,
        "access_timeout_recovery": False,
        "partition_assigned": True,
        "fabric_manager_connected": None,
        "incorrect_configuration": "none",
    }
    assert names.fabric_health(5 << 8)["incorrect_configuration"] == "insufficient_nvlinks"
    assert names.fabric_health(15 << 8)["incorrect_configuration"] == "unknown (15)"


def test_the_uuid_of_a_fabric():
    assert names.cluster_uuid(range(16)) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    for none in ([0] * 16, [1, 2]):
        with pytest.raises(ValueError):
            names.cluster_uuid(none)


def test_a_pci_id_is_written_as_lspci_does():
    assert names.pci_id(0x20B010DE) == "10de:20b0"


def test_small_conversions():
    assert values.watts(400500) == 400.5
    assert values.text(b"92.00.45.00.03 \0") == "92.00.45.00.03"
    assert names.performance_state(0) == "P0"
    assert (values.flag(0), values.flag(1)) == (False, True)
    for wrong in (lambda: values.text("N/A"), lambda: names.performance_state(32), lambda: values.flag(2)):
        with pytest.raises(ValueError):
            wrong()


@given(some.sets(some.integers(0, 300)))
def test_bits_of_words_and_lists_of_ranges_go_there_and_back(numbers):
    words = [sum(1 << number % 64 for number in numbers if number // 64 == position) for position in range(5)]
    assert names.bits(words) == tuple(sorted(numbers))
    back = set()
    for part in filter(None, names.ranges(sorted(numbers)).split(",")):
        first, dummy, last = part.partition("-")
        back |= set(range(int(first), int(last or first) + 1))
    assert back == numbers


def test_cpu_lists_look_like_the_kernels():
    assert names.ranges([0, 1, 2, 3, 8, 10, 11]) == "0-3,8,10-11"
    assert names.ranges([]) == ""


def test_the_step_of_clocks():
    assert names.even_step(range(210, 1411, 15)) == 15
    assert names.even_step([135, 142, 150]) is None
    assert names.even_step([405]) is None

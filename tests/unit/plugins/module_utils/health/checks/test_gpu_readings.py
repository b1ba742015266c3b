# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judges of GPUs without a GPU: a healthy GPU is quiet, and each reading that goes wrong is told."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import fabric
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.gpus_judged import (
    BY_GPU_LANE,
    HEALTHY,
    NO_ERRORS,
    NO_SRAM_ERRORS,
    PROFILE,
    all_codes,
    codes,
    expected,
    gpu,
    machine,
)


@pytest.mark.parametrize(
    ("told", "recovered"),
    [
        (("none", "none"), True),
        (("none", "gpu_reset"), False),
        (("none", None), False),
        ((None, None), None),
        ((None, "failed"), False),
        ((), None),
    ],
)
def test_a_driver_without_recovery_actions_is_not_one_that_could_not_report_them(told, recovered):
    def made(index, action):
        failed = ("repair.recovery_action",) if action == "failed" else ()
        repair = dataclasses.replace(HEALTHY["repair"], recovery_action=None if failed else action)
        groups = {**HEALTHY, "repair": repair}
        return gpu(index, failed=failed, **groups)

    found = fabric.of((), [made(index, action) for index, action in enumerate(told)])
    assert found.recovered is recovered
    assert found.gpus == tuple("GPU-{0}".format(index) for index in range(len(told)))


H100_LIMIT = {"slowdown_margin_celsius": -2, "gpu_celsius": 88}
B200_LIMIT = {"slowdown_margin_celsius": -3, "slowdown_celsius": None}


@pytest.mark.parametrize("profile", [PROFILE, None])
def test_a_healthy_gpu_is_quiet(profile):
    assert all_codes(machine(gpu(0, **HEALTHY), gpu(1, **HEALTHY)), profile) == []


@pytest.mark.parametrize(
    ("group", "change", "told"),
    [
        ("repair", {"spare_rows": types.SpareRows(2560, 2559, 0, 0, 1)}, ("gpu_row_remap", "banks", "warn", "replace")),
        ("repair", {"spare_rows": types.SpareRows(2560, 2550, 5, 5, 0)}, None),
        ("repair", {"remapped_rows": types.RemappedRows(3, 512, False, False)}, None),
        (
            "repair",
            {"remapped_rows": types.RemappedRows(0, 513, False, True), "spare_rows": types.SpareRows(9, 0, 0, 0, 9)},
            ("gpu_row_remap", "failure", "fail", "replace"),
        ),
        ("repair", {"unrepairable_memory": True}, ("gpu_repair", "unrepairable", "fail", "replace")),
        (
            "repair",
            {"channel_repair_pending": True},
            ("gpu_repair", "channel_repair_pending", "warn", "reset_gpu"),
        ),
        ("repair", {"tpc_repair_pending": True}, ("gpu_repair", "tpc_repair_pending", "warn", "reset_gpu")),
        (
            "repair",
            {"retired_pages_corrected": 10, "retired_pages_uncorrected": 16},
            ("gpu_retired_pages", "double_bit", "warn", "watch"),
        ),
        ("repair", {"retired_pages_corrected": 63}, ("gpu_retired_pages", "pages", "fail", "replace")),
        (
            "repair",
            {"retired_pages_corrected": 0, "retired_pages_pending": True},
            ("gpu_retired_pages", "pending", "warn", "reset_gpu"),
        ),
        ("repair", {"recovery_action": None}, ("gpu_recovery_action", "untold", "unknown", "look")),
        ("repair", {"recovery_action": "bus_reset"}, ("gpu_recovery_action", "bus_reset", "fail", "reboot")),
        (
            "repair",
            {"recovery_action": "recover_imex_domain"},
            ("gpu_recovery_action", "recover_imex_domain", "fail", "restart_service"),
        ),
        (
            "ecc",
            {"sram_status": dataclasses.replace(NO_SRAM_ERRORS, threshold_exceeded=True)},
            ("gpu_ecc", "sram_threshold", "fail", "replace"),
        ),
        ("ecc", {"dram": dataclasses.replace(NO_ERRORS, volatile_corrected=20000000)}, None),
        (
            "ecc",
            {"dram": dataclasses.replace(NO_ERRORS, volatile_corrected=20000001)},
            ("gpu_ecc", "corrected_dram", "fail", "replace"),
        ),
        (
            "ecc",
            {"total": dataclasses.replace(NO_ERRORS, volatile_uncorrected=1)},
            ("gpu_ecc", "uncorrected", "warn", "reset_gpu"),
        ),
        ("ecc", {"current": False, "pending": False, "default": False}, None),
        ("ecc", {"current": None, "pending": None, "default": None}, ("gpu_ecc_mode", "untold", "unknown", "look")),
        ("settings", {"mig_pending": True}, ("gpu_mig_mode", "pending", "warn", "reset_gpu")),
        ("settings", {"mig_current": True, "mig_pending": True}, ("gpu_mig_mode", "differs", "warn", "configure")),
        ("clocks", {"event_reasons": ("software_power_cap", "application_clocks_setting")}, None),
        ("clocks", {"event_reasons": ("unknown (0x800)",)}, ("gpu_slowdown", "unknown", "warn", "look")),
        (
            "clocks",
            {"event_reasons": ("hardware_slowdown", "hardware_power_brake_slowdown")},
            ("gpu_slowdown", "hardware_power_brake_slowdown", "warn", "replace"),
        ),
        ("temperature", {"gpu_celsius": 88}, None),
        ("temperature", {"gpu_celsius": 89}, ("gpu_temperature", "slowdown", "fail", "look")),
        # The distance and the limit of this GPU decide, and the temperature of a slowdown does not.
        ("temperature", {**H100_LIMIT, "margin_celsius": 0, "gpu_celsius": 90}, None),
        ("temperature", {**H100_LIMIT, "margin_celsius": -1}, ("gpu_temperature", "operating", "warn", "look")),
        ("temperature", {**H100_LIMIT, "margin_celsius": -2}, ("gpu_temperature", "operating", "warn", "look")),
        ("temperature", {**H100_LIMIT, "margin_celsius": -3}, ("gpu_temperature", "slowdown", "fail", "look")),
        ("temperature", {**B200_LIMIT, "margin_celsius": -3}, ("gpu_temperature", "operating", "warn", "look")),
        ("temperature", {**B200_LIMIT, "margin_celsius": -4}, ("gpu_temperature", "slowdown", "fail", "look")),
        # A distance that cannot be: the GPU is cool.
        (
            "temperature",
            {**H100_LIMIT, "margin_celsius": -10, "gpu_celsius": 58},
            ("gpu_temperature", "operating", "warn", "look"),
        ),
        (
            "temperature",
            {**H100_LIMIT, "margin_celsius": -10, "gpu_celsius": 59},
            ("gpu_temperature", "slowdown", "fail", "look"),
        ),
        # Without that limit the temperature decides, and without both the lowest limit of any GPU.
        ("temperature", {"margin_celsius": -9}, None),
        ("temperature", {"margin_celsius": 0, "slowdown_celsius": None}, None),
        (
            "temperature",
            {"margin_celsius": -3, "slowdown_celsius": None},
            ("gpu_temperature", "operating", "warn", "look"),
        ),
        (
            "temperature",
            {"margin_celsius": -4, "slowdown_celsius": None},
            ("gpu_temperature", "slowdown", "fail", "look"),
        ),
        ("temperature", {"memory_celsius": 94}, None),
        ("pcie", {"current_generation": 1}, None),
        ("fabric", {"state": "not_supported"}, ("gpu_fabric", "outside", "unknown", "look")),
        ("fabric", {"state": "unknown (255)"}, ("gpu_fabric", "health", "unknown", "look")),
        ("fabric", {"state": "not_started"}, ("gpu_fabric", "state", "fail", "restart_service")),
        ("fabric", {"health": {"degraded_bandwidth": True}}, ("gpu_fabric", "degraded", "warn", "reset_gpu")),
        # Branch 550 has a mask and no summary of it.
        (
            "fabric",
            {"health_summary": None, "health": {"route_unhealthy": True}},
            ("gpu_fabric", "unhealthy", "fail", "reset_gpu"),
        ),
        (
            "fabric",
            {"health_summary": "not_supported", "health": {"incorrect_configuration": "insufficient_nvlinks"}},
            ("gpu_fabric", "unhealthy", "fail", "reset_gpu"),
        ),
        (
            "fabric",
            {"health_summary": None, "health": {"incorrect_configuration": "unknown (9)"}},
            ("gpu_fabric", "health", "unknown", "look"),
        ),
        (
            "fabric",
            {"health_summary": None, "health": {"route_recovery": True}},
            ("gpu_fabric", "degraded", "warn", "reset_gpu"),
        ),
        (
            "fabric",
            {"health_summary": None, "health": {"route_unhealthy": False, "incorrect_configuration": "none"}},
            None,
        ),
        ("fabric", {"health_summary": None, "health": {"partition_assigned": True, "degraded_bandwidth": None}}, None),
        ("memory", {"total_bytes": 2**34}, ("gpu_product", "memory", "fail", "replace")),
    ],
)
def test_one_reading_goes_wrong(group, change, told):
    sick = dict(HEALTHY, **{group: dataclasses.replace(HEALTHY[group], **change)})
    # Where the one retires pages, so does the other of its kind.
    pages = {name: value and 0 for name, value in change.items() if name.startswith("retired_pages")}
    well = {**HEALTHY, "repair": dataclasses.replace(HEALTHY["repair"], **pages)}
    assert all_codes(machine(gpu(0, **well), gpu(1, **sick))) == ([] if told is None else [told])


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"ecc": True}, []),
        ({"ecc": False}, ["0", "1"]),
        ({"ecc": False, "gpus": ["1"]}, ["1"]),
        ({"ecc": False, "overrides": [{"gpu": 0, "ecc": True}]}, ["1"]),
        ({"overrides": [{"gpu": "GPU-0", "ecc": False}, {"gpu": "1", "persistence": True}]}, ["0"]),
    ],
)
def test_ecc_may_be_declared_for_some_gpus(section, told):
    check = next(one for one in BY_GPU_LANE if one.id == "gpu_ecc_mode")
    judgement = check.judge(machine(gpu(0, **HEALTHY), gpu(1, **HEALTHY)), expected(gpu_settings=section))
    assert codes(judgement) == [("on", "warn", place) for place in told]


@pytest.mark.parametrize(
    ("modes", "odd"),
    [
        ((True, True, True), ""),
        ((False, False), ""),
        ((None, True), ""),
        (("nothing was read", True), ""),
        (("nothing was read", True, False), "2"),
        ((False, True, False), "1"),
        ((True, False), "1"),
    ],
)
def test_gpus_that_differ_in_their_mig_mode(modes, odd):
    gpus = []
    for index, mode in enumerate(modes):
        settings = None if mode == "nothing was read" else types.Settings(True, "default", mode, mode)
        gpus.append(gpu(index, settings=settings))
    check = next(one for one in BY_GPU_LANE if one.id == "gpu_mig_mode")
    assert codes(check.judge(machine(*gpus), expected())) == [("differs", "warn", place) for place in odd]


def test_the_profile_may_drain_for_a_remap():
    rows = types.RemappedRows(0, 1, True, False)
    pending = {**HEALTHY, "repair": dataclasses.replace(HEALTHY["repair"], remapped_rows=rows)}
    node = machine(gpu(0, **HEALTHY), gpu(1, **pending))
    assert all_codes(node) == [("gpu_row_remap", "pending", "warn", "reset_gpu")]
    strict = dict(LIMITS, gpu_pending_row_remaps=dataclasses.replace(LIMITS["gpu_pending_row_remaps"], fail=0))
    check = next(one for one in BY_GPU_LANE if one.id == "gpu_row_remap")
    judgement = check.judge(node, dataclasses.replace(expected(PROFILE), thresholds=strict))
    assert codes(judgement) == [("pending", "fail", "1")]

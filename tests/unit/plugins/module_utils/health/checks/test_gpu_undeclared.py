# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judges of GPUs without a GPU: limits that nobody declared, and values that cannot be read."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import gpu_product
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.gpus_judged import (
    HEALTHY,
    PROFILE,
    all_codes,
    check_of,
    codes,
    expected,
    gpu,
    machine,
    mig,
)

NO_COUNTS = types.ErrorCounts(None, None, None, None)


# Limits that nobody declared ---------------------------------------------------------------------------------------

CLOCKS_OF_A100 = {"gpus": {**PROFILE["gpus"], "graphics_clock_max_mhz": 1410, "memory_clock_max_mhz": 1215}}


@pytest.mark.parametrize(
    ("group", "change", "profile", "declared", "told"),
    [
        ("clocks", {"max_graphics_mhz": 1410}, CLOCKS_OF_A100, {}, []),
        ("clocks", {"max_graphics_mhz": 1409}, CLOCKS_OF_A100, {}, ["graphics_clock_max_mhz"]),
        # As far as a locked clock may be off for gpu_settings.
        ("clocks", {"max_memory_mhz": 1200}, CLOCKS_OF_A100, {}, []),
        ("clocks", {"max_memory_mhz": 1199}, CLOCKS_OF_A100, {}, ["memory_clock_max_mhz"]),
        ("clocks", {"max_graphics_mhz": 1500}, CLOCKS_OF_A100, {}, []),
        ("clocks", {"max_graphics_mhz": 100}, {}, {}, []),
        ("clocks", {"max_graphics_mhz": -1, "max_memory_mhz": -100}, {}, {}, []),
        ("power", {"limit_watts": 200.0}, {}, {}, ["power_limit"]),
        ("power", {"enforced_limit_watts": 200.0}, {}, {}, ["power_limit"]),
        ("power", {"limit_watts": 399.0}, {}, {}, []),
        ("power", {"limit_watts": 398.9}, {}, {}, ["power_limit"]),
        ("power", {"limit_watts": 200.0}, {}, {"power_limit_watts": 200}, []),
        ("power", {"limit_watts": 200.0}, {}, {"overrides": [{"gpu": "GPU-0", "power_limit_watts": 200}]}, []),
        (
            "power",
            {"limit_watts": 200.0},
            {},
            {"overrides": [{"gpu": "GPU-7", "power_limit_watts": 200}]},
            ["power_limit"],
        ),
        ("power", {"limit_watts": None, "enforced_limit_watts": None}, {}, {}, []),
        ("settings", {"persistence": False}, PROFILE, {}, ["persistence"]),
        ("settings", {"persistence": False}, {}, {}, []),
        ("settings", {"persistence": False}, PROFILE, {"persistence": False}, []),
        ("settings", {"persistence": False}, PROFILE, {"persistence": True}, []),  # told by gpu_settings
    ],
)
def test_limits_that_nobody_declared(group, change, profile, declared, told):
    changed = dict(HEALTHY, **{group: dataclasses.replace(HEALTHY[group], **change)})
    check = check_of("gpu_performance")
    judgement = check.judge(machine(gpu(0, **changed)), expected(profile, gpu_settings=declared))
    assert codes(judgement) == [(code, "warn", "0") for code in told]


@pytest.mark.parametrize(
    "path",
    [
        "clocks.graphics_mhz",
        "clocks.memory_mhz",
        "clocks.max_graphics_mhz",
        "clocks.max_memory_mhz",
        "power.limit_watts",
        "power.enforced_limit_watts",
        "power.default_limit_watts",
        "settings.persistence",
    ],
)
def test_clocks_and_limits_that_cannot_be_read_are_unknown(path):
    node = machine(gpu(0, failed=[path], **HEALTHY))
    assert codes(check_of("gpu_performance").judge(node, expected(PROFILE))) == [("unread", "unknown", "0")]


@pytest.mark.parametrize("group", ["ecc", "temperature", "clocks"])
def test_what_a_gpu_of_its_kind_tells_is_unknown_where_another_does_not(group):
    blank = {"event_reasons": None, "gpu_celsius": None, "margin_celsius": None, "current": None, "total": NO_COUNTS}
    names = {field.name for field in dataclasses.fields(HEALTHY[group])}
    silent = dataclasses.replace(HEALTHY[group], **{name: value for name, value in blank.items() if name in names})
    quiet = dict(HEALTHY, **{group: silent})
    checks = {check for check, *dummy in all_codes(machine(gpu(0, **HEALTHY), gpu(1, **quiet)))}
    of_group = {"ecc": {"gpu_ecc", "gpu_ecc_mode"}, "temperature": {"gpu_temperature"}, "clocks": {"gpu_slowdown"}}
    assert checks == of_group[group]
    assert all_codes(machine(gpu(0, **HEALTHY), gpu(1, "T4", **quiet)), {"gpus": {"count": 2}}) == []
    assert all_codes(machine(gpu(0, **quiet), gpu(1, **quiet))) == []


@pytest.mark.parametrize(
    "path",
    ["gpu_celsius", "memory_celsius", "margin_celsius", "slowdown_margin_celsius", "slowdown_celsius"],
)
def test_temperatures_that_cannot_be_read_are_unknown(path):
    node = machine(gpu(0, failed=["temperature." + path], **HEALTHY))
    assert codes(check_of("gpu_temperature").judge(node, expected())) == [("unread", "unknown", "0")]


ALIKE = [
    ("gpu_ecc", "ecc.total.volatile_uncorrected"),
    ("gpu_ecc", "ecc.total.aggregate_uncorrected"),
    ("gpu_ecc", "ecc.dram.volatile_corrected"),
    ("gpu_ecc", "ecc.sram.volatile_corrected"),
    ("gpu_ecc", "ecc.sram_status"),
    ("gpu_row_remap", "repair.remapped_rows"),
    ("gpu_row_remap", "repair.spare_rows"),
    ("gpu_repair", "repair.unrepairable_memory"),
    ("gpu_recovery_action", "repair.recovery_action"),
    ("gpu_firmware", "board.vbios_version"),
    ("gpu_product", "memory.total_bytes"),
    ("gpu_pcie", "pcie.current_width_lanes"),
    ("gpu_pcie", "pcie.max_generation"),
    ("gpu_pcie", "pcie.replay_count"),
    ("gpu_temperature", "temperature.gpu_celsius"),
    ("gpu_temperature", "temperature.memory_celsius"),
    ("gpu_slowdown", "clocks.event_reasons"),
    ("gpu_performance", "clocks.max_memory_mhz"),
    ("gpu_performance", "power.limit_watts"),
    ("gpu_performance", "power.default_limit_watts"),
    ("gpu_performance", "settings.persistence"),
]


def without(value, names):
    name, *more = names
    return dataclasses.replace(value, **{name: without(getattr(value, name), more) if more else None})


@pytest.mark.parametrize(("check", "path"), ALIKE)
def test_a_value_that_only_one_gpu_of_a_kind_does_not_tell_is_unknown(check, path):
    group, *names = path.split(".")
    quiet = dict(HEALTHY, **{group: without(HEALTHY[group], names)})
    node = machine(gpu(0, **HEALTHY), gpu(1, **quiet))
    assert all_codes(node) == [(check, "untold", "unknown", "look")]
    # Of other products, and where no GPU tells it, nothing is known to be wrong.
    assert all_codes(machine(gpu(0, **HEALTHY), gpu(1, "T4", **quiet)), {"gpus": {"count": 2}}) == []
    assert all_codes(machine(gpu(0, **quiet), gpu(1, **quiet))) == []
    # It is said once: what it failed to tell is unread.
    assert all_codes(machine(gpu(0, **HEALTHY), gpu(1, failed=[path], **quiet)))[:1] != [
        (check, "untold", "unknown", "look")
    ]
    # MIG instances hide some of it.
    hidden = path.startswith(("ecc.", "repair."))
    told = all_codes(machine(gpu(0, **HEALTHY), gpu(1, **dict(quiet, settings=mig(True)))))
    if group != "settings":
        assert ((check, "untold", "unknown", "look") in told) is not hidden


def test_a_gpu_whose_ecc_is_off_need_not_count_errors():
    off = {**HEALTHY, "ecc": types.Ecc(False, False, False, NO_COUNTS, NO_COUNTS, NO_COUNTS, None)}
    assert all_codes(machine(gpu(0, **HEALTHY), gpu(1, **off))) == []


@pytest.mark.parametrize("profile", [PROFILE, None])
@pytest.mark.parametrize("failed", [["name"], []])
def test_a_gpu_without_a_name_is_unknown(profile, failed):
    node = machine(gpu(0, None, failed, **HEALTHY))
    assert codes(gpu_product.products(node, expected(profile))) == [("unread", "unknown", "0")]

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judges of GPUs without a GPU: no reading crashes one, what is alike is quiet, and every table has its sources."""

from __future__ import annotations

import dataclasses
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpu_info import (
    GpuInformation,
    Information,
    names,
    types,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import (
    gpu_nvlink,
    gpu_pcie,
    gpu_presence,
    gpu_processes,
    gpu_product,
    of_gpus,
    of_gpus_passive,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data import (
    event_reasons,
    gpu_limits,
    gpu_programs,
    recovery_actions,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import GPU_LANE, Expected, Origin
from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvml.call import Kind
from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvml.session import Fault

GROUPS = {
    "board": types.Board,
    "memory": types.Memory,
    "settings": types.Settings,
    "clocks": types.Clocks,
    "temperature": types.Temperature,
    "ecc": types.Ecc,
    "repair": types.Repair,
    "pcie": types.Pcie,
    "nvlink": types.NvLinks,
    "fabric": types.Fabric,
}
BY_GPU_LANE = [check for check in of_gpus.CHECKS + of_gpus_passive.CHECKS if check.lane == GPU_LANE]
PROFILE = {"gpus": {"count": 2, "products": ["A100*"], "nvlinks": 12, "memory_bytes_min": 2**35}}


def expected(profile=None, origins=None, **declared):
    return Expected("machine", profile or {}, declared, LIMITS, origins or {}, {}, 1790000000.0)


def gpu(index, name="A100", failed=(), fault=None, **groups):
    identity = Identity(index, "GPU-{0}".format(index), "0000:0{0}:00.0".format(index), name=name)
    return GpuInformation(
        identity, groups, {path: "it failed" for path in failed}, fault, dict.fromkeys(failed, Kind.FAILED)
    )


def machine(*gpus, status="ok"):
    return Information(
        status, "", "580.1", None, None, None, len(gpus), gpus, tuple(one.identity.pci_address for one in gpus)
    )


def codes(judgement):
    return [(one.code, one.outcome.value, one.key[6:7]) for one in judgement.findings]


def pcie(width=16, most=16, generation=4, replays=0):
    return types.Pcie("10de:20b0", None, 1, generation, 4, width, most, replays)


def nvlinks(active, count=12, kind="gpu"):
    links = tuple(
        types.NvLink(at, at < active, "3.0", 25000, kind if at < active else None, None, 0, 0, 0, 0)
        for at in range(count)
    )
    return types.NvLinks(count, active, links)


def test_a_link_narrower_than_its_siblings():
    told = gpu_pcie.judge(machine(gpu(0, pcie=pcie()), gpu(1, pcie=pcie(8)), gpu(2, pcie=pcie())), expected())
    assert codes(told) == [("width", "fail", "1")]


def test_links_that_are_all_narrow_are_how_an_unknown_machine_was_built():
    narrow = machine(gpu(0, pcie=pcie(8)), gpu(1, pcie=pcie(8)))
    assert codes(gpu_pcie.judge(narrow, expected())) == []
    assert codes(gpu_pcie.judge(narrow, expected(PROFILE))) == [("width", "warn", "0"), ("width", "warn", "1")]


def test_another_product_may_have_another_link():
    both = machine(gpu(0, pcie=pcie()), gpu(1, "T4", pcie=pcie(8, 8, 3)))
    assert codes(gpu_pcie.judge(both, expected())) == []


@pytest.mark.parametrize(("replays", "told"), [(4800, []), (4801, [("replays", "warn", "0")])])
def test_replays_by_the_minute(replays, told):
    origins = {("gpu_pcie_replays", "0000:00:00.0"): Origin(0.0, 10.0)}  # ten hours: 600 minutes of 8
    assert codes(gpu_pcie.judge(machine(gpu(0, pcie=pcie(replays=replays))), expected(origins=origins))) == told


@pytest.mark.parametrize(
    ("active", "kind", "profile", "told"),
    [
        ((12, 12), "gpu", None, []),
        ((12, 11), "gpu", None, [("links", "fail", "1")]),
        ((12, 0), "gpu", None, []),  # a card without a bridge beside a bridged pair
        ((12, 0), "switch", None, [("links", "fail", "1")]),
        ((0, 0), "switch", None, []),
        ((12, 12), "gpu", PROFILE, []),
        ((12, 11), "gpu", PROFILE, [("links", "fail", "1")]),
        ((0, 0), "gpu", PROFILE, [("links", "fail", "0"), ("links", "fail", "1")]),
    ],
)
def test_nvlinks(active, kind, profile, told):
    node = machine(*(gpu(at, nvlink=nvlinks(count, kind=kind)) for at, count in enumerate(active)))
    assert codes(gpu_nvlink.judge(node, expected(profile))) == told


def test_nvlinks_that_cannot_be_read_are_unknown_not_down():
    node = machine(gpu(0, nvlink=nvlinks(12)), gpu(1, failed=["nvlink.links.*.active"], nvlink=nvlinks(3)))
    assert codes(gpu_nvlink.judge(node, expected(PROFILE))) == [("unread", "unknown", "1")]


def board(vbios):
    return types.Board(None, None, None, None, None, None, vbios, None, None, None)


def test_the_odd_vbios_is_named_and_without_a_majority_nobody_is():
    same, other = board("92.1"), board("92.2")
    three = machine(gpu(0, board=same), gpu(1, board=other), gpu(2, board=same))
    assert codes(gpu_product.firmware(three, expected())) == [("vbios", "warn", "1")]
    assert codes(gpu_product.firmware(machine(gpu(0, board=same), gpu(1, board=other)), expected())) == []
    other_product = machine(gpu(0, board=same), gpu(1, "T4", board=other), gpu(2, board=same))
    assert codes(gpu_product.firmware(other_product, expected())) == []


def test_an_odd_product_on_an_unknown_machine_is_a_warning():
    node = machine(gpu(0), gpu(1, "T4"), gpu(2))
    assert codes(gpu_product.products(node, expected())) == [("product", "warn", "1")]


@pytest.mark.parametrize(
    ("kind", "call", "code", "outcome"),
    [
        (Kind.LOST, "nvmlDeviceGetName", "lost", "fail"),
        (Kind.HUNG, "nvmlDeviceGetName", "hung", "fail"),
        (Kind.FAILED, "nvmlDeviceGetName", "failed", "fail"),  # the library died in this call
        (Kind.FAILED, None, "failed", "unknown"),  # our own code failed
        (Kind.OUT_OF_TIME, "nvmlDeviceGetName", "not_asked", "unknown"),
    ],
)
def test_how_a_gpu_does_not_answer(kind, call, code, outcome):
    fault = Fault(kind, "GPU 1", "it does not", "do something", call)
    node = machine(gpu(0), gpu(1, fault=fault), status="partial")
    assert codes(gpu_presence.lost(node, expected())) == [(code, outcome, "1")]
    for check in BY_GPU_LANE:
        if check.id != "gpu_lost":
            assert codes(check.judge(node, expected())) == []


def test_when_no_gpu_answers_nothing_else_passes():
    fault = Fault(Kind.LOST, "GPU 0", "it does not", "do something", "nvmlDeviceGetName")
    node = machine(gpu(0, fault=fault), status="partial")
    for check in BY_GPU_LANE:
        judgement = check.judge(node, expected())
        assert judgement.not_applicable or check.id in ("gpu_lost", "gpu_count", "gpu_driver")


@pytest.mark.parametrize("command", sorted(gpu_programs.NAMES))
def test_programs_of_the_node_may_hold_a_gpu(command):
    process = gpu_processes.Process(7, "", command, None, (("GPU 0", "0000:00:00.0"),))
    assert gpu_processes.judge(gpu_processes.Seen((process,), ()), expected()).findings == ()


# One reading of a healthy GPU at a time goes wrong ------------------------------------------------------------------

NO_ERRORS = types.ErrorCounts(0, 0, 0, 0)
NO_SRAM_ERRORS = types.SramErrors(0, 0, 0, 0, 0, 0, False)
CLOCKS = types.Clocks(*[None] * len(dataclasses.fields(types.Clocks)))
HEALTHY = {
    "board": board("96.0"),
    "memory": types.Memory(2**36, 0, 2**36, 0, 2**36, 0, 2**36, 5120),
    "settings": types.Settings(True, "default", False, False),
    "clocks": dataclasses.replace(CLOCKS, event_reasons=("gpu_idle",), event_reasons_mask=1),
    "temperature": types.Temperature(30, 35, None, 92, 89, 95, 87),
    "ecc": types.Ecc(True, True, True, NO_ERRORS, NO_ERRORS, NO_ERRORS, NO_SRAM_ERRORS),
    "repair": types.Repair(
        types.RemappedRows(0, 0, False, False),
        types.SpareRows(2560, 2560, 0, 0, 0),
        None,
        None,
        None,
        False,
        False,
        False,
        "none",
    ),
    "pcie": pcie(),
    "nvlink": nvlinks(12),
    "fabric": types.Fabric("completed", "success", None, 0, 0, {}, "healthy"),
}


def all_codes(node, profile=None):
    return [
        (check.id, one.code, one.outcome.value, one.action.value)
        for check in BY_GPU_LANE
        for one in check.judge(node, expected(profile or PROFILE)).findings
    ]


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
        ("repair", {"retired_pages_corrected": 10, "retired_pages_uncorrected": 5}, None),
        (
            "repair",
            {"retired_pages_corrected": 10, "retired_pages_uncorrected": 6},
            ("gpu_retired_pages", "pages", "warn", "watch"),
        ),
        ("repair", {"retired_pages_corrected": 62}, ("gpu_retired_pages", "pages", "warn", "watch")),
        ("repair", {"retired_pages_corrected": 63}, ("gpu_retired_pages", "pages", "fail", "replace")),
        (
            "repair",
            {"retired_pages_corrected": 0, "retired_pages_pending": True},
            ("gpu_retired_pages", "pending", "warn", "reset_gpu"),
        ),
        ("repair", {"recovery_action": None}, None),
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
        ("ecc", {"current": None, "pending": None, "default": None}, None),
        ("settings", {"mig_pending": True}, ("gpu_mig_mode", "pending", "warn", "reset_gpu")),
        ("settings", {"mig_current": True, "mig_pending": True}, ("gpu_mig_mode", "differs", "warn", "configure")),
        ("clocks", {"event_reasons": ("software_power_cap", "application_clocks_setting")}, None),
        ("clocks", {"event_reasons": ("unknown (0x800)",)}, ("gpu_slowdown", "unknown", "warn", "look")),
        (
            "clocks",
            {"event_reasons": ("hardware_slowdown", "hardware_power_brake_slowdown")},
            ("gpu_slowdown", "hardware_power_brake_slowdown", "fail", "replace"),
        ),
        ("temperature", {"gpu_celsius": 88}, None),
        ("temperature", {"margin_celsius": 0}, ("gpu_temperature", "slowdown", "fail", "look")),
        ("temperature", {"margin_celsius": 1, "slowdown_celsius": None}, None),
        ("temperature", {"memory_celsius": 94}, None),
        ("pcie", {"current_generation": 1}, None),
        ("fabric", {"state": "not_supported"}, None),
        ("fabric", {"state": "not_started"}, ("gpu_fabric", "state", "fail", "restart_service")),
        ("fabric", {"health": {"degraded_bandwidth": True}}, ("gpu_fabric", "degraded", "warn", "reset_gpu")),
        ("memory", {"total_bytes": 2**34}, ("gpu_product", "memory", "fail", "replace")),
    ],
)
def test_one_reading_goes_wrong(group, change, told):
    sick = dict(HEALTHY, **{group: dataclasses.replace(HEALTHY[group], **change)})
    assert all_codes(machine(gpu(0, **HEALTHY), gpu(1, **sick))) == ([] if told is None else [told])


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


# Tables -------------------------------------------------------------------------------------------------------------


def test_every_figure_has_a_source():
    rows = [
        *event_reasons.EVENT_REASONS,
        *recovery_actions.RECOVERY_ACTIONS,
        *gpu_programs.GPU_PROGRAMS,
        *gpu_limits.GPU_LIMITS.values(),
    ]
    assert all(len(row.source.strip()) > 10 for row in rows)
    assert set(gpu_limits.GPU_LIMITS) <= set(LIMITS)


def test_tables_have_the_names_of_gpu_info():
    assert {one.mask: one.name for one in event_reasons.EVENT_REASONS} == names.EVENT_REASONS
    assert {one.name for one in recovery_actions.RECOVERY_ACTIONS} == set(names.RECOVERY_ACTIONS.values())
    assert set(GROUPS) >= {group for check in BY_GPU_LANE for group in check.gpu_groups}


def test_command_names_are_as_the_kernel_cuts_them():
    assert all(len(name) <= 15 for name in gpu_programs.NAMES)


# No reading crashes a judge ----------------------------------------------------------------------------------------


def values(hint):
    """A strategy for a type annotation of gpu_info's readings."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        return st.one_of(*(st.none() if one is type(None) else values(one) for one in arguments))
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is not None:  # a mapping
        return st.dictionaries(st.sampled_from(["degraded_bandwidth", "x"]), st.sampled_from([None, True, False, "y"]))
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return st.builds(hint, **{field.name: values(hints[field.name]) for field in dataclasses.fields(hint)})
    return {
        int: st.one_of(st.integers(-1, 100), st.integers(0, 2**64 - 1)),
        float: st.floats(0, 1e9),
        bool: st.booleans(),
        str: st.sampled_from(["none", "gpu_reset", "hardware_slowdown", "completed", "unhealthy", "switch", "new"]),
    }[hint]


@st.composite
def gpus(draw):
    fault = draw(st.sampled_from([None, None, *(Fault(kind, "GPU", "why", "what", None) for kind in Kind)]))
    groups = {name: draw(st.none() | values(kind)) for name, kind in GROUPS.items()}
    failed = draw(st.lists(st.sampled_from(["ecc.total", "repair.remapped_rows", "nvlink.links.*.active"]), max_size=2))
    index, name = draw(st.integers(0, 3)), draw(st.sampled_from(["A100", "T4", None]))
    return dataclasses.replace(gpu(index, name, failed, fault), groups=groups)


@settings(max_examples=40)
@given(
    st.lists(gpus(), max_size=3),
    st.sampled_from(["ok", "partial", "no_gpu", "hung", "driver_not_loaded", "failed"]),
    st.sampled_from([{}, PROFILE]),
    st.booleans(),
)
def test_no_reading_crashes_a_judge(found, status, profile, grown):
    node = dataclasses.replace(machine(*found, status=status), message="NVML: why; what.", gpu_count=None)
    origins = {}
    if grown:
        for check in BY_GPU_LANE:
            for one in check.judge(node, expected(profile)).measured:
                origins[one.name, one.key] = Origin(0.0, 0.5)
    for check in BY_GPU_LANE:
        judgement = check.judge(node, expected(profile, origins))
        for one in judgement.findings:
            assert one.thing and one.reason and one.remedy and one.code
        if judgement.not_applicable:
            assert not judgement.findings

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judges of GPUs without a GPU: no reading crashes one, what is alike is quiet, and every table has its sources."""

from __future__ import annotations

import dataclasses
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import fabric
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import (
    GpuInformation,
    Information,
    names,
    types,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.call import Kind
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.session import Fault
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import baseline
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import (
    gpu_common,
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
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    GPU_LANE,
    Expected,
    Origin,
    Threshold,
    worst,
)
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

GROUPS = {
    "board": types.Board,
    "memory": types.Memory,
    "settings": types.Settings,
    "clocks": types.Clocks,
    "power": types.Power,
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
    """``origins``: one point of each counter, or several, oldest first."""
    points = {name: (one,) if isinstance(one, Origin) else tuple(one) for name, one in (origins or {}).items()}
    return Expected("machine", profile or {}, declared, LIMITS, points, {}, 1790000000.0)


def counted(judgement, name, *points, key="0000:00:00.0"):
    """The points of a counter of a judgement, each (value, hours ago)."""
    (figure,) = (one for one in judgement.measured if (one.name, one.key) == (name, key))
    return {figure.counted: [Origin(value, hours) for value, hours in points]}


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


def test_a_gpu_in_a_narrower_slot_is_a_warning():
    """NVML's highest width is that of GPU and slot together."""
    halves = machine(*(gpu(at, pcie=pcie(*((16, 16) if at < 2 else (8, 8)))) for at in range(4)))
    judgement = gpu_pcie.judge(halves, expected())
    assert codes(judgement) == [("width", "warn", "2"), ("width", "warn", "3")]
    assert {(one.action.value, one.certainty.value) for one in judgement.findings} == {("look", "possible")}
    # Among the narrow slots, one link is narrower still.
    worse = machine(gpu(0, pcie=pcie()), gpu(1, pcie=pcie(8, 8)), gpu(2, pcie=pcie(4, 8)))
    assert codes(gpu_pcie.judge(worse, expected())) == [("width", "warn", "1"), ("width", "fail", "2")]
    alone = machine(gpu(0, pcie=pcie()), gpu(1, pcie=pcie(4, 8)))
    assert codes(gpu_pcie.judge(alone, expected())) == [("width", "warn", "1")]


def test_an_older_slot_of_an_unknown_machine_is_a_warning():
    mixed = machine(gpu(0, pcie=pcie()), gpu(1, pcie=pcie(generation=3)))
    assert codes(gpu_pcie.judge(mixed, expected())) == [("generation", "warn", "1")]
    assert codes(gpu_pcie.judge(mixed, expected(PROFILE))) == [("generation", "fail", "1")]


H100 = "NVIDIA H100 80GB HBM3"


def running_at(*generations, name=H100):
    return machine(
        *(gpu(at, name, pcie=types.Pcie("10de:2330", None, now, 5, 5, 16, 16, 0)) for at, now in enumerate(generations))
    )


def test_a_slow_link_is_a_warning_if_the_other_links_stay_fast_while_idle():
    assert codes(gpu_pcie.judge(running_at(5, 5, 5, 3), expected())) == [("slow_now", "warn", "3")]
    assert codes(gpu_pcie.judge(running_at(5, 5, 1, 3, 5, 5), expected())) == [
        ("slow_now", "warn", "2"),
        ("slow_now", "warn", "3"),
    ]
    for healthy in ((5, 5, 5, 5), (1, 1, 1, 1), (3,), (5, 1, 1, 1), (5, 5, 5, None)):
        assert codes(gpu_pcie.judge(running_at(*healthy), expected())) == []
    # The links of most products slow down while idle, each by itself.
    assert codes(gpu_pcie.judge(running_at(5, 5, 5, 1, name="NVIDIA A100-SXM4-80GB"), expected())) == []


def test_another_product_may_have_another_link():
    both = machine(gpu(0, pcie=pcie()), gpu(1, "T4", pcie=pcie(8, 8, 3)))
    assert codes(gpu_pcie.judge(both, expected())) == []


@pytest.mark.parametrize(
    ("generation", "lanes", "limit"),
    [(1, 16, 3), (2, 16, 5), (3, 16, 8), (4, 16, 16), (5, 16, 31), (6, 16, 62), (9, 16, 62), (4, 8, 8), (3, 1, 1)],
)
def test_replays_by_the_minute(generation, lanes, limit):
    origins = {("gpu_pcie_replays", "0000:00:00.0"): Origin(0.0, 10.0)}  # ten hours: 600 minutes

    def told(replays, **more):
        link = machine(gpu(0, pcie=pcie(lanes, lanes, generation, replays=replays)))
        return codes(gpu_pcie.judge(link, dataclasses.replace(expected(origins=origins), **more)))

    assert told(600 * limit) == []
    assert told(600 * limit + 1) == [("replays", "warn", "0")]
    # A limit of the profile or of a setting takes its place.
    own = {"gpu_pcie_replays_per_minute": Threshold("lower", None, 1000, "the profile of this machine")}
    assert told(600 * limit + 1, thresholds=own) == []
    assert told(600001, thresholds=own) == [("replays", "fail", "0")]


@pytest.mark.parametrize(
    ("counter", "count", "told"),
    [
        ("replay_errors", 0, []),
        ("replay_errors", 1, [("replays", "warn", "0")]),
        ("recovery_errors", 1, [("recoveries", "warn", "0")]),
        ("crc_errors", 1, [("crc_errors", "warn", "0")]),
        ("crc_errors", 3600000, [("crc_errors", "warn", "0")]),  # 100 a second for ten hours
        ("crc_errors", 3600001, [("crc_errors", "fail", "0")]),
    ],
)
def test_errors_of_nvlinks(counter, count, told):
    links = nvlinks(12)
    links = dataclasses.replace(
        links, links=(dataclasses.replace(links.links[0], **{counter: count}), *links.links[1:])
    )
    name = "gpu_nvlink_" + counter
    origins = counted(gpu_nvlink.judge(machine(gpu(0, nvlink=links)), expected()), name, (0.0, 10.0))
    assert codes(gpu_nvlink.judge(machine(gpu(0, nvlink=links)), expected(origins=origins))) == told
    if told:
        strict = {**LIMITS, name + "_per_day": Threshold("lower", None, 0, "the profile of this machine")}
        judgement = gpu_nvlink.judge(
            machine(gpu(0, nvlink=links)), dataclasses.replace(expected(origins=origins), thresholds=strict)
        )
        assert [outcome for dummy, outcome, place in codes(judgement)] == ["fail"]


@pytest.mark.parametrize(
    ("rate", "told"), [(None, []), (0.0, []), (1e-6, []), (2e-6, [("bit_error_rate", "warn", "0")])]
)
def test_the_bit_error_rate_of_a_link_needs_no_earlier_look(rate, told):
    packets = types.NvLinkPackets(*[0] * 10, rate, 0, 0.0)
    links = nvlinks(2, 2)
    links = dataclasses.replace(links, links=(links.links[0], dataclasses.replace(links.links[1], packets=packets)))
    assert codes(gpu_nvlink.judge(machine(gpu(0, nvlink=links)), expected())) == told


def test_a_rate_is_one_of_a_minute_at_least():
    second = 1.0 / 3600.0
    origins = {
        ("gpu_pcie_replays", "0000:00:00.0"): Origin(0.0, second),
        ("gpu_nvlink_crc_errors", "0000:00:00.0#1"): Origin(0.0, second),
    }
    for replays, told in ((1, []), (16, []), (17, [("replays", "warn", "0")])):
        assert codes(gpu_pcie.judge(machine(gpu(0, pcie=pcie(replays=replays))), expected(origins=origins))) == told
    for errors, outcome in ((120, "warn"), (6000, "warn"), (6001, "fail")):
        links = nvlinks(1, 1)
        links = dataclasses.replace(links, links=(dataclasses.replace(links.links[0], crc_errors=errors),))
        judgement = gpu_nvlink.judge(machine(gpu(0, nvlink=links)), expected(origins=origins))
        assert codes(judgement) == [("crc_errors", outcome, "0")]


@pytest.mark.parametrize(
    ("single", "double", "week_ago", "told"),
    [
        (62, 0, None, []),
        (63, 0, None, [("pages", "fail", "0")]),
        (40, 23, None, [("pages", "fail", "0")]),
        (10, 15, 0, []),  # however many within the week
        (10, 16, None, [("double_bit", "warn", "0")]),
        (10, 16, 16, [("double_bit", "warn", "0")]),
        (10, 16, 15, [("double_bit", "warn", "0")]),
        (10, 16, 14, [("double_bit", "fail", "0")]),
        (None, 16, 14, [("double_bit", "fail", "0")]),
        (16, None, None, []),
    ],
)
def test_retired_pages(single, double, week_ago, told):
    pages = dataclasses.replace(
        HEALTHY["repair"], retired_pages_corrected=single, retired_pages_uncorrected=double, retired_pages_pending=False
    )
    name = ("gpu_retired_pages_double_bit", "0000:00:00.0")
    origins = {} if week_ago is None else {name: Origin(float(week_ago), 160.0)}
    judgement = check_of("gpu_retired_pages").judge(machine(gpu(0, repair=pages)), expected(origins=origins))
    assert codes(judgement) == told


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


def test_the_odd_vbios_is_named_and_without_a_majority_the_node_is():
    same, other = board("92.1"), board("92.2")
    three = machine(gpu(0, board=same), gpu(1, board=other), gpu(2, board=same))
    assert codes(gpu_product.firmware(three, expected())) == [("vbios", "warn", "1")]
    halves = machine(*(gpu(at, board=(same, other)[at % 2]) for at in range(8)))
    (split,) = gpu_product.firmware(halves, expected()).findings
    assert (split.code, split.outcome.value, split.key) == ("vbios_split", "warn", "")
    assert "4 with 92.1, 4 with 92.2" in split.reason
    assert codes(gpu_product.firmware(machine(gpu(0, board=same), gpu(1, board=other)), expected())) == [
        ("vbios_split", "warn", "")
    ]
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
    # What gpunode info and the modules say of it is what the check says.
    assert gpu_presence.lost(node, expected()).findings[0].remedy == "do something"
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
def test_only_the_system_may_hold_a_gpu_by_the_name_of_its_program(command):
    process = gpu_processes.Process(7, "", command, None, (("GPU 0", "0000:00:00.0"),), True)
    assert gpu_processes.judge(gpu_processes.Seen((process,), ()), expected()).findings == ()
    process = gpu_processes.Process(7, "", command, None, (("GPU 0", "0000:00:00.0"),))
    assert codes(gpu_processes.judge(gpu_processes.Seen((process,), ()), expected())) == [("foreign", "warn", "0")]


def test_gpus_in_use_are_counted_once_each_and_compared_with_no_other_node():
    gpus = [("GPU {0}".format(number), "0000:0{0}:00.0".format(number)) for number in range(3)]
    first = gpu_processes.Process(7, "", "python", 1, (gpus[0], gpus[1]))
    second = gpu_processes.Process(8, "", "python", 1, (gpus[1],))
    (told,) = gpu_processes.judge(gpu_processes.Seen((first, second), (1,), (), 8), expected()).measured
    # A figure with a label is one of a part that somebody made: fleet/samples.py leaves it out.
    assert (told.name, told.value, told.labels) == ("gpus_in_use", 2.0, {"gpus": "8"})
    assert gpu_processes.judge(gpu_processes.Seen((), ()), expected()).measured == ()


# One reading of a healthy GPU at a time goes wrong ------------------------------------------------------------------

NO_ERRORS = types.ErrorCounts(0, 0, 0, 0)
NO_COUNTS = types.ErrorCounts(None, None, None, None)
NO_SRAM_ERRORS = types.SramErrors(0, 0, 0, 0, 0, 0, False)
CLOCKS = types.Clocks(*[None] * len(dataclasses.fields(types.Clocks)))
HEALTHY = {
    "board": board("96.0"),
    "memory": types.Memory(2**36, 0, 2**36, 0, 2**36, 0, 2**36, 5120),
    "settings": types.Settings(True, "default", False, False),
    "clocks": dataclasses.replace(
        CLOCKS, event_reasons=("gpu_idle",), event_reasons_mask=1, max_graphics_mhz=1410, max_memory_mhz=1215
    ),
    "power": types.Power(80.0, 400.0, 400.0, 100.0, 400.0, 400.0, 1.0),
    "temperature": types.Temperature(30, 35, None, None, 92, 89, 95, 87),
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


@examples(40)
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
                origins[one.counted] = Origin(0.0, 0.5)
    for check in BY_GPU_LANE:
        judgement = check.judge(node, expected(profile, origins))
        for one in judgement.findings:
            assert one.thing and one.reason and one.remedy and one.code
        if judgement.not_applicable:
            assert not judgement.findings


# What MIG hides ----------------------------------------------------------------------------------------------------


def mig(mode):
    return types.Settings(True, "default", mode, mode)


def check_of(name):
    return next(one for one in BY_GPU_LANE if one.id == name)


def test_nvlinks_of_gpus_in_mig_mode_are_not_applicable():
    node = machine(*(gpu(at, nvlink=nvlinks(0), settings=mig(True)) for at in range(2)))
    judgement = gpu_nvlink.judge(node, expected(PROFILE))
    assert judgement.not_applicable == "all GPUs here are in MIG mode, in which NVML tells NVLinks as down"
    assert judgement.findings == ()
    assert gpu_nvlink.judge(node, expected()).not_applicable


def test_a_gpu_in_mig_mode_does_not_hide_the_links_of_another():
    node = machine(
        gpu(0, nvlink=nvlinks(0), settings=mig(True)),
        gpu(1, nvlink=nvlinks(11), settings=mig(False)),
        gpu(2, nvlink=nvlinks(12), settings=mig(False)),
    )
    judgement = gpu_nvlink.judge(node, expected(PROFILE))
    assert codes(judgement) == [("links", "fail", "1")]
    assert "1 in MIG mode are left out" in judgement.seen
    assert [one.key[6:7] for one in judgement.measured if one.name == "gpu_nvlink_active_links"] == ["1", "2"]


def test_links_that_are_down_are_unknown_where_the_mig_mode_is():
    lost = gpu(0, failed=["settings.mig_current"], nvlink=nvlinks(0))
    assert codes(gpu_nvlink.judge(machine(lost), expected(PROFILE))) == [("unread", "unknown", "0")]
    up = gpu(0, failed=["settings.mig_current"], nvlink=nvlinks(12))
    assert codes(gpu_nvlink.judge(machine(up), expected(PROFILE))) == []


# Slowdowns that last -----------------------------------------------------------------------------------------------

HEAT, BRAKE = "hardware_thermal_slowdown", "hardware_power_brake_slowdown"


def slowed(held, heat=None, brake=None):
    return dataclasses.replace(
        HEALTHY["clocks"],
        event_reasons=held,
        hardware_thermal_slowdown_seconds=heat,
        hardware_power_brake_slowdown_seconds=brake,
    )


@pytest.mark.parametrize(
    ("clocks", "origins", "told"),
    [
        # The driver does not count: one look is one.
        (slowed((HEAT,)), {}, [(HEAT, "warn", "0")]),
        (slowed(("hardware_slowdown",)), {}, [("hardware_slowdown", "warn", "0")]),
        # It counts, and there is nothing to compare with: since the driver was loaded, maybe months ago.
        (slowed((HEAT,), heat=1.0), {}, [(HEAT, "warn", "0")]),
        (slowed((HEAT,), heat=360.0), {}, [(HEAT, "warn", "0")]),
        (slowed((HEAT,), heat=361.0), {}, [(HEAT, "warn", "0")]),
        (slowed((HEAT, BRAKE), heat=361.0, brake=1.0), {HEAT: 0.0}, [(HEAT, "warn", "0"), (BRAKE, "warn", "0")]),
        # Within a day.
        (slowed((HEAT,), heat=5000.0), {HEAT: 4990.0}, [(HEAT, "warn", "0")]),
        (slowed((BRAKE,), brake=5000.0), {BRAKE: 4000.0}, [(BRAKE, "warn", "0")]),
        # Most of ten hours.
        (slowed((BRAKE,), brake=25600.0), {BRAKE: 4000.0}, [(BRAKE, "warn", "0")]),
        (slowed((BRAKE,), brake=25601.0), {BRAKE: 4000.0}, [(BRAKE, "fail", "0")]),
        # Not now.
        (slowed((), heat=5000.0), {}, []),
        (slowed((), heat=5000.0), {HEAT: 4990.0}, []),
        (slowed((), heat=5000.0), {HEAT: 4000.0}, [(HEAT + "_before", "warn", "0")]),
        (slowed(("gpu_idle",), brake=5000.0), {BRAKE: 4000.0}, [(BRAKE + "_before", "warn", "0")]),
    ],
)
def test_a_slowdown_fails_when_it_lasts(clocks, origins, told):
    seen = {("gpu_{0}_seconds".format(name), "0000:00:00.0"): Origin(value, 10.0) for name, value in origins.items()}
    judgement = check_of("gpu_slowdown").judge(machine(gpu(0, clocks=clocks)), expected(origins=seen))
    assert codes(judgement) == told


def looks(check, nodes, seconds):
    """The judgements of one look after another, each with what the ones before it left in the baseline."""
    points, now, told = {}, 1790000000.0, []
    for node in nodes:
        known = dataclasses.replace(expected(), origins=baseline.origins(points, now), now=now)
        told.append(check(node, known))
        points = baseline.updated(points, told[-1].measured, now)
        now += seconds
    return told


def outcomes(judgements):
    return [worst(tuple(found.outcome for found in one.findings)).value for one in judgements]


@pytest.mark.parametrize(
    ("seconds", "held", "told"),
    [
        (300, "x", "w"),
        (300, "xx", "ww"),
        (300, "xxx", "wwf"),
        (300, "xxxxx.x", "wwfff.w"),
        (300, "x.xx.xx.xx", "w.ww.ww.ww"),
        (60, "xxxxxxxx", "wwwwwwff"),
        (1, "xxxxxxxx", "wwwwwwww"),
        (900, "xxx", "wff"),
        (3600, "xxxxxxxx", "wwwwwwww"),  # nothing is known of the hours between
    ],
)
@pytest.mark.parametrize(
    ("name", "counts"), [("hardware_slowdown", (None, None)), ("hardware_slowdown", (7.0, 7.0)), (HEAT, (None, 0.0))]
)
def test_what_the_driver_does_not_count_fails_when_look_after_look_sees_it(name, counts, seconds, held, told):
    nodes = [machine(gpu(0, clocks=slowed((name,) if one == "x" else (), *counts))) for one in held]
    words = {"w": "warn", "f": "fail", ".": "pass"}
    assert outcomes(looks(check_of("gpu_slowdown").judge, nodes, seconds)) == [words[one] for one in told]


@pytest.mark.parametrize(
    ("times", "told"),
    [
        # 200 of 300 seconds, and half of them.
        ([0, 200, 400, 600, 800], ["warn", "warn", "fail", "fail", "fail"]),
        ([0, 150, 300, 450, 600], ["warn"] * 5),
        # After ten hours without.
        ([0] * 120 + [300, 600, 900], ["warn"] * 121 + ["fail", "fail"]),
        # The day has had more than six minutes, and the last ten have not.
        ([0, 300, 600, 900] + [900] * 12, ["warn", "warn", "fail", "fail"] + ["warn"] * 12),
    ],
)
def test_what_the_driver_counts_fails_when_it_is_most_of_ten_minutes(times, told):
    nodes = [machine(gpu(0, clocks=slowed((HEAT,), heat=float(time), brake=0.0))) for time in times]
    judgements = looks(check_of("gpu_slowdown").judge, nodes, 300)
    assert outcomes(judgements) == told
    assert "within 5 min" in judgements[1].findings[0].reason
    assert "within 10 min" in judgements[-1].findings[0].reason


# Storms, and links that do not always tell --------------------------------------------------------------------------


def crc(*counts, **more):
    links = tuple(
        dataclasses.replace(link, crc_errors=count) for link, count in zip(nvlinks(len(counts)).links, counts)
    )
    return gpu(0, nvlink=types.NvLinks(len(counts), len(counts), links), **more)


def test_a_storm_fails_while_it_lasts_however_long_it_was_quiet():
    totals = [0] * 276 + [1500000 * one for one in range(1, 5)] + [6000000] * 3  # 23 hours; 5000 a second
    judgements = looks(gpu_nvlink.judge, [machine(crc(total, 0)) for total in totals], 300)
    assert outcomes(judgements) == ["pass"] * 276 + ["fail"] * 4 + ["warn"] * 3
    assert "had 1500000 CRC errors within 5 min" in judgements[276].findings[0].reason
    assert "had 6000000 CRC errors within 24 h" in judgements[-1].findings[0].reason
    replays = [0] * 276 + [100, 200, 200]  # 20 a minute
    judgements = looks(gpu_pcie.judge, [machine(gpu(0, pcie=pcie(replays=total))) for total in replays], 300)
    assert outcomes(judgements) == ["pass"] * 276 + ["warn", "warn", "pass"]


def test_a_link_that_was_silent_in_a_look_brings_no_growth():
    past = 9000000
    assert outcomes(looks(gpu_nvlink.judge, [machine(crc(0, None)), machine(crc(0, past))], 300)) == ["pass", "pass"]
    # What the others had meanwhile is told, once all tell again.
    told = [machine(crc(0, past)), machine(crc(0, None)), machine(crc(0, past)), machine(crc(1, past))]
    assert outcomes(looks(gpu_nvlink.judge, told, 300)) == ["pass", "pass", "pass", "warn"]


@pytest.mark.parametrize(
    "counter",
    # DCGM 4.6.0, MonitorNVLink5Fields.
    [
        "malformed",
        "buffer_overruns",
        "receive_errors",
        "remote_errors",
        "general_errors",
        "integrity_errors",
        "effective_errors",
        "symbol_errors",
    ],
)
def test_every_packet_error_of_nvlink_5_is_told(counter):
    none = types.NvLinkPackets(*[0] * 13)
    links = [
        dataclasses.replace(nvlinks(1, 1).links[0], packets=packets)
        for packets in (none, dataclasses.replace(none, **{counter: 1}))
    ]
    nodes = [machine(gpu(0, nvlink=types.NvLinks(1, 1, (link,)))) for link in links]
    assert codes(looks(gpu_nvlink.judge, nodes, 300)[1]) == [("packet_errors", "warn", "0")]


def test_errors_of_nvlinks_count_in_mig_mode_too():
    beside = gpu(1, nvlink=nvlinks(2, 2), settings=mig(False))
    nodes = [machine(crc(total, 0, settings=mig(True)), beside) for total in (0, 1)]
    assert codes(looks(gpu_nvlink.judge, nodes, 300)[1]) == [("crc_errors", "warn", "0")]


@pytest.mark.parametrize(
    ("generation", "lanes", "limit"), [(None, None, 8), (0, 0, 8), (5, None, 31), (None, 8, 4), (None, 16, 8)]
)
def test_replays_of_a_link_that_does_not_tell_what_it_is(generation, lanes, limit):
    link = types.Pcie(None, None, None, generation, None, lanes, None, 0)
    nodes = [
        machine(gpu(0, pcie=dataclasses.replace(link, replay_count=count))) for count in (0, 10 * limit, 20 * limit + 1)
    ]
    assert outcomes(looks(gpu_pcie.judge, nodes, 600)) == ["pass", "pass", "warn"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (86400, "24 h"), (604800, "7 days")],
)
def test_times_are_in_a_unit_that_fits(seconds, words):
    assert gpu_common.lasted(seconds) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (9e6, "9000000"), (20000000.0, "20000000"), (0.5, "0.5"), (1234567.5, "1234568")]
)
def test_numbers_are_in_digits(value, words):
    assert gpu_common.digits(value) == words


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

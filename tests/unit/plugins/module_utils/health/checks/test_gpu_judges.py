# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judges of GPUs without a GPU: links and presence; no reading crashes one, and every table has its sources."""

from __future__ import annotations

import dataclasses
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import names, types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.call import Kind
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.session import Fault
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import (
    gpu_nvlink,
    gpu_pcie,
    gpu_presence,
    gpu_processes,
    gpu_product,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data import (
    event_reasons,
    gpu_limits,
    gpu_programs,
    recovery_actions,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Origin, Threshold
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.gpus_judged import (
    BY_GPU_LANE,
    HEALTHY,
    PROFILE,
    board,
    check_of,
    codes,
    expected,
    gpu,
    machine,
    nvlinks,
    pcie,
)

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


def counted(judgement, name, *points, key="0000:00:00.0"):
    """The points of a counter of a judgement, each (value, hours ago)."""
    (figure,) = (one for one in judgement.measured if (one.name, one.key) == (name, key))
    return {figure.counted: [Origin(value, hours) for value, hours in points]}


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

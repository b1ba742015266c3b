# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers that a driver at fault tells: facts say that they are not known, and no check passes on them."""

from __future__ import annotations

import ctypes
import functools
import sys
import types as python_types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import plain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import (
    Information,
    Options,
    gather,
    read_state,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info.ask import Ask
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml import values
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.call import Gpu, Nvml
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.session import Visit
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import of_gpus, of_gpus_passive
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import GPU_LANE, Expected, Outcome

pynvml = pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

# What stands where a number is missing: all bits set (nvml.h), and DCGM's blanks; some as the signed reading has them.
NO_NUMBERS = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 9223372036854775794, 0x7FFFFFF2, -1)
PROFILE = {"gpus": {"count": 1, "products": ["NVIDIA H100*"], "nvlinks": 18, "graphics_clock_max_mhz": 1980}}
GPU_CHECKS = [one for one in of_gpus.CHECKS + of_gpus_passive.CHECKS if one.lane == GPU_LANE and one.gpu_groups]


class Broken(int):
    """A number, and whatever else somebody takes it for: a pair, a list, a structure of such numbers."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Broken(self)

    def __getitem__(self, place):
        return Broken(self)

    def __iter__(self):
        return iter([Broken(self)] * 4)


class BrokenDriver:
    """NVIDIA's binding in front of a driver that answers every question with one number."""

    NVMLError = pynvml.NVMLError

    def __init__(self, number):
        self.number = Broken(number)

    def __getattr__(self, name):
        if name == "nvmlDeviceGetFieldValues":
            return lambda handle, wanted: [
                python_types.SimpleNamespace(fieldId=field[0], nvmlReturn=0, valueType=3, value=self.number)
                for field in wanted
            ]
        if name.startswith("c_nvml"):
            return getattr(pynvml, name)
        if name.startswith("nvml"):
            return self._answer
        raise AttributeError(name)

    def _answer(self, *arguments):
        for filled in (getattr(one, "_obj", None) for one in arguments):  # a structure that the call is to fill
            for field, kind in getattr(filled, "_fields_", ()):
                if not issubclass(kind, ctypes.Array):
                    fits = kind(self.number).value == self.number
                    setattr(filled, field, self.number if fits else kind(-1).value)
        return self.number


def told(number):
    """What gpu_info makes of one GPU whose driver answers every question with this number."""
    gpu = Gpu(Nvml(BrokenDriver(number), lambda *dummy: None), None, Identity(0, "GPU-0", "0000:00:00.0"), {})
    options = Options()
    return gather_module.assemble(Visit(gpu.identity, tuple(gather_module.visit(gpu, options))), options)


told_once = functools.lru_cache(maxsize=None, typed=True)(told)
gather_module = sys.modules[gather.__module__]


@pytest.fixture(autouse=True, scope="module")
def _no_waiting():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_state, "_SPACING_SECONDS", 0.0)
        yield


def leaves(value, path=""):
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, "{0}.{1}".format(path, name))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item, path)
    else:
        yield path, value


@pytest.mark.parametrize("number", NO_NUMBERS)
def test_what_is_no_number_is_never_a_fact(number):
    gpu = told(number)
    facts = {name: plain(group) for name, group in gpu.groups.items()}
    numbers = {path: value for path, value in leaves(facts) if isinstance(value, (int, float)) and value is not None}
    # What is left was counted here: links, and the bits that are set in words; and a distance of -1 is one.
    allowed = {".nvlink.links.link", ".nvlink.link_count", ".nvlink.active_count", ".numa.memory_affinity"}
    if number == -1:
        allowed |= {".temperature.margin_celsius", ".temperature.slowdown_margin_celsius"}
    assert set(numbers) <= allowed, numbers
    assert not [path for path, value in leaves(facts) if path != ".fabric.health_summary" and "unknown (" in str(value)]
    assert all(str(number) not in str(value) for dummy, value in leaves(facts) if isinstance(value, str))


def expected(profile=None):
    return Expected("machine", PROFILE if profile is None else profile, {}, LIMITS, {}, {}, 1790000000.0)


def machine(gpu):
    return Information("ok", "", "580.1", None, None, None, 1, (gpu,), (gpu.identity.pci_address,))


@pytest.mark.parametrize("profile", [PROFILE, {}], ids=["profile", "unknown"])
@pytest.mark.parametrize("number", NO_NUMBERS)
@pytest.mark.parametrize("check", GPU_CHECKS, ids=lambda check: check.id)
def test_no_check_passes_or_fails_on_what_is_no_number(check, number, profile):
    judgement = check.judge(machine(told_once(number)), expected(profile))
    outcomes = {one.outcome for one in judgement.findings}
    if number == -1 and check.id == "gpu_temperature":
        outcomes.discard(Outcome.WARN)  # it is a distance to a limit, too
    assert outcomes == {Outcome.UNKNOWN}, judgement


@given(st.one_of(st.integers(-(2**70), 2**70), st.sampled_from(NO_NUMBERS), st.integers(-200, 200)))
def test_no_number_crashes_a_reading_or_a_judge(number):
    gpu = told(number)
    for check in GPU_CHECKS:
        for one in check.judge(machine(gpu), expected()).findings:
            assert one.reason and one.remedy and one.code


# A slowdown by the hardware, in several samples --------------------------------------------------------------------

IDLE, POWER_CAP, HARDWARE, HEAT, BRAKE = 0x1, 0x4, 0x8, 0x40, 0x80


class Sampled(BrokenDriver):
    """Event reasons change from call to call; the last ones stay. A field is a count of nanoseconds."""

    def __init__(self, *masks, nanoseconds=2_500_000_000):
        super().__init__(nanoseconds)
        self.masks, self.calls = list(masks), 0

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        self.calls += 1
        mask = self.masks.pop(0) if len(self.masks) > 1 else self.masks[0]
        if mask is None:
            raise pynvml.NVMLError(999)
        return mask

    nvmlDeviceGetCurrentClocksThrottleReasons = nvmlDeviceGetCurrentClocksEventReasons


def clocks(driver):
    ask = Ask(Gpu(Nvml(driver, lambda *dummy: None), None, Identity(0), {}), "clocks")
    return read_state.clocks(ask), ask


@pytest.mark.parametrize(
    ("masks", "told", "calls"),
    [
        ([IDLE], ("gpu_idle",), 1),
        ([POWER_CAP], ("software_power_cap",), 1),
        ([HARDWARE, IDLE], (), 2),  # a change of clocks
        ([HARDWARE | POWER_CAP, POWER_CAP], ("software_power_cap",), 2),
        ([HARDWARE | HEAT], ("hardware_slowdown", "hardware_thermal_slowdown"), 6),
        ([HARDWARE | HEAT, HARDWARE], ("hardware_slowdown",), 6),
        ([HARDWARE] * 5 + [IDLE], (), 6),
        ([BRAKE, BRAKE, HEAT], (), 3),
    ],
)
def test_a_slowdown_by_the_hardware_is_one_that_stays(masks, told, calls):
    driver = Sampled(*masks)
    seen, ask = clocks(driver)
    assert (seen.event_reasons, driver.calls) == (told, calls)
    assert seen.hardware_thermal_slowdown_seconds == 2.5
    assert "clocks.event_reasons" not in ask.failed


@pytest.mark.parametrize("masks", [[None], [HARDWARE, None], [HARDWARE, 9223372036854775794]])
def test_a_sample_that_cannot_be_read_makes_them_unknown(masks):
    seen, ask = clocks(Sampled(*masks))
    assert seen.event_reasons is None and "clocks.event_reasons" in ask.failed


KINDS = (
    values.whole,
    values.byte_count,
    values.percent,
    values.megahertz,
    values.lanes,
    values.generation,
    values.celsius,
    values.limit_celsius,
    values.watts,
    values.limit_watts,
    values.joules,
    values.seconds,
    values.mask,
    values.flag,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [*NO_NUMBERS, -(2**63), 2**64])
def test_every_kind_refuses_what_is_no_number(kind, number):
    with pytest.raises(ValueError):
        kind(number)


def test_a_limit_of_0_degrees_is_none():
    gpu = told(0)
    seen = gpu.groups["temperature"]
    assert (seen.gpu_celsius, seen.slowdown_celsius, seen.memory_max_celsius) == (0, None, None)
    assert not [path for path in gpu.failed if path.startswith("temperature.")]
    check = next(one for one in GPU_CHECKS if one.id == "gpu_temperature")
    assert check.judge(machine(gpu), expected()).findings == ()


@pytest.mark.parametrize(("number", "told"), [(-3, -3), (0, 0), (1, None), (90, None)])
def test_the_hardware_slows_down_beyond_the_highest_operating_temperature(number, told):
    if told is None:
        with pytest.raises(ValueError):
            values.slowdown_margin_celsius(number)
    else:
        assert values.slowdown_margin_celsius(number) == told


def test_a_positive_field_194_is_unknown():
    class Driver(BrokenDriver):
        def nvmlDeviceGetMarginTemperature(self, handle):
            return -1

    ask = Ask(Gpu(Nvml(Driver(90), lambda *dummy: None), None, Identity(0), {}), "temperature")
    seen = read_state.temperature(ask)
    assert (seen.margin_celsius, seen.slowdown_margin_celsius) == (-1, None)
    assert list(ask.failed) == ["temperature.slowdown_margin_celsius"]


def test_a_limit_of_0_watts_is_none():
    power = told(0).groups["power"]
    assert (power.limit_watts, power.default_limit_watts, power.enforced_limit_watts) == (None, None, None)
    assert power.usage_watts == 0.0
    assert not [path for path in told(0).failed if path.startswith("power.")]


@pytest.mark.parametrize(
    ("code", "failed"),
    [
        (6, True),  # NOT_FOUND
        (19, True),  # IN_USE
        (27, True),  # NOT_READY
        (28, True),  # GPU_NOT_FOUND
        (999, True),
        (2, False),  # INVALID_ARGUMENT: older drivers, of what they do not know
        (3, False),  # NOT_SUPPORTED
        (13, False),  # FUNCTION_NOT_FOUND
        (21, False),  # NO_DATA
    ],
)
def test_what_a_getter_may_answer_for_good(code, failed):
    class Refusing(BrokenDriver):
        def nvmlDeviceGetPersistenceMode(self, handle):
            raise pynvml.NVMLError(code)

        def nvmlDeviceGetFieldValues(self, handle, wanted):
            return [
                python_types.SimpleNamespace(fieldId=field[0], nvmlReturn=code, valueType=3, value=None)
                for field in wanted
            ]

    gpu = Gpu(Nvml(Refusing(1), lambda *dummy: None), None, Identity(0), {})
    ask = Ask(gpu, "settings")
    assert read_state.settings(ask).persistence is None
    assert ("settings.persistence" in ask.failed) is failed and "settings.persistence" in ask.absent
    ask = Ask(gpu, "temperature")
    assert read_state.temperature(ask).memory_celsius is None
    assert ("temperature.memory_celsius" in ask.failed) is failed


@given(st.integers(-200, 200))
def test_a_distance_to_a_limit_may_be_negative(number):
    assert values.margin_celsius(number) == number


@pytest.mark.parametrize("number", [201, -201, 0xFFFFFFFF, 0x7FFFFFF0])
def test_a_distance_that_cannot_be(number):
    with pytest.raises(ValueError):
        values.margin_celsius(number)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks, power, temperature and clock event reasons of GPUs while they compute, and what these say of a GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from typing import Dict, List, Optional, Sequence, Tuple

from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import NodeError
from ...facts import gpu_info
from ..data import event_reasons
from ..types import Finding, Measured, Outcome, Remedy

_OPTIONS = gpu_info.Options(groups=("clocks", "power", "temperature", "load"), call_timeout_seconds=2.0)
_LOADED_PERCENT = 90
# A reason that is seen in fewer looks may be one of a moment: clocks change when a load begins and ends.
_SHARE, _FEWEST, _FEWEST_WITH_IT = 0.5, 4, 3
# Kinds of arithmetic differ in power, and a brake or heat comes with the highest. A GPU that is slowed down draws less,
# so its looks count whatever the power is.
_HIGH = 0.8
# The driver regulates the clocks of a hot GPU: an H100 at 76 °C and its power limit reported it in 1 of 10 looks, with
# the rates of a run without it.
_REGULATES, _REGULATION_SHARE = "software_thermal_slowdown", 0.2
_OF_A_MOMENT = "hardware_slowdown"  # the hardware reports it during each clock change, too
_BRAKE = "hardware_power_brake_slowdown"
_REASON = "slowed down while it computed, in {0} of {1} looks{2}: {3}"
_BRAKES = (
    "the machine asserts the power brake of {0} of {1} GPUs while they compute, so their supply is at fault and no GPU"
)


@dataclasses.dataclass(frozen=True)
class Sample:
    """One look at one GPU that computes. None: NVML does not tell."""

    graphics_clock_mhz: Optional[float] = None
    power_watts: Optional[float] = None
    temperature_celsius: Optional[float] = None
    reasons: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Load:
    thing: str
    key: str
    samples: Tuple[Sample, ...]

    def of(self, name: str) -> List[float]:
        told = (getattr(sample, name) for sample in self.samples)
        return [value for value in told if value is not None]


class Watch:
    """Looks at all GPUs of the node each time that it is asked to; keeps what is seen of those that compute."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen: Dict[str, List[Sample]] = {}

    def look(self) -> None:
        with contextlib.suppress(NodeError):  # what the load measures does not depend on it
            for gpu in gpu_info.gather(_OPTIONS, self._host).gpus:
                sample = _sample(gpu)
                if sample is not None and gpu.identity.pci_address:
                    self._seen.setdefault(gpu.identity.pci_address, []).append(sample)

    def load(self, thing: str, key: str) -> Load:
        return Load(thing, key, tuple(self._seen.get(key, ())))


def _sample(gpu: gpu_info.GpuInformation) -> Optional[Sample]:
    """None: it does not compute now."""
    clocks, power, heat, load = (gpu.groups.get(name) for name in ("clocks", "power", "temperature", "load"))
    if gpu.fault is not None or load is None or (load.gpu_percent or 0) < _LOADED_PERCENT:
        return None
    return Sample(
        None if clocks is None else clocks.graphics_mhz,
        None if power is None else power.usage_watts,
        None if heat is None else heat.gpu_celsius,
        () if clocks is None else clocks.event_reasons or (),
    )


def findings(loads: Sequence[Load]) -> List[Finding]:
    """Pure. The reasons that are no normal ones, see :mod:`data.event_reasons`.

    A power brake of most of several GPUs is one finding, of the node.
    """
    found = [finding for load in loads for finding in _of_gpu(load)]
    brakes = [one for one in found if one.code == _code(_BRAKE)]
    # A brake of a moment on the other GPUs does not hide that of one GPU which lasts.
    brakes = [one for one in brakes if one.outcome is Outcome.FAIL] or brakes
    if len(brakes) < 2 or 2 * len(brakes) <= sum(1 for load in loads if load.samples):
        return found
    failed = any(one.outcome is Outcome.FAIL for one in brakes)
    node = replaced(
        brakes[0],
        outcome=Outcome.FAIL if failed else Outcome.WARN,
        thing="this node",
        reason=_BRAKES.format(len(brakes), sum(1 for load in loads if load.samples)),
        action=Remedy.LOOK if failed else Remedy.WATCH,
        key="",
    )
    return [node, *(one for one in found if one not in brakes)]


def _code(reason: str) -> str:
    return "under_load_" + reason


def _of_gpu(load: Load) -> List[Finding]:
    found = []
    highest = max(load.of("power_watts"), default=0.0)
    for reason in event_reasons.EVENT_REASONS:
        looks = [
            one for one in load.samples if reason.name in one.reasons and not set(one.reasons) & set(reason.part_of)
        ]
        if not looks or reason.outcome is Outcome.PASS:
            continue
        count, when = len(load.samples), ""
        lasting = count >= _FEWEST and len(looks) >= _SHARE * count
        high = sum(
            1 for one in load.samples if one in looks or one.power_watts is None or one.power_watts >= _HIGH * highest
        )
        if not lasting and reason.name != _OF_A_MOMENT and len(looks) >= max(_FEWEST_WITH_IT, _SHARE * high):
            lasting, count, when = True, high, " at high power or slowed down"
        if reason.name == _REGULATES and len(looks) < max(2, _REGULATION_SHARE * count):
            continue
        outcome, action = (reason.outcome, reason.action) if lasting else (Outcome.WARN, Remedy.WATCH)
        told = _REASON.format(len(looks), count, when, reason.text)
        code = _code(reason.name)
        found.append(Finding(outcome, load.thing, told, reason.remedy, action, reason.certainty, load.key, code))
    return found


def measured(load: Load) -> List[Measured]:
    """Pure. The median of the clock and of the power, and the highest temperature."""
    figures = []
    for name, better in (("graphics_clock_mhz", "higher"), ("power_watts", ""), ("temperature_celsius", "lower")):
        values = load.of(name)
        if values:
            value = max(values) if better == "lower" else statistics.median(values)
            figures.append(Measured("compute_" + name, float(value), load.key, better=better))
    return figures


def summary(loads: Sequence[Load]) -> str:
    """Pure. ``under load 1395 to 1410 MHz, 391 to 402 W, 58 to 66 °C, software_power_cap``."""
    parts = []
    for name, unit in (("graphics_clock_mhz", "MHz"), ("power_watts", "W"), ("temperature_celsius", "°C")):
        figures = [one.value for load in loads for one in measured(load) if one.name == "compute_" + name]
        if figures:
            low, high = "{0:.0f}".format(min(figures)), "{0:.0f}".format(max(figures))
            parts.append("{0} {1}".format(low if low == high else "{0} to {1}".format(low, high), unit))
    reasons = {name for load in loads for sample in load.samples for name in sample.reasons}
    parts += [one.name for one in event_reasons.EVENT_REASONS if one.name in reasons]
    return "under load " + ", ".join(parts) if parts else ""

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the answers of a simulated GPU differ from those of a real one. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

FUNCTION_NOT_FOUND = 13
# What a product is, whatever it does and whoever owns it: only these values must be equal.
_OF_THE_PRODUCT = re.compile(
    r"""nvmlDeviceGet(
        Name|Brand|Architecture|CudaComputeCapability|NumGpuCores|MemoryBusWidth|DefaultEccMode|MaxMigDeviceCount
        |MaxClockInfo|MaxCustomerBoostClock|DefaultApplicationsClock|SupportedMemoryClocks|SupportedGraphicsClocks
        |SupportedClocks\w+Reasons|PowerManagementDefaultLimit|PowerManagementLimitConstraints
        |MaxPcieLinkGeneration|GpuMaxPcieLinkGeneration|MaxPcieLinkWidth|TemperatureThreshold
        |NvLinkVersion|NvLinkCapability|SupportedEventTypes
        |GpuInstanceProfileInfo|GpuInstancePossiblePlacements|GpuInstanceRemainingCapacity
    )\(
    |field\ (91|147|166|184|18[7-9]|19[2-6]|199|25[1-6])\ of""",
    re.VERBOSE,
)


class Difference(NamedTuple):
    """One answer that differs. ``what`` is code, type or value."""

    label: str
    what: str
    real: Any
    simulated: Any

    def __str__(self) -> str:
        return "{0}: {1} {2!r}, simulated {3!r}".format(self.label, self.what, self.real, self.simulated)


def compare(real: Mapping[str, Any], simulated: Mapping[str, Any]) -> Tuple[Difference, ...]:
    """The differences of two recordings, in the order of the real one. Calls that the simulator does not have, and
    questions that were asked in one of them only, are none."""
    found: List[Difference] = []
    for label, told in real["answers"].items():
        answer: Dict[str, Any] = simulated["answers"].get(label, {"code": None})
        if None in (told["code"], answer["code"]) or answer["code"] == FUNCTION_NOT_FOUND:
            continue
        for what in ("code", "type", "value"):
            if what == "value" and not _OF_THE_PRODUCT.match(label):
                break
            if _known(told.get(what)) != _known(answer.get(what)):
                found.append(Difference(label, what, told.get(what), answer.get(what)))
                break
    return tuple(found)


def _known(value: Any) -> Any:
    """A list without items has no type of items."""
    return "list" if isinstance(value, str) and value.startswith("list of ") else value


def not_simulated(real: Mapping[str, Any], simulated: Mapping[str, Any]) -> Tuple[str, ...]:
    """What a real GPU answers and the simulator has no call for."""
    return tuple(
        label
        for label, told in real["answers"].items()
        if told["code"] == 0 and simulated["answers"].get(label, {}).get("code") == FUNCTION_NOT_FOUND
    )

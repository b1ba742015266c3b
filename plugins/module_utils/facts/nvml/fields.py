# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Field values of one GPU: many readings in one NVML call, each with a return code and a type of its own."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

from .call import CODES, Gpu, Kind, Reading, classify, missing

# nvml.h, nvmlValueType_t → the member of the union, as the binding names it. Type 0, a double, is left out: no field
# that we read has it, and an empty structure has the type 0 and the value 0.0. Driver 580.159.04 reports success for
# the power limits (fields 187 to 190 and 192) of an H100 and an H200, and writes neither a type nor a value.
_UNWRITTEN = 0
_MEMBERS = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


def read_fields(gpu: Gpu, wanted: Sequence[Tuple[int, int]]) -> Tuple[Reading[Any], ...]:
    """The values of NVML fields, each (field ID, scope ID), in one call."""
    answer = gpu.read("nvmlDeviceGetFieldValues", list(wanted))
    if answer.value is None:
        return tuple(missing(answer.reason or "", answer.kind or Kind.FAILED) for dummy in wanted)
    return tuple(_value(item) for item in answer.value)


def _value(item: Any) -> Reading[Any]:
    field, code, kind = int(item.fieldId), int(item.nvmlReturn), int(item.valueType)
    if code != 0:
        reason = CODES[code][2] if code in CODES else "the NVML code {0}".format(code)
        return missing("{0} (field {1})".format(reason, field), classify(code))
    if kind == _UNWRITTEN:
        return missing("the driver reports success without a value (field {0})".format(field), Kind.NO_DATA)
    if kind not in _MEMBERS:
        return missing("field {0} has an unknown type".format(field), Kind.FAILED)
    return Reading(getattr(item.value, _MEMBERS[kind]))

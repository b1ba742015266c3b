# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask one GPU for the values of one group, and note why values are absent."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, TypeVar

from ..nvml.call import Gpu, Kind, Reading, missing
from ..nvml.fields import read_fields

Value = TypeVar("Value")

# What is no property of the GPU or driver: another day the value may be told. A wrong value is one: that is what
# older drivers say of fields that they do not know.
FAILURES = (Kind.FAILED, Kind.PERMISSION, Kind.RESET_REQUIRED, Kind.UNUSABLE, Kind.IN_USE, Kind.NOT_FOUND)


class Ask:
    """Questions to one GPU. ``absent`` collects path → reason for every value that stays None; ``failed`` those of
    them that this GPU should have told."""

    def __init__(self, gpu: Gpu, group: str) -> None:
        self.gpu = gpu
        self.group = group
        self.absent: Dict[str, str] = {}
        self.failed: Dict[str, Kind] = {}

    def take(self, field: str, reading: Reading[Value]) -> Optional[Value]:
        """The value of a reading; its reason is noted when there is none."""
        if reading.reason is not None:
            path = "{0}.{1}".format(self.group, field) if self.group else field
            self.absent.setdefault(path, reading.reason)
            if reading.kind is not None and reading.kind in FAILURES:
                self.failed.setdefault(path, reading.kind)
        return reading.value

    def __call__(self, field: str, convert: Callable[[Any], Value], function: str, *arguments: Any) -> Optional[Value]:
        """Make one call and convert its answer."""
        return self.take(field, self.gpu.read(function, *arguments).map(convert))

    def struct(self, function: str, *names: str) -> Reading[Any]:
        """Let a call fill a structure of the binding; of several names, the first that driver and binding have."""
        reading: Reading[Any] = missing("this version of NVIDIA's Python binding does not have {0}".format(names[0]))
        for name in names:
            structure = getattr(self.gpu.nvml.binding, name, None)
            if structure is None:
                continue
            filled = structure()
            reading = self.gpu.read(function, ctypes.byref(filled)).map(_always(filled))
            if not reading.absent:
                return reading
        return reading

    def fields(self, wanted: Sequence[Tuple[int, int]]) -> Tuple[Reading[Any], ...]:
        """The values of NVML fields, each (field ID, scope ID), in one call."""
        return read_fields(self.gpu, wanted)


def _always(value: Value) -> Callable[[Any], Value]:
    return lambda dummy: value

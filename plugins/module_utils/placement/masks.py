# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU sets as the texts that launchers take, and back."""

from __future__ import annotations

import re
from typing import Iterable, List, Tuple

from ..facts.sysfs import format_cpulist, parse_cpulist

__all__ = [
    "cpus_of_mask",
    "cpus_of_masks",
    "cpus_of_ranges",
    "format_cpulist",
    "mask",
    "masks",
    "parse_cpulist",
    "ranges",
]

_MASK = re.compile(r"^(?:0[xX])?([0-9a-fA-F]+)\Z")
# No machine has more CPUs; a longer mask is damaged text.
_MOST_DIGITS = 65536 // 4


def mask(numbers: Iterable[int]) -> str:
    """``ff0`` of the numbers 4 to 11: bit n for CPU (or NUMA node) n, in hexadecimal and without 0x."""
    value = 0
    for number in numbers:
        value |= 1 << number
    return "{0:x}".format(value)


def cpus_of_mask(text: str) -> Tuple[int, ...]:
    """The numbers of one mask, with or without 0x; empty for text of another kind."""
    found = _MASK.match(text.strip())
    if not found or len(found.group(1)) > _MOST_DIGITS:
        return ()
    value = int(found.group(1), 16)
    return tuple(number for number in range(value.bit_length()) if value >> number & 1)


def masks(sets: Iterable[Iterable[int]]) -> str:
    """One mask a rank, joined by commas: Slurm's mask_cpu, Intel MPI's mask list."""
    return ",".join(mask(one) for one in sets)


def cpus_of_masks(text: str) -> List[Tuple[int, ...]]:
    """Read :func:`masks`; also in the brackets of Intel MPI."""
    return [cpus_of_mask(one) for one in text.strip().strip("[]").split(",")]


def ranges(sets: Iterable[Iterable[int]]) -> str:
    """One list a rank, joined by colons: NVIDIA's HPL and MVAPICH2."""
    return ":".join(format_cpulist(one) for one in sets)


def cpus_of_ranges(text: str) -> List[Tuple[int, ...]]:
    return [parse_cpulist(one) for one in text.strip().split(":")]

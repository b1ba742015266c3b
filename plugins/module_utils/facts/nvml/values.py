# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a valid value of each kind is. Pure; every number that NVML tells goes through here.

A driver at fault puts a number where it has none. The conversions raise ValueError for what cannot be, and NotTold for
what means "there is none": a check that needs the value then says unknown.
"""

from __future__ import annotations

from typing import Any, Callable

# "Not available" by nvml.h (NVML_VALUE_NOT_AVAILABLE, all bits set) in both widths; signed, it is a negative number.
# DCGM 4.6, dcgm_structs.h: blank, not found, not supported, not permissioned, in both widths. Their low bits are those
# of hardware slowdowns when they are taken for a mask.
SENTINELS = frozenset(
    [0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF] + [blank + kind for blank in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0) for kind in range(4)]
)
# The supported graphics clocks of Volta to Hopper lie 7.5 or 15 MHz apart; a reading may be off by one step.
CLOCK_STEP_MHZ = 15
_NOTHING = ("", "N/A", "[N/A]", "Not Supported", "[Not Supported]")


class NotTold(ValueError):
    """The driver says that it has no such value: a text of N/A, a PCI address of zeros."""


def _between(low: int, high: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        number = int(value)
        if number in SENTINELS:
            raise ValueError("not available: {0:#x}".format(number))
        if not low <= number <= high:
            raise ValueError("{0} is outside {1} to {2}".format(number, low, high))
        return number

    return convert


# Far beyond what any GPU has, and below what a number of a broken reading mostly is.
whole = _between(0, 2**62)
byte_count = _between(0, 2**50)
percent = _between(0, 100)
megahertz = _between(0, 100000)
lanes = _between(0, 64)
enumerated = _between(0, 0xFFFF)  # one of a list of names; newer drivers have longer lists, and no list is that long
generation = _between(0, 16)
# GPUs run above 0 °C (data sheets of NVIDIA: 0 °C and more around the board); -1 is "not available", read as signed.
celsius = _between(0, 200)


def limit_celsius(value: Any) -> int:
    """A temperature at which something happens. GPUs without such a limit tell 0 (github.com/leptonai/gpud takes no
    limit of 0 either)."""
    number = celsius(value)
    if not number:
        raise NotTold("a limit of 0")
    return number


# Distances to a limit are signed, and -1 is one of them.
margin_celsius = _between(-200, 200)
# The distance at which the hardware slows a GPU down (NVML field 194) lies beyond the highest operating temperature.
slowdown_margin_celsius = _between(-200, 0)
# 100 kW, far beyond any board.
_milliwatts = _between(0, 10**8)


def watts(value: Any) -> float:
    return _milliwatts(value) / 1000


def limit_watts(value: Any) -> float:
    """A power limit. No board runs with 0 W, so that is no limit."""
    answer = watts(value)
    if not answer:
        raise NotTold("a limit of 0")
    return answer


def joules(value: Any) -> float:
    """From millijoules."""
    return whole(value) / 1000


def seconds(value: Any) -> float:
    """From nanoseconds."""
    return whole(value) / 10**9


def mask(value: Any) -> int:
    """A mask of bits: 64 of them, and not all set."""
    return whole(value)


def flag(value: Any) -> bool:
    number = int(value)
    if number not in (0, 1):
        raise ValueError("neither 0 nor 1")
    return number == 1


def text(value: Any) -> str:
    """Text without the padding that some firmware leaves around it."""
    if not isinstance(value, (str, bytes)):
        raise ValueError("no text")
    answer = value.decode("utf-8") if isinstance(value, bytes) else value
    answer = answer.strip("\0 \t\r\n")
    if answer in _NOTHING:
        raise NotTold("empty")
    return answer

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of a storage account and of the cores each of several copying processes may take."""

from __future__ import annotations

import math
from fractions import Fraction

from ..core.frozen import frozen
from ..core.resource import NodeError

# Of 20 Gb/s for 8 files, 2300 Mb/s each were found to stay clear of throttling: 92 % of an equal part of 2500.
_OF_INGRESS = Fraction(92, 100)
# With 96 cores for 8 processes 10 were used: five sixths of 12, so 16 cores stay for the training job. azcopy's own
# variable counts requests and no cores (getMainPoolSize in its ste/concurrency.go), so GOMAXPROCS must say the same.
_OF_CORES = Fraction(5, 6)
_MEGABITS_PER_GIGABIT = 1000


@frozen
class Limits:
    """Of each process; ``total_gigabits_per_second`` of all together."""

    cap_megabits_per_second: int
    concurrency: int
    total_gigabits_per_second: float


def limits(ingress_gigabits_per_second: float, files: int, cores: int) -> Limits:
    """Caps are rounded down: the sum must not pass the limit.

    :raises NodeError: for numbers that no machine has.
    """
    ingress = _number("ingress limit", ingress_gigabits_per_second, "Gb/s, such as 20")
    count = _number("files at once", files, "a whole number, such as 8")
    share = _number("cores", cores, "a whole number, such as 96")
    if count.denominator != 1 or share.denominator != 1:
        raise NodeError("{0} files at once on {1} cores".format(files, cores), "these are counts", "give whole numbers")
    cap = math.floor(ingress * _MEGABITS_PER_GIGABIT / count * _OF_INGRESS)
    if cap < 1:
        raise NodeError(
            "{0} files at once".format(files),
            "less than 1 Mb/s of {0} Gb/s is left for each".format(ingress_gigabits_per_second),
            "write at most {0} at once".format(max(1, math.floor(ingress * _MEGABITS_PER_GIGABIT * _OF_INGRESS))),
        )
    return Limits(
        cap_megabits_per_second=cap,
        concurrency=max(1, math.floor(share / count * _OF_CORES)),
        total_gigabits_per_second=float(cap * count / _MEGABITS_PER_GIGABIT),
    )


def _number(name: str, value: object, example: str) -> Fraction:
    try:
        # By way of text, so that 2.3 is 23/10 and not the binary fraction next to it.
        number = Fraction(str(value))
    except (ValueError, ZeroDivisionError) as error:
        raise NodeError("{0} {1!r}".format(name, value), "it is no number", "give " + example) from error
    if number <= 0:
        raise NodeError("{0} {1}".format(name, value), "it must be more than 0", "give " + example)
    return number

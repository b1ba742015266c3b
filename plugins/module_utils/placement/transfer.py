# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of a storage account and of the cores each of several copying processes may take. Pure.

The filter transfer_limits and ``gpunode checkpoint`` have their figures from here.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..core.frozen import frozen
from ..core.resource import NodeError

# Of 20 Gb/s for 8 files, 2300 Mb/s each were found to stay clear of throttling: 92 % of an equal part of 2500.
HEADROOM_PERCENT = 8
# With 96 cores for 8 processes 10 were used: five sixths of 12, so 16 cores stay for the training job. azcopy's own
# variable counts requests and no cores (getMainPoolSize in its ste/concurrency.go), so GOMAXPROCS must say the same.
_OF_CORES = Fraction(5, 6)
_MEGABITS_PER_GIGABIT = 1000


@frozen
class Limits:
    """Of each process; ``total_gigabits_per_second`` of all of them on all nodes together."""

    cap_megabits_per_second: int
    concurrency: int
    total_gigabits_per_second: float


def limits(
    ingress_gigabits_per_second: float,
    files: int,
    cores: int,
    nodes: int = 1,
    headroom_percent: float = HEADROOM_PERCENT,
) -> Limits:
    """``files``: how many at once on each of ``nodes``. Caps are rounded down: the sum must not pass the limit.

    :raises NodeError: for numbers that no machine has.
    """
    ingress = _number("ingress limit", ingress_gigabits_per_second, "Gb/s, such as 20")
    count = _number("files at once", files, "a whole number, such as 8")
    share = _number("cores", cores, "a whole number, such as 96")
    many = _number("nodes", nodes, "a whole number, such as 1")
    headroom = _percent(headroom_percent)
    if count.denominator != 1 or share.denominator != 1 or many.denominator != 1:
        thing = "{0} files at once on {1} cores of {2} nodes".format(files, cores, nodes)
        raise NodeError(thing, "these are counts", "give whole numbers")
    everything = count * many
    usable = ingress * _MEGABITS_PER_GIGABIT * (100 - headroom) / 100
    cap = math.floor(usable / everything)
    if cap < 1:
        where = "" if many == 1 else " on each of {0} nodes".format(nodes)
        raise NodeError(
            "{0} files at once{1}".format(files, where),
            "less than 1 Mb/s of {0} Gb/s is left for each".format(ingress_gigabits_per_second),
            "write at most {0} at once".format(max(1, math.floor(usable / many))),
        )
    return Limits(
        cap_megabits_per_second=cap,
        concurrency=max(1, math.floor(share / count * _OF_CORES)),
        total_gigabits_per_second=float(cap * everything / _MEGABITS_PER_GIGABIT),
    )


def _percent(value: object) -> Fraction:
    number = Fraction(0) if str(value) in ("0", "0.0") else _number("headroom", value, "percent, such as 8")
    if number >= 100:
        reason = "nothing of the limit would be left"
        raise NodeError("headroom {0}".format(value), reason, "give less than 100 percent")
    return number


def _number(name: str, value: object, example: str) -> Fraction:
    try:
        # By way of text, so that 2.3 is 23/10 and not the binary fraction next to it.
        number = Fraction(str(value))
    except (ValueError, ZeroDivisionError) as error:
        raise NodeError("{0} {1!r}".format(name, value), "it is no number", "give " + example) from error
    if number <= 0:
        raise NodeError("{0} {1}".format(name, value), "it must be more than 0", "give " + example)
    return number

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures as a person reads them."""

from __future__ import annotations

from typing import Tuple


def size(size_bytes: float, digits: int = 1) -> str:
    """A size in binary units, as lsblk and free show it: 4294967296 is "4.0 GiB"."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return "{0:.{1}f} {2}".format(value, 0 if unit == "B" else digits, unit)
        value /= 1024
    return "{0:.{1}f} TiB".format(value, digits)


def sizes(one: float, other: float) -> Tuple[str, str]:
    """Two sizes that are held against each other, with as many digits as it takes to tell them apart."""
    for digits in (1, 2, 3, 4):
        texts = size(one, digits), size(other, digits)
        if texts[0] != texts[1] or one == other:
            return texts
    return "{0:.0f} bytes".format(one), "{0:.0f} bytes".format(other)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures as a person reads them."""

from __future__ import annotations


def size(size_bytes: float) -> str:
    """A size in binary units, as lsblk and free show it: 4294967296 is "4.0 GiB"."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return "{0:.{1}f} {2}".format(value, 0 if unit == "B" else 1, unit)
        value /= 1024
    return "{0:.1f} TiB".format(value)

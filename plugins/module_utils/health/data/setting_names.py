# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of single checks: their names, and the bounds of numbers."""

from __future__ import annotations

from typing import Mapping, Tuple

# name → (default, least, most)
NUMBERS: Mapping[str, Tuple[float, float, float]] = {
    "compute_seconds": (10, 1, 150),
    "memory_test_seconds": (4, 1, 120),
    "scratch_probe_gibibytes": (8, 0.125, 64),
    "dcgm_level": (1, 1, 3),
}
OTHERS = ("acknowledged", "partition_keys", "tools", "hpl_output")

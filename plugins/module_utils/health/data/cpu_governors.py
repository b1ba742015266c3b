# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Governors of the clock of a processor, and the drivers whose ``powersave`` is none that stays at the lowest clock."""

from __future__ import annotations

from typing import Tuple

LOWEST = "powersave"
SOURCE = (
    "Linux, Documentation/admin-guide/pm/cpufreq.rst, 'Generic Scaling Governors': powersave asks for the lowest clock "
    "of the policy"
)
# Linux, Documentation/admin-guide/pm/intel_pstate.rst and amd-pstate.rst, 'Active Mode': two algorithms of their own.
OWN_ALGORITHM: Tuple[str, ...] = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters that only go up when memory of a GPU was damaged, in words: one that does so under load is told."""

from __future__ import annotations

from typing import Dict

# Corrected errors are not among them: some are normal, and gpu_ecc has limits for them.
DAMAGE: Dict[str, str] = {
    "gpu_ecc_uncorrected_aggregate_errors": "uncorrectable memory errors came",
    "gpu_remapped_uncorrectable_rows": "memory rows were remapped for uncorrectable errors",
    "gpu_remapped_correctable_rows": "memory rows were remapped for correctable errors",
    "gpu_retired_pages": "memory pages were retired",
}

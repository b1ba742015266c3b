# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Default limits of measured figures, each with its source. A profile's ``thresholds`` take their place."""

from __future__ import annotations

from typing import Dict

from ..types import Threshold

LIMITS: Dict[str, Threshold] = {}

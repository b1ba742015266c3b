# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step."""

from __future__ import annotations

from typing import Mapping

from ...core import declaration, managed_files, timer_unit
from ...core.resource import Step

STEPS: Mapping[type, Step] = {**declaration.STEPS, **managed_files.STEPS, **timer_unit.STEPS}

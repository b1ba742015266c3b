# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks that load a node: only for one without jobs."""

from __future__ import annotations

from typing import Tuple

from ..types import Check

CHECKS: Tuple[Check, ...] = ()

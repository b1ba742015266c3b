# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement of ranks on cores beside their GPUs, and the arguments that make a launcher do it.

:func:`place` is pure; :mod:`.observe` tells which CPUs this process may use; :mod:`.render` writes for launchers.
"""

from __future__ import annotations

from .place import place
from .types import Placement, Rank, RankGpu, Refused, Request, to_dict

__all__ = ["Placement", "Rank", "RankGpu", "Refused", "Request", "place", "to_dict"]

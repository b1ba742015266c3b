# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bits of an NVMe disk's critical warning."""

from __future__ import annotations

from typing import Tuple

from ...core.frozen import frozen
from ..types import Outcome, Remedy

_SOURCE = "NVM Express Base Specification 2.0, figure 207 (SMART / Health Information log page), Critical Warning"


@frozen
class CriticalWarning:
    bit: int
    code: str
    meaning: str
    outcome: Outcome
    action: Remedy
    source: str


WARNINGS: Tuple[CriticalWarning, ...] = (
    CriticalWarning(0, "spare", "its spare blocks are below their limit", Outcome.WARN, Remedy.REPLACE, _SOURCE),
    CriticalWarning(1, "temperature", "its temperature is beyond its limit", Outcome.WARN, Remedy.LOOK, _SOURCE),
    CriticalWarning(2, "reliability", "it is no longer reliable", Outcome.FAIL, Remedy.REPLACE, _SOURCE),
    CriticalWarning(3, "read_only", "it has become read-only", Outcome.FAIL, Remedy.REPLACE, _SOURCE),
    CriticalWarning(4, "backup", "its backup of volatile memory has failed", Outcome.FAIL, Remedy.REPLACE, _SOURCE),
    CriticalWarning(
        5, "persistent_memory", "its persistent memory is unreliable", Outcome.FAIL, Remedy.REPLACE, _SOURCE
    ),
)

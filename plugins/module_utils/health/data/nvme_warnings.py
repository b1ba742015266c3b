# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bits of an NVMe disk's critical warning."""

from __future__ import annotations

import dataclasses
from typing import Tuple

from ..types import Outcome, Remedy

_SOURCE = "NVM Express Base Specification 2.0, figure 207 (SMART / Health Information log page), Critical Warning"


@dataclasses.dataclass(frozen=True)
class Warning_:
    bit: int
    code: str
    meaning: str
    outcome: Outcome
    action: Remedy
    source: str


WARNINGS: Tuple[Warning_, ...] = (
    Warning_(0, "spare", "its spare blocks are below their limit", Outcome.WARN, Remedy.REPLACE, _SOURCE),
    Warning_(1, "temperature", "its temperature is beyond its limit", Outcome.WARN, Remedy.LOOK, _SOURCE),
    Warning_(2, "reliability", "it is no longer reliable", Outcome.FAIL, Remedy.REPLACE, _SOURCE),
    Warning_(3, "read_only", "it has become read-only", Outcome.FAIL, Remedy.REPLACE, _SOURCE),
    Warning_(4, "backup", "its backup of volatile memory has failed", Outcome.FAIL, Remedy.REPLACE, _SOURCE),
    Warning_(5, "persistent_memory", "its persistent memory is unreliable", Outcome.FAIL, Remedy.REPLACE, _SOURCE),
)

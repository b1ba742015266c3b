# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule tells of an image."""

from __future__ import annotations

from typing import Iterator

from ...core.frozen import frozen
from ...core.resource import sentence

FAIL, WARN = "fail", "warn"


@frozen
class Problem:
    """``rule`` is its id; ``outcome``: fail or warn; ``key`` tells several of one rule apart, for good."""

    rule: str
    outcome: str
    thing: str
    reason: str
    remedy: str
    key: str = ""

    def __str__(self) -> str:
        return sentence(self.thing, self.reason, self.remedy)


Told = Iterator[Problem]

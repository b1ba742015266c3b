# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of the machine and its declaration, and the verdict on it."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.frozen import frozen, plain
from ...facts.profile.types import Choice, Difference, Evidence, Profile
from .manage import Management


@frozen
class State:
    """``declared`` is the section of this node's declaration, or None; ``sections`` are the names of all sections."""

    evidence: Optional[Evidence]
    declared: Optional[Mapping[str, Any]]
    sections: Tuple[str, ...] = ()


@frozen
class Verdict:
    """The profile of this node and how the node differs from it. ``compared`` is false for an unknown machine."""

    choice: Choice
    data: Profile
    compared: bool
    differences: Tuple[Difference, ...]
    management: Management

    @property
    def matches(self) -> bool:
        """True only when something was compared and nothing differs: an unknown machine never matches."""
        return self.compared and not self.differences

    def to_dict(self) -> Dict[str, Any]:
        return {
            "name": self.choice.name,
            "source": self.choice.source,
            "reason": self.choice.reason,
            "data": dict(self.data),
            "compared": self.compared,
            "matches": self.matches,
            "differences": [plain(one) for one in self.differences],
            "roles": list(self.management.roles),
            "left": self.management.left,
            "lost": self.management.lost,
        }

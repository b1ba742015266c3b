# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a profile is chosen by, what choosing and comparing give, and what is wanted of the node."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Optional, Tuple

from ...resources.node_profile.manage import UNKNOWN, Management
from ..topology import Topology

AUTO = "auto"
FIRMWARE = "firmware"
# The section of /etc/gpu_node/node.json.
SECTION = "profile"

# A profile's content, as it stands in its YAML file.
Profile = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which profile, and why. ``source``: ``explicit``, ``metadata``, ``hardware``, ``declared`` or ``none``.

    ``name`` is ``unknown`` where no profile fits, with the reason; that is a state of its own, not an error.
    """

    name: str
    source: str
    reason: str

    @property
    def known(self) -> bool:
        return self.name != UNKNOWN


@dataclasses.dataclass(frozen=True)
class Difference:
    """One way in which the machine is not what its profile says. ``severity``: ``fail`` or ``warn``."""

    subject: str
    expected: Any
    found: Any
    severity: str


@dataclasses.dataclass(frozen=True)
class Metadata:
    """What the cloud said about this machine, or why nothing is known. ``told_by``: ``cloud`` (its metadata service) or
    ``firmware``."""

    vm_size: Optional[str]
    reason: Optional[str]
    told_by: str = "cloud"


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Everything that choosing and comparing look at."""

    dmi: Tuple[Tuple[str, str], ...]
    metadata: Metadata
    topology: Topology


@dataclasses.dataclass(frozen=True)
class State:
    """``declared`` is the section of this node's declaration, or None; ``sections`` are the names of all sections."""

    evidence: Optional[Evidence]
    declared: Optional[Mapping[str, Any]]
    sections: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
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
            "differences": [dataclasses.asdict(one) for one in self.differences],
            "roles": list(self.management.roles),
            "left": self.management.left,
            "lost": self.management.lost,
        }

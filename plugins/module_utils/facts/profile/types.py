# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a profile is chosen by, what choosing and comparing give, and what is wanted of the node."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ..topology import Topology

AUTO = "auto"
FIRMWARE = "firmware"
# The name of no profile.
UNKNOWN = "unknown"
# The section of /etc/gpu_node/node.json.
SECTION = "profile"

# A profile's content, as it stands in its YAML file.
Profile = Mapping[str, Any]


@frozen
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


@frozen
class Difference:
    """One way in which the machine is not what its profile says. ``severity``: ``fail`` or ``warn``."""

    subject: str
    expected: Any
    found: Any
    severity: str


@frozen
class Metadata:
    """What the cloud said about this machine, or why nothing is known. ``told_by``: ``cloud`` (its metadata service) or
    ``firmware``."""

    vm_size: Optional[str]
    reason: Optional[str]
    told_by: str = "cloud"


@frozen
class Evidence:
    """Everything that choosing and comparing look at."""

    dmi: Tuple[Tuple[str, str], ...]
    metadata: Metadata
    topology: Topology

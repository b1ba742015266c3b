# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found on the node."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.mounts import SCRATCH
from ...facts.topology import Topology

# The section of /etc/gpu_node/node.json.
SECTION = "job_templates"


@frozen
class State:
    """``profile`` is the section of that name of the declaration: ``name`` and ``data``. ``scratch``: where the node
    has its fast disks, or will have."""

    files: Files = Files()
    declared: Mapping[str, Any] = {}
    topology: Optional[Topology] = None
    profile: Mapping[str, Any] = {}
    scratch: str = SCRATCH

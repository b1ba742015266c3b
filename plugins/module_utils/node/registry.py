# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of a node, in the order in which a converge goes through them."""

from __future__ import annotations

import importlib
from typing import Mapping, Tuple

from ..core.resource import Resource

#: Each is a package of that name in the room ``resources``, with a record ``RESOURCE``. With it, what it cannot do
#: without.
NEEDS: Mapping[str, Tuple[str, ...]] = {
    "node_profile": (),
    "nvme_scratch": (),
    "rdma": (),
    "hpcx": (),
    "nccl": (),
    "job_templates": (),
}
NAMES = tuple(NEEDS)


def resource(name: str) -> Resource:
    """One of :data:`NAMES`; its code is loaded here and not before."""
    found: Resource = importlib.import_module("...resources." + name, __name__).RESOURCE
    return found

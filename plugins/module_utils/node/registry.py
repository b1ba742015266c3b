# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of a node, in the order in which a converge goes through them."""

from __future__ import annotations

import importlib

from .. import resources
from ..core.resource import Resource

NEEDS = resources.NEEDS
NAMES = tuple(NEEDS)
#: What is managed at the API of a cluster, once for all its nodes: no part of a node's declaration or converge.
CLUSTER = ("gpu_sharing", "kubernetes_gpu")
# These set up what looks at a node or runs on it, so they lie above the other resources.
_ROOMS = {
    "checkpoint": "checkpoints",
    "health_gate": "health",
    "cloud_events": "health",
    "gpu_sharing": "kubernetes",
    "kubernetes_gpu": "kubernetes",
    "gpu_metrics": "metrics",
    "node_labels": "metrics",
    "node_lease": "upkeep",
    "cleanup": "upkeep",
}


def room(name: str) -> str:
    """The room of the library that the resource lies in."""
    return _ROOMS.get(name, "resources")


def resource(name: str) -> Resource:
    """One of :data:`NAMES` or :data:`CLUSTER`; its code is loaded here and not before."""
    found: Resource = importlib.import_module("...{0}.{1}".format(room(name), name), __name__).RESOURCE
    return found

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


def resource(name: str) -> Resource:
    """One of :data:`NAMES` or :data:`CLUSTER`; its code is loaded here and not before."""
    found: Resource = importlib.import_module("...resources." + name, __name__).RESOURCE
    return found

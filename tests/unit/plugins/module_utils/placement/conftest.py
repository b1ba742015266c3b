# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Captured machines, each read once."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared


@pytest.fixture(scope="session")
def tree_root():
    """A function: the folder with the tree of that name, to be read only."""
    return shared


@pytest.fixture(scope="session")
def tree(tree_root):
    """A function: the topology of the tree of that name, its GPUs as the PCI bus shows them."""
    found = {}

    def read(name):
        if name not in found:
            found[name] = topology.look(Host(tree_root(name)), ask_nvml=False)
        return found[name]

    return read

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many faults are injected, each of which has to be told as exactly what it is while nothing else moves."""

from __future__ import annotations

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks import (
    test_gpu_faults,
    test_node_faults,
    test_node_looks,
)

TABLES = (
    test_node_faults.FAULTS,
    test_node_faults.LOG_FAULTS,
    test_node_looks.FAULTS,
    test_node_looks.LOG,
    test_gpu_faults.SIMULATED,
)


def test_at_least_120_faults_are_injected():
    assert sum(len(table) for table in TABLES) >= 120

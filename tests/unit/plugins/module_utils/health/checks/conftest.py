# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine in good health, for tests to damage."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.healthy_node import (
    HealthyNode,
)


@pytest.fixture
def node(tmp_path, monkeypatch):
    made = HealthyNode(tmp_path)
    monkeypatch.setenv("PATH", "{0}:{1}".format(made.bin, os.environ["PATH"]))
    return made

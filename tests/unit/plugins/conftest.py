# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Some tests run what they test in a process of its own."""

from __future__ import annotations

import os
import sys

import pytest


@pytest.fixture(autouse=True)
def children_import_what_the_tests_import(monkeypatch):
    """The test runner of Ansible brings the collection in by sys.path, which a child process does not inherit."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The soak tests use the fixtures of the end-to-end tests: ``make soak``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_FIXTURES = Path(__file__).resolve().parents[1] / "e2e" / "conftest.py"
_spec = importlib.util.spec_from_file_location("e2e_fixtures", _FIXTURES)
_module = importlib.util.module_from_spec(_spec)
sys.modules["e2e_fixtures"] = _module
_spec.loader.exec_module(_module)

pytest_addoption = _module.pytest_addoption
pytest_configure = _module.pytest_configure
suite, node_run, node_factory, shared_node, node = (
    _module.suite,
    _module.node_run,
    _module.node_factory,
    _module.shared_node,
    _module.node,
)

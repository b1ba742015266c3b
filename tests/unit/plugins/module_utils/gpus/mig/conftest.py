# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated machine for tests of layouts."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.mig_machine import (
    H100,
    Machine,
)


@pytest.fixture(name="machine")
def _machine(nvml_simulator: Callable[..., Any], tmp_path: pathlib.Path) -> Callable[..., Machine]:
    def make(name: str = H100, *settings: str) -> Machine:
        root = tmp_path / "root{0}".format(len(list(tmp_path.iterdir())))
        return Machine(nvml_simulator(name, "gpu.count=2", *settings), root)

    return make

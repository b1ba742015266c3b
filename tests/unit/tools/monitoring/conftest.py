# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus' programs, installed or unpacked into the environment (tools/setup/unpacked.py)."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest

UNPACKED = pathlib.Path(__file__).resolve().parents[4] / ".venv/debian/usr/bin"


@pytest.fixture(scope="session", autouse=True)
def programs():
    before = os.environ["PATH"]
    os.environ["PATH"] = os.pathsep.join([before, str(UNPACKED)])
    for program in ("promtool", "prometheus", "prometheus-node-exporter", "amtool"):
        if shutil.which(program) is None:
            pytest.skip("{0} is neither installed nor in {1}: make setup says why".format(program, UNPACKED))
    yield
    os.environ["PATH"] = before

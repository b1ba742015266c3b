# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for checks on a machine with real NVIDIA GPUs. They skip, with the reason, where there is none."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, List

import pytest

# The link tree of `make setup`, under which the clone is a collection.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".collections"))


@pytest.fixture(scope="session")
def nvidia_smi() -> Callable[..., List[Dict[str, str]]]:
    """``nvidia_smi("uuid", "memory.total")``: one dictionary a GPU, read by NVIDIA's own program."""
    program = shutil.which("nvidia-smi")
    if program is None or not os.path.exists("/proc/driver/nvidia/version"):
        pytest.skip("this machine has no NVIDIA driver: run this on a GPU node")

    def query(*columns: str) -> List[Dict[str, str]]:
        done = subprocess.run(
            [program, "--query-gpu=" + ",".join(columns), "--format=csv,noheader,nounits"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=120,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        rows = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
        return [dict(zip(columns, row)) for row in rows]

    return query

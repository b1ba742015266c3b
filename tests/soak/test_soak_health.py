# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hundred (SOAK_HEALTHY) moments of healthy machines of all profiles, and no finding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = "tests/unit/plugins/module_utils/health/checks/test_healthy_runs.py"


def test_no_healthy_machine_is_turned_away():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", RUNS],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=str(ROOT),
        env=dict(
            os.environ,
            PYTHONPATH=str(ROOT / ".collections"),
            HEALTHY_RUNS=os.environ.get("SOAK_HEALTHY", "100"),
        ),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The property tests of the planners once more, with SOAK_SEEDS (10) other seeds of hypothesis.

Other ones in each run; SOAK_SEED=N begins with N, to have those of an earlier run again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "tests/unit/plugins/module_utils"
FILES = (
    "resources/nvme_scratch/test_scratch_any_state.py",
    "resources/nvme_scratch/test_scratch_power_cuts.py",
    "gpus/settings/test_plan_properties.py",
    "gpus/mig/test_mig_place.py",
    "gpus/mig/test_mig_arrange.py",
    "facts/topology/test_nearest.py",
)
FIRST = int(os.environ.get("SOAK_SEED", str(time.time_ns() % 1000000)))
SEEDS = range(FIRST, FIRST + int(os.environ.get("SOAK_SEEDS", "10")))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_planners_keep_their_properties(seed):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-seed={0}".format(seed)]
        + [str(UNIT / name) for name in FILES],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=str(ROOT),
        env=dict(os.environ, PYTHONPATH=str(ROOT / ".collections")),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]

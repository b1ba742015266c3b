# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode share advise`` on real GPUs, which it only reads. Skipped without an NVIDIA driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys

CODE = """
import sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
sys.exit(main.main(["share", "advise", "--seconds", "11", "--json"]))
"""


def test_each_gpu_is_seen_and_hopper_tells_its_activity(nvidia_smi):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=300,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = {gpu["uuid"]: gpu for gpu in json.loads(done.stdout)["gpus"]}
    for row in nvidia_smi("uuid", "compute_cap", "memory.total", "mig.mode.current"):
        gpu = seen[row["uuid"]]
        assert gpu["advice"]["reasons"] and gpu["seen"]["samples"] >= 10
        if row["mig.mode.current"] == "Enabled":
            continue
        assert 0 <= gpu["seen"]["busy_percent"] <= 100
        assert 0 < gpu["seen"]["memory_total_bytes"] <= int(row["memory.total"]) * 2**20
        # Where it is not told, which GPM can refuse, a note says why.
        told = gpu["seen"]["sm_percent"] is not None and 0 <= gpu["seen"]["sm_percent"] <= 100
        assert told or gpu["advice"]["notes"]
        assert not told or float(row["compute_cap"]) >= 9

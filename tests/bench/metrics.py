# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look of `gpunode metrics` against the least that a Python program can do: import NVIDIA's binding, count the GPUs.

Whole processes, on this machine, over the simulated library with 8 H100; activity is counted for 0.1 s, in which the
process sleeps: so its CPU is told beside its time.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import in_turn, machine, row, table

ROOT = Path(__file__).resolve().parents[2]
RIVAL = "import pynvml; pynvml.nvmlInit(); assert pynvml.nvmlDeviceGetCount() == 8"
_RUNS = 15
OURS = """
import sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
sys.exit(main.main(["metrics", "--activity", "0.1"]))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["make", "-s", "-C", str(ROOT / "tools/nvml_simulator"), "OUT=" + folder], check=True)
        environment = dict(
            os.environ,
            LD_LIBRARY_PATH=folder,
            NVML_SIMULATOR_STATE=folder + "/state",
            PYTHONPATH=str(ROOT / ".collections"),
        )
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        os.mkdir(folder + "/state")
        subprocess.run([folder + "/nvml-simulator", "init", "nd96isr_h100_v5"], env=environment, check=True)

        def python(code: str) -> object:
            return subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL)

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _run in range(_RUNS):
            python(OURS)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        ours, rival = in_turn(lambda: python(OURS), lambda: python(RIVAL), _RUNS)
        title = "gpunode metrics against importing the binding and counting ({processor}, {cores} cores)"
        table(title.format(**machine()), [row("metrics, 8 GPUs, activity counted", ours, rival)])
        print("CPU of a look: {0:.2f} s".format(spent / _RUNS))


if __name__ == "__main__":
    main()

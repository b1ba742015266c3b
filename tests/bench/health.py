# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`gpunode health` against the least that a Python program can do: import NVIDIA's binding, open it, count the GPUs.

Whole processes, on this machine, over the simulated library. ``gpunode`` is the file that is installed on a node, with
bytecode for this Python. What the checks find on this machine does not matter here, only that they are made. CPU time
counts all processes of a command. On a real GPU `make hardware` measures the same (tools/hardware/cost.py): there it
takes longer to open NVML, for the rival too, so the ratios are lower.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import cpu_in_turn, in_turn, machine, row, table

ROOT = Path(__file__).resolve().parents[2]
RIVAL = "import pynvml; pynvml.nvmlInit(); assert pynvml.nvmlDeviceGetCount() > 0"
BUILD = """
import sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime import bytecode, launcher
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp
with open(sys.argv[1], "wb") as stream:
    stream.write(bytecode.with_bytecode(zipapp.build(), launcher.interpreter()))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["make", "-s", "-C", str(ROOT / "tools/nvml_simulator"), "OUT=" + folder], check=True)
        environment = dict(os.environ, LD_LIBRARY_PATH=folder, NVML_SIMULATOR_STATE=folder + "/state")
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        os.mkdir(folder + "/state")
        subprocess.run([folder + "/nvml-simulator", "init", "nd96asr_v4"], env=environment, check=True)
        zipapp = folder + "/gpunode.pyz"
        library = dict(os.environ, PYTHONPATH=str(ROOT / ".collections"))
        subprocess.run([sys.executable, "-c", BUILD, zipapp], env=library, check=True)

        def health(*words: str) -> str:
            command = [sys.executable, zipapp, "health", "--json", *words]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout

        def rival() -> None:
            subprocess.run([sys.executable, "-c", RIVAL], env=environment, check=True)

        rows = []
        for words in (("--quick",), ()):
            verdict = json.loads(health(*words))
            count = len(verdict["results"])
            name = "gpunode health {0}, 8 GPUs, {1} checks".format(" ".join(words), count).replace(" ,", ",")
            rows.append(row(name, *in_turn(lambda words=words: health(*words), rival, 15)))
            rows.append(row("the same, CPU time", *cpu_in_turn(lambda words=words: health(*words), rival, 15)))
        table(
            "gpunode health against importing the binding and counting ({processor}, {cores} cores)".format(
                **machine()
            ),
            rows,
        )


if __name__ == "__main__":
    main()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_info against the least that a Python program can do: import NVIDIA's binding, open it, count the GPUs.

Whole processes, on this machine, over the simulated library with 8 A100.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import in_turn, machine, row, table

ROOT = Path(__file__).resolve().parents[2]
RIVAL = "import pynvml; pynvml.nvmlInit(); assert pynvml.nvmlDeviceGetCount() == 8"
LIBRARY = "ansible_collections.trainyard.gpu_node.plugins.module_utils"
OURS = (
    "from {0}.facts import gpu_info; found = gpu_info.gather(gpu_info.Options.from_mapping({{'gather': [GROUPS]}})); "
    "assert found.status == 'ok' and len(found.gpus) == 8"
).format(LIBRARY)


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
        subprocess.run([folder + "/nvml-simulator", "init", "nd96asr_v4"], env=environment, check=True)

        def python(code: str) -> object:
            return subprocess.run([sys.executable, "-c", code], env=environment, check=True)

        rows = []
        for groups in ("minimum", "all"):
            code = OURS.replace("GROUPS", repr(groups))
            ours, rival = in_turn(lambda code=code: python(code), lambda: python(RIVAL), 15)
            rows.append(row("gpu_info, gather: {0}, 8 GPUs".format(groups), ours, rival))
        table(
            "gpu_info against importing the binding and counting ({processor}, {cores} cores)".format(**machine()), rows
        )


if __name__ == "__main__":
    main()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`gpunode pin`, `clocks list` and the hooks of Slurm against the shell way, as whole processes on one simulated node.

The shell way asks lstopo for the cores of each NUMA node and cuts its text up, and calls one program for each GPU in a
loop. NVIDIA's own nvidia-smi cannot be had for a simulated driver, so a one-line program over NVIDIA's binding stands
in for it: it starts faster than nvidia-smi does on a real node.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from _measure import machine, row, table

ROOT = Path(__file__).resolve().parents[2]
TOOL = str(ROOT / "tools/virtual_node/virtual_node")
NODE = "bench"

# The GPU of each local rank comes from a table by hand, as such scripts have it.
SHELL_PIN = r"""
masks=""
for gpu in 0 1 2 3 4 5 6 7; do
    node=$(echo "1 1 0 0 3 3 2 2" | cut -d' ' -f$((gpu + 1)))
    mask=$(lstopo-no-graphics -p --only numanode --cpuset | grep "P#$node" | sed 's/.*cpuset=//; s/ .*//')
    masks="$masks,$mask"
done
echo "--cpu-bind=mask_cpu:${masks#,}"
"""
SHELL_CLOCKS = r"""
for gpu in 0 1 2 3 4 5 6 7; do
    PYTHONPATH=/opt/gpu_node/gpunode.pyz python3 -c "
import pynvml as n
n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex($gpu)
print($gpu, n.nvmlDeviceGetClockInfo(h, 1), n.nvmlDeviceGetMaxClockInfo(h, 1), n.nvmlDeviceGetClockInfo(h, 2))"
done
"""
# The whole of a job: what the prolog and the epilog do, ours with all their checks, the rival's with clocks alone.
HOOKS = r"""
[ -e /run/bench/gres.conf ] || { mkdir -p /run/bench && echo 'Name=gpu File=/dev/nvidia[0-7]' >/run/bench/gres.conf; }
export SLURM_CONF=/run/bench/slurm.conf SLURM_JOB_ID=7 SLURM_JOB_UID=0 SLURMD_NODENAME=bench
export SLURM_JOB_GPUS=0,1,2,3,4,5,6,7
gpunode hook prolog && gpunode hook epilog
"""
SHELL_HOOKS = r"""
for call in "nvmlDeviceSetGpuLockedClocks(h, 1410, 1410)" "nvmlDeviceResetGpuLockedClocks(h)"; do
    for gpu in 0 1 2 3 4 5 6 7; do
        PYTHONPATH=/opt/gpu_node/gpunode.pyz python3 -c "
import pynvml as n
n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex($gpu)
n.$call"
    done
done
"""
# Runs in the guest: pairs in turn, one uncounted pair first, JSON on standard output.
TIMER = r"""
import json, subprocess, sys, time
ours, rival, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
found = []
for number in range(runs + 1):
    pair = []
    for command in (ours, rival):
        began = time.perf_counter()
        subprocess.run(["sh", "-c", command], stdout=subprocess.DEVNULL, check=True)
        pair.append(time.perf_counter() - began)
    found.append(pair)
print(json.dumps(found[1:]))
"""


def pairs(ours: str, rival: str, runs: int) -> tuple:
    command = [TOOL, "ssh", NODE, "python3 - {0} {1} {2}".format(quoted(ours), quoted(rival), runs)]
    done = subprocess.run(command, input=TIMER, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    found = json.loads(done.stdout)
    return [pair[0] for pair in found], [pair[1] for pair in found]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="pairs of each measurement")
    arguments, dummy = parser.parse_known_args()
    subprocess.run([TOOL, "up", NODE], check=True)
    try:
        ansible = [str(Path(sys.executable).parent / "ansible"), NODE, "-i", str(ROOT / "inventories/virtual")]
        subprocess.run(
            ansible + ["-m", "trainyard.gpu_node.node_runtime"], stdout=subprocess.DEVNULL, check=True, cwd=str(ROOT)
        )
        rows = [
            row(name, *pairs(ours, rival, arguments.runs))
            for name, ours, rival in (
                (
                    "gpunode pin --ranks 8 --bind numa",
                    "gpunode pin --ranks 8 --bind numa --launcher srun",
                    SHELL_PIN,
                ),
                ("gpunode clocks list, 8 GPUs", "gpunode clocks list", SHELL_CLOCKS),
                ("prolog and epilog of a job with 8 GPUs", HOOKS, SHELL_HOOKS),
            )
        ]
        title = "gpunode against the shell way, whole processes in an emulated guest ({processor}, {cores} cores)"
        table(title.format(**machine()), rows)
    finally:
        subprocess.run([TOOL, "--quiet", "down", NODE], check=False)


if __name__ == "__main__":
    os.environ.setdefault("VIRTUAL_NODE_RUN", "bench")
    main()

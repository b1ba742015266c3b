# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvme_scratch against the plain shell recipe, and the speed of its array against a hand-made one, in a virtual node.

Both sides run in the same guest, in turn, on the same eight disks, started by the same ssh.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from _measure import in_turn, machine, row, seconds, table

ROOT = Path(__file__).resolve().parents[2]
TOOL = str(ROOT / "tools/virtual_node/virtual_node")
NODE = "bench"
OPTIONS = {"models": ["QEMU NVMe Ctrl"], "count": 8, "mount_point": "/mnt/scratch"}
# What clusters do today, with the guard that makes it fit for a second run.
RECIPE = """
mountpoint -q /mnt/scratch && exit 0
set -e
mkdir -p /mnt/scratch
mdadm --create /dev/md/bench --level=0 --chunk=512 --raid-devices=8 --run --name=bench --homehost=any /dev/nvme[0-7]n1
mkfs.xfs -q -f /dev/md/bench
mount -o noatime /dev/md/bench /mnt/scratch
chmod 1777 /mnt/scratch
"""
UNDO_RECIPE = (
    "umount /mnt/scratch; mdadm --stop /dev/md/bench; mdadm --zero-superblock /dev/nvme[0-7]n1; udevadm settle"
)
FIO = (
    "fio --name=job --directory=/mnt/scratch --size=512M --bs=4M --direct=1 --ioengine=libaio --iodepth=16 --rw={0} "
    "--runtime={1} --output-format=json && rm -f /mnt/scratch/job*"
)


def ssh(command: str) -> str:
    done = subprocess.run([TOOL, "ssh", NODE, command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("in the guest: {0}\n{1}{2}".format(command, done.stdout, done.stderr))
    return done.stdout


def ansible(module: str, arguments: dict) -> None:
    command = [
        str(Path(sys.executable).parent / "ansible"),
        NODE,
        "-i",
        str(ROOT / "inventories/virtual"),
        "-m",
        module,
        "-a",
        json.dumps(arguments),
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=str(ROOT)
    )
    if done.returncode != 0:
        sys.exit(done.stdout)


def ours(state: str = "present") -> None:
    ansible("trainyard.gpu_node.nvme_scratch", dict(OPTIONS, state=state, declare=False))


def recipe() -> None:
    ansible("ansible.builtin.shell", {"cmd": RECIPE})


def bandwidth(kind: str, fio_seconds: int) -> float:
    """MiB/s of one sequential fio run."""
    text = ssh(FIO.format(kind, fio_seconds))
    job = json.loads(text[text.index("{") :])["jobs"][0]
    return float(job[kind]["bw"]) / 1024


def stripes() -> str:
    return " ".join(re.findall(r"s(?:unit|width)=\d+", ssh("xfs_info /mnt/scratch"))[:2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="pairs of each measurement")
    parser.add_argument("--fio-seconds", type=int, default=15, help="length of one fio run")
    arguments = parser.parse_args()
    subprocess.run([TOOL, "up", NODE], check=True)
    try:
        first_ours, first_rival = [], []
        for _ in range(arguments.runs):
            first_ours.append(seconds(ours))
            ours("absent")
            first_rival.append(seconds(recipe))
            ssh(UNDO_RECIPE)
        rows = [row("first run: array, file system, mount", first_ours, first_rival)]

        ours()
        warm_ours = in_turn(ours, recipe, arguments.runs)  # both find a mounted scratch
        rows.append(row("warm run: nothing to do", *warm_ours))
        table(
            "nvme_scratch against the shell recipe, each as one Ansible task over ssh to an emulated guest "
            "({processor}, {cores} cores)".format(**machine()),
            rows,
        )

        speeds: dict = {"write": ([], []), "read": ([], [])}
        geometry = {}
        for _ in range(arguments.runs):
            for side in (0, 1):
                if side == 0:
                    ours()
                else:
                    recipe()
                geometry[side] = stripes()
                for kind in ("write", "read"):
                    bandwidth(kind, 3)  # warms the emulator's translation of the path
                    speeds[kind][side].append(bandwidth(kind, arguments.fio_seconds))
                if side == 0:
                    ours("absent")
                else:
                    ssh(UNDO_RECIPE)
        table(
            "sequential direct I/O, fio, 4 MiB blocks, depth 16; {0} against {1} by hand".format(
                geometry[0], geometry[1]
            ),
            [row("{0} bandwidth (more is better)".format(kind), *speeds[kind], unit="MiB/s") for kind in speeds],
        )
    finally:
        subprocess.run([TOOL, "--quiet", "down", NODE], check=False)


if __name__ == "__main__":
    os.environ.setdefault("VIRTUAL_NODE_RUN", "bench")
    main()

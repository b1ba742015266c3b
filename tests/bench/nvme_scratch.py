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
# What somebody would write to know that it all stands: a Python script that asks each of these programs.
WARM = """
import glob, subprocess, sys

def ask(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)

well = ask("mountpoint", "-q", "/mnt/scratch").returncode == 0
well = well and "raid0" in ask("mdadm", "--detail", "--export", sys.argv[1]).stdout
for disk in sorted(glob.glob("/dev/nvme[0-7]n1")):
    well = well and "linux_raid_member" in ask("blkid", "-p", "-o", "export", disk).stdout
sys.exit(not well)
"""
DECLARATION = {"node_profile": {"metadata": "never"}, "nvme_scratch": dict(OPTIONS, declare=False, boot_unit=False)}
ON_THE_NODE = "gpunode {0} --only nvme_scratch --declaration /opt/bench/node.json >/opt/bench/log 2>&1"
# What a plain script asks of a node that site.yml has made: the files by their SHA-256, units, the scratch, the GPUs.
MADE = "/etc/gpu_node /opt/gpu_node /etc/nccl.conf /etc/profile.d /etc/security/limits.d /etc/slurm"
WHOLE = """
import subprocess, sys
sys.path.insert(0, "/opt/bench")
import pynvml

def ask(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)

well = ask("sha256sum", "--quiet", "--strict", "-c", "/opt/bench/manifest").returncode == 0
for unit in ("gpu-node-nvme_scratch.service", "gpu-node-gpu_settings.service"):
    well = well and ask("systemctl", "is-enabled", unit).returncode == 0
well = well and ask(sys.executable, "/opt/bench/warm.py", sys.argv[1]).returncode == 0
pynvml.nvmlInit()
for number in range(pynvml.nvmlDeviceGetCount()):
    gpu = pynvml.nvmlDeviceGetHandleByIndex(number)
    well = well and pynvml.nvmlDeviceGetPersistenceMode(gpu) == 1
    well = well and pynvml.nvmlDeviceGetMaxClockInfo(gpu, 0) > 0
sys.exit(not well)
"""
UNDO_RECIPE = (
    "umount /mnt/scratch; mdadm --stop /dev/md/bench; mdadm --zero-superblock /dev/nvme[0-7]n1; udevadm settle; "
    "for disk in /dev/nvme[0-7]n1; do blkdiscard -f $disk; done; udevadm settle"
)
# What a run asks of blank disks: libblkid in two programs, as ever, and the proof beside it. One JSON list a turn.
PROOF = r"""
import json, subprocess, sys, time
sys.path.insert(0, "/opt/bench")
from plugins.module_utils.core.host import Host
from plugins.module_utils.facts.scratch import disks
from plugins.module_utils.resources.nvme_scratch import proof
host, names = Host(), disks.disk_names(Host())
sizes = {name: disks.size_bytes(host, name) for name in names}
for turn in range(int(sys.argv[1]) + 1):
    times = [time.perf_counter()]
    for name in names:
        observe.signatures(host, "/dev/" + name)
    times.append(time.perf_counter())
    found = proof.contents(host, sizes)
    times.append(time.perf_counter())
    held = proof.who(host, [(name, ()) for name in names])
    times.append(time.perf_counter())
    assert set(held.values()) == {()} and all(content.other_at is None for content in found.values()), (held, found)
    if turn:
        print(json.dumps([after - before for before, after in zip(times, times[1:])]))
"""
# For the speed, each side has one disk of every NUMA node, both stand at once, and runs of a few seconds take turns:
# whatever else the machine does meets both.
HALF = {
    "serials": ["TYSCRATCH{0}".format(number) for number in (0, 2, 4, 6)],
    "mount_point": "/mnt/scratch",
    "count": 4,
}
HAND = """
set -e
disks=$(for number in 1 3 5 7; do grep -lx "TYSCRATCH$number *" /sys/block/nvme*n1/device/serial | cut -d/ -f4; done)
mkdir -p /mnt/hand
mdadm --create /dev/md/hand --level=0 --chunk=512 --raid-devices=4 --run --name=hand --homehost=any \\
    $(printf '/dev/%s ' $disks)
mkfs.xfs -q -f /dev/md/hand
mount -o noatime /dev/md/hand /mnt/hand
"""
FIO = (
    "fio --name=job --directory={2} --size=512M --bs=4M --direct=1 --ioengine=libaio --iodepth=16 --rw={0} "
    "--runtime={1} --time_based --output-format=json && rm -f {2}/job*"
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
        *(["-a", json.dumps(arguments)] if arguments else []),
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=str(ROOT)
    )
    if done.returncode != 0:
        sys.exit(done.stdout)


def ours(state: str = "present") -> None:
    ansible("trainyard.gpu_node.nvme_scratch", dict(OPTIONS, state=state, declare=False, boot_unit=False))


def recipe() -> None:
    ansible("ansible.builtin.shell", {"cmd": RECIPE})


def bandwidth(kind: str, fio_seconds: int, folder: str) -> float:
    """MiB/s of one sequential fio run."""
    text = ssh(FIO.format(kind, fio_seconds, folder))
    job = json.loads(text[text.index("{") :])["jobs"][0]
    return float(job[kind]["bw"]) / 1024


def stripes(folder: str) -> str:
    return " ".join(re.findall(r"s(?:unit|width)=\d+", ssh("xfs_info " + folder))[:2])


def speeds(pairs: int, fio_seconds: int) -> None:
    """Both arrays stand at once; each goes first as often as the other."""
    ansible("trainyard.gpu_node.nvme_scratch", dict(HALF, declare=False, boot_unit=False))
    ssh(HAND)
    folders = ("/mnt/scratch", "/mnt/hand")
    rows = []
    for kind in ("write", "read"):
        found: tuple = ([], [])
        for folder in folders:
            bandwidth(kind, fio_seconds, folder)  # not counted: the host allocates blocks, the emulator translates
        for number in range(pairs):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                found[side].append(bandwidth(kind, fio_seconds, folders[side]))
        rows.append(row("{0} bandwidth (more is better)".format(kind), *found, unit="MiB/s"))
    title = "sequential direct I/O, fio, 4 MiB blocks, depth 16, four disks each; {0} against {1} by hand"
    table(title.format(*(stripes(folder) for folder in folders)), rows)


def put(name: str, text: str) -> None:
    ssh("mkdir -p /opt/bench && cat > /opt/bench/{0} <<'END'\n{1}\nEND".format(name, text))


def inside(command: str) -> float:
    """Seconds that it takes in the guest, without the way there."""
    timed = "TIMEFORMAT=%R; time {{ {0}; }} || exit 1".format(command)
    text = ssh("bash -c '{0}' 2>&1 | tail -n 1".format(timed.replace("'", "'\\''")))
    return float(text.split()[-1])


def on_the_node(pairs: int) -> None:
    """Both started on the node itself, with no Ansible in between."""
    ansible("trainyard.gpu_node.node_runtime", {})
    for name, text in (("recipe.sh", RECIPE), ("warm.py", WARM), ("node.json", json.dumps(DECLARATION))):
        put(name, text)
    converge, undo = (ON_THE_NODE.format(word) for word in ("converge", "undo --yes"))
    recipe_here = "bash /opt/bench/recipe.sh >/dev/null 2>&1"
    found: tuple = ([], [])
    for _ in range(pairs):
        found[0].append(inside(converge))
        ssh(undo)
        found[1].append(inside(recipe_here))
        ssh(UNDO_RECIPE)
    # What a recipe that trusts its list of disks does not ask; the plan asks it, and the step before the first write.
    proof = sorted(sum(turn) for turn in proof_turns(pairs))[pairs // 2]
    rows = [row("first run", *found)]
    rows.append(row("first run without the proof of blankness", [one - 2 * proof for one in found[0]], found[1]))
    ssh(converge)
    warm = "python3 /opt/bench/warm.py $(findmnt -no SOURCE /mnt/scratch)"
    rows.append(row("warm run, a Python script as rival", *in_turn_inside(converge, warm, 2 * pairs)))
    table("nvme_scratch and its rivals, both started on the node itself; proof {0:.2f} s a time".format(proof), rows)
    ssh(undo)


def in_turn_inside(ours_here: str, rival_here: str, runs: int) -> tuple:
    inside(ours_here)
    inside(rival_here)
    times = [(inside(ours_here), inside(rival_here)) for _ in range(runs)]
    return [one for one, dummy in times], [other for dummy, other in times]


def whole(pairs: int) -> None:
    """A warm site.yml over the guest, and a Python script over ssh that asks for the same things but the verdict."""
    words = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(ROOT / "inventories/virtual")]
    words += ["-l", NODE, "-e", json.dumps({"node_profile_metadata": "never"}), str(ROOT / "playbooks/site.yml")]

    def site(*more: str) -> None:
        done = subprocess.run([*words, *more], capture_output=True, text=True, check=False, cwd=str(ROOT))
        if done.returncode != 0:
            sys.exit(done.stdout[-6000:] + done.stderr)

    site()
    put("warm.py", WARM.replace("/mnt/scratch", "/mnt/resource_nvme"))
    put("whole.py", WHOLE)
    ssh("cd /opt/bench && python3 -m zipfile -e /opt/gpu_node/gpunode.pyz app && cp app/pynvml.py .")
    ssh("find {0} -type f -print0 2>/dev/null | xargs -0 sha256sum >/opt/bench/manifest".format(MADE))
    script = "python3 /opt/bench/whole.py $(findmnt -no SOURCE /mnt/resource_nvme)"
    rows = [
        row("wall time", *in_turn(lambda: site("--skip-tags", "health"), lambda: ssh(script), pairs)),
        row("with the verdict of 47 checks", *in_turn(site, lambda: ssh(script), pairs)),
    ]
    table("a whole warm node: site.yml against a Python script over ssh", rows)


def module_runs(pairs: int) -> None:
    """Times of the first and of a warm run; nothing stands before and after."""
    first_ours, first_rival = [], []
    for _ in range(pairs):
        first_ours.append(seconds(ours))
        ours("absent")
        first_rival.append(seconds(recipe))
        ssh(UNDO_RECIPE)
    rows = [row("first run: array, file system, mount", first_ours, first_rival)]

    ours()
    warm_ours = in_turn(ours, recipe, pairs)  # both find a mounted scratch
    rows.append(row("warm run: nothing to do", *warm_ours))
    table(
        "nvme_scratch against the shell recipe, each as one Ansible task over ssh to an emulated guest "
        "({processor}, {cores} cores)".format(**machine()),
        rows,
    )
    ours("absent")


def proof_turns(runs: int) -> list:
    library = subprocess.run(["tar", "c", "plugins/module_utils"], cwd=str(ROOT), stdout=subprocess.PIPE, check=True)
    command = "mkdir -p /opt/bench && tar x -C /opt/bench"
    subprocess.run([TOOL, "ssh", NODE, command], input=library.stdout, check=True)
    ssh("cat > /opt/bench/proof.py <<'END'\n{0}\nEND".format(PROOF))
    return [json.loads(line) for line in ssh("python3 /opt/bench/proof.py {0}".format(runs)).splitlines()]


def proofs(runs: int) -> None:
    """The proof of blankness of eight disks against libblkid's answer about them, in the guest's own Python."""
    found = proof_turns(runs)
    libblkid, samples, openers = ([turn[number] for turn in found] for number in range(3))
    table(
        "the proof that eight disks are blank against wipefs and blkid on each of them",
        [row("ends and samples", samples, libblkid), row("open handles", openers, libblkid)],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="pairs of each measurement; four times as many of fio")
    parser.add_argument("--fio-seconds", type=int, default=4, help="length of one fio run")
    parser.add_argument("--fio-only", action="store_true", help="leave out the times of the module runs")
    parser.add_argument("--whole-only", action="store_true", help="the whole warm node alone")
    parser.add_argument("--proof-only", action="store_true", help="the proof of blankness alone")
    arguments = parser.parse_args()
    subprocess.run([TOOL, "up", NODE], check=True)
    try:
        if arguments.whole_only:
            whole(arguments.runs)
            return
        proofs(4 * arguments.runs)
        if arguments.proof_only:
            return
        if not arguments.fio_only:
            on_the_node(arguments.runs)
            module_runs(arguments.runs)
            whole(arguments.runs)
            subprocess.run([TOOL, "reset", NODE], check=True)
        speeds(4 * arguments.runs, arguments.fio_seconds)
    finally:
        subprocess.run([TOOL, "--quiet", "down", NODE], check=False)


if __name__ == "__main__":
    os.environ.setdefault("VIRTUAL_NODE_RUN", "bench")
    main()

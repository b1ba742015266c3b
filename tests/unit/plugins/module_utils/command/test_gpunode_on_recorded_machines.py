# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two recorded machines, an H100 and an H200 alone in a virtual machine: converged once, quiet afterwards.

The simulator answers as their NVML did (tests/hardware/recordings), so a finding here would be a false alarm there.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

RECORDINGS = pathlib.Path(__file__).resolve().parents[4] / "hardware" / "recordings"
ADDRESS = "0000:00:06.0"
# What the kernel of both machines logged of the driver.
KERNEL_LOG = (
    (0.459676, "nvidia: loading out-of-tree module taints kernel."),
    (0.537846, "nvidia-nvlink: Nvlink Core is being initialized, major device number 240"),
    (
        0.537854,
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  ",
    ),
    (1.117206, "NVRM: gpuClearFbhubPoisonIntrForBug2924523_GA100: FBHUB Interrupt detected. Clearing it."),
    (
        3.420971,
        "NVRM: Persistence mode is deprecated and will be removed in a future release. "
        "Please use nvidia-persistenced instead.",
    ),
)
# Without systemd and Slurm, as they were.
FILES = {
    "sys/bus/pci/devices/" + ADDRESS + "/vendor": "0x10de\n",
    "sys/bus/pci/devices/" + ADDRESS + "/class": "0x030200\n",
    "sys/bus/pci/devices/" + ADDRESS + "/numa_node": "0\n",
    "sys/devices/system/cpu/online": "0-15\n",
    "sys/devices/system/cpu/present": "0-15\n",
    "sys/devices/system/node/online": "0\n",
    "sys/devices/system/node/node0/cpulist": "0-15\n",
    "proc/meminfo": "MemTotal: 131965060 kB\nMemFree: 130000000 kB\n",
    "proc/loadavg": "0.10 0.10 0.10 1/100 4242\n",
    "proc/stat": "btime 1790000000\n",
    "proc/uptime": "500.00 1.00\n",
    "proc/sys/kernel/tainted": "4096\n",
    "proc/sys/kernel/random/boot_id": "0b5c0b5c-0000-4000-8000-000000000001\n",
    "dev/kmsg": "5,0,0,-;Linux version 6.18.0\n"
    + "".join(
        "4,{0},{1:d},-;{2}\n".format(1 + at, int(1e6 * when), text) for at, (when, text) in enumerate(KERNEL_LOG)
    ),
}
NAMES = {"vm_h100": "NVIDIA H100 80GB HBM3", "vm_h200": "NVIDIA H200"}


class Node:
    def __init__(self, simulator, root):
        self.simulator, self.root = simulator, root
        for path, text in FILES.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")

    def run(self, *words, status=0):
        done = forked.run(
            [sys.executable, gpunode_on.__file__, str(self.root), "--", *words],
            env=self.simulator.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def converge(self, **sections):
        path = self.root / "declaration.json"
        path.write_text(json.dumps(dict(sections, health={"without": ["profile"]})), encoding="utf-8")
        return self.run("converge", "--declaration", str(path)).splitlines()


@pytest.fixture(name="node", params=sorted(NAMES))
def _node(request, nvml_simulator, tmp_path):
    made = Node(nvml_simulator(request.param), tmp_path / "node")
    made.machine = request.param
    return made


def test_a_converge_sets_it_once_and_finds_it_healthy(node):
    layout = {"gpus": ["0"], "instances": [{"profile": "3g"}, {"profile": "4g"}]}
    sections = {
        "gpu_settings": {"persistence": True, "clocks": "max"},
        "mig_layout": {"boot_unit": False, "layouts": [layout]},
    }
    first = node.converge(**sections)
    changed = [line.partition("({0}): ".format(ADDRESS))[2] for line in first if line.startswith("  - GPU 0")]
    four, three, memory = {"vm_h100": ("4g.40gb", "3g.40gb", 2619), "vm_h200": ("4g.71gb", "3g.71gb", 3201)}[
        node.machine
    ]
    assert [line for line in changed if not line.startswith("the layout uses 124 of 132")] == [
        "switch MIG on",
        "make {0} at 0".format(four),
        "make {0} at 4".format(three),
        "make the device files of its instances",
        "lock the graphics clock at 1980 MHz and lock the memory clock at {0} MHz".format(memory),
    ]
    second = node.converge(**sections)
    assert "changed: nothing" in second, second
    for told in (first, second):
        assert told[-1].startswith("ready"), told
        (health,) = [line for line in told if line.startswith("health:")]
        assert health.split()[1] == "pass,", told
        assert not [line for line in told if "NVLink" in line or "fabric" in line.lower()], told


def test_no_passive_check_has_a_finding(node):
    told = json.loads(node.run("health", "--without", "profile", "--json"))
    findings = [(one["id"], found) for one in told["results"] for found in one["findings"]]
    assert (told["outcome"], findings) == ("pass", [])
    done = {one["id"] for one in told["results"]}
    assert {"gpu_temperature", "gpu_slowdown", "gpu_row_remap", "gpu_recovery_action", "gpu_xid", "gpu_ecc"} <= done


def test_info_and_topology_show_one_gpu_without_links(node):
    head, *rows = node.run("info").splitlines()
    assert head.endswith("driver 580.159.04, CUDA 13.0, 1 x " + NAMES[node.machine])
    assert rows[1].split()[:2] == ["0", ADDRESS]
    assert "NVLink" not in node.run("topo") and "NV18" not in node.run("topo")


def test_labels_have_no_fabric_and_no_partition(node):
    labels = dict(line.split("=", 1) for line in node.run("labels").splitlines() if line.startswith("trainyard.io/"))
    assert labels == {"trainyard.io/mig-layout": "off", "trainyard.io/numa-nodes": "1"}


def names(text):
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}


def test_metrics_are_those_of_the_recorded_h100(node):
    (recorded,) = RECORDINGS.glob("metrics_h100_*.txt")
    told = node.run("metrics")
    assert names(told) == names(recorded.read_text(encoding="utf-8"))
    samples = [line for line in told.splitlines() if not line.startswith("#")]
    assert [line for line in samples if line.startswith("gpu_node_gpu_untold{")][0].endswith(" 0")
    slowed = [line for line in samples if line.startswith("gpu_node_gpu_slowdown_seconds_total{")]
    assert len(slowed) == 3 and all(line.endswith(" 0") for line in slowed)

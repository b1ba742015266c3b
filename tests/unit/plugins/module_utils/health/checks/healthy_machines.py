# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole machines in good health that are never twice the same: simulated GPUs on a captured /sys.

``python healthy_machines.py ROOT BASE`` answers each line of its input with a verdict on that machine, and keeps its
counters: run it on a simulator.
"""

from __future__ import annotations

import json
import random
import sys

import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import Options, examine, record, to_dict
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.health_on_simulator import (
    addresses,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.healthy_node import KMSG
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.test_node_captured import (
    PROFILES,
    Layered,
)

# A machine of the simulator and of a profile → the captured tree that has its processors, PCI addresses and disks.
TREES = {
    "nd40rs_v2": "ndv2",
    "nd96asr_v4": "ndv4",
    "nd96amsr_a100_v4": "ndv4",
    "nd96isr_h100_v5": "ndv5",
    "nd96isr_h200_v5": "ndv5",
}
# What a log of healthy nodes is full of. None of it is a fault of the node: jobs die, links train, drivers start.
HARMLESS = (
    "NVRM: Xid ({gpu}): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
    "NVRM: Xid ({gpu}): 13, pid=4711, name=python3, Graphics Exception: ESR 0x504730=0x20009",
    "NVRM: Xid ({gpu}): 43, pid=4711, name=python3, Ch 00000010",
    "NVRM: Xid ({gpu}): 45, pid=4711, name=python3, Ch 00000011",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025",
    "nvidia-nvlink: Nvlink Core is being initialized, major device number 236",
    "nvidia-nvswitch0: SXid (PCI:0006:00:00.0): 20034, Non-fatal, Link 30 LTSSM Fault Up",
    "nvidia_uvm: module uses symbols nvUvmInterfaceDisableAccessCntr from proprietary module nvidia, inheriting taint.",
    "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  580.95.05",
    "nvidia 0001:00:00.0: enabling device (0000 -> 0002)",
    "python3[4711]: segfault at 10 ip 00007f2a6c0a1b2c sp 00007ffd1e2f3a40 error 4 in libc.so.6[7f2a6c028000+195000]",
    "traps: pt_main_thread[4711] general protection fault ip:7f1c2d3e4f50 sp:7ffd5a6b7c80 error:0 in libcuda.so.1",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_7,mems_allowed=0-1,oom_memcg=/slurm/uid_1000/job_7",
    "Memory cgroup out of memory: Killed process 4712 (python3) total-vm:90kB, anon-rss:80kB, file-rss:0kB",
    "mlx5_core 0101:00:00.0: Port module event: module 0, Cable plugged",
    "mlx5_core 0101:00:00.0: firmware version: 28.39.1002",
    "IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready",
    "TCP: request_sock_TCP: Possible SYN flooding on port 8888. Sending cookies.",
    "nvme nvme0: 8/0/0 default/read/poll queues",
    "nvme nvme0: Shutdown timeout set to 10 seconds",
    "EXT4-fs (sda1): re-mounted 8f2d. Quota mode: none.",
    "XFS (md127): Ending clean mount",
    "md127: detected capacity change from 0 to 15002423296",
    "sd 0:0:0:0: [sda] Write cache: enabled, read cache: enabled, supports DPO and FUA",
    "perf: interrupt took too long (2503 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    "clocksource: Switched to clocksource hyperv_clocksource_tsc_page",
    "workqueue: drain_vmap_area_work hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND",
    "x86/split lock detection: #AC: python3/4711 took a split_lock trap at address: 0x7f2a6c0a1b2c",
    "mce: CPU0: Thermal monitoring enabled (TM1)",
    "MCE: In-kernel MCE decoding enabled.",
    "EDAC MC: Ver: 3.0.0",
    "pcieport 0000:00:01.0: AER: enabled with IRQ 25",
    'audit: type=1400 audit(1760000000.1:2): apparmor="STATUS" operation="profile_load" name="nvidia_modprobe"',
    "docker0: port 1(veth1a2b3c4) entered forwarding state",
    "overlayfs: missing 'lowerdir'",
    "systemd-journald[812]: Received client request to flush runtime journal.",
    "hv_balloon: Max. dynamic memory size: 1843200 MB",
    "rcu: Hierarchical SRCU implementation.",
    "watchdog: Delayed init of the lockup detector failed: -19",
    "Lockdown: systemd-logind: hibernation is restricted; see man kernel_lockdown.7",
)
ECC_ERRORS_OF_A_LIFE = 40  # corrected ones; thousands are no alarm


class Machine(Layered):
    """The captured /sys, but for the driver's version, which no tree has, and the memory, which differs by machine."""

    def path(self, path):
        own = path.startswith("/sys/module/") or path.endswith("/meminfo")
        return self.base + path if own else super().path(path)


class HealthyMachine:
    """``node`` has what lies beside /sys, ``simulator`` the GPUs. :meth:`live` changes both within what is healthy."""

    def __init__(self, node, simulator, name):
        self.node, self.simulator, self.name = node, simulator, name
        profile = yaml.safe_load((PROFILES / (name + ".yml")).read_text(encoding="utf-8"))
        self.root = unpack.shared(TREES[name])
        self.memory = profile["memory"]["bytes"] // 1024
        numa_nodes = len(profile["numa_nodes"])
        for number in range(numa_nodes):
            text = "Node {0} MemTotal: {1} kB".format(number, self.memory // numa_nodes)
            node.write("/sys/devices/system/node/node{0}/meminfo".format(number), text)
        self.jobs = []
        # The disk that the tests run on may be as full as it likes.
        full = {"better": "lower", "warn": 100, "fail": 100}
        limits = {"filesystem_used_percent": full, "filesystem_inodes_used_percent": full}
        declared = {"profile": {"name": name, "data": profile}, "health": {"thresholds": limits}}
        node.write("/etc/gpu_node/node.json", json.dumps(declared))
        version = simulator.control("get", "driver.version").split()[-1]
        node.write("/sys/module/nvidia/version", version)
        node.write("/usr/bin/nv-fabricmanager", "#!/bin/sh\necho 'Fabric Manager version is : {0}'".format(version))
        (node.root / "usr/bin/nv-fabricmanager").chmod(0o755)
        node._programs()
        for controller in Host(self.root).names("/sys/class/nvme"):
            (node.bin / (controller + ".json")).write_text(json.dumps(node.smart["nvme0"]), encoding="utf-8")
        self.addresses = addresses(name)
        self.hottest, self.hottest_memory = (
            int(simulator.control("get", "gpu.temperature." + limit).split()[-1])
            for limit in ("slowdown", "memory_max")
        )
        for gpu in range(len(self.addresses)):
            simulator.control("ecc", "add", str(gpu), "corrected", str(gpu * ECC_ERRORS_OF_A_LIFE // 8), "dram")

    def live(self, chance: random.Random):
        """Another moment of its life: GPUs at work or idle, a log, jobs that came and went."""
        lines = ["gpu.persistence_mode = 1"]  # as the role gpu_settings and NVIDIA's daemon leave it
        for gpu in range(len(self.addresses)):
            lines.append("gpu.{0}.temperature.gpu = {1}".format(gpu, chance.randint(24, self.hottest - 4)))
            lines.append("gpu.{0}.temperature.memory = {1}".format(gpu, chance.randint(24, self.hottest_memory - 4)))
            lines.append("gpu.{0}.power.idle_mw = {1}".format(gpu, chance.randint(40000, 250000)))
        (self.simulator.state / "override.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        some = str(chance.randrange(len(self.addresses)))
        self.simulator.control("throttle", some, chance.choice(["none", "idle", "sw_power_cap"]))
        self.job(chance, some)
        log(self.node, chance, self.addresses)
        node = self.node
        node.write("/proc/loadavg", "{0:.2f} {0:.2f} {0:.2f} 3/900 4711".format(chance.uniform(0, 90)))
        # The kernel keeps some for itself: how much differs from one to the next.
        kept = chance.randint(0, self.memory // 100)
        node.write("/proc/meminfo", "MemTotal: {0} kB\nMemFree: {1} kB".format(self.memory - kept, self.memory // 3))

    def job(self, chance, gpu):
        """A process on one GPU, in the place of those of the moment before."""
        for other, pid in self.jobs:
            self.simulator.control("process", "remove", other, str(pid))
            self.node.remove("/proc/{0}".format(pid))
        self.jobs = [(gpu, pid) for pid in (4711, 4712) if chance.random() < 0.5]
        for gpu, pid in self.jobs:
            self.simulator.control("process", "add", gpu, str(pid), str(chance.randint(500, 9000)))
            state = chance.choice("RS")
            self.node.write("/proc/{0}/stat".format(pid), "{0} (python3) {1} 1 1".format(pid, state))
            self.node.write("/proc/{0}/comm".format(pid), "python3")


def log(node, chance, addresses):
    """Up to sixty harmless lines, at any time since the boot."""
    uptime = chance.uniform(600, 90 * 86400)
    records = [
        "{0},{1},{2},-;{3}".format(
            chance.choice([3, 4, 5, 6]),
            len(KMSG) + number,
            int(moment * 1e6),
            chance.choice(HARMLESS).format(gpu="PCI:" + chance.choice(addresses)[:-2]),
        )
        for number, moment in enumerate(sorted(chance.uniform(10, uptime) for dummy in range(chance.randint(0, 60))))
    ]
    node.write("/dev/kmsg", "\n".join([*KMSG[:4], *records]))
    node.write("/proc/uptime", "{0:.2f} {0:.2f}".format(uptime))


def live(node, chance):
    """Another moment in the life of the small machine: its counters have come to something, its disks were used."""
    log(node, chance, ["0001:00:00.0", "0002:00:00.0"])
    node.write("/proc/loadavg", "{0:.2f} {1:.2f} {0:.2f} 2/300 4711".format(chance.uniform(0, 9), chance.uniform(0, 1)))
    node.write("/proc/meminfo", "MemTotal: {0} kB\nMemFree: 90000 kB".format(8388608 - chance.randint(0, 160000)))
    # Modules of others, and unsigned ones (P, O, E).
    node.write("/proc/sys/kernel/tainted", str(chance.choice([0, 1, 4096, 4097, 12288, 12289])))
    for number in (0, 1):
        for counter in ("symbol_error", "link_downed", "port_rcv_errors", "port_xmit_wait"):
            node.write("{0}/counters/{1}".format(node.port(number), counter), str(chance.randint(0, 100000)))
        node.write("/sys/devices/system/edac/mc/mc0/dimm{0}/dimm_ce_count".format(number), str(chance.randint(0, 5)))
        node.smart["nvme{0}".format(number)].update(
            temperature=chance.randint(285, 345), percent_used=chance.randint(0, 99), media_errors=chance.randint(0, 9)
        )


def main():
    host = Machine(sys.argv[1], sys.argv[2])
    while sys.stdin.readline():
        verdict = examine(host, "node", Options())
        record(host, verdict)
        print(json.dumps(to_dict(verdict)), flush=True)


if __name__ == "__main__":
    main()

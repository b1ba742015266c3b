# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small machine in good health, as files: 4 CPUs, 2 GPUs, 2 InfiniBand ports, 2 NVMe disks under the scratch.

Tests damage it in one place and see what the checks say. ``systemctl`` and ``nvme`` are programs that print what the
real ones would.
"""

from __future__ import annotations

import json
import os
import pathlib
import time

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import lanes, types, verdict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import of_node, of_node_passive
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Origin, Threshold

# Those of everything but GPUs.
CHECKS = {Cost.QUICK: of_node.CHECKS, Cost.PASSIVE: of_node.CHECKS + of_node_passive.CHECKS}
MARK = "# Managed by trainyard.gpu_node. Changes will be lost.\n"
PROFILE = {
    "name": "small",
    "cpus": 4,
    "numa_nodes": [{"cpus": 2}, {"cpus": 2}],
    "gpu_numa": [0, 1],
    "memory": {"bytes": 8 * 2**30, "tolerance_percent": 3},
    "nvme": {"models": ["Fast Disk"], "count": 2},
    "infiniband": {"count": 2, "rate_gigabits_per_second": 400},
}
MOUNTS = (
    "22 1 259:9 / / rw,relatime shared:1 - ext4 /dev/root rw,discard",
    "31 22 0:27 / /tmp rw,nosuid - tmpfs tmpfs rw,size=1000k",
    "40 22 9:127 / /mnt/resource_nvme rw,noatime shared:20 - xfs /dev/md127 rw,attr2,noquota",
)
KMSG = (
    "6,0,0,-;Linux version 6.8.0-1018-azure (buildd@lcy02)",
    "6,1,100000,-;Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro",
    "4,2,5000000,-;nvidia: loading out-of-tree module taints kernel.",
    "6,3,9000000,-;XFS (md127): Mounting V5 Filesystem 1d2b",
    "6,4,9100000,-;XFS (md127): Ending clean mount",
    "3,5,60000000,-;I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    "3,6,61000000,-;Memory cgroup out of memory: Killed process 4711 (python) total-vm:90kB, anon-rss:80kB",
    "6,7,62000000,-;mlx5_core 0101:00:00.0: mlx5_pcie_event:301: Detected insufficient power on the PCIe slot (27W).",
)
LIMITS_OF_SLURMD = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max stack size            unlimited            unlimited            bytes
Max locked memory         unlimited            unlimited            bytes
Max open files            1048576              1048576              files
"""
UNIT = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "UnitFileState": "enabled",
    "Result": "success",
    "Type": "simple",
    "RemainAfterExit": "no",
    "ConditionResult": "yes",
    "ConditionTimestampMonotonic": "8128311",
    "NRestarts": "0",
}
ABSENT = {
    "LoadState": "not-found",
    "ActiveState": "inactive",
    "SubState": "dead",
    "UnitFileState": "",
    "Result": "success",
    "ConditionResult": "no",
    "ConditionTimestampMonotonic": "0",
}
ONCE = {"Type": "oneshot", "RemainAfterExit": "yes", "SubState": "exited"}
SMART = {
    "critical_warning": 0,
    "temperature": 310,
    "avail_spare": 100,
    "spare_thresh": 10,
    "percent_used": 3,
    "media_errors": 0,
}
DECLARED = {
    "profile": {"name": "small", "data": PROFILE},
    "nvme_scratch": {"state": "present", "mount_point": "/mnt/resource_nvme", "models": ["Fast Disk"]},
    "nccl": {
        "files": [
            "/etc/nccl.conf",
            "/etc/modules-load.d/gpu_node_peermem.conf",
            "/etc/systemd/system/slurmd.service.d/gpu_node_limits.conf",
        ],
        "made_folders": [],
        "sysctl": {"net.ipv4.neigh.default.gc_thresh1": {"before": "128", "set": "4096"}},
    },
    "slurm_hooks": {"files": []},
}


def here(checks, evidence):
    """Look in this process: a hundred machines are judged in the time that children for some would take."""
    looked = {}
    for check in checks:
        try:
            looked[check.id] = lanes.Looked(check.look(evidence), None, 0.0)
        except NodeError as error:
            looked[check.id] = lanes.Looked(None, error, 0.0)
    return looked


class HealthyNode:
    """Damage it with :meth:`write`, :meth:`remove` and the dictionaries, then ask for its :meth:`verdict`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.root = folder / "root"
        self.bin = folder / "bin"
        self.declared = json.loads(json.dumps(DECLARED))
        self.profile = json.loads(json.dumps(PROFILE))
        self.settings = {}
        self.origins = {}
        self.kmsg = KMSG
        # The disk that the tests run on may be as full as it likes.
        full = {"filesystem_used_percent", "filesystem_inodes_used_percent", "scratch_used_percent"}
        full.add("scratch_inodes_used_percent")
        self.limits = dict(LIMITS, **{name: Threshold("lower", 100, 100, "test") for name in full})
        self.units = {
            "slurmd.service": dict(UNIT),
            "munge.service": dict(UNIT),
            "nvidia-fabricmanager.service": dict(ABSENT),
            "nvidia-persistenced.service": dict(UNIT, UnitFileState="static"),
            "docker.service": dict(
                UNIT, ActiveState="inactive", SubState="dead", UnitFileState="disabled", ConditionResult="no"
            ),
            "gpu-node-nvme_scratch.service": dict(UNIT, **ONCE),
            "gpu-node-gpu_settings.service": dict(UNIT, ActiveState="inactive", ConditionResult="no", **ONCE),
            "gpu-node-health.service": dict(
                UNIT, ActiveState="inactive", SubState="dead", UnitFileState="static", Type="oneshot"
            ),
        }
        self.smart = {"nvme0": dict(SMART), "nvme1": dict(SMART)}
        self._processors()
        self._memory()
        self._kernel()
        for number in (0, 1):
            self._gpu(number)
            self._port(number)
            self._disk(number)
        self._interface()
        self._scratch()
        self._system()

    # What a test does ------------------------------------------------------------------------------------------

    def write(self, path, text):
        # Hundreds of files for each test: pathlib would take a third of its time.
        target, content = os.path.join(str(self.root), path.lstrip("/")), text if text.endswith("\n") else text + "\n"
        if os.path.islink(target):
            os.unlink(target)
        try:
            with open(target, "w", encoding="utf-8") as stream:
                stream.write(content)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target))
            self.write(path, content)

    def remove(self, path):
        target = self.root / path.lstrip("/")
        if target.is_dir() and not target.is_symlink():
            for name in sorted(os.listdir(str(target))):
                self.remove("{0}/{1}".format(path, name))
            target.rmdir()
        else:
            target.unlink()

    def link(self, path, target):
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, str(place))

    def say(self, *lines, seconds=80000.0):
        """Lines at the end of the kernel log; the machine has been up for 90000 s."""
        records = [
            "3,{0},{1},-;{2}".format(len(self.kmsg) + number, int(seconds * 1e6), line)
            for number, line in enumerate(lines)
        ]
        self.write("/dev/kmsg", "\n".join([*self.kmsg, *records]))

    def grown(self, figure, key, by, hours=20.0):
        """A counter was smaller ``hours`` ago; what it is now stands in its file."""
        self.origins[(figure, key)] = (Origin(by, hours),)

    def verdict(self, level=Cost.PASSIVE, children=False):
        self._programs()
        checks = CHECKS[level]
        evidence = Evidence(Host(str(self.root)), self.declared, self.settings)
        expected = types.Expected(
            "small" if self.profile else "unknown",
            self.profile,
            self.declared,
            self.limits,
            self.origins,
            self.settings,
            time.time(),
        )
        looked = lanes.look(checks, evidence, 1.0) if children else here(checks, evidence)
        return verdict.judge("node", level, checks, looked, expected)

    # The machine -----------------------------------------------------------------------------------------------

    def _processors(self):
        for name in ("present", "online", "possible"):
            self.write("/sys/devices/system/cpu/" + name, "0-3")
        self.write("/sys/devices/system/cpu/smt/control", "on")
        for cpu in range(4):
            folder = "/sys/devices/system/cpu/cpu{0}/topology/".format(cpu)
            self.write(folder + "physical_package_id", str(cpu // 2))
            self.write(folder + "core_id", str(cpu % 2))
            self.write(folder + "thread_siblings_list", str(cpu))
        for node in (0, 1):
            folder = "/sys/devices/system/node/node{0}/".format(node)
            self.write(folder + "cpulist", "{0}-{1}".format(2 * node, 2 * node + 1))
            self.write(folder + "distance", "10 21" if node == 0 else "21 10")
            self.write(folder + "meminfo", "Node {0} MemTotal: 4194304 kB".format(node))
        self.write("/proc/loadavg", "0.10 0.12 0.08 1/200 1234")

    def _memory(self):
        self.write("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:         7000000 kB")
        self.write("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority")
        pages = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
        self.write(pages + "nr_hugepages", "0")
        self.write(pages + "free_hugepages", "0")
        for dimm in (0, 1):
            folder = "/sys/devices/system/edac/mc/mc0/dimm{0}/".format(dimm)
            self.write(folder + "dimm_label", "CPU0_DIMM_A{0}".format(dimm + 1))
            self.write(folder + "dimm_ce_count", "0")
            self.write(folder + "dimm_ue_count", "0")
        self.write("/sys/devices/system/edac/mc/mc0/ce_count", "0")
        self.write("/sys/devices/system/edac/mc/mc0/ue_count", "0")

    def _kernel(self):
        self.write("/sys/class/dmi/id/sys_vendor", "Microsoft Corporation")
        self.write("/sys/class/dmi/id/product_name", "Virtual Machine")
        # P, O and E: what NVIDIA's proprietary driver leaves.
        self.write("/proc/sys/kernel/tainted", "12289")
        self.write("/proc/sys/kernel/osrelease", "6.8.0-1018-azure")
        self.write("/proc/uptime", "90000.00 300000.00")
        self.write("/proc/stat", "btime 1760000000")
        self.write("/proc/sys/net/ipv4/neigh/default/gc_thresh1", "4096")
        self.write("/dev/kmsg", "\n".join(KMSG))
        self.write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54")
        self.write("/lib/modules/6.8.0-1018-azure/modules.dep", "updates/dkms/nvidia-peermem.ko: updates/nvidia.ko")
        self.write("/sys/module/nvidia_peermem/refcnt", "0")

    def _function(self, address, vendor, device, class_code, node):
        folder = "/sys/devices/pci{0}/{1}".format(address[:7], address)
        self.write(folder + "/vendor", vendor)
        self.write(folder + "/device", device)
        self.write(folder + "/class", class_code)
        self.write(folder + "/numa_node", str(node))
        self.link("/sys/bus/pci/devices/" + address, "../../../devices/pci{0}/{1}".format(address[:7], address))
        return folder

    def _gpu(self, number):
        self._function("000{0}:00:00.0".format(number + 1), "0x10de", "0x2330", "0x030200", number)

    def _port(self, number):
        address = "010{0}:00:00.0".format(number + 1)
        folder = self._function(address, "0x15b3", "0x1021", "0x020700", number)
        name = "mlx5_ib{0}".format(number)
        device = "{0}/infiniband/{1}".format(folder, name)
        self.write(device + "/node_guid", "0015:5dff:fe33:ff3{0}".format(number))
        self.write(device + "/fw_ver", "28.39.1002")
        port = device + "/ports/1"
        self.write(port + "/state", "4: ACTIVE")
        self.write(port + "/phys_state", "5: LinkUp")
        self.write(port + "/rate", "400 Gb/sec (4X NDR)")
        self.write(port + "/link_layer", "InfiniBand")
        self.write(port + "/pkeys/0", "0x8012")
        self.write(port + "/pkeys/1", "0x7fff")
        self.write(port + "/pkeys/2", "0x0000")
        for counter in ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_wait"):
            self.write("{0}/counters/{1}".format(port, counter), "7")
        for counter in ("local_link_integrity_errors", "excessive_buffer_overrun_errors"):
            self.write("{0}/counters/{1}".format(port, counter), "7")
        for counter in ("port_xmit_packets", "port_rcv_packets"):
            self.write("{0}/counters/{1}".format(port, counter), "7000000")
        for counter in ("rx_icrc_encapsulated", "local_ack_timeout_err", "out_of_sequence", "rnr_nak_retry_err"):
            self.write("{0}/hw_counters/{1}".format(port, counter), "7")
        self.link(device + "/device", "../..")
        self.link("/sys/class/infiniband/" + name, "../.." + device[len("/sys") :])

    def _interface(self):
        address = "0201:00:00.0"
        folder = self._function(address, "0x8086", "0x1563", "0x020000", 0)
        self.write(folder + "/net/eth0/type", "1")
        self.write(folder + "/net/eth0/carrier_changes", "3")
        self.link(folder + "/net/eth0/device", "../..")
        self.link("/sys/class/net/eth0", "../.." + folder[len("/sys") :] + "/net/eth0")

    def port(self, number):
        return "/sys/class/infiniband/mlx5_ib{0}/ports/1".format(number)

    def _disk(self, number):
        address = "a00{0}:00:00.0".format(number)
        folder = self._function(address, "0x1414", "0xb111", "0x010802", number)
        name = "nvme{0}".format(number)
        controller = "{0}/nvme/{1}".format(folder, name)
        self.write(controller + "/model", "Fast Disk               ")
        self.write(controller + "/serial", "SERIAL{0}   ".format(number))
        self.write(controller + "/transport", "pcie")
        self.write(controller + "/state", "live")
        block = "{0}/{1}n1".format(controller, name)
        self.write(block + "/size", "2000000")
        self.write(block + "/queue/logical_block_size", "512")
        self.link(controller + "/device", "../..")
        self.link(block + "/device", "..")
        self.link("/sys/class/nvme/" + name, "../.." + controller[len("/sys") :])
        for place in ("/sys/block/", "/sys/class/block/"):
            up = "../" * (place.count("/") - 2)
            self.link("{0}{1}n1".format(place, name), up + block[len("/sys/") :])

    def _scratch(self):
        array = "/sys/devices/virtual/block/md127"
        self.write(array + "/md/level", "raid0")
        self.write(array + "/md/array_state", "clean")
        self.write(array + "/md/raid_disks", "2")
        for number in (0, 1):
            self.write("{0}/md/dev-nvme{1}n1/state".format(array, number), "in_sync")
        self.link("/sys/dev/block/9:127", "../../devices/virtual/block/md127")
        self.write("/proc/self/mountinfo", "\n".join(MOUNTS))
        (self.root / "mnt/resource_nvme").mkdir(parents=True)
        (self.root / "tmp").mkdir()
        build = {
            "array_uuid": "a" * 32,
            "filesystem_uuid": "b" * 32,
            "filesystem": "xfs",
            "serials": ["SERIAL0", "SERIAL1"],
            "finished": True,
        }
        record = {"version": 1, "builds": [build], "mount_point": "/mnt/resource_nvme"}
        self.write("/var/lib/gpu_node/nvme_scratch.json", json.dumps(record))

    def _system(self):
        (self.root / "run/systemd/system").mkdir(parents=True)
        units = "/etc/systemd/system/"
        for name, target in (
            ("gpu-node-nvme_scratch.service", "multi-user.target"),
            ("gpu-node-gpu_settings.service", "multi-user.target"),
            ("gpu-node-health.timer", "timers.target"),
        ):
            self.write(units + name, MARK + "[Unit]\n[Install]\nWantedBy={0}\n".format(target))
            self.link("{0}{1}.wants/{2}".format(units, target, name), units + name)
        self.write(units + "gpu-node-health.service", MARK + "[Service]\nType=oneshot\n")
        limits = "[Service]\nLimitMEMLOCK=infinity\nLimitNOFILE=1048576\nLimitSTACK=infinity\n"
        self.write(units + "slurmd.service.d/gpu_node_limits.conf", MARK + limits)
        self.write("/etc/nccl.conf", MARK + "NCCL_DEBUG=WARN\n")
        self.write("/etc/modules-load.d/gpu_node_peermem.conf", MARK + "nvidia_peermem\n")
        self.write("/proc/17/comm", "bash")
        self.write("/proc/4242/comm", "slurmd")
        self.write("/proc/4242/limits", LIMITS_OF_SLURMD)

    def _programs(self):
        self.bin.mkdir(exist_ok=True)
        blocks = [
            "\n".join(["Id=" + name] + ["=".join(pair) for pair in unit.items()]) for name, unit in self.units.items()
        ]
        (self.bin / "units.txt").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
        self.program("systemctl", 'exec cat "{0}/units.txt"'.format(self.bin))
        for name, smart in self.smart.items():
            text = smart if isinstance(smart, str) else json.dumps(smart)
            (self.bin / (name + ".json")).write_text(text, encoding="utf-8")
        self.program("nvme", 'exec cat "{0}/${{3##*/}}.json"'.format(self.bin))

    def program(self, name, line):
        path = self.bin / name
        if not path.exists():
            path.write_text("#!/bin/sh\n{0}\n".format(line), encoding="utf-8")
            path.chmod(0o755)

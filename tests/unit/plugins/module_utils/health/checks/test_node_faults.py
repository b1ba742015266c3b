# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each fault of a machine gives exactly its finding, and nothing else moves."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Outcome, Threshold

IB0, IB1, PORT1 = "0101:00:00.0", "0102:00:00.0", "/sys/class/infiniband/mlx5_ib1/ports/1"
CPUS, NODES, EDAC = "/sys/devices/system/cpu/", "/sys/devices/system/node/", "/sys/devices/system/edac/mc/mc0/"
MD, SCRATCH = "/sys/devices/virtual/block/md127/md/", "/mnt/resource_nvme"
UNITS = "/etc/systemd/system/"
DISK_BUSY = "nvme nvme1: I/O tag 12 (100c) opcode 0x2 (I/O Cmd) QID 4 timeout, aborting req_op:READ(0) size:4096"


IB = ("mlx5_ib0", "mlx5_ib1")


def told(verdict):
    return {
        (check, found.code, found.key, found.outcome.value, found.action.value) for check, found in verdict.findings
    }


@pytest.mark.parametrize("children", [False, True])
def test_a_healthy_machine_has_no_finding(node, children):
    verdict = node.verdict(children=children)
    late = {check for check, found in verdict.findings if "did not end within" in found.reason}
    assert not told(verdict) or (children and late), [str(one) for one in verdict.findings]
    # Nothing declares partition keys or a lease, no boot converges it, a tree has no clock, and no software for GPUs
    # is on it; everything else was looked at, but for what only bare metal has.
    others = {"beeond_leftover", "cpu_governor", "env_deepspeed", "ipmi_events", "lease", "pcie_acs"}
    others |= {"image_cuda", "image_communication", "image_containers", "image_software"}
    assert set(verdict.not_applicable) == {"ib_partition_keys", "clock_synchronised", "converge"} | others
    assert all(one.seen or one.id in late for one in verdict.results)


def test_looking_leaves_nothing_behind(node):
    before = sorted(str(path) for path in node.root.rglob("*"))
    node.verdict()
    assert sorted(str(path) for path in node.root.rglob("*")) == before


def mount(node, point, line):
    lines = node.root.joinpath("proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    kept = [one for one in lines if one.split(" ")[4] != point]
    node.write("/proc/self/mountinfo", "\n".join(kept + ([line] if line else [])))


def controller(node, serial, **files):
    node.smart["nvme9"] = dict(node.smart["nvme0"])
    for name, text in dict(files, serial=serial).items():
        node.write("/sys/class/nvme/nvme9/" + name, text)


def no_port(node):
    os.unlink(str(node.root / "sys/class/infiniband/mlx5_ib1"))


def no_disk(node):
    for path in ("sys/class/nvme/nvme1", "sys/block/nvme1n1", "sys/class/block/nvme1n1"):
        os.unlink(str(node.root / path))
    del node.smart["nvme1"]


def no_profile(node):
    node.profile = {}
    del node.declared["profile"]


def unknown_machine(node):
    node.profile = {}
    node.declared["profile"] = {"name": "unknown", "data": {}}


def half_a_profile(node, key):
    del node.profile[key]


def keys(node, *wanted):
    node.settings["partition_keys"] = list(wanted)


def not_writable(node):
    (node.root / "mnt/resource_nvme").rmdir()
    node.write(SCRATCH, "")


def deepspeed(node):
    node.declared["python_env"] = {"environments": [{"name": "ds", "preset": "deepspeed"}]}
    node.write("/etc/ld.so.cache", "libm.so.6")
    (node.root / "dev/shm").mkdir(parents=True)


def limit(node, figure, warn, fail):
    node.limits[figure] = Threshold("lower", warn, fail, "test")


def rdma_without_the_role(node):
    node.declared["nccl"]["files"] = []
    node.write("/proc/4242/limits", "Max locked memory         65536                65536                bytes")


FAULTS = {
    "no libaio for DeepSpeed": (deepspeed, [("env_deepspeed", "library", "", "warn", "configure")]),
    "unknown machine": (unknown_machine, [("profile", "unknown_machine", "", "unknown", "configure")]),
    "no profile declared": (no_profile, [("profile", "undeclared", "", "unknown", "configure")]),
    "CPU offline": (
        lambda node: node.write(CPUS + "online", "0-2"),
        [("cpu_count", "count", "", "fail", "configure")],
    ),
    "CPU missing": (
        lambda node: [node.write(CPUS + name, "0-2") for name in ("online", "present")],
        [("cpu_count", "count", "", "fail", "look")],
    ),
    "CPU offline, no figure": (
        lambda node: [
            half_a_profile(node, "cpus"),
            half_a_profile(node, "numa_nodes"),
            node.write(CPUS + "online", "0-2"),
        ],
        [("cpu_count", "offline", "", "warn", "configure")],
    ),
    "CPUs unreadable": (
        lambda node: node.remove(CPUS + "online"),
        [("cpu_count", "", "", "unknown", "look")],
    ),
    "load without a job": (
        lambda node: node.write("/proc/loadavg", "2.50 2.40 2.20 3/200 999"),
        [("cpu_load", "without_job", "", "warn", "look")],
    ),
    "load unreadable": (
        lambda node: node.write("/proc/loadavg", "0,10 0,12 0,08"),
        [("cpu_load", "", "", "unknown", "look")],
    ),
    "a CPU at another NUMA node": (
        lambda node: [node.write(NODES + "node0/cpulist", "0-2"), node.write(NODES + "node1/cpulist", "3")],
        [("numa_layout", "cpus", "", "fail", "look")],
    ),
    "one NUMA node": (
        lambda node: [node.remove(NODES + "node1"), node.write(NODES + "node0/cpulist", "0-3"), half_gpus(node)],
        [("numa_layout", "nodes", "", "fail", "look")],
    ),
    "GPU at another NUMA node": (
        lambda node: node.write("/sys/bus/pci/devices/0002:00:00.0/numa_node", "0"),
        [("numa_layout", "gpus", "", "fail", "look")],
    ),
    "memory module missing": (
        lambda node: node.write("/proc/meminfo", "MemTotal: 6291456 kB"),
        [("memory_size", "size", "", "warn", "replace")],
    ),
    "more memory than the profile": (
        lambda node: node.write("/proc/meminfo", "MemTotal: 9388608 kB"),
        [("memory_size", "size", "", "warn", "configure")],
    ),
    "memory unreadable": (
        lambda node: node.write("/proc/meminfo", "Speicher: 8388608 kB"),
        [("memory_size", "", "", "unknown", "look")],
    ),
    "uncorrected error of a module": (
        lambda node: [node.write(EDAC + "dimm1/dimm_ue_count", "1"), node.write(EDAC + "ue_count", "1")],
        [("memory_errors", "uncorrected", "mc0/dimm1", "fail", "replace")],
    ),
    "uncorrected error at no place": (
        lambda node: node.write(EDAC + "ue_count", "1"),
        [("memory_errors", "uncorrected", "mc0", "fail", "replace")],
    ),
    "many corrected errors in a day": (
        lambda node: [
            node.write(EDAC + "dimm0/dimm_ce_count", "11"),
            node.write(EDAC + "ce_count", "11"),
            node.grown("memory_corrected_errors", "mc0/dimm0", 0),
        ],
        [("memory_errors", "corrected", "mc0/dimm0", "warn", "replace")],
    ),
    "swap in use": (
        lambda node: node.write("/proc/swaps", "Filename Type Size Used Priority\n/swapfile file 2097148 204800 -2"),
        [("memory_swap", "used", "", "warn", "configure")],
    ),
    "idle huge pages": (
        lambda node: [
            node.write("/sys/kernel/mm/hugepages/hugepages-2048kB/" + name, "512")
            for name in ("nr_hugepages", "free_hugepages")
        ],
        [("memory_huge_pages", "idle", "", "warn", "configure")],
    ),
    "InfiniBand card missing": (no_port, [("ib_ports", "count", "", "fail", "look")]),
    "cable out": (
        lambda node: [node.write(PORT1 + "/phys_state", "2: Polling"), node.write(PORT1 + "/state", "1: DOWN")],
        [("ib_ports", "link_down", IB1, "fail", "look")],
    ),
    "port switched off": (
        lambda node: [node.write(PORT1 + "/phys_state", "3: Disabled"), node.write(PORT1 + "/state", "1: DOWN")],
        [("ib_ports", "link_down", IB1, "fail", "look")],
    ),
    "no subnet manager": (
        lambda node: [node.write("/sys/class/infiniband/{0}/ports/1/state".format(name), "2: INIT") for name in IB],
        [("ib_ports", "not_active", key, "fail", "look") for key in (IB0, IB1)],
    ),
    "slow link": (
        lambda node: node.write(PORT1 + "/rate", "100 Gb/sec (1X NDR)"),
        [("ib_ports", "rate", IB1, "fail", "look")],
    ),
    "faster than the profile": (
        lambda node: node.write(PORT1 + "/rate", "800 Gb/sec (4X XDR)"),
        [("ib_ports", "rate", IB1, "warn", "configure")],
    ),
    "state of a port unreadable": (
        lambda node: node.remove(PORT1 + "/state"),
        [("ib_ports", "unreadable", IB1, "unknown", "look")],
    ),
    "no subnet manager, no figure": (
        lambda node: [half_a_profile(node, "infiniband"), node.write(PORT1 + "/state", "2: INIT")],
        [("ib_ports", "not_active", IB1, "warn", "look")],
    ),
    "a link went down": (
        lambda node: node.grown("infiniband_link_downed", IB1, 6),
        [("ib_flaps", "link_downed", IB1, "warn", "look")],
    ),
    "a flapping link": (
        lambda node: node.grown("infiniband_link_downed", IB1, 2),
        [("ib_flaps", "link_downed", IB1, "fail", "look")],
    ),
    "bad symbols": (
        lambda node: [
            node.write(PORT1 + "/counters/symbol_error", "2888"),
            node.grown("infiniband_symbol_errors", IB1, 7),
        ],
        [("ib_errors", "symbol_errors", IB1, "warn", "look")],
    ),
    "a counter that has stopped": (
        lambda node: node.write(PORT1 + "/counters/local_link_integrity_errors", "15"),
        [("ib_errors", "link_integrity_errors_stopped", IB1, "warn", "watch")],
    ),
    "link trained anew": (
        lambda node: [
            node.write(PORT1 + "/counters/link_error_recovery", "18"),
            node.grown("infiniband_link_error_recoveries", IB1, 7),
        ],
        [("ib_errors", "link_error_recoveries", IB1, "warn", "look")],
    ),
    "bad packets": (
        lambda node: [
            node.write(PORT1 + "/counters/port_rcv_errors", "3000"),
            node.grown("infiniband_receive_errors", IB1, 7),
        ],
        [("ib_errors", "receive_errors", IB1, "warn", "look")],
    ),
    "physical errors": (
        lambda node: node.grown("infiniband_link_integrity_errors", IB1, 6),
        [("ib_errors", "link_integrity_errors", IB1, "warn", "look")],
    ),
    "buffers ran over": (
        lambda node: node.grown("infiniband_buffer_overruns", IB1, 6),
        [("ib_errors", "buffer_overruns", IB1, "warn", "look")],
    ),
    "bad checksums over Ethernet": (
        lambda node: [
            node.write(PORT1 + "/hw_counters/rx_icrc_encapsulated", "20"),
            node.grown("roce_checksum_errors", IB1, 7),
        ],
        [("ib_errors", "checksum_errors", IB1, "warn", "look")],
    ),
    "partition key missing": (
        lambda node: [keys(node, "0x8012"), node.write(PORT1 + "/pkeys/0", "0xffff")],
        [("ib_partition_keys", "missing", IB1, "fail", "look")],
    ),
    "limited member": (
        lambda node: [keys(node, 0x8012), node.write(PORT1 + "/pkeys/0", "0x0012")],
        [("ib_partition_keys", "limited", IB1, "fail", "look")],
    ),
    "partition key that is none": (
        lambda node: keys(node, "0x8012", "full"),
        [("ib_partition_keys", "setting", "", "unknown", "configure")],
    ),
    "nvidia-peermem not loaded": (
        lambda node: node.remove("/sys/module/nvidia_peermem"),
        [("ib_gpu_direct", "not_loaded", "", "warn", "configure")],
    ),
    "nvidia-peermem not built": (
        lambda node: [
            node.remove("/sys/module/nvidia_peermem"),
            node.write("/lib/modules/6.8.0-1018-azure/modules.dep", "updates/dkms/nvidia.ko:"),
        ],
        [("ib_gpu_direct", "missing", "", "warn", "configure")],
    ),
    "NVMe disk missing": (
        no_disk,
        [
            ("nvme_count", "count", "", "fail", "replace"),
            ("scratch_array", "member_missing", "SERIAL1", "fail", "replace"),
        ],
    ),
    "NVMe controller dead": (
        lambda node: node.write("/sys/class/nvme/nvme1/state", "dead"),
        [("nvme_state", "state", "SERIAL1", "fail", "replace")],
    ),
    "NVMe controller resetting": (
        lambda node: node.write("/sys/class/nvme/nvme1/state", "resetting"),
        [("nvme_state", "state", "SERIAL1", "warn", "watch")],
    ),
    "NVMe over TCP whose target is gone": (
        lambda node: controller(node, "FAR", transport="tcp", state="deleting (no IO)"),
        [("nvme_state", "state", "FAR", "warn", "watch")],
    ),
    "NVMe controller for administration": (
        lambda node: controller(node, "ADMIN", transport="pcie", state="live", cntrltype="admin"),
        [("nvme_state", "namespaces", "ADMIN", "warn", "watch")],
    ),
    "NVMe disk hot": (
        lambda node: node.smart["nvme0"].update(critical_warning=2),
        [("nvme_smart", "temperature", "SERIAL0", "warn", "look")],
    ),
    "NVMe disk unreliable": (
        lambda node: node.smart["nvme0"].update(critical_warning=4),
        [("nvme_smart", "reliability", "SERIAL0", "fail", "replace")],
    ),
    "NVMe disk read-only": (
        lambda node: node.smart["nvme0"].update(critical_warning={"value": 8, "ro": 1}),
        [("nvme_smart", "read_only", "SERIAL0", "fail", "replace")],
    ),
    "NVMe disk worn": (
        lambda node: node.smart["nvme1"].update(percent_used=104),
        [("nvme_smart", "life_used", "SERIAL1", "warn", "replace")],
    ),
    "NVMe media errors": (
        lambda node: [node.smart["nvme1"].update(media_errors="3"), node.grown("nvme_media_errors", "SERIAL1", 1)],
        [("nvme_smart", "media_errors", "SERIAL1", "warn", "replace")],
    ),
    "NVMe log garbled": (
        lambda node: node.smart.update(nvme1="Kein Zugriff"),
        [("nvme_smart", "unreadable", "SERIAL1", "unknown", "configure")],
    ),
    "scratch not mounted": (
        lambda node: mount(node, SCRATCH, ""),
        [("scratch_mounted", "not_mounted", SCRATCH, "fail", "configure")],
    ),
    "scratch read-only": (
        lambda node: mount(node, SCRATCH, "40 22 9:127 / /mnt/resource_nvme rw,noatime - xfs /dev/md127 ro,attr2"),
        [("scratch_mounted", "read_only", SCRATCH, "fail", "look")],
    ),
    "scratch not writable": (not_writable, [("scratch_mounted", "not_writable", SCRATCH, "fail", "look")]),
    "scratch nearly full": (
        lambda node: limit(node, "scratch_used_percent", -1, None),
        [("scratch_space", "space", SCRATCH, "warn", "look")],
    ),
    "array broken": (
        lambda node: node.write(MD + "array_state", "broken"),
        [("scratch_array", "state", "md127", "fail", "replace")],
    ),
    "array with a faulty disk": (
        lambda node: node.write(MD + "dev-nvme1n1/state", "faulty"),
        [("scratch_array", "member_faulty", "nvme1n1", "fail", "replace")],
    ),
    "array with a disk less": (
        lambda node: node.remove(MD + "dev-nvme1n1"),
        [("scratch_array", "degraded", "md127", "fail", "replace")],
    ),
    "array with a faulty disk while a reshape runs": (
        lambda node: [node.write(MD + "dev-nvme1n1/state", "faulty"), node.write(MD + "reshape_position", "4096")],
        [("scratch_array", "member_faulty", "nvme1n1", "fail", "look")],
    ),
    "array as RAID4 without parity while a reshape runs": (
        lambda node: [node.write(MD + "raid_disks", "3 (2)"), node.write(MD + "sync_action", "reshape")],
        [],
    ),
    "root read-only": (
        lambda node: mount(node, "/", "22 1 259:9 / / rw,relatime shared:1 - ext4 /dev/root ro,errors=remount-ro"),
        [("filesystem_read_only", "read_only", "/", "fail", "reboot")],
    ),
    "root nearly full": (
        lambda node: limit(node, "filesystem_used_percent", -1, 100),
        [("filesystem_space", "space", "/", "warn", "look")],
    ),
    "root full": (
        lambda node: limit(node, "filesystem_used_percent", -2, -1),
        [("filesystem_space", "space", "/", "fail", "look")],
    ),
    "no inodes left": (
        lambda node: limit(node, "filesystem_inodes_used_percent", -2, -1),
        [("filesystem_space", "inodes", "/", "fail", "look")],
    ),
    "kernel died": (
        lambda node: node.write("/proc/sys/kernel/tainted", str(12289 + (1 << 7))),
        [("kernel_taint", "died", "", "fail", "reboot")],
    ),
    "kernel warned": (
        lambda node: node.write("/proc/sys/kernel/tainted", str(12289 + (1 << 9))),
        [("kernel_taint", "warning", "", "warn", "look")],
    ),
    "machine check and lockup": (
        lambda node: node.write("/proc/sys/kernel/tainted", str(12289 + (1 << 4) + (1 << 14))),
        [
            ("kernel_taint", "machine_check", "", "fail", "replace"),
            ("kernel_taint", "soft_lockup", "", "warn", "reboot"),
        ],
    ),
    "taint unreadable": (
        lambda node: node.write("/proc/sys/kernel/tainted", ""),
        [("kernel_taint", "", "", "unknown", "look")],
    ),
    "service failed": (
        # The process that limit_slurmd reads ends with it.
        lambda node: [
            node.units["slurmd.service"].update(ActiveState="failed", Result="exit-code"),
            node.write("/proc/4242/comm", "gone"),
        ],
        [("service_running", "failed", "slurmd.service", "fail", "restart_service")],
    ),
    "service never started": (
        lambda node: node.units["munge.service"].update(
            ActiveState="inactive", ConditionResult="no", ConditionTimestampMonotonic="0"
        ),
        [("service_running", "not_running", "munge.service", "fail", "restart_service")],
    ),
    "service ends again and again": (
        lambda node: node.units["munge.service"].update(ActiveState="activating", SubState="auto-restart"),
        [("service_running", "restarting", "munge.service", "fail", "restart_service")],
    ),
    "fabric manager failed": (
        lambda node: node.units["nvidia-fabricmanager.service"].update(
            LoadState="loaded", UnitFileState="enabled", ActiveState="failed"
        ),
        # The bus shows no NVSwitch, and no NVML answers whether a GPU waits for a fabric.
        [("service_running", "failed", "nvidia-fabricmanager.service", "unknown", "restart_service")],
    ),
    "scratch unit failed": (
        lambda node: node.units["gpu-node-nvme_scratch.service"].update(ActiveState="failed", Result="timeout"),
        [("service_running", "failed", "gpu-node-nvme_scratch.service", "fail", "restart_service")],
    ),
    "health unit failed": (
        lambda node: node.units["gpu-node-health.service"].update(ActiveState="failed", Result="signal"),
        [("service_running", "failed", "gpu-node-health.service", "warn", "restart_service")],
    ),
    "systemd does not answer": (
        lambda node: [node.bin.mkdir(exist_ok=True), node.program("systemctl", "echo down >&2; exit 1")],
        [("service_running", "", "", "unknown", "look")],
    ),
    "slurmd with older limits": (
        lambda node: node.write("/proc/4242/limits", "Max open files            131072               131072  files"),
        [("limit_slurmd", "open_files", "slurmd", "warn", "restart_service")],
    ),
    "slurmd may lock little": (
        rdma_without_the_role,
        [("limit_slurmd", "locked_memory", "slurmd", "warn", "configure")],
    ),
    "our file gone": (
        lambda node: node.remove("/etc/nccl.conf"),
        [("drift_files", "missing", "/etc/nccl.conf", "warn", "configure")],
    ),
    "our file replaced": (
        lambda node: node.write("/etc/nccl.conf", "NCCL_DEBUG=INFO"),
        [("drift_files", "replaced", "/etc/nccl.conf", "warn", "configure")],
    ),
    "kernel setting changed": (
        lambda node: node.write("/proc/sys/net/ipv4/neigh/default/gc_thresh1", "128"),
        [("drift_files", "kernel_setting", "net.ipv4.neigh.default.gc_thresh1", "warn", "configure")],
    ),
    "boot unit disabled": (
        lambda node: node.remove(UNITS + "multi-user.target.wants/gpu-node-nvme_scratch.service"),
        [("drift_units", "not_enabled", "gpu-node-nvme_scratch.service", "warn", "configure")],
    ),
    "timer disabled": (
        lambda node: node.remove(UNITS + "timers.target.wants/gpu-node-health.timer"),
        [("drift_units", "not_enabled", "gpu-node-health.timer", "warn", "configure")],
    ),
}


def half_gpus(node):
    """Without its NUMA node a GPU would be told as well."""
    half_a_profile(node, "gpu_numa")


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_gives_its_finding_and_no_other(node, fault):
    damage, expected = FAULTS[fault]
    damage(node)
    verdict = node.verdict()
    assert told(verdict) == set(expected)
    for found in (pair[1] for pair in verdict.findings):
        assert found.thing and found.reason and found.remedy and "{" not in str(found)
        assert str(found).count(";") >= 1 and "\n" not in str(found)


LOG_FAULTS = {
    "INFO: task kworker/u192:3:8131 blocked for more than 120 seconds.": ("kernel_hung_tasks", "hung", "", "warn"),
    "INFO: task python\\x0a: x:8131 blocked in I/O wait for more than 120 seconds.": (
        "kernel_hung_tasks",
        "hung",
        "",
        "warn",
    ),
    "Out of memory: Killed process 4711 (python) total-vm:9kB": ("kernel_out_of_memory", "system", "", "warn"),
    "Out of memory: Kill process 4711 (python) score 9 or sacrifice child": (
        "kernel_out_of_memory",
        "system",
        "",
        "warn",
    ),
    "mce: [Hardware Error]: CPU 2: Machine Check Exception: 5 Bank 7: be00000000800400": (
        "kernel_machine_checks",
        "uncorrected",
        "",
        "fail",
    ),
    "mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 7: 8c00004000010090": (
        "kernel_machine_checks",
        "corrected",
        "",
        "warn",
    ),
    "[Hardware Error]: Uncorrected, software restartable error.": ("kernel_machine_checks", "uncorrected", "", "fail"),
    "{1}[Hardware Error]: event severity: recoverable": ("kernel_machine_checks", "uncorrected", "", "fail"),
    # Of the previous boot, which is over.
    "BERT: Error records from previous boot:": ("kernel_machine_checks", "previous_boot", "", "warn"),
    "Memory failure: 0x1f3a2c: recovery action for dirty LRU page: Recovered": (
        "kernel_machine_checks",
        "memory_page",
        "",
        "fail",
    ),
    "watchdog: Watchdog detected hard LOCKUP on cpu 17": ("kernel_stalls", "hard_lockup", "", "warn"),
    "rcu: INFO: rcu_sched self-detected stall on CPU": ("kernel_stalls", "rcu_stall", "", "warn"),
    "mce: CPU12: Core temperature above threshold, cpu clock throttled (total events = 9)": (
        "cpu_throttling",
        "temperature",
        "",
        "warn",
    ),
    DISK_BUSY: ("storage_errors", "timeout", "nvme1", "warn"),
    "nvme nvme1: I/O 12 QID 4 timeout, reset controller": ("storage_errors", "timeout", "nvme1", "warn"),
    "nvme nvme1: Disabling device after reset failure: -19": ("storage_errors", "removed", "nvme1", "fail"),
    "blk_update_request: I/O error, dev nvme1n1, sector 81920 op 0x0:(READ) flags 0x80700": (
        "storage_errors",
        "io_error",
        "nvme1n1",
        "warn",
    ),
    "critical medium error, dev sda, sector 81920 op 0x0:(READ)": ("storage_errors", "io_error", "sda", "warn"),
    "md/raid0:md127: Disk failure on nvme1n1 detected, failing array.": (
        "storage_errors",
        "array_failed",
        "md127",
        "fail",
    ),
    "XFS (md127): Metadata CRC error detected at xfs_agf_read_verify+0x10/0x30 [xfs], xfs_agf block 0x1": (
        "storage_errors",
        "filesystem",
        "md127",
        "fail",
    ),
    "XFS (md127): log I/O error -5 detected. Shutting down filesystem": (
        "storage_errors",
        "filesystem",
        "md127",
        "fail",
    ),
    "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm sh: reading directory lblock 0": (
        "storage_errors",
        "filesystem",
        "sda1",
        "fail",
    ),
    "mlx5_core 0101:00:00.0: poll_health:821:(pid 0): Fatal error 1 detected": (
        "ib_device_faults",
        "firmware",
        IB0,
        "fail",
    ),
    "mlx5_core 0101:00:00.0: wait_func:9:(pid 9): ACCESS_REG timeout. Will cause a leak of a command resource": (
        "ib_device_faults",
        "command_timeout",
        IB0,
        "warn",
    ),
    "nvidia 0001:00:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer": (
        "pci_errors",
        "fatal",
        "0001:00:00.0",
        "fail",
    ),
    "pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer": (
        "pci_errors",
        "nonfatal",
        "0000:00:01.0",
        "warn",
    ),
}


@pytest.mark.parametrize("line", sorted(LOG_FAULTS))
def test_a_line_of_the_kernel_log_gives_its_finding_and_no_other(node, line):
    node.say(line, line)
    verdict = node.verdict()
    check, code, key, outcome = LOG_FAULTS[line]
    assert [(one, found.code, found.key, found.outcome.value) for one, found in verdict.findings] == [
        (check, code, key, outcome)
    ]
    assert "2 times, 3 h ago" in verdict.findings[0][1].reason


@pytest.mark.parametrize("line", sorted(LOG_FAULTS))
def test_what_happened_the_day_before_counts_only_where_a_reboot_must_clear_it(node, line):
    node.write("/proc/uptime", "266400.5 1.0")  # 74 h, and the line is 51 h old
    node.say(line)
    verdict = node.verdict()
    sticky = {"uncorrected", "memory_page", "removed", "array_failed", "filesystem"}
    assert bool(verdict.findings) == (LOG_FAULTS[line][1] in sticky)


def test_a_log_that_cannot_be_read_makes_its_checks_unknown(node):
    node.remove("/dev/kmsg")
    verdict = node.verdict()
    names = {check for check, dummy in verdict.findings}
    assert names == {one.id for one in verdict.results if one.outcome is Outcome.UNKNOWN}
    assert names == {"kernel_machine_checks", "kernel_hung_tasks", "kernel_stalls", "kernel_out_of_memory"} | {
        "cpu_throttling",
        "pci_errors",
        "ib_device_faults",
        "storage_errors",
        "nfs_servers",
    }


def test_a_container_is_no_machine(node):
    """It has the sysfs of its host, and neither systemd nor the log nor the devices."""
    for path in ("/dev/kmsg", "/run/systemd"):
        node.remove(path)
    node.write("/.dockerenv", "")
    mount(node, "/tmp", "31 22 259:9 /x /tmp ro,relatime - ext4 /dev/root rw")
    node.declared = {"profile": node.declared["profile"]}
    verdict = node.verdict()
    assert told(verdict) == set()
    of_the_host = {"kernel_machine_checks", "storage_errors", "nvme_smart", "service_running", "filesystem_read_only"}
    assert of_the_host <= set(verdict.not_applicable)


def test_huge_pages_that_were_asked_for_are_no_fault(node):
    FAULTS["idle huge pages"][0](node)
    assert told(node.verdict()) == {("memory_huge_pages", "idle", "", "warn", "configure")}
    node.declared["nccl"]["sysctl"]["vm.nr_hugepages"] = {"before": "0", "set": "512"}
    node.write("/proc/sys/vm/nr_hugepages", "512")
    assert told(node.verdict()) == set()


@pytest.mark.parametrize(
    ("section", "path", "counts"),
    [
        ("slurm_hooks", "/etc/slurm/prolog.d/00-gpu_node", True),
        ("slurm_hooks", "/etc/slurm/gres.conf", False),  # only on machines with GPUs
        ("enroot", "/etc/enroot/enroot.conf.d/50-gpu_node.conf", True),
        ("enroot", "/etc/apparmor.d/gpu_node_enroot", False),  # only where the kernel restricts namespaces
        ("health_gate", "/var/lib/node_exporter/textfile_collector/gpu_node.prom", False),  # the timer writes it
        ("somebody_else", "/etc/x", False),
    ],
)
def test_only_files_that_are_always_kept_can_be_missing(node, section, path, counts):
    node.declared.setdefault(section, {})["files"] = [path]
    expected = {("drift_files", "missing", path, "warn", "configure")} if counts else set()
    assert told(node.verdict()) == expected


def test_before_a_job_only_what_is_quick_is_looked_at(node):
    node.remove("/sys/module/nvidia_peermem")
    node.write(PORT1 + "/state", "1: DOWN")
    verdict = node.verdict(Cost.QUICK)
    assert told(verdict) == {("ib_ports", "not_active", IB1, "fail", "look")}
    assert len(verdict.results) == 7


def test_the_names_of_missing_disks_are_told_though_the_array_is_there(node):
    record = json.loads(node.root.joinpath("var/lib/gpu_node/nvme_scratch.json").read_text(encoding="utf-8"))
    record["builds"][0]["serials"].append("SERIAL7")
    node.write("/var/lib/gpu_node/nvme_scratch.json", json.dumps(record))
    node.write(MD + "raid_disks", "3")
    assert told(node.verdict()) == {("scratch_array", "member_missing", "SERIAL7", "fail", "replace")}


def test_gpus_that_the_driver_numbers_otherwise_than_the_bus_are_no_fault(node):
    """A profile has the order of NVML; this check looks at the bus alone."""
    node.profile["gpu_numa"] = list(reversed(node.profile["gpu_numa"]))
    assert told(node.verdict()) == set()

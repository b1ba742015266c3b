# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of a converged node, one after another: each gives exactly its finding, and nothing else moves.

A finding is written as ``check/code/key outcome action``; ``@`` stands for the PCI address of GPU 3.
"""

from __future__ import annotations

import json

import pytest

SITE = ["playbooks/site.yml", "-e", "node_profile_name=virtual"]
# Nothing sets the clock of a guest without a network.
ALWAYS = {"clock_synchronised/unsynchronised warn restart_service"}
SCRATCH = "/mnt/resource_nvme"

# name → (words of nvml-simulator that break it, words that mend it, what is told).
GPUS = {
    "lost": ("fault gpu 3 lost", "clear gpu 3", "gpu_lost/lost/@ fail reboot"),
    "absent": ("fault gpu 3 absent", "clear gpu 3", "gpu_count/unclaimed/@ fail reboot"),
    "hanging": (
        "fault call nvmlDeviceGetTotalEccErrors gpu 3 hang",
        "clear call nvmlDeviceGetTotalEccErrors",
        "gpu_lost/hung/@ fail reboot",
    ),
    "driver not loaded": (
        "fault driver not-loaded",
        "clear driver",
        "gpu_driver/driver_not_loaded fail reboot",
    ),
    "driver of another version": (
        "fault driver version-mismatch",
        "clear driver",
        "gpu_driver/driver_mismatch fail reboot",
    ),
    "asks for a reset": (
        "fault gpu 3 recovery-action 1",
        "clear gpu 3",
        "gpu_recovery_action/gpu_reset/@ fail reset_gpu",
    ),
    "asks for a reboot": (
        "fault gpu 3 recovery-action 2",
        "clear gpu 3",
        "gpu_recovery_action/node_reboot/@ fail reboot",
    ),
    "asks for quiet": (
        "fault gpu 3 recovery-action 3",
        "clear gpu 3",
        "gpu_recovery_action/drain_p2p/@ fail reset_gpu",
    ),
    "asks for a reset later": (
        "fault gpu 3 recovery-action 4",
        "clear gpu 3",
        "gpu_recovery_action/drain_and_reset/@ warn reset_gpu",
    ),
    "ECC counters that cannot be read": (
        "fault call nvmlDeviceGetTotalEccErrors gpu 3 return UNKNOWN",
        "clear call nvmlDeviceGetTotalEccErrors",
        "gpu_ecc/unread/@ unknown look",
    ),
    "power brake": (
        "throttle 3 hw_power_brake",
        "throttle 3 none",
        "gpu_slowdown/hardware_power_brake_slowdown/@ warn replace",
    ),
    "slowed by heat": (
        "throttle 3 hw_thermal",
        "throttle 3 none",
        "gpu_slowdown/hardware_thermal_slowdown/@ warn replace",
    ),
    "slowed by the hardware": (
        "throttle 3 hw_slowdown",
        "throttle 3 none",
        "gpu_slowdown/hardware_slowdown/@ warn replace",
    ),
    "slowed by the driver": (
        "throttle 3 sw_thermal",
        "throttle 3 none",
        "gpu_slowdown/software_thermal_slowdown/@ warn look",
    ),
    "too hot": (
        "set gpu.3.temperature.gpu 95",
        "unset gpu.3.temperature.gpu",
        "gpu_temperature/slowdown/@ fail look",
    ),
    "hot memory": (
        "set gpu.3.temperature.memory 105",
        "unset gpu.3.temperature.memory",
        "gpu_temperature/memory/@ fail look",
    ),
    "narrow PCIe link": ("set gpu.3.pcie.width 8", "unset gpu.3.pcie.width", "gpu_pcie/width/@ fail replace"),
    "NVLink down": ("nvlink 3 7 down", "nvlink 3 7 up", "gpu_nvlink/links/@ fail reset_gpu"),
    "another product": (
        "set gpu.3.name 'NVIDIA A100-PCIE-40GB'",
        "unset gpu.3.name",
        "gpu_product/product/@ fail configure",
    ),
    "less memory": (
        "set gpu.3.memory.total_mib 30000",
        "unset gpu.3.memory.total_mib",
        "gpu_product/memory/@ fail replace",
    ),
    "another VBIOS": ("set gpu.3.vbios 92.00.99.00.01", "unset gpu.3.vbios", "gpu_firmware/vbios/@ warn look"),
    "persistence off": (
        "set gpu.3.persistence_mode 0",
        "set gpu.3.persistence_mode 1",
        "gpu_settings/drift/@ warn configure",
    ),
    # What follows stays with the GPU until it is reset; each adds to what was told before.
    "remap pending": ("remap 1 correctable 1 pending", None, "gpu_row_remap/pending/@1 warn reset_gpu"),
    "uncorrected error": ("ecc add 4 uncorrected 1 dram", None, "gpu_ecc/uncorrected/@4 warn reset_gpu"),
    "corrected errors": ("ecc add 5 corrected 20000001 dram", None, "gpu_ecc/corrected_dram/@5 fail replace"),
    "corrected SRAM errors": ("ecc add 6 corrected 10001 sram", None, "gpu_ecc/corrected_sram/@6 fail replace"),
    "too many rows": ("remap 0 uncorrectable 513", None, "gpu_row_remap/rows/@0 fail replace"),
    "remap failed": ("remap 2 uncorrectable 9 failure", None, "gpu_row_remap/failure/@2 fail replace"),
}

# name → (commands of a shell that break it, commands that mend it, what is told: one or more).
NODE = {
    "CPU offline": (
        "echo 0 > /sys/devices/system/cpu/cpu3/online",
        "echo 1 > /sys/devices/system/cpu/cpu3/online",
        ["cpu_count/offline warn configure", "numa_layout/nodes fail look"],
    ),
    "swap that nothing was put into": (
        "fallocate -l 64M /swap && chmod 600 /swap && mkswap -q /swap && swapon /swap",
        "swapoff /swap; rm /swap",
        [],
    ),
    "idle huge pages": (
        "echo 600 > /proc/sys/vm/nr_hugepages",
        "echo 0 > /proc/sys/vm/nr_hugepages",
        ["memory_huge_pages/idle warn configure"],
    ),
    "kernel setting changed": (
        "sysctl -qw vm.zone_reclaim_mode=0",
        "sysctl -qw vm.zone_reclaim_mode=1",
        ["drift_files/kernel_setting/vm.zone_reclaim_mode warn configure"],
    ),
    "our file gone": (
        "mv /etc/profile.d/gpu_node_nccl.sh /root/kept",
        "mv /root/kept /etc/profile.d/gpu_node_nccl.sh",
        ["drift_files/missing//etc/profile.d/gpu_node_nccl.sh warn configure"],
    ),
    "our file replaced": (
        "cp -a /etc/nccl.conf /root/kept; echo NCCL_DEBUG=INFO > /etc/nccl.conf",
        "mv /root/kept /etc/nccl.conf",
        ["drift_files/replaced//etc/nccl.conf warn configure"],
    ),
    "boot unit disabled": (
        "systemctl disable -q gpu-node-nvme_scratch.service",
        "systemctl enable -q gpu-node-nvme_scratch.service",
        ["drift_units/not_enabled/gpu-node-nvme_scratch.service warn configure"],
    ),
    "boot unit failed": (
        "cd /etc/gpu_node; mv node.json kept; echo broken > node.json;"
        " systemctl restart gpu-node-gpu_settings; mv kept node.json; true",
        "systemctl restart gpu-node-gpu_settings",
        ["service_running/failed/gpu-node-gpu_settings.service warn restart_service"],
    ),
    "munge failed": (
        "systemctl enable -q munge; systemctl start munge; true",
        "systemctl disable -q munge; systemctl reset-failed munge",
        [],  # no slurmd is enabled in this guest, so nothing needs munge
    ),
    "scratch not mounted": (
        "umount " + SCRATCH,
        "mount " + SCRATCH,
        ["scratch_mounted/not_mounted/{0} fail configure".format(SCRATCH)],
    ),
    "scratch read-only": (
        "mount -o remount,ro " + SCRATCH,
        "mount -o remount,rw " + SCRATCH,
        ["scratch_mounted/read_only/{0} fail look".format(SCRATCH)],
    ),
    "scratch nearly full": (
        "fallocate -l $(($(df --output=avail -B1 {0} | tail -1) / 100 * 95)) {0}/x".format(SCRATCH),
        "rm {0}/x".format(SCRATCH),
        ["scratch_space/space/{0} warn look".format(SCRATCH)],
    ),
    "root full": (
        "fallocate -l $(df --output=avail -B1 / | tail -1) /x",
        "rm /x",
        ["filesystem_space/space// fail look"],
    ),
    "soft RoCE without a profile for it": (
        "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev $(ls /sys/class/net | grep -v lo | head -1)",
        "rdma link delete rxe0",
        [],
    ),
}

# name → (what the kernel says, what is told). It stays told until a reboot: each adds to what was told before.
KERNEL_LOG = {
    "off the bus": (
        "NVRM: Xid (PCI:@): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "gpu_xid/xid_79/@ fail reboot",
    ),
    "double-bit error": ("NVRM: Xid (PCI:@): 48, pid=77, name=python, DBE", "gpu_xid/xid_48/@ warn reset_gpu"),
    "row remap failed": ("NVRM: Xid (PCI:@): 64, Row Remapper: Error", "gpu_xid/xid_64/@ fail replace"),
    "GSP timeout": (
        "NVRM: Xid (PCI:@): 119, pid=77, name=python, Timeout waiting for RPC from GSP!",
        "gpu_xid/xid_119/@ warn reset_gpu",
    ),
    "contained error": (
        "NVRM: Xid (PCI:@): 94, pid=77, name=python, Contained ECC error",
        "gpu_xid/xid_94/@ warn watch",
    ),
    "uncontained error": ("NVRM: Xid (PCI:@): 95, pid=77, name=python, Uncontained", "gpu_xid/xid_95/@ warn reset_gpu"),
    "NVLink error": ("NVRM: Xid (PCI:@): 74, pid=77, NVLink: fatal error detected", "gpu_xid/xid_74/@ warn reset_gpu"),
    "a job's own fault": ("NVRM: Xid (PCI:@): 31, pid=77, name=python, MMU Fault", None),
    "a job that crashed": ("NVRM: Xid (PCI:@): 13, pid=77, name=python, Graphics Exception", None),
    "hung task": (
        "INFO: task kworker/u8:3:31 blocked for more than 120 seconds.",
        "kernel_hung_tasks/hung warn look",
    ),
    "machine check": (
        "mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 4: b200000000070f0f",
        "kernel_machine_checks/uncorrected fail replace",
    ),
    "stuck CPU": ("watchdog: Watchdog detected hard LOCKUP on cpu 2", "kernel_stalls/hard_lockup warn reboot"),
    "out of memory": (
        "Out of memory: Killed process 77 (slurmd) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0",
        "kernel_out_of_memory/system warn look",
    ),
    "a job out of its own memory": (
        "Memory cgroup out of memory: Killed process 77 (python) total-vm:1kB, anon-rss:1kB, file-rss:0kB, UID:1000",
        None,
    ),
    "disk error": (
        "critical medium error, dev nvme3n1, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "storage_errors/io_error/nvme3n1 warn look",
    ),
    "damaged file system": (
        "EXT4-fs error (device vdb): ext4_lookup:1855: inode #2: comm ls: deleted inode referenced: 12",
        "storage_errors/filesystem/vdb fail reboot",
    ),
    "XFS shut down": (
        "XFS (md126): Filesystem has been shut down due to log error (0x2).",
        "storage_errors/filesystem/md126 fail look",
    ),
    "PCIe error": (
        "pcieport 0000:00:03.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        "pci_errors/fatal/0000:00:03.0 fail replace",
    ),
    "PCIe error that passed": (
        "pcieport 0000:00:04.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
        "pci_errors/nonfatal/0000:00:04.0 warn watch",
    ),
}

# Nothing but the kernel itself writes a message of the kernel. So what it has said is copied, and one more message
# added to the copy, which stands in the place of the device until a reboot.
SAY = (
    "mountpoint -q /dev/kmsg || { dd if=/dev/kmsg of=/run/kernel_log bs=8192 iflag=nonblock 2> /dev/null; "
    "mount --bind /run/kernel_log /dev/kmsg; }; "
    "printf '3,999999,%s,-;%s\\n' $(sed 's/\\.\\([0-9]*\\) .*/\\10000/' /proc/uptime)"
)
# What users and programs bring into it is never told.
FORGED = {
    "a line of a program": "echo '<3>NVRM: Xid (PCI:@): 79, GPU has fallen off the bus.' > /dev/kmsg",
    "a path": "mkdir -p /run/o /run/u /run/w; mount -t overlay none /run/o -o 'upperdir=/run/u,workdir=/run/w,"
    "lowerdir=/tmp/EXT4-fs error (device vdb)\\: x'; dmesg | grep 'overlayfs.*EXT4-fs error (device vdb)'",
}

# Runs on the node: one case after another, each against what was told before it.
DRIVER = r"""
import json, subprocess, sys
cases, simulator = json.load(sys.stdin), "nvml-simulator "

def told(again=True):
    done = subprocess.run(["gpunode", "health", "--json", "--call-timeout", "8"], capture_output=True, text=True)
    found = set()
    for one in json.loads(done.stdout)["results"]:
        for finding in one["findings"]:
            name = "/".join(part for part in (one["id"], finding["code"], finding["key"]) if part)
            found.add("{0} {1} {2}".format(name, finding["outcome"], finding["action"]))
    # A guest on a busy machine may be too slow to be asked: what stays unknown is unknown.
    return told(False) if again and any(" unknown " in one for one in found) else sorted(found)

before = told()
answer = {"": before}
for name, breaks, mends in cases:
    done = subprocess.run(["bash", "-c", breaks], capture_output=True, text=True)
    after = told()
    answer[name] = {"new": sorted(set(after) - set(before)), "gone": sorted(set(before) - set(after)),
                    "words": "" if done.returncode == 0 else done.stderr}
    if mends is None:
        before = after
    else:
        subprocess.run(["bash", "-c", mends], capture_output=True, check=False)
    print(name, answer[name], file=sys.stderr, flush=True)
answer["at the end"] = sorted(set(told()) - set(before))
print(json.dumps(answer))
"""


def cases():
    """(name, what breaks it, what mends it, what is told), in an order in which one does not touch another."""
    for name, (breaks, mends, told) in GPUS.items():
        mended = None if mends is None else "nvml-simulator " + mends
        yield "GPU: " + name, "nvml-simulator " + breaks, mended, [told]
    for name, (breaks, mends, told) in NODE.items():
        yield "node: " + name, breaks, mends, told
    for name, breaks in FORGED.items():
        yield "forged: " + name, breaks, None, []
    for name, (words, told) in KERNEL_LOG.items():
        yield (
            "log: " + name,
            SAY + " '{0}' >> /run/kernel_log".format(words.replace("'", "'\\''")),
            None,
            [told] if told else [],
        )


# What a pull request pays for: one of each kind.
FEW = (
    "GPU: lost",
    "node: scratch not mounted",
    "forged: a line of a program",
    "log: off the bus",
    "log: a job's own fault",
)


def together(chosen):
    """All of them as one case, as each look at a node costs a quarter of a minute; and what is left when they are over:
    what stays until a reboot."""
    breaks = "; ".join(breaks for _name, breaks, _mends, _told in chosen)
    mends = "; ".join(mends for _name, _breaks, mends, _told in chosen if mends)
    left = [one for _name, _breaks, mends, told in chosen if mends is None for one in told]
    return ("together", breaks, mends, [one for _n, _b, _m, told in chosen for one in told]), left


@pytest.fixture(scope="module")
def healthy(shared_node):
    """A converged node on which nothing is found but what no guest can have. test_lifecycle leaves one."""
    converged = "grep -q nvme_scratch /etc/gpu_node/node.json && gpunode apply --check"
    if shared_node.ssh(converged, check=False).returncode != 0:
        traces = "ls -d /etc/gpu_node/node.json; for disk in /dev/nvme*n1; do wipefs -n $disk; done"
        if shared_node.ssh(traces, check=False).stdout:
            shared_node.reset()  # another file converged it
        shared_node.ansible(SITE)
    return shared_node


def run(node, chosen, left=()):
    found = json.loads(node.ssh("gpunode info --json").stdout)
    address = {str(gpu["index"]): gpu["pci_address"] for gpu in found["gpus"]}

    def named(text):
        for index, one in address.items():
            text = text.replace("@" + index, one)
        return text.replace("@", address["3"])

    asked = [(name, named(breaks), mends) for name, breaks, mends, dummy in chosen]
    node.write("/root/driver.py", DRIVER)
    answer = json.loads(node.ssh("python3 /root/driver.py", stdin=json.dumps(asked), timeout=3000).stdout)
    assert set(answer.pop("")) == ALWAYS
    assert answer.pop("at the end") == sorted(map(named, left))
    expected = {
        name: {"new": sorted(named(one) for one in told), "gone": [], "words": ""} for name, _b, _m, told in chosen
    }
    assert answer == expected


def test_a_fault_of_each_kind_is_told_as_what_it_is(healthy):
    case, left = together([one for one in cases() if one[0] in FEW])
    run(healthy, [case], left)


@pytest.mark.soak
def test_sixty_faults_are_told_each_as_what_it_is_and_nothing_else_moves(healthy):
    healthy.ansible([*SITE, "-e", json.dumps({"gpu_node_comm": ["nccl"]})])
    healthy.reboot()  # what the kernel log told before is settled by that
    healthy.ssh("systemctl is-system-running --wait; true")
    every = list(cases())
    assert len(every) >= 60
    run(healthy, every)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual node is the machine it says it is, and its faults are real. One guest serves nearly all, in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from virtual_machine import places
from virtual_machine.supervisor import process_started

TOOL = Path(__file__).resolve().parents[2] / "tools" / "virtual_node" / "virtual_node"
SERIALS = ["TYSCRATCH{0}".format(number) for number in range(8)]


def tool(*words: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL)] + list(words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=check,
        env=dict(os.environ, **environment),
        timeout=600,
    )


def qemu_pid(node: Any) -> int:
    return int(json.loads((node.folder / "pids.json").read_text())["qemu"])


def test_disks_have_serials_and_sit_two_on_each_numa_node(node: Any) -> None:
    text = node.ssh(
        "for c in /sys/class/nvme/nvme*; do echo $(cat $c/serial) $(cat $c/device/numa_node) $(cat $c/model); done"
    ).stdout
    rows = sorted(line.split(" ", 2) for line in text.splitlines())
    assert [row[0] for row in rows] == SERIALS
    assert [row[1] for row in rows] == ["0", "0", "1", "1", "2", "2", "3", "3"]
    assert {row[2] for row in rows} == {"QEMU NVMe Ctrl"}


def test_there_are_four_numa_nodes_each_with_a_cpu_and_memory(node: Any) -> None:
    text = node.ssh(
        "cd /sys/devices/system/node; for n in node[0-9]*; do"
        " echo $n $(cat $n/cpulist) $(awk '/MemTotal/ {print $4}' $n/meminfo); done"
    ).stdout
    rows = [line.split() for line in text.splitlines()]
    assert [row[:2] for row in rows] == [["node0", "0"], ["node1", "1"], ["node2", "2"], ["node3", "3"]]
    assert all(int(row[2]) > 800 * 1024 for row in rows)


def test_the_simulated_gpus_have_the_addresses_and_numa_nodes_of_their_stand_ins(node: Any) -> None:
    script = (
        "cd /sys/bus/pci/devices; for d in *; do grep -qi 0x11e8 $d/device && echo $d $(cat $d/numa_node); done; true"
    )
    stand_ins = dict(line.split() for line in node.ssh(script).stdout.splitlines())
    assert len(stand_ins) == 8
    if not (places.SIMULATOR / "Makefile").is_file():
        pytest.skip("this tree has no NVML simulator")
    keys = dict(line.split(" = ") for line in node.ssh("cat /etc/nvml_simulator/override.conf").stdout.splitlines())
    addresses = [keys["gpu.{0}.pci_bus_id".format(number)] for number in range(8)]
    assert sorted(addresses) == sorted(stand_ins)
    assert [stand_ins[address] for address in addresses] == list("11003322"), "the GPU to NUMA vector of ND96asr_v4"
    assert "nd96asr_v4" in node.ssh("nvml-simulator show").stdout or "A100" in node.ssh("nvml-simulator show").stdout


def test_there_is_no_way_to_the_internet(node: Any) -> None:
    assert node.ssh("ip route show default").stdout.strip() == ""
    connect = "timeout 5 bash -c 'exec 3<>/dev/tcp/1.1.1.1/80'"
    script = "ip route add default via 10.0.2.2; {0}; code=$?; ip route del default; exit $code".format(connect)
    assert node.ssh(script, check=False).returncode != 0


def test_soft_roce_gives_an_active_infiniband_device(node: Any) -> None:
    netdev = node.ssh("cd /sys/class/net; for n in *; do [ -e $n/device ] && echo $n; done; true").stdout.split()[0]
    node.ssh("modprobe rdma_rxe && rdma link add rxe0 type rxe netdev {0}".format(netdev))
    assert "ACTIVE" in node.ssh("cat /sys/class/infiniband/rxe0/ports/1/state").stdout
    node.ssh("rdma link delete rxe0")


def test_digests_see_one_changed_byte_on_a_disk_and_one_changed_file(node: Any) -> None:
    before = node.hash_disks()
    assert node.hash_disks() == before
    disk = node.disk("TYSCRATCH5")
    node.ssh(
        "printf x | dd of={0} bs=1 seek=900000000 conv=notrunc,fsync status=none; touch /etc/one-more".format(disk)
    )
    after = node.hash_disks()
    assert sorted(key for key in before if before[key] != after[key]) == ["/etc", "TYSCRATCH5"]
    node.ssh("rm /etc/one-more")


def test_blank_disks_undoes_arrays_mounts_and_labels_without_a_boot(node: Any) -> None:
    disks = node.disks()
    node.ssh(
        "mdadm --create /dev/md/scratch --run --level=0 --raid-devices=2 {0} {1}"
        " && mkfs.xfs -q /dev/md/scratch && mount /dev/md/scratch /mnt".format(disks["TYSCRATCH0"], disks["TYSCRATCH1"])
    )
    node.blank_disks()
    digests = node.hash_disks()
    assert len({digests[serial] for serial in SERIALS}) == 1, "all disks have the same content: none"
    assert "/mnt" not in node.ssh("cat /proc/mounts").stdout.split()


@pytest.mark.soak
def test_a_reboot_is_real_and_keeps_disks_and_arrays(node: Any) -> None:
    node.blank_disks()
    disks = node.disks()
    node.ssh(
        "mdadm --create /dev/md/kept --run --level=0 --raid-devices=2 {0} {1}".format(
            disks["TYSCRATCH2"], disks["TYSCRATCH3"]
        )
    )
    node.ssh(
        "mkfs.xfs -q /dev/md/kept && mount /dev/md/kept /mnt && echo here >/mnt/file && umount /mnt"
        " && touch /run/volatile"
    )
    before, qemu = node.boot_id(), qemu_pid(node)
    node.reboot()
    assert node.boot_id() != before
    assert qemu_pid(node) == qemu, "the guest rebooted, not the process"
    assert node.ssh("test -e /run/volatile", check=False).returncode != 0
    array = node.ssh("udevadm settle; ls /dev/md").stdout.split()
    assert "kept" in array, "udev assembled it, as on any Debian machine"
    assert "md127" in node.ssh("cat /proc/mdstat").stdout
    assert node.ssh("mount -o ro /dev/md/kept /mnt && cat /mnt/file && umount /mnt").stdout == "here\n"


def test_a_detached_disk_is_gone_for_the_guest_and_can_come_back(node: Any) -> None:
    node.detach("TYSCRATCH7")
    assert "TYSCRATCH7" not in node.disks() and len(node.disks()) == 7
    node.attach("TYSCRATCH7")
    end = time.monotonic() + 60
    while "TYSCRATCH7" not in node.disks():
        assert time.monotonic() < end, "an attached disk shows up within a minute"
        time.sleep(0.5)


@pytest.mark.soak
def test_a_power_cut_keeps_what_was_written_and_the_order_can_be_swapped_meanwhile(node: Any) -> None:
    before = node.disks()
    node.ssh(
        "echo power-cut-mark | dd of={0} bs=512 seek=7 conv=sync,fsync status=none; echo kept >/root/kept; sync".format(
            before["TYSCRATCH6"]
        )
    )
    pid = qemu_pid(node)
    node.cut_power()
    assert process_started(pid) is None
    assert not node.node.is_up
    node.swap_order()
    node.start()
    after = node.disks()
    assert sorted(after) == SERIALS
    assert after != before, "the same names now belong to other disks"
    assert node.ssh("cat /root/kept").stdout == "kept\n"
    assert (
        "power-cut-mark" in node.ssh("dd if={0} bs=512 skip=7 count=1 status=none".format(after["TYSCRATCH6"])).stdout
    )


@pytest.mark.soak
def test_a_wipe_gives_empty_disks_and_keeps_the_root_disk(node: Any) -> None:
    node.ssh("echo kept >/root/kept; echo x | dd of={0} conv=sync status=none".format(node.disk("TYSCRATCH0")))
    machine_id = node.ssh("cat /etc/machine-id").stdout
    node.wipe_disks()
    assert node.ssh("cat /root/kept").stdout == "kept\n"
    assert node.ssh("cat /etc/machine-id").stdout == machine_id
    digests = node.hash_disks()
    assert len({digests[serial] for serial in SERIALS}) == 1
    assert "nvme" not in node.ssh("cat /proc/mdstat", check=False).stdout


def test_a_full_root_disk_is_full_also_for_root_and_can_be_freed(node: Any) -> None:
    node.fill_root()
    assert node.ssh("head -c 2000000 /dev/zero >/var/more", check=False).returncode != 0
    node.free_root()
    node.ssh("head -c 2000000 /dev/zero >/var/more && rm /var/more")


def test_ansible_reaches_the_node(node: Any) -> None:
    assert node.module("ansible.builtin.ping")["ping"] == "pong"


@pytest.mark.soak
def test_a_reset_gives_a_pristine_root_and_a_new_machine_identity(node: Any) -> None:
    node.ssh("echo gone >/root/gone")
    machine_id = node.ssh("cat /etc/machine-id").stdout
    node.reset()
    assert node.ssh("test -e /root/gone", check=False).returncode != 0
    assert node.ssh("cat /etc/machine-id").stdout != machine_id
    assert node.ssh("systemctl is-system-running").stdout.strip() == "running"


def test_up_of_a_running_node_changes_nothing(node: Any, node_run: str) -> None:
    pid = qemu_pid(node)
    tool("--run", node_run, "up", node.name)
    assert qemu_pid(node) == pid
    status = json.loads(tool("--run", node_run, "status", "--json").stdout)
    assert status[node.name]["up"] is True


def test_settings_of_an_existing_node_are_not_changed_silently(node: Any, node_run: str) -> None:
    done = tool("--run", node_run, "up", node.name, "--set", "nvme_count=3", check=False)
    assert done.returncode == 1
    assert "exists with other settings" in done.stderr and "down {0}".format(node.name) in done.stderr


@pytest.fixture
def started_small(tmp_path: Path, suite: str) -> Any:
    """Start small nodes without waiting for their boot: for what is about processes, not about the guest."""
    made: List[str] = []

    def start(run: str, owner: int) -> Dict[str, Any]:
        script = (
            "import sys; sys.path.insert(0, {0!r})\n"
            "from virtual_machine.node import Node\nfrom virtual_machine.settings import Settings\n"
            "node = Node({1!r}, 'small')\n"
            "node.create(Settings(suite={2!r}, cpus=2, numa_nodes=1, memory=512 << 20, nvme_count=1, gpus=0))\n"
            "node.start({3})\nprint(node.folder)\nprint(node.state.port)\n"
        ).format(str(TOOL.parent), run, suite, owner)
        done = subprocess.run(
            [sys.executable, "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True
        )
        folder, port = done.stdout.split()
        made.append(run)
        return {"folder": Path(folder), "port": int(port), "pids": json.loads((Path(folder) / "pids.json").read_text())}

    yield start
    for run in made:
        tool("--run", run, "down", "--all")


def wait_gone(pids: Dict[str, int]) -> None:
    end = time.monotonic() + 15
    while any(process_started(pid) for pid in pids.values()):
        assert time.monotonic() < end, "no process of the node is left after 15 s"
        time.sleep(0.1)


def test_two_runs_side_by_side_do_not_see_each_other(started_small: Callable[..., Dict[str, Any]]) -> None:
    first, second = started_small("side-a", 0), started_small("side-b", 0)
    assert first["port"] != second["port"]
    assert first["folder"] != second["folder"]
    tool("--run", "side-a", "down", "--all")
    wait_gone(first["pids"])
    assert process_started(second["pids"]["qemu"]) is not None
    tool("--run", "side-b", "down", "small")
    tool("--run", "side-b", "down", "small")
    wait_gone(second["pids"])
    assert not second["folder"].exists()


def test_no_orphan_is_left_when_the_owner_dies(started_small: Callable[..., Dict[str, Any]]) -> None:
    owner = subprocess.Popen(["sleep", "300"])
    try:
        started = started_small("owned", owner.pid)
    finally:
        owner.kill()
        owner.wait()
    wait_gone(started["pids"])


def test_no_orphan_is_left_when_the_supervisor_is_killed_or_the_folder_vanishes(
    started_small: Callable[..., Dict[str, Any]],
) -> None:
    started = started_small("killed", 0)
    os.kill(started["pids"]["supervisor"], signal.SIGKILL)
    wait_gone(started["pids"])
    started = started_small("vanished", 0)
    started["folder"].rename(started["folder"].with_name("elsewhere"))
    wait_gone(started["pids"])

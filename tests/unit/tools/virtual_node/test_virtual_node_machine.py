# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Dict, List

from hypothesis import given
from hypothesis import strategies as st
from virtual_machine import machine
from virtual_machine.settings import MIB, Settings

SHAPES = st.builds(
    Settings,
    cpus=st.integers(1, 32),
    numa_nodes=st.integers(1, 8),
    memory=st.integers(1024, 8192).map(lambda mib: mib * MIB),
    nvme_count=st.integers(0, 16),
    gpus=st.integers(0, 16),
    nvme_model=st.sampled_from(["", "Microsoft NVMe Direct Disk"]),
    remote_nvme=st.sampled_from(["", "MSFT NVMe Accelerator v1.0"]),
)


def command(settings: Settings, accelerator: str = "tcg") -> List[str]:
    disks = machine.blank_disks(settings)
    return machine.command_line(settings, disks, "/image/kernel", "initramfs", 2222, accelerator, "one")


def devices(words: List[str]) -> List[Dict[str, str]]:
    found = []
    for option, value in zip(words, words[1:]):
        if option == "-device":
            driver, dummy, rest = value.partition(",")
            found.append(dict([("driver", driver)] + [pair.split("=", 1) for pair in rest.split(",") if "=" in pair]))
    return found


@given(SHAPES)
def test_every_shape_gives_a_pci_tree_without_a_collision(settings: Settings) -> None:
    found = devices(command(settings))
    names = [device["id"] for device in found if "id" in device]
    assert len(names) == len(set(names))
    places = [(device["bus"], device["addr"]) for device in found if "addr" in device]
    assert len(places) == len(set(places))
    assert all(0 < int(place, 16) < 32 for dummy, place in places)
    buses = {"pcie.0"} | set(names)
    assert all(device["bus"] in buses for device in found if "bus" in device)
    chassis = [device["chassis"] for device in found if "chassis" in device]
    assert len(chassis) == len(set(chassis))


@given(SHAPES)
def test_every_cpu_is_on_one_numa_node(settings: Settings) -> None:
    numbers: List[int] = []
    for first, last in machine.cpus_of_nodes(settings.cpus, settings.numa_nodes):
        numbers += range(first, last + 1)
    assert numbers == list(range(settings.cpus))


@given(SHAPES)
def test_memory_of_the_numa_nodes_is_the_memory_of_the_machine(settings: Settings) -> None:
    text = " ".join(command(settings))
    shares = [int(size) for size in re.findall(r"memory-backend-ram,id=memory\d+,size=(\d+)M", text)]
    assert len(shares) == settings.numa_nodes
    assert "-m {0}M ".format(sum(shares)) in text


@given(SHAPES)
def test_swapping_the_order_twice_is_the_first_order_and_once_moves_every_disk(settings: Settings) -> None:
    disks = machine.blank_disks(settings)
    swapped = machine.reverse_order(disks)
    assert sorted(machine.reverse_order(swapped), key=lambda disk: disk.slot) == disks
    assert sorted(disk.serial for disk in swapped) == sorted(disk.serial for disk in disks)
    assert {disk.slot for disk in swapped} == {disk.slot for disk in disks}
    if len(disks) % 2 == 0:
        before = {disk.serial: disk.slot for disk in disks}
        assert all(before[disk.serial] != disk.slot for disk in swapped)


def test_the_default_machine_has_two_disks_and_two_stand_ins_on_each_numa_node() -> None:
    assert [disk.numa_node for disk in machine.blank_disks(Settings())] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert machine.gpu_numa_nodes(8, 4) == [0, 0, 1, 1, 2, 2, 3, 3]
    found = devices(command(Settings()))
    assert sum(device["driver"] == "nvme" for device in found) == 8
    assert sum(device["driver"] == "edu" for device in found) == 8


def test_the_guest_has_no_way_out_but_the_forwarded_ssh_port() -> None:
    network = [word for word in command(Settings()) if word.startswith("user,")]
    assert network == ["user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:2222-10.0.2.15:22"]


def test_kvm_is_used_only_when_asked_for() -> None:
    assert "kvm" not in " ".join(command(Settings()))
    assert "-accel kvm -cpu host" in " ".join(command(Settings(), "kvm"))


def test_a_detached_disk_keeps_its_port_for_its_return() -> None:
    settings = Settings(nvme_count=1)
    disk = machine.blank_disks(settings)[0]
    gone = machine.Disk.from_dict(dict(disk.__dict__, attached=False))
    words = machine.command_line(settings, [gone], "k", "i", 1, "tcg", "one")
    assert not any(device["driver"] == "nvme" for device in devices(words))
    assert any(device.get("id") == machine.port_of_disk(disk) for device in devices(words))
    assert any("node-name=disk-TYSCRATCH0" in word for word in words)


def test_a_disk_with_a_model_string_is_one_that_the_guest_presents() -> None:
    found = devices(command(Settings(nvme_count=1, nvme_model="Microsoft NVMe Direct Disk")))
    assert [device["driver"] for device in found if device.get("serial") == "TYSCRATCH0"] == ["virtio-blk-pci"]


def test_nodes_of_one_run_share_a_network_and_those_of_another_run_do_not() -> None:
    def network(address: str, run: str) -> List[str]:
        settings = Settings(lan=address)
        words = machine.command_line(settings, machine.blank_disks(settings), "k", "i", 2222, "tcg", "one", run)
        return [word for word in words if "lan" in word and ("mcast" in word or "mac=" in word)]

    first, second, elsewhere = (
        network("192.168.77.1/24", "a"),
        network("192.168.77.2/24", "a"),
        network("192.168.77.1/24", "b"),
    )
    assert len(first) == 2 and "localaddr=127.0.0.1" in first[0]
    assert first[0] == second[0] != elsewhere[0]
    assert first[1] != second[1] and first[1] == elsewhere[1]
    assert not [word for word in command(Settings()) if "lan" in word]

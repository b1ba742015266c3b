# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The QEMU command line of a node: a pure function of its settings and its disks."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from .settings import MIB, Settings

REMOTE_SERIAL = "TYREMOTE0"
# PCI bus numbers of the NUMA nodes' host bridges: 24 apart, room for the root ports of one node.
_FIRST_BUS, _BUSES = 16, 24
_KERNEL_WORDS = (
    # rw: the root filesystem replays its journal when mounted; no separate check.
    "root=/dev/vda rw fsck.mode=skip console=ttyS0,115200 quiet loglevel=4 panic=10 "
    # What costs time in an emulated CPU and shows nothing about the software under test.
    "mitigations=off audit=0 apparmor=0 selinux=0 nowatchdog random.trust_cpu=on tsc=reliable"
    " no_timer_check cryptomgr.notests"
)


@dataclasses.dataclass(frozen=True)
class Disk:
    """One NVMe disk. ``slot`` is its place among the root ports; ``attached`` is false after a detach."""

    serial: str
    file: str
    numa_node: int
    slot: int
    attached: bool = True
    model: str = ""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Disk:
        return cls(**values)


def blank_disks(settings: Settings) -> List[Disk]:
    """The disks of a new node, spread over the NUMA nodes two by two as the PCI tree of such machines is."""
    disks = []
    for number, serial in enumerate(settings.serials):
        node = number * settings.numa_nodes // settings.nvme_count
        disks.append(Disk(serial, serial + ".raw", node, number, model=settings.nvme_model))
    if settings.remote_nvme:
        disks.append(Disk(REMOTE_SERIAL, REMOTE_SERIAL + ".raw", 0, settings.nvme_count, model=settings.remote_nvme))
    return disks


def reverse_order(disks: Sequence[Disk]) -> List[Disk]:
    """The same disks in each other's slots: the last becomes the first. NUMA nodes belong to slots and go with them."""
    ordered = sorted(disks, key=lambda disk: disk.slot)
    places = [(disk.slot, disk.numa_node) for disk in ordered]
    return [
        dataclasses.replace(disk, slot=slot, numa_node=node) for disk, (slot, node) in zip(reversed(ordered), places)
    ]


def gpu_numa_nodes(count: int, numa_nodes: int) -> List[int]:
    return [number * numa_nodes // count for number in range(count)]


def cpus_of_nodes(cpus: int, numa_nodes: int) -> List[Tuple[int, int]]:
    """(first, last) CPU of each NUMA node; a node without CPUs has last < first."""
    ranges, first = [], 0
    for node in range(numa_nodes):
        count = cpus // numa_nodes + (1 if node < cpus % numa_nodes else 0)
        ranges.append((first, first + count - 1))
        first += count
    return ranges


def _numa(settings: Settings) -> List[str]:
    even = settings.cpus % settings.numa_nodes == 0
    sockets = settings.numa_nodes if even else settings.cpus
    out = ["-smp", "cpus={0},sockets={1},cores={2},threads=1".format(settings.cpus, sockets, settings.cpus // sockets)]
    share = settings.memory // settings.numa_nodes // (2 * MIB) * 2
    out += ["-m", "{0}M".format(share * settings.numa_nodes)]
    for node, (first, last) in enumerate(cpus_of_nodes(settings.cpus, settings.numa_nodes)):
        out += ["-object", "memory-backend-ram,id=memory{0},size={1}M".format(node, share)]
        cpus = ",cpus={0}-{1}".format(first, last) if last >= first else ""
        out += ["-numa", "node,nodeid={0},memdev=memory{0}{1}".format(node, cpus)]
    return out


def port_of_disk(disk: Disk) -> str:
    return "diskport{0}".format(disk.slot)


def disk_device(disk: Disk) -> Dict[str, Any]:
    """The device of an attached disk, as QMP's device_add wants it. One I/O queue: the probe is quicker."""
    common = {
        "id": "nvme-" + disk.serial,
        "serial": disk.serial,
        "drive": "disk-" + disk.serial,
        "bus": port_of_disk(disk),
    }
    if disk.model:  # presented by the guest's own NVMe target (guest_files/virtual-node-nvme)
        return dict(common, driver="virtio-blk-pci")
    return dict(common, driver="nvme", max_ioqpairs=1)


def _words(values: Mapping[str, Any]) -> str:
    return str(values["driver"]) + "".join(
        ",{0}={1}".format(name, value) for name, value in values.items() if name != "driver"
    )


def _pci_tree(settings: Settings, disks: Sequence[Disk]) -> List[str]:
    out: List[str] = []
    for node in range(settings.numa_nodes):
        number = _FIRST_BUS + node * _BUSES
        out += ["-device", "pxb-pcie,id=numa{0},bus=pcie.0,bus_nr={1},numa_node={0}".format(node, number)]
    used = [0] * settings.numa_nodes
    chassis = 0

    def port(name: str, node: int) -> None:
        nonlocal chassis
        chassis += 1
        used[node] += 1
        out.extend(
            [
                "-device",
                "pcie-root-port,id={0},bus=numa{1},chassis={2},addr={3:#x},io-reserve=0".format(
                    name, node, chassis, used[node]
                ),
            ]
        )

    # The stand-ins of a NUMA node share a plain PCI bridge: a root port each would cost 0.3 s of boot, and no GPU is
    # hot-plugged.
    bridges = set()
    for number, node in enumerate(gpu_numa_nodes(settings.gpus, settings.numa_nodes)):
        if node not in bridges:
            bridges.add(node)
            used[node] += 1
            out += ["-device", "i82801b11-bridge,id=gpus{0},bus=numa{0},addr={1:#x}".format(node, used[node])]
        out += ["-device", "edu,id=gpu{0},bus=gpus{1}".format(number, node)]
    for disk in sorted(disks, key=lambda disk: disk.slot):
        port(port_of_disk(disk), disk.numa_node)
        # The order of "file" and "driver" options matters not; the file's folder is QEMU's working directory.
        block = (
            "driver=raw,node-name=disk-{0},discard=unmap,detect-zeroes=unmap,cache.no-flush=on,"
            "file.driver=file,file.filename={1}"
        )
        out += ["-blockdev", block.format(disk.serial, disk.file)]
        if disk.attached:
            out += ["-device", _words(disk_device(disk))]
    return out


def lan_mac(settings: Settings) -> str:
    """The hardware address of the second interface: the same for the same address, so that it outlives a restart."""
    digest = hashlib.sha256(settings.lan.encode()).hexdigest()
    return "52:54:01:" + ":".join(digest[at : at + 2] for at in (0, 2, 4))


def _lan(settings: Settings, run: str) -> List[str]:
    """A network of the nodes of one run: multicast that does not leave the host's loopback interface."""
    digest = hashlib.sha256(run.encode()).digest()
    group = "239.{0}.{1}.{2}:{3}".format(digest[0], digest[1], digest[2], 20000 + digest[3] * 64 + digest[4] % 64)
    device = "virtio-net-pci,netdev=lan,mac={0},bus=pcie.0,romfile=".format(lan_mac(settings))
    return ["-netdev", "socket,id=lan,mcast={0},localaddr=127.0.0.1".format(group), "-device", device]


def command_line(
    settings: Settings,
    disks: Sequence[Disk],
    kernel: str,
    initramfs: str,
    port: int,
    accelerator: str,
    name: str,
    run: str = "default",
) -> List[str]:
    """The whole command, to be started in the folder of the node."""
    out = [
        "qemu-system-x86_64",
        "-name",
        "{0},process=virtual-node-{0}".format(name),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
    ]
    out += ["-machine", "q35,sata=off,smbus=off,usb=off,vmport=off,hpet=off,graphics=off"]
    # Nehalem has SSE 4.2 and no AVX, AES or nested virtualisation: what an emulated CPU does slowly, and modules for it
    # that nobody needs, stay away. "max" boots a tenth slower.
    out += (
        ["-accel", "kvm", "-cpu", "host"]
        if accelerator == "kvm"
        else ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "Nehalem"]
    )
    out += _numa(settings)
    out += ["-kernel", kernel, "-initrd", initramfs, "-append", _KERNEL_WORDS]
    out += ["-chardev", "file,id=console,path=console.log,append=on", "-serial", "chardev:console"]
    out += ["-chardev", "socket,id=qmp,path=qmp.sock,server=on,wait=off", "-mon", "chardev=qmp,mode=control"]
    out += ["-object", "rng-random,id=random,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=random,bus=pcie.0"]
    # A power cut is the end of QEMU: what it gave to the host's kernel stays, so nothing has to be flushed.
    root = "driver=qcow2,node-name=root,discard=unmap,cache.no-flush=on,file.driver=file,file.filename=root.qcow2"
    out += ["-blockdev", root]
    out += ["-device", "virtio-blk-pci,drive=root,bus=pcie.0,serial=root"]
    out += ["-netdev", "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{0}-10.0.2.15:22".format(port)]
    out += ["-device", "virtio-net-pci,netdev=net,bus=pcie.0,romfile="]
    out += _lan(settings, run) if settings.lan else []
    return out + _pci_tree(settings, disks)

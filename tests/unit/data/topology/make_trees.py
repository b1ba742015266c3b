# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the trees of this folder: machines as their sysfs shows them, from what is known about each.

It shares no code with the library, so the library is tested against the layout of sysfs and not against itself.
Addresses and NUMA nodes of the Azure sizes: NCCL topology files of github.com/Azure/azhpc-images 8e9d055f; of p4d:
topology/p4d-24xl-topo.xml of github.com/aws/aws-ofi-nccl 2daf7d3, but for the disks, whose addresses are examples.
"""

from __future__ import annotations

import os

FOLDER = os.path.dirname(os.path.abspath(__file__))
AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"
VMBUS = "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00"


class Tree:
    def __init__(self, name, about):
        self.name = name
        self.lines = ["# " + about, "# Written by make_trees.py."]

    def file(self, path, content):
        self.lines.append("{0} = {1}".format(path, content))

    def link(self, path, target):
        self.lines.append("{0} -> {1}".format(path, os.path.relpath(target, os.path.dirname(path))))

    def folder(self, path):
        self.lines.append(path.rstrip("/") + "/")

    def save(self):
        with open(os.path.join(FOLDER, self.name + ".tree"), "w", encoding="utf-8") as stream:
            stream.write("\n".join(self.lines) + "\n")

    # Processors and memory ----------------------------------------------------------------------------

    def cpus(self, present, online=None, offline="", isolated=""):
        base = "/sys/devices/system/cpu/"
        self.file(base + "present", present)
        self.file(base + "possible", present)
        self.file(base + "online", online or present)
        self.file(base + "offline", offline)
        self.file(base + "isolated", isolated)

    def cores(self, first, last, package, l3=None, siblings=None, l3_id=None, l3_size="16384K"):
        """CPUs first..last of one package that share a level-3 cache; ``siblings`` maps a CPU to its list."""
        each = "/sys/devices/system/cpu/cpu{{{0}-{1}}}/".format(first, last)
        self.file(each + "topology/physical_package_id", package)
        for cpu in range(first, last + 1):
            own = "/sys/devices/system/cpu/cpu{0}/topology/".format(cpu)
            self.file(own + "core_id", cpu)
            self.file(own + "thread_siblings_list", siblings[cpu] if siblings else cpu)
        if l3:
            for number, level, kind in ((0, 1, "Data"), (1, 1, "Instruction"), (2, 2, "Unified"), (3, 3, "Unified")):
                self.file(each + "cache/index{0}/level".format(number), level)
                self.file(each + "cache/index{0}/type".format(number), kind)
            self.file(each + "cache/index3/shared_cpu_list", l3)
            self.file(each + "cache/index3/size", l3_size)
            if l3_id is not None:
                self.file(each + "cache/index3/id", l3_id)

    def node(self, number, cpulist, kib, distance):
        base = "/sys/devices/system/node/node{0}/".format(number)
        self.file(base + "cpulist", cpulist)
        self.file(base + "distance", distance)
        self.file(
            base + "meminfo", "Node {0} MemTotal:       {1} kB\\nNode {0} MemFree:        1024 kB".format(number, kib)
        )

    def nodes(self, online, kib):
        self.file("/sys/devices/system/node/online", online)
        self.file("/proc/meminfo", "MemTotal:       {0} kB\\nMemFree:        1024 kB".format(kib))

    def dmi(self, **fields):
        for field, value in fields.items():
            self.file("/sys/class/dmi/id/" + field, value)

    # Devices ------------------------------------------------------------------------------------------

    def pci(self, folder, ids, code, numa, cpulist="", driver=None, physical=None):
        """A function; ``folder`` is its real folder, whose last part is its address."""
        address = folder.rsplit("/", 1)[-1]
        vendor, device = ids.split(":")
        self.file(folder + "/vendor", "0x" + vendor)
        self.file(folder + "/device", "0x" + device)
        self.file(folder + "/class", "0x" + code)
        self.file(folder + "/numa_node", numa)
        self.file(folder + "/local_cpulist", cpulist)
        self.link("/sys/bus/pci/devices/" + address, folder)
        if driver:
            self.folder("/sys/bus/pci/drivers/" + driver)
            self.link(folder + "/driver", "/sys/bus/pci/drivers/" + driver)
        if physical:
            self.link(folder + "/physfn", physical)
        return folder

    def infiniband(self, folder, name, rate, netdev, state="4: ACTIVE", layer="InfiniBand"):
        base = "{0}/infiniband/{1}/".format(folder, name)
        self.file(base + "node_guid", "0015:5dff:fe33:ff{0:02x}".format(len(self.lines) % 256))
        self.file(base + "fw_ver", "20.31.1014")
        self.file(base + "ports/1/state", state)
        self.file(base + "ports/1/phys_state", "5: LinkUp" if state.startswith("4") else "3: Disabled")
        self.file(base + "ports/1/rate", rate)
        self.file(base + "ports/1/link_layer", layer)
        self.link(base + "device", folder)
        self.link("/sys/class/infiniband/" + name, base.rstrip("/"))
        self.folder("{0}/net/{1}".format(folder, netdev))

    def nvme(self, folder, number, model, serial, sectors, entry=None, transport="pcie", state="live", block=True):
        """``entry``: the namespace's folder in the controller's, nvme0c0n1 under multi-path."""
        base = "{0}/nvme/nvme{1}/".format(folder, number)
        for key, value in (
            ("model", model.ljust(40)),
            ("serial", serial.ljust(20)),
            ("firmware_rev", "1.0"),
            ("transport", transport),
            ("state", state),
        ):
            self.file(base + key, value)
        if not transport:
            self.lines = [line for line in self.lines if not line.startswith(base + "transport")]
        self.link(base + "device", folder)
        self.link("/sys/class/nvme/nvme{0}".format(number), base.rstrip("/"))
        if block:
            name = "nvme{0}n1".format(number)
            self.folder(base + (entry or name))
            own = (
                "/sys/devices/virtual/nvme-subsystem/nvme-subsys{0}/{1}".format(number, name) if entry else base + name
            )
            self.file(own + "/size", sectors)
            self.file(own + "/queue/logical_block_size", 512)
            self.file(own + "/wwid", "eui.0000000000000{0:03x}".format(number))
            self.link("/sys/class/block/" + name, own)


def vmbus(domain):
    """Where Hyper-V puts a passed-through device: a PCI bus of its own below VMBUS."""
    return "{0}/47505500-{1}-0000-3130-444532304235/pci{1}:00/{1}:00:00.0".format(VMBUS, domain)


def azure(name, about, per_node, packages, gpus, gpu_ids, infiniband, rate, nvme, memory_kib, l3, size):
    """``gpus`` and ``infiniband``: (domain, NUMA node); ``l3``: CPUs that share a level-3 cache."""
    tree = Tree(name, about)
    count = per_node * (4 if name.startswith("ndv4") else 2)
    nodes = count // per_node
    tree.dmi(sys_vendor="Microsoft Corporation", product_name="Virtual Machine", chassis_asset_tag=AZURE_TAG)
    tree.cpus("0-{0}".format(count - 1))
    lists = []
    for node in range(nodes):
        first = node * per_node
        lists.append("{0}-{1}".format(first, first + per_node - 1))
        distance = " ".join("10" if other == node else "21" for other in range(nodes))
        tree.node(node, lists[node], memory_kib // nodes, distance)
        for begin in range(first, first + per_node, l3):
            shared = "{0}-{1}".format(begin, begin + l3 - 1)
            tree.cores(begin, begin + l3 - 1, node * packages // nodes, shared, l3_id=begin // l3)
    tree.nodes("0-{0}".format(nodes - 1), memory_kib)
    for domain, node in gpus:
        tree.pci(vmbus(domain), gpu_ids, "030200", node, lists[node], "nvidia")
    for number, (domain, node) in enumerate(infiniband):
        folder = tree.pci(vmbus(domain), "15b3:101c", "020700", node, lists[node], "mlx5_core")
        tree.infiniband(folder, "mlx5_ib{0}".format(number), rate, "ib{0}".format(number))
    if rate.startswith(("200", "400")):
        # Accelerated networking: an Ethernet virtual function that is an RDMA device as well.
        folder = tree.pci(vmbus("c15a"), "15b3:101a", "020000", 0, lists[0], "mlx5_core")
        tree.infiniband(folder, "mlx5_an0", "40 Gb/sec (4X QDR)", "eth1", layer="Ethernet")
    for number, node in enumerate(nvme):
        folder = tree.pci(vmbus("{0:04x}".format(0xA000 + number)), "1414:b111", "010802", node, lists[node], "nvme")
        tree.nvme(folder, number, "Microsoft NVMe Direct Disk", "SERIAL{0:04d}".format(number), size)
    return tree


def ndv2():
    gpus = [("{0:04x}".format(number), 0 if number <= 4 else 1) for number in range(1, 9)]
    azure("ndv2", "Azure ND40rs_v2: 2 x 20 CPUs, 8 V100, 1 InfiniBand port, no NVMe.", 20, 2, gpus, "10de:1db5",
          [("0101", 0)], "100 Gb/sec (4X EDR)", [], 693505424, 20, 0).save()  # fmt: skip


def ndv4():
    domains = ["0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"]
    vector = [1, 1, 0, 0, 3, 3, 2, 2]
    cards = ["0101", "0102", "0103", "0104", "0105", "0106", "0107", "0108"]
    azure("ndv4", "Azure ND96asr_v4: 4 x 24 CPUs, 8 A100, 8 InfiniBand ports, 8 NVMe.", 24, 2,
          list(zip(domains, vector)), "10de:20b0", list(zip(cards, vector)), "200 Gb/sec (4X HDR)",
          [0, 0, 1, 1, 2, 2, 3, 3], 928858388, 4, 1875385008).save()  # fmt: skip


def ndv5():
    domains = ["0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"]
    vector = [0, 0, 0, 0, 1, 1, 1, 1]
    cards = ["0101", "0102", "0103", "0104", "0105", "0106", "0107", "0108"]
    tree = azure("ndv5", "Azure ND96isr_H100_v5: 2 x 48 CPUs, 8 H100, 4 NVSwitches, 8 InfiniBand ports, 8 NVMe.", 48, 2,
                 list(zip(domains, vector)), "10de:2330", list(zip(cards, vector)), "400 Gb/sec (4X NDR)",
                 vector, 1915071 * 1024, 48, 7501476528)  # fmt: skip
    for domain in ("000d", "000e", "000f", "0010"):
        tree.pci(vmbus(domain), "10de:22a3", "068000", -1, "0-95", "nvidia")
    tree.save()


def laptop():
    tree = Tree(
        "laptop", "A laptop whose kernel has no NUMA: 4 cores with 2 threads, one GPU with an audio function, one NVMe."
    )
    tree.dmi(sys_vendor="LENOVO", product_name="20XW")
    tree.cpus("0-7")
    tree.cores(0, 7, 0, "0-7", {cpu: "{0}-{1}".format(cpu // 2 * 2, cpu // 2 * 2 + 1) for cpu in range(8)}, 0, "12288K")
    tree.file("/proc/meminfo", "MemTotal:       16121988 kB")
    root = "/sys/devices/pci0000:00"
    tree.pci(root + "/0000:00:01.0/0000:01:00.0", "10de:24dd", "030000", -1, "0-7", "nvidia")
    tree.pci(root + "/0000:00:01.0/0000:01:00.1", "10de:228b", "040300", -1, "0-7", "snd_hda_intel")
    tree.pci(root + "/0000:00:02.0", "8086:9a49", "030000", -1, "0-7", "i915")
    disk = tree.pci(root + "/0000:00:06.0/0000:02:00.0", "144d:a80a", "010802", -1, "0-7", "nvme")
    # A consumer SSD under native multi-path: the controller holds the hidden path device only.
    tree.nvme(disk, 0, "SAMSUNG MZVL21T0HCLR-00BL7", "S64NNX0T", 2000409264, entry="nvme0c0n1")
    tree.save()


def minus_one():
    tree = Tree(
        "minus_one",
        "A server whose firmware tells no NUMA node for PCI devices; VMD, NVMe over TCP and loop.",
    )
    tree.cpus("0-15")
    tree.cores(0, 7, 0, "0-7", l3_id=0)
    tree.cores(8, 15, 1, "8-15", l3_id=1)
    tree.node(0, "0-7", 65536000, "10 20")
    tree.node(1, "8-15", 65536000, "20 10")
    tree.nodes("0-1", 131072000)
    tree.pci("/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0", "10de:20b2", "030200", -1, "0-7", "nvidia")
    tree.pci("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", "10de:20b2", "030200", -1, "0-15", "nvidia")
    tree.pci("/sys/devices/pci0000:90/0000:90:01.0/0000:91:00.0", "10de:20b2", "030200", -1, "0-15", "vfio-pci")
    card = tree.pci("/sys/devices/pci0000:a0/0000:a0:01.0/0000:a1:00.0", "15b3:101b", "020700", -1, "0-15", "mlx5_core")
    tree.infiniband(card, "mlx5_0", "200 Gb/sec (4X HDR)", "ib0", state="1: DOWN")
    vmd = "/sys/devices/pci0000:10/0000:10:05.5/pci10000:00/10000:00:02.0/10000:01:00.0"
    tree.nvme(tree.pci(vmd, "144d:a80a", "010802", 1, "8-15", "nvme"), 0, "SAMSUNG MZQL2", "VMD0", 7501476528)
    fabrics = "/sys/devices/virtual/nvme-fabrics/ctl"
    tree.nvme(fabrics, 1, "Linux", "TCP0", 2097152, entry="nvme1c1n1", transport="tcp")
    tree.nvme(
        fabrics, 2, "Microsoft NVMe Direct Disk", "LOOP0", 2097152, transport="loop", state="connecting", block=False
    )
    tree.save()


def offline():
    tree = Tree(
        "offline", "One socket, 8 CPUs of which 2, 3 and 7 are offline and 5 is isolated; one NUMA node, no GPU."
    )
    tree.cpus("0-7", "0-1,4-6", "2-3,7", "5")
    tree.cores(0, 1, 0, "0-3", {0: "0-1", 1: "0-1"}, 0)
    tree.cores(4, 6, 0, "4-7", {4: "4-5", 5: "4-5", 6: "6-7"}, 1)
    tree.node(0, "0-1,4-6", 8000000, "10")
    tree.nodes("0", 8000000)
    tree.save()


def cxl():
    tree = Tree(
        "cxl",
        "Two sockets, a memory-only node (CXL) and an empty one; a PCIe switch with a GPU and a NIC.",
    )
    tree.cpus("0-3")
    tree.cores(0, 1, 0, "0-1", l3_id=0)
    tree.cores(2, 3, 1, "2-3", l3_id=1)
    tree.node(0, "0-1", 1000000, "10 21 14 255")
    tree.node(1, "2-3", 1000000, "21 10 24 255")
    tree.node(2, "", 4000000, "14 24 10 255")
    tree.node(3, "", 0, "255 255 255 10")
    tree.nodes("0-3", 6000000)
    # Behind one switch: the NIC's firmware claims the other node, the switch tells that it is nearer all the same.
    switch = "/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0"
    tree.pci(switch + "/0000:42:00.0/0000:43:00.0", "10de:2330", "030200", 0, "0-1", "nvidia")
    near = tree.pci(switch + "/0000:42:01.0/0000:44:00.0", "15b3:1021", "020700", 1, "2-3", "mlx5_core")
    tree.infiniband(near, "mlx5_1", "400 Gb/sec (4X NDR)", "ib1")
    virtual = tree.pci(switch + "/0000:42:01.0/0000:44:00.1", "15b3:101e", "020700", 1, "2-3", "mlx5_core", near)
    tree.infiniband(virtual, "mlx5_2", "400 Gb/sec (4X NDR)", "ib2")
    far = tree.pci("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", "15b3:1021", "020700", 0, "0-1", "mlx5_core")
    tree.infiniband(far, "mlx5_0", "400 Gb/sec (4X NDR)", "ib0")
    other = tree.pci("/sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0", "144d:a80a", "010802", 1, "2-3", "nvme")
    tree.nvme(other, 0, "SAMSUNG MZQL2", "FAR", 7501476528)
    tree.save()


def nps4():
    tree = Tree("nps4", "Two sockets with SMT, four NUMA nodes each (NPS4): 32 CPUs, CPU n and n + 16 share a core.")
    tree.cpus("0-31")
    siblings = {cpu: "{0},{1}".format(cpu % 16, cpu % 16 + 16) for cpu in range(32)}
    for node in range(8):
        first = 2 * node
        cpulist = "{0}-{1},{2}-{3}".format(first, first + 1, first + 16, first + 17)
        distance = " ".join("10" if one == node else "12" if one // 4 == node // 4 else "32" for one in range(8))
        tree.node(node, cpulist, 4000000, distance)
        for begin in (first, first + 16):
            tree.cores(begin, begin + 1, node // 4, cpulist, siblings, node)
    tree.nodes("0-7", 32000000)
    for number, (bus, node) in enumerate([("21", 1), ("41", 3), ("81", 5), ("c1", 7)]):
        root = "/sys/devices/pci0000:{0}0/0000:{0}0:01.0/".format(bus[0])
        tree.pci("{0}0000:{1}:00.0".format(root, bus), "10de:20b2", "030200", node, "", "nvidia")
        if number in (0, 3):
            card = "/sys/devices/pci0000:{0}8/0000:{0}8:01.0/0000:{0}9:00.0".format(bus[0])
            node = node - 1  # another quarter of the same socket
            name = "mlx5_{0}".format(number)
            tree.infiniband(
                tree.pci(card, "15b3:101b", "020700", node, "", "mlx5_core"),
                name,
                "200 Gb/sec (4X HDR)",
                "ib" + name[-1],
            )
    tree.save()


def nps4_smt():
    """The shape of a DGX A100 with NPS4: GPUs on every second NUMA node, nodes of 16 cores in 4 caches."""
    tree = Tree(
        "nps4_smt", "Two EPYC 7742 with SMT and NPS4: 128 cores, CPU n and n + 128 share one, 8 A100, 8 InfiniBand."
    )
    tree.cpus("0-255")
    siblings = {cpu: "{0},{1}".format(cpu % 128, cpu % 128 + 128) for cpu in range(256)}
    lists = []
    for node in range(8):
        first = 16 * node
        lists.append("{0}-{1},{2}-{3}".format(first, first + 15, first + 128, first + 143))
        distance = " ".join("10" if one == node else "12" if one // 4 == node // 4 else "32" for one in range(8))
        tree.node(node, lists[node], 131072000, distance)
        for begin in range(first, first + 16, 4):
            shared = "{0}-{1},{2}-{3}".format(begin, begin + 3, begin + 128, begin + 131)
            for half in (begin, begin + 128):
                tree.cores(half, half + 3, node // 4, shared, siblings, begin // 4)
    tree.nodes("0-7", 8 * 131072000)
    gpus = ("07", "0f", "47", "4e", "87", "90", "b7", "bd")
    cards = ("0c", "12", "4b", "54", "8d", "94", "ba", "cc")
    for number, node in enumerate((3, 3, 1, 1, 7, 7, 5, 5)):
        root = "/sys/devices/pci0000:{0:02x}/0000:{0:02x}:01.0/0000:{1}:00.0"
        tree.pci(root.format(2 * number, gpus[number]), "10de:20b0", "030200", node, lists[node], "nvidia")
        folder = root.format(2 * number + 1, cards[number])
        tree.pci(folder, "15b3:101b", "020700", node, lists[node], "mlx5_core")
        tree.infiniband(folder, "mlx5_{0}".format(number), "200 Gb/sec (4X HDR)", "ib{0}".format(number))
    tree.save()


def hb176():
    """Each NUMA node has four level-3 caches of 8 cores and two of 6: the hypervisor keeps the rest."""
    tree = Tree("hb176", "Azure HB176rs_v4: 4 x 44 CPUs in 24 level-3 caches of 8 or 6, one InfiniBand port, no GPU.")
    tree.dmi(sys_vendor="Microsoft Corporation", product_name="Virtual Machine", chassis_asset_tag=AZURE_TAG)
    tree.cpus("0-175")
    lists = []
    for node in range(4):
        first = 44 * node
        lists.append("{0}-{1}".format(first, first + 43))
        distance = " ".join("10" if one == node else "12" if one // 2 == node // 2 else "32" for one in range(4))
        tree.node(node, lists[node], 197980000, distance)
        begin = first
        for number, size in enumerate((8, 8, 8, 8, 6, 6)):
            shared = "{0}-{1}".format(begin, begin + size - 1)
            tree.cores(begin, begin + size - 1, node // 2, shared, l3_id=6 * node + number, l3_size="98304K")
            begin += size
    tree.nodes("0-3", 4 * 197980000)
    card = tree.pci(vmbus("0101"), "15b3:101e", "020700", 0, lists[0], "mlx5_core")
    tree.infiniband(card, "mlx5_ib0", "400 Gb/sec (4X NDR)", "ib0")
    tree.save()


def gb200():
    tree = Tree(
        "gb200",
        "Grace and Blackwell: 2 x 64 Arm CPUs, 4 GB200 whose memory forms NUMA nodes of its own, 4 InfiniBand ports.",
    )
    tree.cpus("0-127")
    online = [0, 1, 2, 10, 18, 26]
    for place, node in enumerate(online):
        distance = " ".join("10" if other == node else "40" if {node, other} == {0, 1} else "80" for other in online)
        tree.node(node, ["0-63", "64-127", "", "", "", ""][place], 452404768 if node < 2 else 193000000, distance)
    tree.cores(0, 63, 0, "0-63", l3_size="116736K")
    tree.cores(64, 127, 1, "64-127", l3_size="116736K")
    tree.nodes("0-2,10,18,26", 904809536)
    for domain, node in (("0008", 0), ("0009", 0), ("0018", 1), ("0019", 1)):
        root = "/sys/devices/pci{0}:00/{0}:00:00.0/{0}:01:00.0".format(domain)
        tree.pci(root, "10de:2941", "030200", node, ["0-63", "64-127"][node], "nvidia")
    for number, (domain, node) in enumerate([("0000", 0), ("0002", 0), ("0010", 1), ("0012", 1)]):
        root = "/sys/devices/pci{0}:00/{0}:00:00.0/{0}:03:00.0".format(domain)
        folder = tree.pci(root, "15b3:1021", "020700", node, ["0-63", "64-127"][node], "mlx5_core")
        tree.infiniband(folder, "mlx5_ib{0}".format(number), "400 Gb/sec (4X NDR)", "ib{0}".format(number))
    tree.save()


def p4d():
    tree = Tree(
        "p4d",
        "AWS p4d.24xlarge: 2 x 24 cores with 2 threads, 8 A100, 4 EFA devices, 8 instance stores, one EBS volume.",
    )
    tree.dmi(sys_vendor="Amazon EC2", product_name="p4d.24xlarge", chassis_asset_tag="Amazon EC2")
    tree.cpus("0-95")
    siblings = {cpu: "{0},{1}".format(cpu % 48, cpu % 48 + 48) for cpu in range(96)}
    lists = ["0-23,48-71", "24-47,72-95"]
    for node, first in enumerate((0, 24)):
        tree.node(node, lists[node], 589299712, ["10 21", "21 10"][node])
        for half in (first, first + 48):
            tree.cores(half, half + 23, node, lists[node], siblings, node)
    tree.nodes("0-1", 2 * 589299712)
    disk = 1953125000
    for number, bus in enumerate(("10", "20", "90", "a0")):
        node = number // 2
        root = "/sys/devices/pci0000:{0}/0000:{0}:".format(bus)
        for slot in ("1c", "1d"):
            tree.pci(root + slot + ".0", "10de:20b0", "030200", node, lists[node], "nvidia")
        card = tree.pci(root + "1b.0", "1d0f:efa0", "020000", node, lists[node], "efa")
        tree.infiniband(card, "rdmap{0}s27".format(int(bus, 16)), "100 Gb/sec (4X EDR)", "ens{0}".format(number + 32),
                        layer="Unknown")  # fmt: skip
        for place, slot in enumerate(("1e", "1f")):
            folder = tree.pci(root + slot + ".0", "1d0f:cd01", "010802", node, lists[node], "nvme")
            at = 2 * number + place + 1
            tree.nvme(folder, at, "Amazon EC2 NVMe Instance Storage", "AWS{0:017d}".format(at), disk)
    system = tree.pci("/sys/devices/pci0000:00/0000:00:04.0", "1d0f:8061", "010802", -1, "0-95", "nvme")
    tree.nvme(system, 0, "Amazon Elastic Block Store", "vol0123456789abcdef0", 209715200)
    tree.save()


if __name__ == "__main__":
    for make in (ndv2, ndv4, ndv5, laptop, minus_one, offline, cxl, nps4, nps4_smt, hb176, gb200, p4d):
        make()

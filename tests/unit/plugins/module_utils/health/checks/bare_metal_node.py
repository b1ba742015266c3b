# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy machine of bare metal: 4 GPUs and 4 network cards below two switches, a governor, a log of its board."""

from __future__ import annotations

import struct

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.healthy_node import (
    KMSG,
    HealthyNode,
)

SWITCH = "/sys/bus/pci/devices/0000:{0}2:{1:02x}.0"  # the port of the switch above a device
CPUFREQ = "/sys/devices/system/cpu/cpufreq/policy{0}/"
COUNTERS = (
    "hw_counters/rnr_nak_retry_err",
    "hw_counters/roce_slow_restart",
    "hw_counters/roce_adp_retrans",
    "hw_counters/packet_seq_err",
    "hw_counters/out_of_buffer",
    "counters/port_xmit_discards",
)
FIGURES = {
    "hw_counters/rnr_nak_retry_err": "rdma_receiver_not_ready",
    "hw_counters/roce_slow_restart": "roce_slow_restarts",
    "hw_counters/roce_adp_retrans": "roce_adaptive_retransmissions",
    "hw_counters/packet_seq_err": "rdma_sequence_errors",
    "hw_counters/out_of_buffer": "rdma_out_of_buffer_drops",
    "hw_counters/out_of_sequence": "rdma_out_of_sequence_packets",
    "hw_counters/local_ack_timeout_err": "rdma_acknowledge_timeouts",
    "counters/port_xmit_discards": "infiniband_transmit_discards",
    "counters/port_xmit_packets": "infiniband_transmit_packets",
    "counters/port_rcv_packets": "infiniband_receive_packets",
}


def config(control=0, chain=((0x01, 0x148), (0x0D, 0x160), (0x19, 0)), first=0x100):
    """The registers of a port: capabilities as (id, next); the first at 0x100, each where the one before it says."""
    data = bytearray(4096)
    at = first
    for identity, following in chain:
        struct.pack_into("<I", data, at, identity | 1 << 16 | following << 20)
        if identity == 0x0D:
            struct.pack_into("<HH", data, at + 4, 0x5F, control)
        at = following
    return bytes(data)


class BareMetalNode(HealthyNode):
    """Its quarters: GPU and card N sit below switch N % 2, at that NUMA node."""

    def __init__(self, folder):
        super().__init__(folder)
        for number in (2, 3):
            self._gpu(number)
            self._port(number)
        self.profile["gpu_numa"] = [0, 1, 0, 1]
        self.profile["infiniband"]["count"] = 4
        self.write("/sys/class/dmi/id/sys_vendor", "Supermicro")
        self.write("/sys/class/dmi/id/product_name", "SYS-821GE-TNHR")
        self.write("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme de pse tsc msr\n\nprocessor\t: 1")
        self.kmsg = KMSG[:-1]  # of metal the last line is a fault
        self.say()
        for number in range(4):
            self.write(CPUFREQ.format(number) + "scaling_governor", "performance")
            self.write(CPUFREQ.format(number) + "scaling_driver", "acpi-cpufreq")
        self.write("/dev/ipmi0", "")
        self.sel = []

    def _function(self, address, vendor, device, class_code, node):
        gpu, nic = address.startswith("000") and vendor == "0x10de", vendor == "0x15b3"
        if not (gpu or nic):
            return super()._function(address, vendor, device, class_code, node)
        number = int(address[3]) - 1
        half = number % 2
        port = "0000:{0}2:{1:02x}.0".format(half, number + (8 if nic else 0))
        upper = "/sys/devices/pci0000:{0}0/0000:{0}0:01.0/0000:{0}1:00.0".format(half)
        folder = "{0}/{1}/{2}".format(upper, port, address)
        for path, width in ((upper, "16"), ("{0}/{1}".format(upper, port), "16"), (folder, "16")):
            self.write(path + "/current_link_width", width)
            self.write(path + "/max_link_width", width)
            self.write(path + "/current_link_speed", "32.0 GT/s PCIe")
            self.write(path + "/max_link_speed", "32.0 GT/s PCIe")
        self.write(folder + "/vendor", vendor)
        self.write(folder + "/device", device)
        self.write(folder + "/class", class_code)
        self.write(folder + "/numa_node", str(half))
        self.registers("{0}/{1}".format(upper, port))
        for name, path in ((address, folder), (port, "{0}/{1}".format(upper, port))):
            self.link("/sys/bus/pci/devices/" + name, "../../.." + path[len("/sys") :])
        return folder

    def _port(self, number):
        super()._port(number)
        for counter in COUNTERS:
            self.write("{0}/{1}".format(self.port(number), counter), "7")

    def registers(self, path, content=None):
        self.write(path + "/config", "")
        self.root.joinpath((path + "/config").lstrip("/")).write_bytes(config() if content is None else content)

    def grow(self, number, counter, now, before=7, hours=20.0):
        """A counter of port ``number`` is ``now``, and was ``before`` at the point of the baseline."""
        self.write("{0}/{1}".format(self.port(number), counter), str(now))
        self.grown(FIGURES[counter], "010{0}:00:00.0".format(number + 1), before, hours)

    def jobs_ran(self, counter, errors, packets=(500000000,) * 4):
        """Each port sent and received so many packets each way; ``errors`` of ``counter`` on each."""
        for number, count in enumerate(errors):
            for way in ("counters/port_xmit_packets", "counters/port_rcv_packets"):
                self.grow(number, way, 7000000 + packets[number], 7000000)
            self.grow(number, counter, 7 + count)

    def _programs(self):
        super()._programs()
        (self.bin / "sel.txt").write_text("".join(line + "\n" for line in self.sel), encoding="utf-8")
        self.program("ipmitool", 'exec cat "{0}/sel.txt"'.format(self.bin))

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs on the PCI bus, from small sysfs trees."""

from __future__ import annotations

import os

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.pci import PciGpu, gpus


def function(root, address, vendor, device, pci_class, driver=None):
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "device").write_text(device + "\n")
    (folder / "class").write_text(pci_class + "\n")
    if driver is not None:
        (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
        os.symlink("../../drivers/" + driver, str(folder / "driver"))


def test_gpus_are_told_from_switches_sound_and_other_vendors(tmp_path):
    function(tmp_path, "0001:00:00.0", "0x10de", "0x20b0", "0x030200", "nvidia")
    function(tmp_path, "0000:65:00.0", "0x10de", "0x1b80", "0x030000")
    function(tmp_path, "0000:65:00.1", "0x10de", "0x10f0", "0x040300", "snd_hda_intel")  # its audio function
    function(tmp_path, "0000:c1:00.0", "0x10de", "0x1af1", "0x068000", "nvidia-nvswitch")
    function(tmp_path, "0000:00:02.0", "0x8086", "0x3e92", "0x030000", "i915")
    assert gpus(Host(str(tmp_path))) == (PciGpu("0000:65:00.0", None), PciGpu("0001:00:00.0", "nvidia"))


def test_a_gpu_for_a_guest_is_given_away(tmp_path):
    function(tmp_path, "0000:65:00.0", "0x10de", "0x20b0", "0x030200", "vfio-pci")
    assert [gpu.given_away for gpu in gpus(Host(str(tmp_path)))] == [True]


def test_stand_ins_of_a_virtual_machine_count_when_they_are_listed(tmp_path):
    function(tmp_path, "0000:02:00.0", "0x1234", "0x11e8", "0x00ff00")
    assert gpus(Host(str(tmp_path))) == ()
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/gpu_pci_ids").write_text("# stand-ins\n1234:11E8\n")
    assert gpus(Host(str(tmp_path))) == (PciGpu("0000:02:00.0", None),)


def test_a_machine_without_a_pci_bus_has_none(tmp_path):
    assert gpus(Host(str(tmp_path))) == ()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of PCI Access Control Services sends the traffic of two devices below one switch through the root complex."""

from __future__ import annotations

from typing import Mapping

SOURCE = (
    "docs.nvidia.com/deeplearning/nccl, troubleshooting, 'PCI Access Control Services (ACS)': on bare metal it "
    "redirects point-to-point traffic to the CPU root complex"
)
# linux/pci_regs.h: PCI_EXT_CAP_ID_ACS, PCI_ACS_CTRL, PCI_ACS_RR, PCI_ACS_CR; PCI Express Base Specification, 6.12.
CAPABILITY = 0x0D
CONTROL = 6
REDIRECTS: Mapping[int, str] = {0x04: "requests", 0x08: "completions"}
FIRST_EXTENDED = 0x100
EXTENDED_BYTES = 4096
# A driver that gives devices to virtual machines needs what is redirected.
OF_VIRTUAL_MACHINES = ("vfio-pci", "pci-stub", "pciback")

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of a GPU, and how they are written."""

from __future__ import annotations

import re
from typing import Optional

from ...core.frozen import frozen

_PCI_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[01]?[0-9a-f])(?:\.(?P<function>[0-7]))?",
    re.IGNORECASE,
)


@frozen
class Identity:
    """The names of one GPU. ``index`` is NVML's of this run and may differ after a reboot; the others stay.

    A lost GPU may have told nothing but its index.
    """

    index: int
    uuid: Optional[str] = None
    pci_address: Optional[str] = None  # as sysfs writes it: 0001:00:00.0
    serial: Optional[str] = None
    minor_number: Optional[int] = None  # N of /dev/nvidiaN
    name: Optional[str] = None

    @property
    def label(self) -> str:
        """What messages call it: ``GPU 3 (0001:00:00.0)``."""
        return "GPU {0} ({1})".format(self.index, self.pci_address or "PCI address unknown")

    @property
    def permanent_name(self) -> Optional[str]:
        """The name that nvidia-smi accepts in each start of the machine."""
        return self.uuid or self.pci_address


def dcgm_address(address: str) -> str:
    """A PCI address as NVML and dcgm-exporter write it: eight digits of domain, capitals."""
    domain, colon, rest = address.partition(":")
    return "{0:0>8}:{1}".format(domain, rest).upper() if colon else address


def normalise_pci_address(text: str) -> Optional[str]:
    """A PCI address as sysfs writes it, or None when the text is none.

    NVML writes the domain with eight digits, nvidia-smi in capitals, lspci leaves domain 0 out. sysfs has lower
    case and at least four digits of domain (five for the domains above ffff that Intel VMD makes).
    """
    match = _PCI_ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    return "{0:04x}:{1:02x}:{2:02x}.{3}".format(
        int(match.group("domain") or "0", 16),
        int(match.group("bus"), 16),
        int(match.group("device"), 16),
        match.group("function") or "0",
    )

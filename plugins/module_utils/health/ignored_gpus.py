# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs that the driver logs as not managed: old display cards in a machine with compute GPUs."""

from __future__ import annotations

from typing import FrozenSet, Optional, Set, Tuple

from ..core.frozen import replaced
from ..core.host import Host
from ..core.resource import NodeError
from ..facts.gpu_info import Information
from ..facts.nvml import pci
from ..facts.nvml.identity import normalise_pci_address
from ..facts.nvml.status import Status
from .kernel_log import KernelLog, Rule, read

_ADDRESS = r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
_LEGACY, _LOADED = 2, 3  # the places of their rules
# github.com/NVIDIA/open-gpu-kernel-modules: nv-pci.c (nv_pci_probe), osapi.c (rm_is_supported_device); the proprietary
# driver's message for older GPUs names a product and no address.
RULES = (
    Rule(
        "ignoring the legacy GPU",
        r"NVRM: ignoring the legacy GPU " + _ADDRESS + r"\s*\Z",
        "NVRM: ignoring the legacy GPU 0000:03:00.0",
    ),
    Rule(
        "is not supported by",
        r"NVRM: The NVIDIA v?GPU " + _ADDRESS + r" \(PCI ID: [0-9a-f]{4}:[0-9a-f]{4}\)\s+"
        r"NVRM: +installed in this (?:vGPU host )?system is not supported by",
        "NVRM: The NVIDIA GPU 0000:03:00.0 (PCI ID: 10de:128b)\n"
        "NVRM: installed in this system is not supported by the\nNVRM: NVIDIA 580.95.05 driver release.",
    ),
    Rule(
        "Legacy",
        r"NVRM: The NVIDIA [A-Za-z0-9 ()/+-]{1,64} GPU installed in this system is\s+"
        r"NVRM: +supported through the NVIDIA [0-9.x]{1,16} Legacy drivers\.",
        "NVRM: The NVIDIA GeForce GT 710 GPU installed in this system is\n"
        "NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please",
    ),
    Rule("NVRM: loading", r"NVRM: loading NVIDIA UNIX ", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05"),
)


def ignored(log: KernelLog) -> Tuple[FrozenSet[str], int]:
    """(PCI addresses of the GPUs that the driver ignores, how many it ignores in all messages without an address)."""
    # Of this load of the driver, and of the one before: the line "loading" comes after the probe of the GPUs.
    named: Set[str] = set()
    named_before: Set[str] = set()
    legacy = before = 0
    for said in log.find(RULES):
        place, found = said[:2]
        if place == _LOADED:
            before, legacy = legacy, 0
            named_before, named = named, set()
        elif place == _LEGACY:
            legacy += 1
        else:
            named.add(normalise_pci_address(found.group(1)) or "")
    return frozenset((named or named_before) - {""}), legacy or before


def without_ignored(information: Information, host: Host) -> Information:
    """The same without the GPUs on the bus that the driver ignores. The log is read only if NVML misses a GPU."""
    if information.status != Status.PARTIAL.value:
        return information
    known = {gpu.identity.pci_address for gpu in information.gpus}
    on_bus = {gpu.pci_address: gpu for gpu in pci.gpus(host)}
    left = [one for one in information.pci_gpus if one not in known]
    if not left:
        return information
    given_away = {one for one in left if one in on_bus and on_bus[one].given_away}
    try:
        named, without_address = ignored(read(host))
    except NodeError:
        named, without_address = frozenset(), 0
    # A message without an address refers to a GPU without a driver whose product is not among the products that the
    # driver manages. If more GPUs than messages fit, it is ambiguous and matches none.
    products = {_product(host, one) for one in known if one is not None} - {None}
    # The driver also says "not supported" of a broken GPU, for example one that was left in confidential mode.
    named = frozenset(one for one in named if _product(host, one) not in products)
    others = [one for one in left if one not in named | given_away]
    unlike = [one for one in others if _product(host, one) not in products]
    spare = max(0, without_address - len(named & set(left)))
    gone = given_away | named | (frozenset(unlike) if len(unlike) <= spare else frozenset())
    return replaced(information, pci_gpus=tuple(one for one in information.pci_gpus if one in known or one not in gone))


def _product(host: Host, address: str) -> Optional[str]:
    return host.read_line("{0}/{1}/device".format(pci.DEVICES, address))

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPU is meant: its names, how they are written, and the selection of GPUs by them."""

from __future__ import annotations

import re
from typing import Optional, Sequence, Tuple, Type

from ...core.frozen import frozen
from ...core.resource import Misuse, NodeError

_PCI_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[01]?[0-9a-f])(?:\.(?P<function>[0-7]))?",
    re.IGNORECASE,
)
ALL = "all"
#: Whole numbers that can only be indexes: of an address such as 1:00 YAML makes 60, and of others more.
INDEX = (0, 31)


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


def matches(identity: Identity, selector: str) -> bool:
    """Whether a selector (``all``, an index, a UUID or a PCI address) means this GPU."""
    text = selector.strip()
    if text == ALL:
        return True
    if re.fullmatch(r"[0-9]+", text):
        return identity.index == int(text)
    if identity.uuid is not None and identity.uuid.lower() == text.lower():
        return True
    return identity.pci_address is not None and identity.pci_address == normalise_pci_address(text)


def select(identities: Sequence[Identity], selectors: Sequence[str]) -> Tuple[Identity, ...]:
    """The GPUs that the selectors mean, each once, in the order of ``identities``.

    :raises NodeError: when a selector means none of them, see :func:`unknown`; the sentence names those that exist.
    """
    for selector in selectors:
        if selector.strip() != ALL and not any(matches(identity, selector) for identity in identities):
            raise unknown(selector, identities)
    return tuple(identity for identity in identities if any(matches(identity, selector) for selector in selectors))


def unknown(selector: str, identities: Sequence[Identity]) -> NodeError:
    """The error for a selector that means no GPU: wrong use, unless it may be one that does not tell its name."""
    there = ", ".join(
        "{0} = {1} = {2}".format(one.index, one.pci_address or "PCI address unknown", one.uuid or "UUID unknown")
        for one in identities
    )
    nameless = [str(one.index) for one in identities if one.pci_address is None]
    kind: Type[NodeError] = Misuse
    if not re.fullmatch(r"[0-9]+|GPU-\S+", selector.strip()) and normalise_pci_address(selector) is None:
        reason = "this is no GPU index, no UUID (GPU-...) and no PCI address (0001:00:00.0)"
    elif nameless:
        kind = NodeError
        reason = "no GPU that answers has this name, and GPU {0} did not tell its own".format(", ".join(nameless))
    else:
        reason = "this machine has no such GPU"
    from ...core.nearest import nearest

    # Not PCI addresses: one of another GPU is always like it.
    near = nearest(selector.strip(), [one.uuid for one in identities if one.uuid is not None])
    return kind("GPU " + repr(selector), reason, near + "choose among " + there if there else "there is no GPU at all")

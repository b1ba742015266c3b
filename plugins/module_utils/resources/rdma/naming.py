# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which device is to have which name, and the rules that give it. Pure.

rdma_rename(8) is rdma-core's; udev runs it for each new device. A fixed name is given by the device's place in sysfs,
not by a number that the kernel deals out, so it stays with its card when another one comes later or not at all.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Tuple

from ...core.managed_files import MARKER
from ...facts.sysfs import normalise_pci_address, pci_key
from .options import Desired
from .types import Device, State

_NAME = re.compile(r"[a-z][a-z0-9_]*[0-9]")
_END = "gpu_node_rdma_end"
_POLICIES = {"pci": "NAME_PCI", "kernel": "NAME_KERNEL"}


def names(state: State, desired: Desired) -> Tuple[Tuple[str, str], ...]:
    """(PCI address, name) in the order of addresses; empty unless the scheme is ``ordered``.

    Addresses that were named before keep their names while all that is seen is among them: a card that is missing
    today does not move the others.
    """
    if not desired.present or desired.names != "ordered":
        return ()
    layers = {address: one.infiniband for address, one in nameable(state)}
    former = remembered(state.declared)
    prefixes = (desired.ethernet_prefix, desired.infiniband_prefix)
    if former and set(layers) <= set(former):
        fits = all(re.fullmatch(prefixes[layers[address]] + "[0-9]+", former[address]) for address in layers)
        if fits:
            return tuple(sorted(former.items(), key=lambda one: pci_key(one[0])))
    found: List[Tuple[str, str]] = []
    counts = [0, 0]
    for address in sorted(layers, key=pci_key):
        layer = layers[address]
        found.append((address, "{0}{1}".format(prefixes[layer], counts[layer])))
        counts[layer] += 1
    return tuple(found)


def nameable(state: State) -> Tuple[Tuple[str, Device], ...]:
    """Physical functions that tell their link layer. Virtual ones come and go, and are named as rdma-core does it."""
    return tuple(
        (one.pci_address, one)
        for one in state.devices
        if one.pci_address and not one.virtual_function and any(port.link_layer for port in one.ports)
    )


def remembered(declared: Mapping[str, Any]) -> Dict[str, str]:
    """The names of the declaration. A person may have edited it: what cannot be is passed over."""
    found = declared.get("names")
    if not isinstance(found, dict):
        return {}
    usable = {
        address: name
        for address, name in found.items()
        if normalise_pci_address(address) == address and isinstance(name, str) and _NAME.fullmatch(name)
    }
    return usable if len(set(usable.values())) == len(usable) else {}


def rules(state: State, desired: Desired) -> str:
    """The text of the rules file for any scheme but ``leave``."""
    lines = [
        MARKER + " Changes will be lost.",
        "# Names of RDMA devices; udev reads this file in place of rdma-core's own of the same name.",
    ]
    policy = _POLICIES.get(desired.names)
    if policy is not None:
        lines.append('ACTION=="add", SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k {0}"'.format(policy))
        return "\n".join(lines) + "\n"
    lines += [
        'ACTION!="add", GOTO="{0}"'.format(_END),
        'SUBSYSTEM!="infiniband", GOTO="{0}"'.format(_END),
    ]
    for address, name in names(state, desired):
        # The folder above must be the function itself, not a subfunction of it.
        lines.append(
            'DEVPATH=="*/{0}/infiniband/*", PROGRAM="rdma_rename %k NAME_FIXED {1}", GOTO="{2}"'.format(
                address, name, _END
            )
        )
    lines += [
        "# Any other device, as rdma-core names it.",
        'PROGRAM="rdma_rename %k NAME_FALLBACK"',
        'LABEL="{0}"'.format(_END),
    ]
    return "\n".join(lines) + "\n"

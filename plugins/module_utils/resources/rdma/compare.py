# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the ports with what is expected of them. Pure."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from ...core.resource import Refusal
from .options import Desired
from .types import Device, Port

Named = Tuple[Device, Port]


def counted(devices: Sequence[Device], link_layer: str) -> Tuple[Named, ...]:
    """The ports that count, each with its device. A virtual function shares the port of the physical one."""
    ports = [(one, port) for one in devices if not one.virtual_function for port in one.ports]
    if link_layer != "auto":
        return tuple(one for one in ports if (one[1].link_layer or "").lower() == link_layer)
    return tuple(one for one in ports if one[1].link_layer == "InfiniBand") or tuple(ports)


def differences(devices: Sequence[Device], desired: Desired) -> Tuple[Refusal, ...]:
    """A missing port first, then what is wrong with each that is there."""
    ports = counted(devices, desired.link_layer)
    found: List[Refusal] = []
    if desired.expected_ports is not None and len(ports) != desired.expected_ports:
        found.append(
            Refusal(
                "RDMA ports",
                "{0} are there instead of {1}".format(len(ports), desired.expected_ports),
                "compare 'lspci -d 15b3:' with 'ibv_devices' to see whether a card or its driver is missing",
            )
        )
    for device, port in ports:
        found += _port(device, port, desired)
    return tuple(found)


def _port(device: Device, port: Port, desired: Desired) -> List[Refusal]:
    thing = "RDMA port {0}/{1}".format(device.name, port.number)
    # Without a wish nothing is compared: an unused port of a workstation is down by right.
    if desired.expected_ports is None and desired.rate_gbps is None:
        return []
    if port.physical_state not in (None, "LinkUp"):
        reason = "its link is {0} instead of LinkUp".format(port.physical_state)
        return [Refusal(thing, reason, "look at its cable, and at the port of the switch")]
    if port.state not in (None, "ACTIVE"):
        reason = "its state is {0} instead of ACTIVE".format(port.state)
        manager = "see that a subnet manager runs" if port.link_layer == "InfiniBand" else "bring its interface up"
        return [Refusal(thing, reason, manager)]
    rate, wanted = port.rate_gigabits_per_second, desired.rate_gbps
    if rate is not None and wanted is not None and rate != wanted:
        reason = "its rate is {0:g} Gb/s instead of {1:g} Gb/s".format(rate, wanted)
        return [Refusal(thing, reason, "look at its cable and at the speed of the switch's port, or correct rate_gbps")]
    return []

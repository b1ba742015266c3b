# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices as they are found."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.managed_files import Files

# The section of /etc/gpu_node/node.json.
SECTION = "rdma"
#: Of the name of rdma-core's own file, so that udev reads this one in its place.
RULES = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"
IPOIB = "/etc/modprobe.d/gpu-node-ipoib.conf"
PATHS = (RULES, IPOIB)


@frozen
class Port:
    """``lid`` is None where no subnet manager gave one, as with Ethernet; ``gid`` is the first of the table."""

    number: int
    state: Optional[str]
    physical_state: Optional[str]
    rate_gigabits_per_second: Optional[float]
    link_layer: Optional[str]
    lid: Optional[int] = None
    gid: Optional[str] = None


@frozen
class Device:
    """``pci_address`` is None for soft ones (rxe, siw). ``board_id`` names the type of card, as firmware tools do."""

    name: str
    pci_address: Optional[str]
    numa_node: Optional[int]
    netdevs: Tuple[str, ...]
    firmware: Optional[str]
    board_id: Optional[str]
    node_guid: Optional[str]
    virtual_function: bool
    ports: Tuple[Port, ...]

    @property
    def infiniband(self) -> bool:
        return any(port.link_layer == "InfiniBand" for port in self.ports)


@frozen
class Setting:
    """A variable that NCCL or UCX reads; ``value`` and ``file`` are None where no file sets it."""

    name: str
    value: Optional[str] = None
    file: Optional[str] = None


@frozen
class State:
    """``rename_program`` is rdma-core's; ``fixed_names``: it knows NAME_FIXED. ``azure_naming``: the service of Azure's
    images that renames devices after each boot is enabled."""

    devices: Tuple[Device, ...] = ()
    files: Files = Files()
    declared: Mapping[str, Any] = {}
    rename_program: Optional[str] = None
    fixed_names: bool = False
    azure_naming: bool = False
    ipoib_loaded: bool = False
    relaxed_ordering: Tuple[Setting, ...] = ()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices as they are found, and what is wanted of them."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Mapping, Optional, Tuple

from ...core.managed_files import Files
from ...core.resource import NodeError

# The section of /etc/gpu_node/node.json.
SECTION = "rdma"
#: Of the name of rdma-core's own file, so that udev reads this one in its place.
RULES = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"
IPOIB = "/etc/modprobe.d/gpu-node-ipoib.conf"
PATHS = (RULES, IPOIB)

#: ``leave``: no file of ours. ``ordered``: a fixed name for each PCI address. The others are policies of rdma-core.
SCHEMES = ("leave", "ordered", "pci", "kernel")
#: Which ports count. ``auto``: those of InfiniBand where there are some, otherwise all.
LINK_LAYERS = ("auto", "infiniband", "ethernet")
IPOIB_CHOICES = ("leave", "off")

_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,31}")
# What kernel drivers put before their numbers. A device cannot get a name that another one still has.
_OF_DRIVERS = re.compile(r"(mlx[45]_|bnxt_re|irdma|i40iw|hfi1_|qedr|mana_|efa_|cxgb4_|hns_|erdma_|rxe|siw|ionic_)")


@dataclasses.dataclass(frozen=True)
class Port:
    """``lid`` is None where no subnet manager gave one, as with Ethernet; ``gid`` is the first of the table."""

    number: int
    state: Optional[str]
    physical_state: Optional[str]
    rate_gigabits_per_second: Optional[float]
    link_layer: Optional[str]
    lid: Optional[int] = None
    gid: Optional[str] = None


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True)
class Setting:
    """A variable that NCCL or UCX reads; ``value`` and ``file`` are None where no file sets it."""

    name: str
    value: Optional[str] = None
    file: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class State:
    """``rename_program`` is rdma-core's; ``fixed_names``: it knows NAME_FIXED. ``azure_naming``: the service of Azure's
    images that renames devices after each boot is enabled."""

    devices: Tuple[Device, ...] = ()
    files: Files = Files()
    declared: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rename_program: Optional[str] = None
    fixed_names: bool = False
    azure_naming: bool = False
    ipoib_loaded: bool = False
    relaxed_ordering: Tuple[Setting, ...] = ()


@dataclasses.dataclass(frozen=True)
class Desired:
    """``expected_ports`` and ``rate_gigabits_per_second`` None: that is not compared."""

    present: bool = True
    expected_ports: Optional[int] = None
    rate_gigabits_per_second: Optional[float] = None
    link_layer: str = "auto"
    strict: bool = False
    names: str = "leave"
    infiniband_prefix: str = "mlx5_ib"
    ethernet_prefix: str = "mlx5_an"
    ipoib: str = "leave"

    def __post_init__(self) -> None:
        _one_of("link_layer", self.link_layer, LINK_LAYERS)
        _one_of("names", self.names, SCHEMES)
        _one_of("ipoib", self.ipoib, IPOIB_CHOICES)
        if self.expected_ports is not None and not 0 <= self.expected_ports <= 1024:
            raise NodeError(
                "option expected_ports", "{0} is no number of ports".format(self.expected_ports), "give 0 to 1024"
            )
        rate = self.rate_gigabits_per_second
        if rate is not None and not 0 < rate <= 100000:
            raise NodeError(
                "option rate_gbps", "{0:g} Gb/s is no rate of a port".format(rate), "give it in Gb/s, such as 200"
            )
        for name in ("infiniband_prefix", "ethernet_prefix"):
            value = getattr(self, name)
            if not _PREFIX.fullmatch(value):
                raise NodeError(
                    "option {0}".format(name),
                    "{0!r} cannot begin the name of a device".format(value),
                    "use a letter, then letters, digits and _, at most 32",
                )
            if _OF_DRIVERS.fullmatch(value):
                raise NodeError(
                    "option {0}".format(name),
                    "names of kernel drivers begin with {0!r}, and a name that is taken cannot be given".format(value),
                    "use another one, such as mlx5_ib",
                )
        if self.infiniband_prefix == self.ethernet_prefix:
            raise NodeError("option ethernet_prefix", "it is that of InfiniBand too", "give each link layer its own")

    def paths(self) -> Tuple[str, ...]:
        """Where files may be wanted; all of ours when none is."""
        if not self.present:
            return PATHS
        wanted = ((RULES, self.names != "leave"), (IPOIB, self.ipoib == "off"))
        return tuple(path for path, is_wanted in wanted if is_wanted)


def _one_of(name: str, value: str, choices: Tuple[str, ...]) -> None:
    if value not in choices:
        raise NodeError(
            "option {0}".format(name), "{0!r} is not known here".format(value), "use one of " + ", ".join(choices)
        )

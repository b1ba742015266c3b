# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the RDMA ports of a node."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from ...core.options import option, options, state
from ...core.resource import NodeError
from .types import IPOIB, PATHS, RULES

_PREFIX = (
    "[a-z][a-z0-9_]{0,31}",
    "beginning of a name of a device",
    "use a letter, then letters, digits and _, at most 32",
)
# What kernel drivers put before their numbers. A device cannot get a name that another one still has.
_OF_DRIVERS = re.compile(r"(mlx[45]_|bnxt_re|irdma|i40iw|hfi1_|qedr|mana_|efa_|cxgb4_|hns_|erdma_|rxe|siw|ionic_)")


@options
class Desired:
    """``expected_ports`` and ``rate_gbps`` None: that is not compared."""

    present: bool = state("V(absent) removes the files that were written here.")
    expected_ports: Optional[int] = option(
        None,
        "How many ports there must be. Where nothing says it, their number and state are not compared.",
        bounds=(0, 1024),
        profile="infiniband.count",
    )
    rate_gbps: Optional[float] = option(
        None,
        "The rate of each port in Gb/s. Where nothing says it, it is not compared.",
        bounds=(0.1, 100000),
        unit="Gb/s",
        profile="infiniband.rate_gigabits_per_second",
        example=200,
    )
    link_layer: str = option(
        "auto",
        [
            "Which ports count.",
            "V(auto) counts those of InfiniBand where there are some, otherwise all. Virtual functions never count.",
        ],
        choices=("auto", "infiniband", "ethernet"),
    )
    strict: bool = option(False, "Whether a difference is a failure. Nothing is written then.")
    names: str = option(
        "leave",
        [
            "V(leave) leaves naming to the system.",
            "V(ordered) gives O(infiniband_prefix) or O(ethernet_prefix) and a number to each card, in the order of "
            "PCI addresses. A card keeps its name while another one is missing. On an image whose service "
            "azure_persistent_rdma_naming does this already, it is left to that.",
            "V(pci) names by PCI location (C(ibp1s0)), V(kernel) keeps the names of the kernel (C(mlx5_0)).",
        ],
        choices=("leave", "ordered", "pci", "kernel"),
        profile="infiniband.names",
    )
    infiniband_prefix: str = option(
        "mlx5_ib", "What the names of InfiniBand devices begin with, for O(names=ordered).", form=_PREFIX
    )
    ethernet_prefix: str = option(
        "mlx5_an", "What the names of RoCE devices begin with, for O(names=ordered).", form=_PREFIX
    )
    ipoib: str = option(
        "leave",
        [
            "V(off) keeps the module ib_ipoib from being loaded, from the next boot on. Write it in quotes, for YAML "
            "takes the bare word as a boolean.",
            "V(leave) leaves it to the system.",
        ],
        choices=("leave", "off"),
    )

    def __post_init__(self) -> None:
        for name in ("infiniband_prefix", "ethernet_prefix"):
            value = getattr(self, name)
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

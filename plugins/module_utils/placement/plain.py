# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology out of plain data: what topology_info returned, as a controller has it."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ..core.resource import NodeError
from ..facts.sysfs import InfinibandPort
from ..facts.sysfs_numa import CacheGroup
from ..facts.topology.types import CpuSummary, Gpu, Infiniband, Nearest, NumaNode, Placement, Topology

Plain = Dict[str, Any]


def topology_from_dict(content: Any) -> Topology:
    """The parts of the topology that placement reads.

    :raises NodeError: when the data are not what topology_info returns.
    """
    try:
        return Topology(
            cpus=_cpus(content["cpus"]),
            memory_bytes=content.get("memory_bytes"),
            packages=(),
            numa_nodes=tuple(_node(one) for one in content["numa_nodes"]),
            gpus=tuple(_gpu(one) for one in content["gpus"]),
            infiniband=tuple(_infiniband(one) for one in content["infiniband"]),
            nvme=(),
            nvswitches=(),
            gpus_reason=content["gpus_reason"],
            notes=(),
        )
    except KeyError as error:
        raise _not_topology("{0} is missing in it".format(error.args[0])) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise _not_topology("it has another shape ({0})".format(error)) from error


def _not_topology(reason: str) -> NodeError:
    return NodeError("this topology", reason, "give the whole result of trainyard.gpu_node.topology_info")


def _numbers(values: Any) -> Tuple[int, ...]:
    return tuple(int(value) for value in values)


def _cpus(plain: Plain) -> CpuSummary:
    return CpuSummary(
        present=_numbers(plain["present"]),
        online=_numbers(plain["online"]),
        offline=_numbers(plain["offline"]),
        isolated=_numbers(plain["isolated"]),
        cores=int(plain["cores"]),
        threads_per_core=int(plain["threads_per_core"]),
        sibling_groups=tuple(_numbers(group) for group in plain["sibling_groups"]),
    )


def _node(plain: Plain) -> NumaNode:
    return NumaNode(
        id=int(plain["id"]),
        kind=plain["kind"],
        cpus=_numbers(plain["cpus"]),
        memory_bytes=plain["memory_bytes"],
        # JSON has no numbers as keys
        distances=tuple((int(other), int(far)) for other, far in plain["distances"].items()),
        packages=_numbers(plain["packages"]),
        l3_groups=tuple(
            CacheGroup(group["id"], _numbers(group["cpus"]), group["size_bytes"]) for group in plain["l3_groups"]
        ),
        inferred=bool(plain["inferred"]),
    )


def _place(plain: Plain) -> Placement:
    return Placement(
        pci_address=plain["pci_address"],
        pcie_path=tuple(plain["pcie_path"]),
        numa_node=None if plain["numa_node"] is None else int(plain["numa_node"]),
        numa_source=plain["numa_source"],
        numa_reason=plain["numa_reason"],
        virtual_function=bool(plain["virtual_function"]),
    )


def _nearest(plain: Optional[Plain]) -> Optional[Nearest]:
    if plain is None:
        return None
    return Nearest(plain["name"], tuple(plain["equally_near"]), plain["relation"], plain["distance"])


def _gpu(plain: Plain) -> Gpu:
    return Gpu(
        name=plain["name"],
        nvml=bool(plain["nvml"]),
        index=None if plain["index"] is None else int(plain["index"]),
        uuid=plain["uuid"],
        product=plain["product"],
        pci_id=plain["pci_id"],
        driver=plain["driver"],
        memory_bytes=plain["memory_bytes"],
        memory_numa_node=plain["memory_numa_node"],
        fault=plain["fault"],
        placement=_place(plain),
        nearest_infiniband=_nearest(plain["nearest_infiniband"]),
        nearest_nvme=_nearest(plain["nearest_nvme"]),
    )


def _infiniband(plain: Plain) -> Infiniband:
    return Infiniband(
        name=plain["name"],
        node_guid=plain["node_guid"],
        firmware=plain["firmware"],
        netdevs=tuple(plain["netdevs"]),
        ports=tuple(InfinibandPort(**port) for port in plain["ports"]),
        placement=_place(plain),
        nearest_gpu=_nearest(plain["nearest_gpu"]),
        nearest_nvme=_nearest(plain["nearest_nvme"]),
    )

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a healthy machine reaches, each figure with its source. Pure; what nobody has published is not made up."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Tuple

from ...facts.topology import Topology

# busbw between nodes, and who says so.
_BETWEEN_NODES = {
    "nd96asr_v4": "two nodes: more than 175 GB/s (Azure's ndv4_a100_healthchecks)",
    "nd96amsr_a100_v4": "two nodes: more than 175 GB/s (Azure's ndv4_a100_healthchecks)",
    "nd96isr_h100_v5": "several nodes: about 450 GB/s; below 400 look at it (ai-infrastructure-on-azure)",
}
# FP64 of one node with all its GPUs.
_HPL = {
    "nd96asr_v4": "one node: about 95 TFLOP/s (8 A100, Azure's NDv4 blog)",
    "nd96amsr_a100_v4": "one node: about 95 TFLOP/s (8 A100, Azure's NDv4 blog)",
}
_UNKNOWN = "nobody has published a figure for this machine; keep the first one of a healthy node and compare with it"


def all_reduce(profile: Mapping[str, Any], topology: Topology) -> Tuple[str, ...]:
    threshold = _threshold(profile, "nccl_allreduce_busbw_gigabytes_per_second")
    lines: List[str] = []
    if threshold:
        lines.append("one node: {0} (profile {1})".format(threshold, profile.get("name")))
    between = _BETWEEN_NODES.get(str(profile.get("name")))
    if between:
        lines.append(between)
    return tuple(lines or [_UNKNOWN]) + _network(topology)


def all_to_all(profile: Mapping[str, Any], topology: Topology, ranks: int) -> Tuple[str, ...]:
    """What each GPU's share of the ports lets through to the other node of two."""
    total = network_gigabytes(topology)
    if total is None or not ranks:
        return (_UNKNOWN,)
    ceiling = total / ranks * (2 * ranks - 1) / ranks
    return (
        "two nodes: below {0:.0f} GB/s; of the {1} partners of a GPU {2} are on the other node, and its share of the "
        "ports carries {3:.1f} GB/s (by arithmetic)".format(ceiling, 2 * ranks - 1, ranks, total / ranks),
    )


def hpl(profile: Mapping[str, Any]) -> Tuple[str, ...]:
    figure = _HPL.get(str(profile.get("name")))
    return (figure or _UNKNOWN, "compare the nodes with each other: a slow one stands out")


def network_gigabytes(topology: Topology) -> Optional[float]:
    """GB/s of all InfiniBand ports together in one direction."""
    rates = [
        port.rate_gigabits_per_second
        for device in topology.infiniband
        if not device.placement.virtual_function
        for port in device.ports
        if port.link_layer == "InfiniBand" and port.rate_gigabits_per_second
    ]
    return sum(rates) / 8 if rates else None


def _network(topology: Topology) -> Tuple[str, ...]:
    total = network_gigabytes(topology)
    if total is None:
        return ()
    return ("the InfiniBand ports of a node carry {0:g} GB/s in each direction (by arithmetic)".format(total),)


def _threshold(profile: Mapping[str, Any], name: str) -> Optional[str]:
    data = profile.get("data")
    thresholds = data.get("thresholds") if isinstance(data, dict) else None
    found = thresholds.get(name) if isinstance(thresholds, dict) else None
    if not isinstance(found, dict):
        return None
    words = (("{0:g} GB/s and more", found.get("warn")), ("it is sick below {0:g} GB/s", found.get("fail")))
    return "; ".join(text.format(value) for text, value in words if isinstance(value, (int, float))) or None

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which topology file NCCL is to read on this machine, if any, and why one is refused. Pure."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core.resource import Refusal
from .build_xml import build_xml, reasons, split_nodes, unplaced
from .check_xml import check_graph, check_xml, shortened
from .options import TOPOLOGIES, Desired
from .types import TOPOLOGY, State, graph_file

_NOT_MADE = (
    "no topology file is made, since nothing tells the NUMA node of {0}; NCCL takes them for far from everything else"
)
_SPLIT = "NUMA node {0} has not as many GPUs as network devices, so the topology file claims no PCIe switches there"


def topology(state: State, desired: Desired) -> Tuple[Optional[str], Optional[str], List[str]]:
    """(the path for NCCL_TOPO_FILE, the text where the file is ours, notes). A machine without GPUs needs none."""
    machine = state.machine
    if desired.topology == "none" or not machine.gpus:
        return None, None, []
    if desired.topology not in TOPOLOGIES:
        return desired.topology, None, []
    lost = unplaced(machine)
    if lost:
        return None, None, [_NOT_MADE.format(", ".join(lost))]
    if desired.topology == "auto" and not reasons(machine, desired.switches, desired.link_speed):
        return None, None, []
    notes = [_SPLIT.format(node) for node in split_nodes(machine, desired.switches)]
    return TOPOLOGY, build_xml(machine, desired.switches, desired.link_speed), notes


def refusals(state: State, desired: Desired) -> List[Refusal]:
    """A file for another machine is worse than none, so it stops the run."""
    machine = state.machine
    if not machine.gpus:
        return []
    found: List[Refusal] = []
    if desired.topology == "generate" and unplaced(machine):
        reason = "nothing tells the NUMA node of {0}".format(", ".join(unplaced(machine)))
        found.append(Refusal("option topology", reason, "give a file that fits this machine, or none"))
    if desired.topology not in TOPOLOGIES:
        differences = None if state.given is None else check_xml(state.given, machine)
        remedy = "use auto, which measures this machine, or give a file that fits it"
        found += _unfit(desired.topology, differences, remedy)
    graph = graph_file(desired)
    if graph is not None:
        differences = None if state.graph is None else check_graph(state.graph, machine)
        found += _unfit(graph, differences, "take NCCL_GRAPH_FILE out")
    return found


def _unfit(path: str, differences: Optional[List[str]], remedy: str) -> List[Refusal]:
    if differences is None:
        return [Refusal(path, "it is not there or cannot be read", remedy)]
    if differences:
        return [Refusal(path, "it is not about this machine: " + shortened(differences), remedy)]
    return []

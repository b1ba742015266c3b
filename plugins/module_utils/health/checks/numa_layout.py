# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA nodes, their CPUs, and which GPU sits at which node: what pinning relies on."""

from __future__ import annotations

from typing import Dict, Tuple

from ...facts.profile.types import Difference
from ...facts.topology.types import Topology
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .profile_parts import differences, outcome

_SETTING = "compare 'lscpu' with the setting of the firmware (NPS, sub-NUMA clustering) or of the virtual machine"
_GPUS = "compare 'gpunode topo' with the profile: on a virtual machine the host shows the bus otherwise, so redeploy it"
# Of the subjects of profile.compare: code, remedy.
_KINDS: Dict[str, Tuple[str, str]] = {
    "NUMA nodes with CPUs": ("nodes", _SETTING),
    "CPUs of the NUMA nodes": ("cpus", _SETTING),
    "NUMA nodes of the GPUs": ("gpus", _GPUS),
}


def look(evidence: Evidence) -> Topology:
    return evidence.topology


def judge(seen: Topology, expected: Expected) -> Judgement:
    found = [*differences(expected, "numa_nodes", seen), *differences(expected, "gpu_numa", seen)]
    count = sum(1 for node in seen.numa_nodes if node.cpus)
    return Judgement(
        seen="{0} NUMA nodes with CPUs".format(count),
        findings=tuple(_finding(one) for one in found if not _of_cpu_count(one) and not _of_order(one)),
        measured=(Measured("numa_nodes_with_cpus", float(count)),),
    )


def _of_cpu_count(difference: Difference) -> bool:
    """Whether CPUs are missing altogether, which another check tells, and not only lie elsewhere."""
    wanted = difference.expected
    counted = difference.subject == "CPUs of the NUMA nodes" and None not in wanted
    return counted and sum(wanted) != sum(difference.found)


def _of_order(difference: Difference) -> bool:
    """Whether the GPUs are at the right NUMA nodes in another order: profiles have NVML's, and the bus has its own."""
    if difference.subject != "NUMA nodes of the GPUs" or None in difference.found:
        return False
    return sorted(difference.found) == sorted(difference.expected)


def _finding(difference: Difference) -> Finding:
    code, remedy = _KINDS.get(difference.subject, ("other", _SETTING))
    reason = "{0} instead of {1}".format(difference.found, difference.expected)
    told = outcome(difference)
    certainty = Certainty.CERTAIN if told is Outcome.FAIL else Certainty.LIKELY
    return Finding(told, difference.subject, reason, remedy, Remedy.LOOK, certainty, code=code)


CHECKS = (Check("numa_layout", "NUMA nodes are as the profile says", Cost.PASSIVE, judge, look),)

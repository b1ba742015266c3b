# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains of ours that outlived their machines: cloud nodes that Slurm powered down while they were drained by us.

Slurm starts no drained node, so such a name would never be used again, though its next machine is another one. Where
it is the same one after all, the health gate on it remembers what it was drained for, and drains it again.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import NodeError
from .. import breaker, drain
from ..client import Slurm
from ..commands import PATIENT_SECONDS
from ..types import SlurmNode
from . import reason as reasons

_CHUNK = 100
_DOWN = frozenset(("DOWN", "FAIL", "FAILING"))


@frozen
class Sweep:
    """``names``: whose drain ends. ``left``: who is powered down with a drain of ours that stays, and why."""

    names: Tuple[str, ...] = ()
    left: Tuple[Tuple[str, str], ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        return {"swept": list(self.names), "left": [{"name": name, "why": why} for name, why in self.left]}


def plan(nodes: Dict[str, SlurmNode], percent: float) -> Sweep:
    """:raises NodeError: more than this share of the cloud nodes would come back at once."""
    names: List[str] = []
    left: List[Tuple[str, str]] = []
    for name in sorted(nodes):
        node = nodes[name]
        if "POWERED_DOWN" not in node.flags or not drain.is_ours(node):
            continue
        why = _kept(node)
        if why is None:
            names.append(name)
        else:
            left.append((name, why))
    clouds = sum(1 for node in nodes.values() if "CLOUD" in node.flags)
    if len(names) > breaker.most(clouds, percent):
        raise NodeError(
            "{0} of {1} cloud nodes".format(len(names), clouds),
            "so many are powered down with a drain of ours, and {0:g} % may come back at once".format(percent),
            "see by 'sinfo -R' what they were drained for, then run it with a higher limit (gpu_node_sweep_percent)",
        )
    return Sweep(tuple(names), tuple(left))


def _kept(node: SlurmNode) -> Optional[str]:
    """Why the drain of a node that is powered down stays."""
    if "CLOUD" not in node.flags:
        return "it is no cloud node, so the same machine comes back"
    if node.flags & _DOWN:
        return "it is down as well, which is not ours to end"
    if drain.is_for_rolling(node) and reasons.read(node.reason or "").for_somebody:
        return "somebody had drained it before ({0})".format(node.reason)
    return None


def run(host: Host, percent: float, check_mode: bool = False) -> Sweep:
    """:raises NodeError: slurmctld does not answer or refuses, or they are too many."""
    sweep = plan(_look(host), percent)
    if check_mode or not sweep.names:
        return sweep
    for names in _chunks(sweep.names):
        # RESUME would also end that a node is down, or that it is being powered down (scontrol(1)).
        slurm = Slurm(host, ",".join(names), seconds=PATIENT_SECONDS)
        slurm.update("State=UNDRAIN", "Reason=" + drain.RESUMED)
    again = plan(_look(host), 100.0)
    stuck = sorted(set(again.names) & set(sweep.names))
    if stuck:
        raise NodeError("node " + stuck[0], "slurmctld has it drained still", "run it again, and see who drains it")
    return sweep


def _look(host: Host) -> Dict[str, SlurmNode]:
    nodes = Slurm(host, "", seconds=PATIENT_SECONDS).every()
    if not nodes:
        raise NodeError("sinfo", "it tells of no node", "look at 'sinfo --local -a -N'")
    return nodes


def _chunks(names: Sequence[str]) -> List[Sequence[str]]:
    return [names[begin : begin + _CHUNK] for begin in range(0, len(names), _CHUNK)]

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many nodes of a partition may be drained by this collection at a time. Pure.

One wrong declaration, or one defect that all nodes share, must not take a whole cluster out of service. So every
drain of ours, whatever it is for, is counted here first, and beyond a share of the partition nothing is drained.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from ..core.frozen import frozen
from .drain import PREFIX

# What sinfo is asked for: machines by their state, and who is drained since when. Neither names each node of a large
# cluster. The reason is last, since it may hold any sign.
SIZES = "%R|%D|%T"
DRAINED = "%R|%N|%H|%T|%E"
# Behind a state: no machine is there (slurm.conf(5): powered down, powering down).
_AWAY = ("~", "%")
PERSON = "a person must decide: look at 'sinfo -R', then drain or resume nodes by scontrol"


@frozen
class Partition:
    """``size``: its machines, and the nodes that we drained and Slurm powered down since, as nobody can use those.
    ``ours``: the nodes that we drained, the first one first."""

    name: str
    size: int
    ours: Tuple[str, ...] = ()


def partitions(names: Sequence[str], sizes: str, drained: str, prefix: str = PREFIX) -> Tuple[Partition, ...]:
    """By the answers for ``SIZES`` and ``DRAINED``; lines of another form are passed over. ``prefix``: of the reasons
    that count."""
    machines: Dict[str, int] = {}
    for name, count, state in _lines(sizes, 3):
        if count.isdigit() and not state.endswith(_AWAY):
            machines[name] = machines.get(name, 0) + int(count)
    ours: Dict[str, List[Tuple[str, str]]] = {}
    for name, node, since, state, reason in _lines(drained, 5):
        if not reason.startswith(prefix):
            continue
        ours.setdefault(name, []).append((since, node))
        if state.endswith(_AWAY):
            machines[name] = machines.get(name, 0) + 1
    return tuple(
        Partition(name, machines.get(name, 0), tuple(node for dummy, node in sorted(ours.get(name, ()))))
        for name in names
    )


def _lines(text: str, columns: int) -> List[List[str]]:
    found = [line.split("|", columns - 1) for line in text.splitlines()]
    return [[cell.strip() for cell in cells] for cells in found if len(cells) == columns]


def most(size: int, percent: float) -> int:
    """How many nodes of a partition may be drained by us at a time: one in any case, but for 0 %."""
    return 0 if percent <= 0 else max(1, int(size * percent / 100.0))


def full(found: Sequence[Partition], percent: float) -> Optional[str]:
    """Why one more must not be drained; None: it may."""
    for one in found:
        if len(one.ours) + 1 > most(one.size, percent):
            return _told(one, percent)
    return None


def surplus(node: str, found: Sequence[Partition], percent: float) -> Optional[str]:
    """Why this node, which we have just drained, has to be given back; None: it stays drained.

    Many nodes may fall ill at once, each drained before it saw the others. So each looks again a moment later, and
    those that were not among the first, by the time of slurmctld and then by name, withdraw.
    """
    for one in found:
        if node in one.ours and one.ours.index(node) >= most(one.size, percent):
            return _told(one, percent)
    return None


def _told(one: Partition, percent: float) -> str:
    text = "{0} of {1} nodes of partition {2} are drained by us, and {3:g} % may be ({4} at most); {5}"
    return text.format(len(one.ours), one.size, one.name, percent, most(one.size, percent), PERSON)

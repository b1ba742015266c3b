# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of the cluster by the answer of ``scontrol show nodes``. Pure.

One node a block: ``NodeName=`` begins it, ``State=``, ``Partitions=`` and ``Reason=`` stand on lines of their own, the
reason last on its line and ended by who gave it and when (scontrol(1), of Slurm 20.11 and later).
"""

from __future__ import annotations

import dataclasses
import re
from typing import Dict, Iterable, List, Tuple

from ..slurm_job import drain
from ..slurm_job.types import SlurmNode

# No machine is behind a node in these states (slurm.conf(5), scontrol(1)); POWER is what older versions say.
_AWAY = frozenset(("POWERED_DOWN", "POWERING_DOWN", "POWER", "FUTURE", "FUT"))
_BLOCK = re.compile(r"^\s*NodeName=(\S+)", re.MULTILINE)
_PARTITIONS = re.compile(r"(?:^|\s)Partitions=(\S*)")
_SINCE = re.compile(r"\[[^\[\]]*@([^\[\]]*)\]\s*$")


@dataclasses.dataclass(frozen=True)
class Node:
    """``since``: when the reason was given, as slurmctld writes it: ``2026-01-31T12:00:00``."""

    name: str
    state: SlurmNode
    partitions: Tuple[str, ...] = ()
    since: str = ""

    @property
    def there(self) -> bool:
        return not self.state.flags & _AWAY

    @property
    def ours(self) -> bool:
        """Drained by this collection, for whatever reason."""
        return drain.is_ours(self.state)


def parse(text: str) -> Dict[str, Node]:
    """What has no name or no state is passed over."""
    starts = [found.start() for found in _BLOCK.finditer(text)]
    nodes: Dict[str, Node] = {}
    for start, end in zip(starts, starts[1:] + [len(text)]):
        block = text[start:end]
        name, state = _BLOCK.match(block), drain.parse_node(block)
        if name is None or state is None:
            continue
        partitions: List[str] = []
        since = ""
        for line in block.splitlines():
            head = line.strip()
            if head.startswith("Reason="):
                found = _SINCE.search(head)
                since = found.group(1) if found else ""
                break  # what a person wrote there is no field
            listed = _PARTITIONS.search(line)
            if listed:
                partitions = [one for one in listed.group(1).split(",") if one]
        nodes[name.group(1)] = Node(name.group(1), state, tuple(partitions), since)
    return nodes


@dataclasses.dataclass(frozen=True)
class Partition:
    """A partition of this node: how many machines it has now, and which of them we drained, the first one first."""

    name: str
    size: int
    ours: Tuple[str, ...] = ()


def partitions_of(nodes: Iterable[Node], name: str) -> Tuple[Partition, ...]:
    """The partitions that a node is in."""
    every = list(nodes)
    wanted = next((one.partitions for one in every if one.name == name), ())
    answer = []
    for partition in wanted:
        members = [one for one in every if partition in one.partitions and one.there]
        ours = sorted((one.since, one.name) for one in members if one.ours)
        answer.append(Partition(partition, len(members), tuple(node for dummy, node in ours)))
    return tuple(answer)

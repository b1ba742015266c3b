# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fleet is to be, and how each node has its name and address."""

from __future__ import annotations

import dataclasses
import json
from typing import FrozenSet, List, Set

# 127.1.0.1 to 127.1.39.250
COUNT_MAX = 10000
_OF_A_FOLDER = 250


class FleetError(Exception):
    """One sentence for the user."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Nodes are counted from 1. A slow node waits before each command, a failing one has a read-only /opt."""

    count: int
    unreachable: FrozenSet[int] = frozenset()
    failing: FrozenSet[int] = frozenset()
    slow: FrozenSet[int] = frozenset()
    delay_seconds: float = 2.0
    machine: str = "nd96asr_v4"
    tree: str = "ndv4"

    def __post_init__(self) -> None:
        if not 1 <= self.count <= COUNT_MAX:
            raise FleetError("{0} nodes: it must be from 1 to {1}; give another number.".format(self.count, COUNT_MAX))
        for name in ("unreachable", "failing", "slow"):
            beyond = sorted(number for number in getattr(self, name) if not 1 <= number <= self.count)
            if beyond:
                text = "--{0} {1}: there are nodes 1 to {2}; give some of these."
                raise FleetError(text.format(name, beyond[0], self.count))

    @property
    def nodes(self) -> List["Node"]:
        return [Node(number, self) for number in range(1, self.count + 1)]

    def to_json(self) -> str:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return json.dumps({key: sorted(one) if isinstance(one, frozenset) else one for key, one in fields.items()})


@dataclasses.dataclass(frozen=True)
class Node:
    number: int
    settings: Settings

    @property
    def name(self) -> str:
        return "gpu{0:04d}".format(self.number)

    @property
    def address(self) -> str:
        return "127.1.{0}.{1}".format((self.number - 1) // _OF_A_FOLDER, (self.number - 1) % _OF_A_FOLDER + 1)

    @property
    def unreachable(self) -> bool:
        return self.number in self.settings.unreachable

    @property
    def failing(self) -> bool:
        return self.number in self.settings.failing

    @property
    def delay_seconds(self) -> float:
        return self.settings.delay_seconds if self.number in self.settings.slow else 0.0


def numbers(text: str) -> FrozenSet[int]:
    """1-3,7 as 1, 2, 3, 7.

    :raises FleetError: when it is something else.
    """
    found: Set[int] = set()
    for word in filter(None, text.split(",")):
        first, dummy, last = word.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            raise FleetError("{0}: it is no list of nodes; write it as 1-3,7.".format(text))
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)

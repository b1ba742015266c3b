# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The odd one out by versions: what one node has otherwise than most nodes of its kind. Pure."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Dict, Iterable, List, Mapping, Tuple

#: Of two nodes that differ nobody is the odd one.
NODES_MIN = 3
#: The share of the nodes that must have a version, so that another one is odd. Own choice.
SHARE_MIN = 2 / 3
#: The checks whose texts are of versions alone, the same on nodes of one image.
PREFIX = "image_"
_TEXT_MAX = 400


@dataclasses.dataclass(frozen=True)
class Odd:
    """``value`` and ``usual`` are empty where there is none; ``most`` of ``nodes`` have the usual one."""

    node: str
    name: str
    value: str
    usual: str
    most: int
    nodes: int

    @property
    def reason(self) -> str:
        return "{0}: it has {1}, and {2} of {3} nodes have {4}".format(
            self.name, self.value or "none", self.most, self.nodes, self.usual or "none"
        )

    @property
    def remedy(self) -> str:
        return "bring it to the image of the others, or tell the others' kind apart with a profile"


def odd(versions: Mapping[str, Mapping[str, str]]) -> Tuple[Odd, ...]:
    """``versions`` of each node, by name. Who has another one than two thirds of the nodes is odd; where no version is
    that of so many, as in the middle of an update, nobody is."""
    found: List[Odd] = []
    if len(versions) < NODES_MIN:
        return ()
    for name in sorted({name for one in versions.values() for name in one}):
        counted = collections.Counter(one.get(name, "") for one in versions.values())
        usual, most = counted.most_common(1)[0]
        if most < SHARE_MIN * len(versions) or most == len(versions):
            continue
        found += [
            Odd(node, name, one.get(name, ""), usual, most, len(versions))
            for node, one in sorted(versions.items())
            if one.get(name, "") != usual
        ]
    return tuple(found)


def of_verdicts(verdicts: Mapping[str, Any], kinds: Mapping[str, str]) -> Tuple[Odd, ...]:
    """The odd ones among the nodes of each kind, by what the checks of the image have seen. A node that was not checked
    for its image is none of them."""
    seen: Dict[str, Dict[str, Dict[str, str]]] = collections.defaultdict(dict)
    for node, verdict in verdicts.items():
        texts = dict(_texts(verdict))
        if texts:
            seen[kinds.get(node, "")][node] = texts
    return tuple(one for kind in sorted(seen) for one in odd(seen[kind]))


def _texts(verdict: Any) -> Iterable[Tuple[str, str]]:
    results = verdict.get("results") if isinstance(verdict, Mapping) else None
    for result in results if isinstance(results, (list, tuple)) else ():
        if isinstance(result, Mapping) and str(result.get("id", "")).startswith(PREFIX):
            text = result.get("seen")
            if isinstance(text, str):
                yield str(result["id"]), text[:_TEXT_MAX]

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of nodes out of their verdicts, as these lie in JSON. What is not as it should be is left out. Pure."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

# What a verdict calls a machine that has no profile.
_UNKNOWN = ("", "unknown")


@dataclasses.dataclass(frozen=True)
class Sample:
    """One figure of one node. ``kind`` is the same for nodes that may be compared."""

    node: str
    kind: str
    name: str
    value: float
    key: str = ""
    counter: bool = False
    better: str = ""


def samples(verdicts: Mapping[str, Any]) -> Tuple[Sample, ...]:
    """``verdicts``: by the name of the node, each as ``frozen.plain`` makes it."""
    kinds = kinds_of(verdicts)
    return tuple(
        Sample(node, kinds[node], *figure) for node, verdict in verdicts.items() for figure in _figures(verdict)
    )


def kinds_of(verdicts: Mapping[str, Any]) -> Dict[str, str]:
    """The profile; machines without one are alike when the same was measured on as many parts of them."""
    answer: Dict[str, str] = {}
    shapes: Dict[Any, str] = {}
    for node, verdict in verdicts.items():
        profile = verdict.get("profile") if isinstance(verdict, Mapping) else None
        if isinstance(profile, str) and profile not in _UNKNOWN:
            answer[node] = profile
            continue
        names = [figure[0] for figure in _figures(verdict)]
        shape = tuple(sorted((name, names.count(name)) for name in set(names)))
        answer[node] = shapes.setdefault(shape, "unknown machine {0}".format(len(shapes) + 1))
    return answer


def _figures(verdict: Any) -> List[Tuple[str, float, str, bool, str]]:
    found = []
    for result in _list(verdict, "results"):
        for one in _list(result, "measured"):
            if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
                continue
            value = number(one.get("value"))
            if one.get("labels"):  # of a part that somebody made: nodes are divided for different work
                continue
            if value is None:
                continue
            better = one.get("better")
            found.append(
                (
                    one["name"],
                    value,
                    str(one.get("key") or ""),
                    one.get("counter") is True,
                    better if better in ("higher", "lower") else "",
                )
            )
    return found


def number(value: Any) -> Optional[float]:
    """None: it is no number, or none that a float can be, whatever a node has sent."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        made = float(value)
    except OverflowError:
        return None
    return made if math.isfinite(made) else None


def _list(value: Any, key: str) -> Iterable[Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, (list, tuple)) else ()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of nodes out of their verdicts, as these lie in JSON. What is not as it should be is left out. Pure."""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import Any, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ..types import PRODUCT

# What a verdict calls a machine that has no profile.
_UNKNOWN = ("", "unknown")
# NVML: NVML_DEVICE_NAME_V2_BUFFER_SIZE is 96. A node may send anything.
_PRODUCT_CHARACTERS = 96
_INDEX_DIGITS = 3


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
    """``verdicts``: by the name of the node, each as ``frozen.plain`` makes it.

    The kind of a figure is that of its node. If the GPUs of that kind have several products, those of each product are
    a kind of their own: equal work takes them different times.
    """
    products = {node: _products(verdict) for node, verdict in verdicts.items()}
    kinds = _kinds(verdicts, products)
    mixed: Dict[str, Set[str]] = {}
    for node, found in products.items():
        mixed.setdefault(kinds[node], set()).update(found.values())
    return tuple(
        Sample(node, _kind_of(kinds[node], figure[2], products[node], mixed[kinds[node]]), *figure)
        for node, verdict in verdicts.items()
        for figure in _figures(verdict)
    )


def _kind_of(kind: str, key: str, products: Mapping[str, str], all_products: Set[str]) -> str:
    """``key``: the PCI address of a GPU, or of two (``one>other``); anything else is of the node as a whole."""
    if len(all_products) < 2:
        return kind
    found = dict.fromkeys(products[one] for one in key.split(">") if one in products)
    return "{0}, {1}".format(kind, " to ".join(found)) if found else kind


def _products(verdict: Any) -> Dict[str, str]:
    """The product of each GPU, by its PCI address."""
    found = {}
    for result in _list(verdict, "results"):
        for one in _list(result, "measured"):
            if isinstance(one, Mapping) and one.get("name") == PRODUCT and isinstance(one.get("labels"), Mapping):
                product = one["labels"].get("product")
                if isinstance(product, str) and isinstance(one.get("key"), str):
                    found[one["key"]] = product[:_PRODUCT_CHARACTERS]
    return found


def labels_of(verdict: Any) -> Dict[str, str]:
    """``GPU 3 (0001:03:00.0)`` of each GPU whose number is known, by its PCI address."""
    found = {}
    for result in _list(verdict, "results"):
        for one in _list(result, "measured"):
            if isinstance(one, Mapping) and one.get("name") == PRODUCT and isinstance(one.get("labels"), Mapping):
                index, key = one["labels"].get("index"), one.get("key")
                if (
                    isinstance(index, str)
                    and index.isdecimal()
                    and len(index) <= _INDEX_DIGITS
                    and isinstance(key, str)
                ):
                    found[key] = "GPU {0} ({1})".format(index, key)
    return found


def kinds_of(verdicts: Mapping[str, Any]) -> Dict[str, str]:
    """The profile; machines without one are alike when the same was measured on as many parts of them, and their GPUs
    have the same products."""
    return _kinds(verdicts, {node: _products(verdict) for node, verdict in verdicts.items()})


def _kinds(verdicts: Mapping[str, Any], products: Mapping[str, Mapping[str, str]]) -> Dict[str, str]:
    answer: Dict[str, str] = {}
    shapes: Dict[Any, str] = {}
    for node, verdict in verdicts.items():
        profile = verdict.get("profile") if isinstance(verdict, Mapping) else None
        if isinstance(profile, str) and profile not in _UNKNOWN:
            answer[node] = profile
            continue
        names = collections.Counter(figure[0] for figure in _figures(verdict))
        shape = (tuple(sorted(names.items())), tuple(sorted(products[node].values())))
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

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that nobody reads and that look like one of ours. Pure."""

from __future__ import annotations

import difflib
from typing import Collection, Iterable

# How alike two names are, from 0 to 1: gpu_setings_clocks and gpu_settings_clocks are 0.97. Names that begin as those
# of a role such as nccl may be variables of other people, so it takes as much there.
_ALIKE = 0.88
# The same of what follows the name of the role, where that is right: what is less alike is no misspelling.
_ALIKE_REST = 0.6


def misspelt(given: Iterable[str], known: Collection[str], prefixes: Collection[str]) -> dict[str, str]:
    """The nearest known name of each that is not known; "" for one of ours that is like none.

    ``prefixes`` are the names of roles, and gpu_node.
    """
    # Only names with two words at their beginning are certainly meant for us.
    ours = tuple(prefix + "_" for prefix in prefixes if "_" in prefix)
    found: dict[str, str] = {}
    for name in given:
        if name in known or name.startswith(("_", "ansible_")):
            continue
        certain = [prefix for prefix in ours if name.startswith(prefix)]
        near = difflib.get_close_matches(name, sorted(known), 1, 0.0 if certain else _ALIKE)
        if near and (not certain or _like(name, near[0], certain[0])):
            found[name] = near[0]
        elif certain:
            found[name] = ""
    return found


def _like(name: str, near: str, prefix: str) -> bool:
    if not near.startswith(prefix):
        return difflib.SequenceMatcher(None, name, near).ratio() >= _ALIKE
    given, meant = name[len(prefix) :], near[len(prefix) :]
    return (
        given.startswith(meant)
        or meant.startswith(given)
        or difflib.SequenceMatcher(None, given, meant).ratio() >= _ALIKE_REST
    )

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that a person lets back without their proof, until a date: in section ``health`` under ``overrules``. Pure.

Said as a silence is (:mod:`.silences`): with a date, a name and a reason, and told in each verdict while it holds.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Tuple

from ..core.resource import NodeError
from . import silences
from .types import Silence

NAME = "overrules"
# What is overruled, where a silence names a finding.
_ANY = "proof"


def parse(given: Any) -> silences.Entry:
    """:raises NodeError: it lacks something, has something unknown, or its date is none."""
    if not isinstance(given, Mapping) or "finding" in given:
        remedy = "write until (2026-12-31), owner and reason for each overrule"
        raise NodeError("overrule {0!r}".format(given), "it is not a set of these fields", remedy)
    try:
        return silences.parse(dict(given, finding=_ANY))
    except NodeError as error:
        raise NodeError("overrule of health_gate", error.reason, error.remedy.replace("finding, ", "")) from error


def to_dict(one: silences.Entry) -> Mapping[str, Any]:
    return {name: value for name, value in one.to_dict().items() if name != "finding"}


def of_node(section: Mapping[str, Any], node: str) -> Tuple[Tuple[Silence, ...], Tuple[str, ...]]:
    """(those of a node by its section ``health``, what is wrong with that section)."""
    given = section.get(NAME, ())
    if not isinstance(given, (list, tuple)):
        return (), ("section health: overrules is no list; converge the node again",)
    found: List[Silence] = []
    problems: List[str] = []
    for one in given:
        try:
            entry = parse(one)
            if entry.holds_on(node):
                found.append(Silence(entry.finding, silences.ends(entry.until), entry.owner, entry.reason))
        except NodeError as error:
            problems.append(str(error))
    return tuple(found), tuple(problems)


def held(section: Mapping[str, Any], node: str, now: float) -> Optional[Silence]:
    return next((one for one in of_node(section, node)[0] if now < one.until), None)


def ended(section: Mapping[str, Any], node: str, now: float) -> Tuple[str, ...]:
    """A sentence for each overrule of this node that holds no more."""
    text = "the overrule by {1} ended on {2}, and a proof is asked for again: take it out, or give it a new date"
    return silences.ended(of_node(section, node)[0], now, text)


def lapsed(section: Mapping[str, Any], node: str, now: float) -> str:
    """Why this node owes a proof again, where it did not; "" where none has ended, or another one holds."""
    return "" if held(section, node, now) is not None else "; ".join(ended(section, node, now)[-1:])

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told and does not count: ``silences`` and ``observe`` of section ``health``. Pure.

A silence is for a known fault: somebody answers for it until a date. To observe is for a check that the site does not
act on yet: it has neither owner nor date, and ends when it is taken out.

An entry of ``silences`` names a finding (or a pattern of them), until when, who answers for it and why; ``nodes`` may
say where it holds. It ends by itself: a date is a must, and a silence that has ended is told, not kept quietly.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core import moment
from ..core.frozen import frozen, plain
from ..core.resource import NodeError
from .types import Silence

_FIELDS = ("finding", "until", "owner", "reason")
_REMEDY = "write finding, until (2026-12-31), owner and reason for each silence"


@frozen
class Entry:
    """One silence as it is declared. ``until`` is text, so that the declaration stays readable."""

    finding: str
    until: str
    owner: str
    reason: str
    nodes: Tuple[str, ...] = ()

    def holds_on(self, node: str) -> bool:
        """``node``: a host name, with its domain or without."""
        names = {node, node.split(".")[0]}
        return not self.nodes or any(fnmatch.fnmatchcase(name, one) for name in names for one in self.nodes)

    def to_dict(self) -> Dict[str, Any]:
        content: Dict[str, Any] = plain(self)
        return content


def parse(given: Any) -> Entry:
    """:raises NodeError: it lacks something, has something unknown, or would silence everything."""
    if not isinstance(given, Mapping):
        raise NodeError("silence {0!r}".format(given), "it is not a set of fields", _REMEDY)
    thing = "silence of {0!r}".format(given.get("finding", ""))
    unknown = sorted(str(name) for name in given if name not in _FIELDS + ("nodes",))
    if unknown:
        raise NodeError(thing, "it has the unknown field {0}".format(unknown[0]), _REMEDY)
    for name in _FIELDS:
        if not str(given.get(name) or "").strip():
            raise NodeError(thing, "it has no {0}".format(name), _REMEDY)
    nodes = given.get("nodes") or ()
    if isinstance(nodes, str) or not isinstance(nodes, Sequence):
        nodes = [nodes]
    finding = str(given["finding"]).strip()
    if not re.match(r"[A-Za-z0-9]", finding):
        raise NodeError(
            thing, "it would silence faults of any kind", "begin it with the id of a check, as in gpu_xid/xid_63/*"
        )
    until = str(given["until"]).strip()
    ends(until)
    return Entry(
        finding, until, str(given["owner"]).strip(), str(given["reason"]).strip(), tuple(str(one) for one in nodes)
    )


def ends(until: str) -> float:
    """Seconds since 1970. A date holds to its end, in UTC.

    :raises NodeError: it is no date.
    """
    found = moment.read(until)
    if found is not None:
        return found.seconds if found.clock else found.seconds + 86400.0
    raise NodeError(
        "silence until {0!r}".format(until), "this is no date", "write it as 2026-12-31, or 2026-12-31T18:00Z"
    )


def of_node(settings: Mapping[str, Any], node: str) -> Tuple[Tuple[Silence, ...], Tuple[str, ...]]:
    """(the silences of a node by its section ``health``, what is wrong with that section).

    An entry that cannot be read silences nothing, and takes no other with it.
    """
    given = settings.get("silences", ())
    problems: List[str] = []
    if not isinstance(given, (list, tuple)):
        return (), ("section health: silences is no list; converge the node again",)
    found: List[Silence] = []
    for one in given:
        try:
            entry = parse(one)
            if entry.holds_on(node):
                found.append(Silence(entry.finding, ends(entry.until), entry.owner, entry.reason))
        except NodeError as error:
            problems.append(str(error))
    return tuple(found), tuple(problems)


def ended(
    silences: Sequence[Silence],
    now: float,
    text: str = "the silence of {0} by {1} ended on {2}: take it out, or give it a new date",
) -> Tuple[str, ...]:
    """A sentence for each silence that holds no more."""
    if not silences:
        return ()
    return tuple(
        text.format(
            one.finding,
            one.owner,
            # The end of a day belongs to that day.
            moment.moment(one.until - 1)[:10],
        )
        for one in silences
        if one.until <= now
    )


ENFORCED = "!"  # before a pattern of ``observe``: what it means counts, whatever the others say


def observed_by(check: str, name: str, observe: Sequence[str]) -> Optional[str]:
    """The entry of ``observe`` that means a finding, by the id of its check or by its name; None: it counts."""
    for pattern in observe:
        if pattern.startswith(ENFORCED) and _means(pattern[len(ENFORCED) :], check, name):
            return None
    return next((one for one in observe if not one.startswith(ENFORCED) and _means(one, check, name)), None)


def _means(pattern: str, check: str, name: str) -> bool:
    return fnmatch.fnmatchcase(check, pattern) or fnmatch.fnmatchcase(name, pattern)


def check_of(pattern: str) -> str:
    """What an entry of ``observe`` says of the id of a check."""
    return pattern[len(ENFORCED) if pattern.startswith(ENFORCED) else 0 :].split("/", 1)[0]


def observe_of(settings: Mapping[str, Any]) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """(the entries of ``observe`` of section ``health``, what is wrong with it). What is no text observes nothing."""
    given = settings.get("observe", ())
    if not isinstance(given, (list, tuple)):
        return (), ("section health: observe is no list; converge the node again",)
    found = tuple(one for one in given if isinstance(one, str) and one)
    problems = ["section health: observe has {0!r}, which is no text".format(one) for one in given if one not in found]
    if found and all(one.startswith(ENFORCED) for one in found):
        problems.append("section health: all of observe begins with {0!r}, so no check is observed".format(ENFORCED))
    return found, tuple(problems)

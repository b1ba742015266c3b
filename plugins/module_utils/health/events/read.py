# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cloud, or a program of the site, says, as events. Pure.

What cannot be understood is passed over and told, and the answer is not whole then: that an event is missing from such
an answer proves nothing.
"""

from __future__ import annotations

import calendar
import json
import math
import re
import time
from email.utils import mktime_tz, parsedate_tz
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...core.resource import NodeError, printable
from .types import OTHER, TYPES, Answer, Event

#: A machine has one or two at a time; a scale set may show those of all its machines.
MOST_EVENTS = 1000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}\Z")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}\Z")
_TEXT = 200
_REMEDY = "see what it answers: docs/cloud_events.md has the form"


def azure(body: bytes, place: str) -> Answer:
    """:raises NodeError: this is no document of Scheduled Events."""
    content = _json(body, place)
    if not isinstance(content, dict) or not isinstance(content.get("Events"), list):
        raise NodeError(place, "it answered without a list of events", "ask it again")
    incarnation = content.get("DocumentIncarnation")
    known = isinstance(incarnation, int) and not isinstance(incarnation, bool)
    return _answer(content["Events"], _of_azure, incarnation if known else None)


def program(output: bytes, name: str) -> Answer:
    """Of a program of the site: a JSON list of events, or ``{"events": [...]}``.

    :raises NodeError: it printed something else.
    """
    content = _json(output, name)
    if isinstance(content, dict):
        content = content.get("events")
    if not isinstance(content, list):
        raise NodeError(name, "it printed no list of events", _REMEDY)
    return _answer(content, _of_program, None)


def _json(text: bytes, place: str) -> Any:
    try:
        return json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise NodeError(place, "it answered with something that is not JSON", "ask it again") from error


def _answer(entries: List[Any], reads: Any, incarnation: Optional[int]) -> Answer:
    events: Dict[str, Event] = {}
    notes: List[str] = []
    for entry in entries[:MOST_EVENTS]:
        try:
            event = reads(entry)
        except (ValueError, TypeError, OverflowError) as error:
            told = printable(str(entry.get("EventId", entry.get("id")) if isinstance(entry, dict) else entry))[:64]
            notes.append("event {0}: it was passed over ({1})".format(told, error))
            continue
        # Twice the same: the worse of the two counts.
        other = events.get(event.id)
        if other is None or (event.started, event.rank) > (other.started, other.rank):
            events[event.id] = event
    if len(entries) > MOST_EVENTS:
        notes.append("{0} events: those behind the first {1} were passed over".format(len(entries), MOST_EVENTS))
    return Answer(tuple(events.values()), not notes, tuple(notes[:5]), incarnation)


def _of_azure(entry: Any) -> Event:
    given = _mapping(entry)
    status = given.get("EventStatus")
    if status not in ("Scheduled", "Started"):
        raise ValueError("its EventStatus is {0}".format(_told(status)))
    word = _word(given.get("EventType"))
    return Event(
        id=_id(given.get("EventId")),
        type=_type(word),
        word=word,
        started=status == "Started",
        not_before=_rfc_date(given.get("NotBefore")),
        resources=_names(given.get("Resources")),
        description=_text(given.get("Description")),
        source=_text(given.get("EventSource")),
        duration_seconds=_duration(given.get("DurationInSeconds")),
    )


def _of_program(entry: Any) -> Event:
    given = _mapping(entry)
    status = given.get("status", "scheduled")
    if status not in ("scheduled", "started"):
        raise ValueError("its status is {0}".format(_told(status)))
    word = _word(given.get("type"))
    return Event(
        id=_id(given.get("id")),
        type=_type(word),
        word=word,
        started=status == "started",
        not_before=_moment(given.get("not_before")),
        resources=_names(given.get("resources", [])),
        description=_text(given.get("description")),
        source=_text(given.get("source")),
        duration_seconds=_duration(given.get("duration_seconds")),
    )


def _mapping(entry: Any) -> Mapping[str, Any]:
    if not isinstance(entry, dict):
        raise ValueError("it is no mapping")
    return entry


def _told(value: Any) -> str:
    return printable(repr(value))[:40]


def _id(value: Any) -> str:
    if not isinstance(value, str) or not _ID.match(value):
        raise ValueError("it has no usable id")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str) or not _WORD.match(value):
        raise ValueError("its type is {0}".format(_told(value)))
    return value


def _type(word: str) -> str:
    return word.lower() if word.lower() in TYPES else OTHER


def _names(value: Any) -> Tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("what it is for is no list of names")
    return tuple(printable(one)[:_TEXT] for one in value)


def _text(value: Any) -> str:
    return printable(" ".join(value.split()))[:_TEXT] if isinstance(value, str) else ""


def _duration(value: Any) -> Optional[int]:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9
    return value if known else None


def _rfc_date(value: Any) -> Optional[float]:
    """``Mon, 19 Sep 2016 18:29:47 GMT``; blank for an event that has started."""
    if value is None or value == "":
        return None
    found = parsedate_tz(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("its NotBefore is {0}".format(_told(value)))
    return float(mktime_tz(found))


def _moment(value: Any) -> Optional[float]:
    """Seconds since 1970, or ``2026-12-31T18:00:00Z``."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if isinstance(value, str):
        return float(calendar.timegm(time.strptime(value, "%Y-%m-%dT%H:%M:%SZ")))
    raise ValueError("its not_before is {0}".format(_told(value)))

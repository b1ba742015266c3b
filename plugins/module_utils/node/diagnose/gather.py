# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect all parts: each in a child process under its time limit, lanes side by side; none takes another down."""

from __future__ import annotations

import functools
import json
import os
import select
import time
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ...core import artefact, declaration, options, registry
from ...core.child import Child, Report
from ...core.host import Host
from ...core.secrets import of_arguments
from . import read
from .secrets import secret_name, secrets_of
from .types import FAILED, Collected, Context, Part

# Of a part: its status, text, reason, bytes left out, secrets hidden.
_Item = Tuple[str, str, str, int, int]
# For the filter, beside the time of the part.
_CLEAN_SECONDS = 40.0
_LAST = "the time limit of the whole was used up before its turn"


def gather(
    host: Host, parts: Sequence[Part], context: Context, seconds: float, tell: Optional[Callable[[str], None]] = None
) -> Tuple[Collected, ...]:
    """What came of each part, in their order. ``seconds``: the limit of all of it. ``tell`` hears what is begun."""
    deadline = time.monotonic() + seconds
    known = _known(host)
    lanes: Dict[str, List[Part]] = {}
    for part in parts:
        lanes.setdefault(part.lane, []).append(part)
    found: Dict[str, Collected] = {}
    running: List[_Running] = []
    try:
        while True:
            for name in [name for name, left in lanes.items() if left and not any(one.lane == name for one in running)]:
                part = lanes[name].pop(0)
                if tell is not None:
                    tell(part.name)
                running.append(_Running(host, part, context, known))
            if not running:
                break
            left = deadline - time.monotonic()
            if left <= 0:
                break
            select.select(
                [one.child for one in running], [], [], min([left, *(one.child.glance_seconds for one in running)])
            )
            for one in [one for one in running if one.child.look()]:
                found[one.part.name] = one.outcome()
                running.remove(one)
                one.child.close()
    finally:
        for one in running:
            one.child.close()
    return tuple(found.get(part.name) or Collected(part, FAILED, reason=_LAST) for part in parts)


class _Running:
    def __init__(self, host: Host, part: Part, context: Context, known: Tuple[str, ...]) -> None:
        self.part, self.lane = part, part.lane
        self._began = time.monotonic()
        task = functools.partial(_task, host=host, part=part, context=context, known=known)
        self.child: Child[_Item] = Child(task, part.seconds + _CLEAN_SECONDS, part.name)

    def outcome(self) -> Collected:
        seconds = time.monotonic() - self._began
        if self.child.items:
            return Collected(self.part, *self.child.items[0], seconds)
        if self.child.hung_at is not None:
            reason = "it did not end within {0:g} s; look at the kernel log for the device that it reads"
            return Collected(self.part, FAILED, reason=reason.format(self.part.seconds), seconds=seconds)
        reason = "its process died; look for an out-of-memory kill in the kernel log"
        return Collected(self.part, FAILED, reason=reason, seconds=seconds)


def _task(report: Report, host: Host, part: Part, context: Context, known: Tuple[str, ...]) -> Iterator[_Item]:
    report(part.name, part.seconds)
    one = read.collect(host, part, context, known)
    yield one.status, one.text, one.reason, one.cut_bytes, one.hidden


def _known(host: Host) -> Tuple[str, ...]:
    """Secrets of this node: a log may repeat what stands in its declaration, or in the environment of who asks."""
    found: List[str] = []
    names = {name for one in registry.NAMES for name in options.private(registry.resource(one).options)}
    for path in (declaration.PATH, declaration.PRIVATE, declaration.WISH):
        try:
            content = json.loads(host.read(path) or "{}")
        except (ValueError, RecursionError):
            continue
        found += secrets_of(content)
        found += [one for argv in _commands(content, names) for one in of_arguments(argv)]
        found += artefact.secrets(one for one in _texts(content) if "://" in one)
    found += [value for name, value in os.environ.items() if secret_name(name) and not value.startswith("/")]
    return tuple(dict.fromkeys(found))


def _commands(value: object, names: Set[str]) -> Iterator[List[str]]:
    """The private commands of a declaration."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in names and isinstance(inner, list):
                yield [str(one) for one in inner]
            else:
                yield from _commands(inner, names)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variables of a host can make a difference to a resource. Pure.

Hosts with the same ones get the same verdict, so templates are filled in once for all of them: it is most of the time
that a check of a thousand hosts takes.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Hashable, Iterable, Mapping

_WORD = re.compile(r"[A-Za-z_]\w*")
# Lookups that are the same for all hosts whose templates give them the same.
_OF_CONTROLLER = re.compile(r"\b(?:lookup|query|q)\(\s*(['\"])(?:ansible\.builtin\.)?(?:env|file|fileglob)\1")
# What reads variables whose names cannot be seen in the template, or is another thing each time.
_ANYTHING = frozenset({"hostvars", "lookup", "now", "q", "query", "vars"})


def read(names: Collection[str], variables: Mapping[str, Any]) -> Hashable | None:
    """The variables ``names`` and those in their templates, with their values. None: a template may read anything, so
    that it must be filled in for each host."""
    todo = set(names)
    seen: set[str] = set()
    while todo:
        if todo & _ANYTHING:
            return None
        seen |= todo
        todo = {word for name in todo for word in _words(variables.get(name))} - seen
    return tuple((name, repr(variables[name])) for name in sorted(seen & set(variables)))


def _words(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return _WORD.findall(_OF_CONTROLLER.sub("", value)) if "{{" in value or "{%" in value else ()
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return {word for one in inner for word in _words(one)}

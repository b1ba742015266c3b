# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""As much of CEL (cel-spec, langdef.md) as the policies for NVSentinel use, and an error for all else.

Operators by precedence: ``||``, ``&&``, relations and ``in``, ``-``, ``!``; strings, ``true`` and ``false``, fields and
indexes; the macros ``has`` and ``exists``; ``timestamp`` and ``duration``. A field that is not there is an error, as in
CEL, unless ``||`` or ``&&`` is decided by its other side.
"""

from __future__ import annotations

import datetime
import operator
import re
from typing import Any, Callable, Dict, List, Mapping, Tuple

TOKEN = re.compile(r"""\s*(?:("[^"]*"|'[^']*')|([A-Za-z_]\w*)|(\|\||&&|==|!=|>=|<=|[!()\[\].,<>-])|$)""")
RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "in": lambda left, right: left in right,
}
UNITS = {"h": "hours", "m": "minutes", "s": "seconds"}
Scope = Dict[str, Any]
Node = Callable[[Scope], Any]


class CelError(Exception):
    """The expression cannot be read, or what it says cannot be told of this object."""


def evaluate(text: str, **scope: Any) -> Any:
    parser = _Parser(_tokens(text))
    node = parser.either()
    if parser.left:
        raise CelError("left: {0}".format(parser.left))
    return node(scope)


def _tokens(text: str) -> List[Tuple[str, str]]:
    found, at = [], 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None or match.end() == at:
            raise CelError("no token: {0!r}".format(text[at : at + 20]))
        string, name, sign = match.groups()
        found.append(("string", string[1:-1]) if string is not None else ("name", name) if name else ("sign", sign))
        at = match.end()
    return found


def _field(thing: Any, name: str) -> Any:
    if not isinstance(thing, dict) or name not in thing:
        raise CelError("no such key: " + name)
    return thing[name]


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError("no boolean: {0!r}".format(value))
    return value


def _logic(left: Node, right: Node, decided: bool) -> Node:
    """``||`` and ``&&``: commutative with regard to errors."""

    def node(scope: Scope) -> bool:
        try:
            first = _boolean(left(scope))
        except CelError:
            if _boolean(right(scope)) is decided:
                return decided
            raise
        return decided if first is decided else _boolean(right(scope))

    return node


class _Parser:
    def __init__(self, tokens: List[Tuple[str, str]]) -> None:
        self.left = tokens

    def take(self, *wanted: str) -> bool:
        if self.left and self.left[0][0] != "string" and self.left[0][1] in wanted:
            self.left.pop(0)
            return True
        return False

    def need(self, wanted: str) -> None:
        if not self.take(wanted):
            raise CelError("{0} is missing before {1}".format(wanted, self.left[:3]))

    def name(self) -> str:
        kind, text = self.left.pop(0) if self.left else ("", "")
        if kind != "name":
            raise CelError("no name: {0!r}".format(text))
        return text

    def either(self) -> Node:
        node = self.both()
        while self.take("||"):
            node = _logic(node, self.both(), True)
        return node

    def both(self) -> Node:
        node = self.relation()
        while self.take("&&"):
            node = _logic(node, self.relation(), False)
        return node

    def relation(self) -> Node:
        left = self.difference()
        for sign, rule in RELATIONS.items():
            if self.take(sign):
                right = self.difference()
                return lambda scope: rule(left(scope), right(scope))
        return left

    def difference(self) -> Node:
        left = self.unary()
        if self.take("-"):
            right = self.unary()
            return lambda scope: left(scope) - right(scope)
        return left

    def unary(self) -> Node:
        if self.take("!"):
            inner = self.unary()
            return lambda scope: not _boolean(inner(scope))
        return self.member()

    def member(self) -> Node:
        node = self.primary()
        while True:
            if self.take("."):
                name = self.name()
                node = self.exists(node) if name == "exists" and self.take("(") else _select(node, name)
            elif self.take("["):
                node = _index(node, self.either())
                self.need("]")
            else:
                return node

    def exists(self, things: Node) -> Node:
        name = self.name()
        self.need(",")
        predicate = self.either()
        self.need(")")

        def node(scope: Scope) -> bool:
            error = None
            for one in things(scope):
                try:
                    if _boolean(predicate(dict(scope, **{name: one}))):
                        return True
                except CelError as raised:
                    error = raised
            if error is not None:
                raise error
            return False

        return node

    def primary(self) -> Node:
        if self.take("("):
            node = self.either()
            self.need(")")
            return node
        if not self.left:
            raise CelError("the expression ends too early")
        kind, text = self.left.pop(0)
        if kind == "string":
            return lambda scope: text
        if kind != "name":
            raise CelError("unknown: " + text)
        if text in ("true", "false"):
            return lambda scope: text == "true"
        if not self.take("("):
            return lambda scope: _field(scope, text)
        argument = self.either()
        self.need(")")
        if text == "has":
            return lambda scope: _has(argument, scope)
        if text == "timestamp":
            return lambda scope: datetime.datetime.fromisoformat(argument(scope).replace("Z", "+00:00"))
        if text == "duration":
            return lambda scope: _duration(argument(scope))
        raise CelError("no function " + text)


def _select(node: Node, name: str) -> Node:
    return lambda scope: _field(node(scope), name)


def _index(node: Node, key: Node) -> Node:
    return lambda scope: _field(node(scope), key(scope))


def _has(argument: Node, scope: Scope) -> bool:
    try:
        argument(scope)
    except CelError:
        return False
    return True


def _duration(text: str) -> datetime.timedelta:
    parts = re.findall(r"(\d+)([hms])", text)
    if "".join(number + unit for number, unit in parts) != text or not text:
        raise CelError("no duration: " + text)
    return datetime.timedelta(**{UNITS[unit]: int(number) for number, unit in parts})

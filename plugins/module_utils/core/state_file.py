# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only reader and writer of state files: what this collection writes on a node and reads back.

A state file is a JSON object. Its key ``schema`` has the name and the number of its form, as in
``trainyard.gpu_node/journal/1``; files of releases before that key count as number 1. It is a regular file that only
root, or the user who reads it, can write to, and it has a limit in size. Anything else is damaged, and so is a file of
a newer release: the reader gets no content but a reason, and decides what that means. Nothing overwrites a damaged
file: it is moved to ``NAME.damaged`` first.

The annotations of a frozen class are its schema (:func:`document`). A new field is optional when it is read, so it
needs no new number; a new number is for a file that an older release would misunderstand.
"""

from __future__ import annotations

import enum
import functools
import json
import math
import os
import sys
import types
import typing
from typing import Any, Callable, Dict, Generic, Iterable, Mapping, Optional, Tuple, Type, TypeVar, Union

from . import safe_files
from .frozen import plain
from .host import Host, not_written
from .resource import NodeError

SCHEMA = "schema"
_PREFIX = "trainyard.gpu_node/"
# Longer integers take seconds to parse, and none is meant.
_DIGITS = 20
_PLAIN = {"str": str, "int": int, "float": float, "bool": bool}
# What the parser of a damaged file raises.
_INVALID = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
Content = TypeVar("Content")


class StateFile(Generic[Content]):
    """``path`` may have places for what :meth:`at` gets, such as the number of a job. ``parse``: the content of the
    JSON object, without its schema. ``private``: it is damaged if another user than root can write to it."""

    def __init__(
        self,
        name: str,
        path: str,
        parse: Callable[[Dict[str, Any]], Content],
        number: int = 1,
        mode: int = 0o600,
        most_bytes: int = safe_files.MOST_BYTES,
        private: bool = True,
    ) -> None:
        self.name, self.path, self.number, self.mode, self.most_bytes = name, path, number, mode, most_bytes
        self._parse, self._private = parse, private

    def at(self, *where: object) -> str:
        return self.path.format(*where)

    def read(self, host: Host, *where: object) -> Tuple[Optional[Content], str]:
        """(content, why it is damaged); (None, ""): the file does not exist."""
        text, damage = safe_files.load(host.path(self.at(*where)), self.most_bytes, private=self._private)
        return (None, damage) if text is None else self.parse(text)

    def parse(self, text: str) -> Tuple[Optional[Content], str]:
        """(content, why it is damaged) of the text of such a file, on this node or another. Pure."""
        try:
            content = json.loads(text, parse_int=_integer)
            damage = self._foreign(content)
            return (None, damage) if damage else (self._parse(content), "")
        except _INVALID:
            return None, "its content is invalid"

    def _foreign(self, content: Dict[str, Any]) -> str:
        ours = "{0}{1}/".format(_PREFIX, self.name)
        if SCHEMA in content:
            schema = _exactly(str, content.pop(SCHEMA))
            if not schema.startswith(ours):
                return "it is a file of another kind"
            number = _integer(schema[len(ours) :])
        else:
            version = content.get("version")
            number = content.pop("version") if isinstance(version, int) and not isinstance(version, bool) else 1
        if number > self.number:
            return "a newer release wrote it"
        return "" if number == self.number else "its content is invalid"

    def recover(self, host: Host, *where: object) -> Tuple[Optional[Content], str]:
        """(content, a sentence about a damaged file), for a caller that writes it: a damaged file is kept aside."""
        found, damage = self.read(host, *where)
        return found, safe_files.set_aside(host.path(self.at(*where)), self.at(*where), damage) if damage else ""

    def text(self, content: Any) -> str:
        """Pure. ``content``: a frozen object or a mapping.

        :raises NodeError: nobody could read it again.
        """
        path = self.path
        try:
            document = dict(plain(content), **{SCHEMA: "{0}{1}/{2}".format(_PREFIX, self.name, self.number)})
            found = json.dumps(document, sort_keys=True, allow_nan=False) + "\n"
        except ValueError as error:
            raise NodeError(path, "its new content is invalid ({0})".format(error), "report this as a bug") from error
        if len(found) > self.most_bytes:
            raise NodeError(path, "it would be larger than {0} bytes".format(self.most_bytes), "report this as a bug")
        return found

    def write(self, host: Host, content: Any, *where: object) -> str:
        """Replace the file in one step: readers see the content before or this one, also after a power cut. Returns the
        sentence about a damaged file that was in its place; "": there was none.

        :raises NodeError: it cannot be written.
        """
        path = self.at(*where)
        text = self.text(content)
        note = self.recover(host, *where)[1]
        try:
            os.makedirs(os.path.dirname(host.path(path)), exist_ok=True)
            safe_files.replace(host.path(path), text, self.mode)
        except OSError as error:
            raise not_written(path, error) from error
        return note

    def remove(self, host: Host, *where: object) -> None:
        """With the damaged one, and with the directory if nothing else is in it.

        :raises NodeError: it cannot be removed.
        """
        path = self.at(*where)
        host.remove(path + safe_files.DAMAGED)
        host.remove(path, folder_too=True)


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError("too many digits")
    return int(text)


def document(kind: Type[Content], content: Dict[str, Any], optional: Iterable[str] = ()) -> Content:
    """The content of a file as an object of this frozen class. ``optional``: the fields that older files lack.

    :raises ValueError: another field is missing, or one is of another type.
    """
    shape: Any = kind
    missing = set(_fields(shape)) - set(content) - set(optional)
    if missing:
        raise ValueError("without {0}".format(", ".join(sorted(missing))))
    return typing.cast(Content, reader(shape)(content))


@functools.lru_cache(maxsize=None)
def reader(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of this type of a value of JSON, and raises an error for a value of another type."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is float:
        return _float
    if kind in (str, int, bool):
        return functools.partial(_exactly, kind)
    if origin is Union:
        return functools.partial(_optional, reader(inner[0]))
    if origin is tuple and inner[-1] is Ellipsis:
        return functools.partial(_items, reader(inner[0]))
    if origin is tuple:
        return functools.partial(_row, tuple(map(reader, inner)))
    if origin is dict:
        return functools.partial(_named, reader(inner[1]))
    if issubclass(kind, enum.Enum):
        return typing.cast("Callable[[Any], Any]", kind)
    return functools.partial(_object, kind, _fields(kind))


@functools.lru_cache(maxsize=None)
def _fields(kind: Any) -> Mapping[str, Callable[[Any], Any]]:
    # Most types are plain, and typing takes three times as long for these.
    plain_types = {name: _PLAIN.get(text) for name, text in kind.__annotations__.items()}
    others = {name: text for name, text in kind.__annotations__.items() if plain_types[name] is None}
    holder = types.SimpleNamespace(__annotations__=others)
    hints = typing.get_type_hints(holder, vars(sys.modules[kind.__module__]))
    return {name: reader(one or hints[name]) for name, one in plain_types.items()}


def _exactly(kind: type, value: Any) -> Any:
    # bool is an int to Python.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError("not of type {0}".format(kind.__name__))
    return value


def _float(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError("no number")
    return float(value)


def _optional(read: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else read(value)


def _items(read: Callable[[Any], Any], value: Any) -> Tuple[Any, ...]:
    return tuple(read(one) for one in _exactly(list, value))


def _row(readers: Tuple[Callable[[Any], Any], ...], value: Any) -> Tuple[Any, ...]:
    if len(_exactly(list, value)) != len(readers):
        raise ValueError("not {0} values".format(len(readers)))
    return tuple(read(one) for read, one in zip(readers, value))


def _named(read: Callable[[Any], Any], value: Any) -> Dict[str, Any]:
    return {name: read(one) for name, one in _exactly(dict, value).items()}


def _object(kind: Type[Content], fields: Mapping[str, Callable[[Any], Any]], value: Any) -> Content:
    _exactly(dict, value)
    return kind(**{name: read(value[name]) for name, read in fields.items() if name in value})

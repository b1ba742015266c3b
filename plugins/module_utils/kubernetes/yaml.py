# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain values as YAML, for files that people read and kubectl and helm take. Pure."""

from __future__ import annotations

import json
from typing import Any, List, Mapping

_NO_TEXT = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")


def dump(content: Mapping[str, Any]) -> str:
    """Mappings, lists, texts, numbers and switches; a text of several lines is a block."""
    return "\n".join(_mapping(content, "")) + "\n"


def _mapping(content: Mapping[str, Any], indent: str) -> List[str]:
    lines: List[str] = []
    for key, value in content.items():
        lines += _entry(indent + _key(str(key)) + ":", value, indent)
    return lines


def _entry(head: str, value: Any, indent: str) -> List[str]:
    if isinstance(value, Mapping) and value:
        return [head, *_mapping(value, indent + "  ")]
    if isinstance(value, (list, tuple)) and value:
        return [head, *(line for one in value for line in _item(one, indent + "  "))]
    # A block whose first line is indented would be read as one that is indented deeper.
    if isinstance(value, str) and value.endswith("\n") and not value.endswith("\n\n") and value[0] not in " \n":
        return [head + " |", *(indent + "  " + line if line else "" for line in value[:-1].split("\n"))]
    return ["{0} {1}".format(head, json.dumps(value))]


def _item(value: Any, indent: str) -> List[str]:
    if isinstance(value, Mapping) and value:
        first, *rest = _mapping(value, indent + "  ")
        return [indent + "- " + first[len(indent) + 2 :], *rest]
    return ["{0}- {1}".format(indent, json.dumps(value))]


def _key(key: str) -> str:
    """A name such as 4 or true would be no text."""
    plain = key[:1].isalpha() and key.lower() not in _NO_TEXT and not set(key) - _LETTERS
    return key if plain else json.dumps(key)


_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./")

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a play as options want them: words of a command line and of templates become numbers, booleans and lists.
What cannot become one stays as it is, for the check of the options to tell; so does a number where a text is wanted,
which YAML may have made of one. Pure."""

from __future__ import annotations

import datetime
import re
from typing import Any, Callable, Mapping

from ansible.module_utils.common import validation

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import Option, described

_KINDS: Mapping[str, Callable[[Any], Any]] = {
    "bool": validation.check_type_bool,
    "int": validation.check_type_int,
    "float": validation.check_type_float,
    "dict": validation.check_type_dict,
    "list": validation.check_type_list,
    "path": validation.check_type_path,
}
_YAML = " (YAML makes numbers of 0777, 2:00:00 and 2.10)"


def converted(known: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(known[name], value) if name in known else value for name, value in given.items()}


def _value(one: Option, value: Any) -> Any:
    value = _of_kind(one.kind, value)
    inner = None if one.inner is None else described(one.inner)
    if one.kind == "list" and isinstance(value, (list, tuple)):
        value = [_of_kind(one.elements, entry) for entry in value]
        return value if inner is None else [_inner(inner, entry) for entry in value]
    return value if inner is None else _inner(inner, value)


def _inner(known: Mapping[str, Option], value: Any) -> Any:
    return converted(known, value) if isinstance(value, Mapping) else value


def _of_kind(kind: str, value: Any) -> Any:
    if kind in ("str", "path") and isinstance(value, datetime.date):
        return str(value)  # YAML makes dates of 2026-12-31 and of a time
    convert = _KINDS.get(kind)
    if convert is None or (kind in ("dict", "list", "path") and not isinstance(value, str)):
        return value
    try:
        return convert(value)
    except (TypeError, ValueError):
        return value


def from_yaml(text: str) -> str:
    """An error about values that came through YAML, with what that makes numbers of."""
    return re.sub(r"(?<=it is the number )(\S+ and no text)(?=;)", r"\1" + _YAML, text)

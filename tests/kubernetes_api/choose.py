# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which objects a list has: field selectors and label selectors, and pages by ``limit`` and ``continue``. Pure.

A server indexes few fields (pkg/registry, ToSelectableFields) and refuses all others, and so it is here.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

Object = Dict[str, Any]
Query = Mapping[str, List[str]]
_POD_FIELDS = ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName")
_POD_FIELDS += ("status.phase", "status.podIP", "status.nominatedNodeName")
_FIELDS = {"nodes": ("spec.unschedulable",), "pods": _POD_FIELDS, "namespaces": ("status.phase",)}
_FIELDS["resourceslices"] = ("spec.nodeName", "spec.driver")
_KEY = r"(?:[-a-z0-9.]+/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL = re.compile(
    r"(?P<no>!?)(?P<key>{0})(?:\s*(?P<sign>==|=|!=)\s*(?P<value>[-A-Za-z0-9_.]*)"
    r"|\s+(?P<word>in|notin)\s+\((?P<values>[^()]*)\))?".format(_KEY)
)


class Wrong(ValueError):
    """What a server answers with 400, in its words."""


def chosen(items: Sequence[Object], plural: str, query: Query) -> List[Object]:
    """:raises Wrong: a selector cannot be."""
    fields = [word for word in query.get("fieldSelector", [""])[0].split(",") if word]
    labels = re.split(r",(?![^(]*\))", query.get("labelSelector", [""])[0])

    def has(one: Object) -> bool:
        return all(
            [_has_field(one, word, plural) for word in fields] + [_has_label(one, word) for word in labels if word]
        )

    has({"metadata": {}})  # a selector that cannot be is refused where there is no object, too
    return [one for one in items if has(one)]


def _has_field(one: Object, word: str, plural: str) -> bool:
    match = re.fullmatch(r"([\w.]+)(!=|==?)(.*)", word)
    if match is None:
        raise Wrong("invalid selector: '{0}'; can't understand '{0}'".format(word))
    if match.group(1) not in ("metadata.name", "metadata.namespace", *_FIELDS.get(plural, ())):
        raise Wrong("field label not supported: " + match.group(1))
    value: Any = one
    for part in match.group(1).split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    if match.group(1) == "spec.unschedulable":
        value = "true" if value else "false"
    return bool((value == match.group(3)) == (match.group(2) != "!="))


def _has_label(one: Object, word: str) -> bool:
    match = _LABEL.fullmatch(word.strip())
    if match is None:
        raise Wrong("unable to parse requirement: " + word)
    labels = one["metadata"].get("labels") or {}
    there, value = match.group("key") in labels, labels.get(match.group("key"))
    if match.group("sign"):
        return bool((value == match.group("value")) == (match.group("sign") != "!="))
    if match.group("word"):
        values = [part.strip() for part in match.group("values").split(",")]
        return bool((value in values) == (match.group("word") == "in"))
    return there != bool(match.group("no"))


def page(items: List[Object], query: Query) -> Tuple[List[Object], Object]:
    """The items of this page, and what the metadata of the list have of the next one.

    :raises Wrong: the token is none of ours.
    """
    try:
        first = int(base64.urlsafe_b64decode(query.get("continue", ["MA=="])[0].encode()))
    except (ValueError, binascii.Error):
        told = "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"
        raise Wrong(told) from None
    last = first + (int(query.get("limit", ["0"])[0]) or len(items))
    if last >= len(items):
        return items[first:], {}
    more: Object = {"continue": base64.urlsafe_b64encode(str(last).encode()).decode()}
    if not query.get("fieldSelector") and not query.get("labelSelector"):
        more["remainingItemCount"] = len(items) - last
    return items[first:last], more

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of measured figures where a profile names none, each with its source; those of a profile win.

The name of a figure ends with its unit. ``warn``: look at it. ``fail``: the node must not take a job.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from ..core.resource import NodeError
from .types import Threshold

PROFILE = "the profile of this machine"
SETTINGS = "the settings of this node"
_REMEDY = "give health_gate limits as profiles have them (option thresholds), then converge the node"


def merged(
    defaults: Mapping[str, Threshold], profile: Mapping[str, Any], settings: Mapping[str, Any]
) -> Dict[str, Threshold]:
    """The limits that hold on a node: those of ``settings`` over those of its profile over the defaults.

    ``profile`` and ``settings`` have a mapping ``thresholds`` in the form that ``profile.schema`` checks.
    """
    answer = dict(defaults)
    for source, content in ((PROFILE, profile), (SETTINGS, settings)):
        for name, given in content.get("thresholds", {}).items():
            answer[name] = Threshold(given["better"], given.get("warn"), given.get("fail"), source)
    return answer


def declared(given: Any) -> None:
    """Of limits before they are declared, where a person reads the answer.

    :raises NodeError: they are no limits, or no check measures a figure of that name.
    """
    from .data import limit_names  # for the one who declares, and not for each check

    check(given)
    known = limit_names.names()
    for name in given:
        if name not in known:
            remedy = (
                limit_names.instead(name, known) + "; docs/health_checks.md and docs/health_active.md have the names"
            )
            raise NodeError("threshold {0}".format(name), "no check measures a figure of this name", remedy)


def usable(given: Any) -> Tuple[Mapping[str, Any], List[NodeError]]:
    """The limits that can be used, and what is wrong with the others: a node does not lose its verdict for them."""
    if not isinstance(given, Mapping):
        try:
            check(given)
        except NodeError as error:
            return {}, [error]
    kept, wrong = {}, []
    for name, limits in given.items():
        try:
            check({name: limits})
        except NodeError as error:
            wrong.append(error)
        else:
            kept[name] = limits
    return kept, wrong


def check(given: Any) -> None:
    """:raises NodeError: these settings are no limits."""
    if not isinstance(given, Mapping):
        raise NodeError("setting thresholds of section health", "{0!r} is no set of limits".format(given), _REMEDY)
    for name, limits in given.items():
        thing = "threshold {0}".format(name)
        if not isinstance(limits, Mapping) or set(limits) - {"better", "warn", "fail"}:
            raise NodeError(thing, "it has not the fields better, warn and fail", "write it as profiles do")
        if limits.get("better") not in ("higher", "lower"):
            raise NodeError(thing, "it does not say which side is good", "give better: higher or better: lower")
        values = [limits.get(key) for key in ("warn", "fail")]
        if any(isinstance(one, bool) or not isinstance(one, (int, float, type(None))) for one in values):
            raise NodeError(thing, "warn or fail is no number", "give numbers in the unit that its name ends with")
        warn, fail = values
        if warn is not None and fail is not None and (warn < fail) == (limits["better"] == "higher") and warn != fail:
            raise NodeError(thing, "fail is reached before warn", "let the limit of fail be the worse one")

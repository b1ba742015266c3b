# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which verdicts of nodes a controller believes. A node that contradicts itself is not healthy, whatever it says.
Pure."""

from __future__ import annotations

import time
from typing import Any, Iterable, Mapping

from ansible_collections.trainyard.gpu_node.plugins.module_utils import health
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    Certainty,
    Cost,
    Outcome,
    Remedy,
    worst,
)

from .node_answer import TRANSFER_NEEDED, Untrusted, plain

_CHARACTERS_MAX = 4 * 1024 * 1024
_VALUES_MAX = 100_000
# A clock in the wrong time zone differs by less.
_AHEAD_SECONDS = 86400.0
# The largest time that a program can show as a date: the end of the year 9999.
_LATEST = 253402300799.0
# A sum of squares of such numbers is still a finite one.
_NUMBER_MAX = 1e100
_LEVELS = [one.value for one in (Cost.QUICK, Cost.PASSIVE, Cost.ACTIVE)]
_KINDS = {"outcome": Outcome, "action": Remedy, "certainty": Certainty, "level": Cost}


def checked(verdict: Any, now: float | None = None) -> dict[str, Any]:
    """The verdict as plain data. Keys that an older or newer version does not have may be absent or more.

    ``now``: of the controller, in seconds since 1970.

    :raises Untrusted: it has another form, impossible values, or an outcome that its findings contradict.
    """
    found: dict[str, Any] = plain(_typed("the verdict", verdict, dict), _CHARACTERS_MAX, _VALUES_MAX)
    when = _moment("the time of the verdict", found.get("time"))
    if now is not None and when > now + _AHEAD_SECONDS:
        raise Untrusted("the time of the verdict, {0}, is in the future".format(_date(when)))
    _texts("the verdict", found, ("node", "profile"))
    _kind("the verdict", found, "level", Cost.PASSIVE.value)
    for check, reason in _typed("not_applicable", found.get("not_applicable", {}), dict).items():
        _typed("not_applicable of " + check, reason, str)
    outcomes = []
    seen = set()
    for result in _mappings("results", found.get("results")):
        check = _typed("the id of a result", result.get("id"), str)
        if check in seen:
            raise Untrusted("it has two results of check {0:.60}".format(check))
        seen.add(check)
        outcomes.append(_result("check {0:.60}".format(check), result))
    _agree("the verdict", found, worst(tuple(outcomes)) if outcomes else Outcome.UNKNOWN)
    for name in ("silenced", "observed"):
        for one in _mappings(name, found.get(name, [])):
            _texts(name, one, ("check", "pattern"))
            _finding(name, one.get("finding"))
            silence = _typed("silence in " + name, one.get("silence", {}), dict)
            _texts(name, silence, ("finding", "owner", "reason"))
            _moment("until in " + name, silence.get("until", 0))
    return found


def of_answer(module: str, answer: Mapping[str, Any], asked: Mapping[str, Any], now: float) -> None:
    """Check the verdict in the answer of a module, if it has to have one. ``asked``: the arguments of the module.

    :raises Untrusted: it is not believable, or the rest of the answer contradicts it.
    """
    part = answer.get("health") if module == "node" else answer
    if module not in ("node", "health_check") or not isinstance(part, Mapping):
        return
    if "verdict" not in part:
        if module == "health_check" and not answer.get("failed") and not answer.get(TRANSFER_NEEDED):
            raise Untrusted("it has no verdict")
        return
    verdict = checked(part["verdict"], now)
    outcome = Outcome(verdict["outcome"])
    if part.get("outcome") != outcome.value:
        raise Untrusted("its outcome differs from the outcome of its verdict, {0}".format(outcome.value))
    level, wanted = _level(verdict), _level(asked)
    # An honest node may fail before it comes to the checks of the level.
    if module == "health_check" and not answer.get("failed") and _LEVELS.index(level) < _LEVELS.index(wanted):
        raise Untrusted("its verdict is of the level {0}, and {1} was asked for".format(level, wanted))
    fail_on = str(asked.get("fail_on") or "never")
    if module == "health_check" and health.reached(outcome, fail_on) and not answer.get("failed"):
        raise Untrusted("it reports success with the outcome {0}".format(outcome.value))
    for one in _typed("findings", part.get("findings", []), list):
        _typed("an entry of findings", one, str)


def _level(given: Mapping[str, Any]) -> str:
    level = str(given.get("level") or Cost.PASSIVE.value)
    return level if level in _LEVELS else Cost.PASSIVE.value  # the module refuses any other


def _result(where: str, result: Mapping[str, Any]) -> Outcome:
    _texts(where, result, ("title", "seen"))
    _number("seconds of " + where, result.get("seconds", 0.0))
    findings = [_finding(where, one) for one in _mappings("findings of " + where, result.get("findings", []))]
    for figure in _mappings("measured of " + where, result.get("measured", [])):
        _typed("the name of a measured value of " + where, figure.get("name"), str)
        _texts(where, figure, ("key", "better", "parts"))
        _number("{0:.60} of {1}".format(figure["name"], where), figure.get("value"))
        for value in _typed("labels of " + where, figure.get("labels", {}), dict).values():
            _typed("a label of " + where, value, (str, int, float))
    return _agree(where, result, worst(tuple(findings)))


def _finding(where: str, finding: Any) -> Outcome:
    found = _typed("a finding of " + where, finding, dict)
    _texts(where, found, ("thing", "reason", "remedy", "key", "code"))
    _kind(where, found, "action", Remedy.LOOK.value)
    _kind(where, found, "certainty", Certainty.CERTAIN.value)
    return Outcome(_kind(where, found, "outcome"))


def _agree(what: str, told: Mapping[str, Any], computed: Outcome) -> Outcome:
    outcome = Outcome(_kind(what, told, "outcome"))
    if outcome is not computed:
        raise Untrusted(
            "the outcome of {0} is {1}, but by its findings {2}".format(what, outcome.value, computed.value)
        )
    return outcome


def _kind(what: str, told: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = told.get(name, default)
    if not isinstance(value, str) or value not in {one.value for one in _KINDS[name]}:
        raise Untrusted("{0} of {1} does not exist: {2:.60}".format(name, what, str(value)))
    return value


def _texts(what: str, told: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in names:
        _typed("{0} of {1}".format(name, what), told.get(name, ""), str)


def _typed(what: str, value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise Untrusted("{0:.100} has the type {1}".format(what, type(value).__name__))
    return value


def _mappings(what: str, value: Any) -> list[dict[str, Any]]:
    for one in _typed(what, value, list):
        _typed("an entry of " + what, one, dict)
    return list(value)


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not -_NUMBER_MAX < _typed(what, value, (int, float)) < _NUMBER_MAX:
        raise Untrusted("{0:.100} is not a number that can be measured".format(what))
    return float(value)


def _moment(what: str, value: Any) -> float:
    if not 0 <= _number(what, value) <= _LATEST:
        raise Untrusted("{0} is not a date".format(what))
    return float(value)


def _date(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(moment))

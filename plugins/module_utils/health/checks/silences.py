# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Silences and overrules that cannot be read, or that have ended, and limits, settings and names that no check uses: a
person should put them in order. An overrule that holds is a warning as well, since a node returns by it without its
proof."""

from __future__ import annotations

from typing import Any, List, Mapping

from ..data import limit_names
from ..data.setting_names import NUMBERS, OTHERS
from ..formats.words import day
from ..overrules import ended as lapsed
from ..overrules import of_node as overruled
from ..silences import ended, observe_of, of_node
from ..thresholds import usable
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

_SILENCE = "correct options silences and observe of health_gate, then converge the node"
_LAPSED = "correct option overrules of health_gate, then converge the node"
_OVERRULE = "take it out of option overrules of health_gate when the node has proved well, then converge the node"
_UNUSED = (
    "correct options thresholds, settings and without of health_gate (limits of a profile: there), then converge the "
    "node"
)
# Of the section as a whole.
_SECTION = ("silences", "observe", "overrules", "thresholds", "without")


def unused(settings: Mapping[str, Any], profile: Mapping[str, Any]) -> List[str]:
    """Limits and settings that no check uses, each with what to write instead. Of a profile, only limits of an earlier
    release: a site may have figures of its own there."""
    limits, wrong = usable(settings.get("thresholds", {}))
    known = limit_names.names()
    found = ["limit {0} ({1})".format(name, limit_names.instead(name, known)) for name in limits if name not in known]
    found += ["{0} ({1})".format(error.thing, error.reason) for error in wrong]
    own = profile.get("thresholds")
    for name in own if isinstance(own, Mapping) else ():
        if name in limit_names.REPLACED and name not in limits:
            found.append("limit {0} of the profile ({1})".format(name, limit_names.instead(name, known)))
    names = (*NUMBERS, *OTHERS)
    found += [
        "setting {0} ({1})".format(name, limit_names.instead(name, names))
        for name in settings
        if name not in names and name not in _SECTION
    ]
    tools = settings.get("tools")
    if isinstance(tools, Mapping) and "python" in tools:
        found.append("setting tools.python ({0})".format(limit_names.instead("tools.python", ())))
    return found


def judge(dummy: None, expected: Expected) -> Judgement:
    silences, problems = of_node(expected.settings, expected.node)
    observe, wrong = observe_of(expected.settings)
    told = [("cannot_be_read", text) for text in (*problems, *wrong)]
    told += [("ended", text) for text in ended(silences, expected.now)]
    overrules, wrong = overruled(expected.settings, expected.node)
    told += [("cannot_be_read", text) for text in wrong]
    told += [("overrule_ended", text) for text in lapsed(expected.settings, expected.node, expected.now)]
    for one in overrules:
        if expected.now < one.until:
            text = "by {0} this node comes back without its proof until {1}: {2}"
            told.append(("overruled", text.format(one.owner, day(one.until - 1), one.reason)))
    findings = tuple(
        Finding(
            Outcome.WARN,
            "overrule" if code in ("overruled", "overrule_ended") else "silence",
            text,
            {"overruled": _OVERRULE, "overrule_ended": _LAPSED}.get(code, _SILENCE),
            Remedy.CONFIGURE,
            code=code,
        )
        for code, text in told
    )
    left = unused(expected.settings, expected.profile)
    left += ["{0} of without ({1})".format(*one) for one in expected.no_checks]
    if left:
        reason = "no check uses " + ", ".join(left)
        findings += (Finding(Outcome.WARN, "section health", reason, _UNUSED, Remedy.CONFIGURE, code="not_used"),)
    seen = "{0} silences, {1} patterns observed".format(len(silences), len(observe))
    return Judgement(seen, findings)


CHECK = Check(
    "silences",
    "Every silence can be read and holds, and checks use every limit and setting",
    Cost.PASSIVE,
    judge,
    look=lambda evidence: None,
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Silences and overrules that cannot be read, or that have ended: a person should put them in order. An overrule that
holds is told as well, since a node comes back by it without its proof."""

from __future__ import annotations

from ..formats.words import day
from ..overrules import ended as lapsed
from ..overrules import of_node as overruled
from ..silences import ended, observe_of, of_node
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

_SILENCE = "correct options silences and observe of health_gate, then converge the node"
_LAPSED = "correct option overrules of health_gate, then converge the node"
_OVERRULE = "take it out of option overrules of health_gate when the node has proved well, then converge the node"


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
    seen = "{0} silences, {1} patterns observed".format(len(silences), len(observe))
    return Judgement(seen, findings)


CHECK = Check(
    "silences",
    "Every silence can be read and holds",
    Cost.PASSIVE,
    judge,
    look=lambda evidence: None,
)

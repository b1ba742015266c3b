# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Silences that cannot be read, or that have ended: a person should put them in order."""

from __future__ import annotations

from ..silences import ended, observe_of, of_node
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy


def judge(dummy: None, expected: Expected) -> Judgement:
    silences, problems = of_node(expected.settings, expected.node)
    observe, wrong = observe_of(expected.settings)
    told = [("cannot_be_read", text) for text in (*problems, *wrong)]
    told += [("ended", text) for text in ended(silences, expected.now)]
    findings = tuple(
        Finding(
            Outcome.WARN,
            "silence",
            text,
            "correct options silences and observe of health_gate, then converge the node",
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

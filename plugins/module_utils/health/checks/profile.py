# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether there is anything to hold this machine against. An unknown machine never counts as healthy by default."""

from __future__ import annotations

from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

# Of profile.types, whose import would cost more than this check.
SECTION = "profile"
UNKNOWN = "unknown"
_REMEDY = (
    "declare the name of one (node_profile), or write one for this machine (docs/profiles.md), then converge the node"
)


def _look(dummy: object) -> None:
    """Nothing is read: the profile lies in the declaration."""


def judge(dummy: object, expected: Expected) -> Judgement:
    if expected.profile:
        return Judgement(seen="compared with {0}".format(expected.profile_name))
    section = expected.declared.get(SECTION)
    if section is None:
        return _nothing(
            "no profile was declared for it, so nothing was compared",
            "run 'gpunode converge' with a section node_profile",
            "undeclared",
        )
    name = section.get("name", UNKNOWN)
    if name == UNKNOWN:
        return _nothing("no profile describes this machine, so nothing was compared", _REMEDY, "unknown_machine")
    return _nothing("its profile {0} is empty, so nothing was compared".format(name), "run 'gpunode converge'", "empty")


def _nothing(reason: str, remedy: str, code: str) -> Judgement:
    return Judgement(findings=(Finding(Outcome.UNKNOWN, "this machine", reason, remedy, Remedy.CONFIGURE, code=code),))


CHECKS = (Check("profile", "This machine is compared with its profile", Cost.QUICK, judge, _look),)

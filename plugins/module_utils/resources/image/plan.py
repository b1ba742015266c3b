# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse an image that is not as required; no I/O. There is nothing to be done to one."""

from __future__ import annotations

from typing import Tuple

from ...core.resource import Plan, Refusal
from ...facts.image import software
from ...facts.image.problem import FAIL, WARN, Problem
from ...facts.image.rules import judge
from .options import Desired
from .types import State


def plan(state: State, desired: Desired) -> Plan:
    if state.image is None:
        return Plan(skipped="nothing is required of the image")
    found = problems(state, desired)
    stops = (FAIL, WARN) if desired.fail_on == WARN else (FAIL,)
    refusals = tuple(Refusal(one.thing, one.reason, one.remedy) for one in found if one.outcome in stops)
    told = tuple(str(one) for one in found if one.outcome not in stops)
    return Plan(refusals=refusals, notes=state.image.notes + told)


def problems(state: State, desired: Desired) -> Tuple[Problem, ...]:
    """What is not as required, and what does not fit where that is asked for."""
    if state.image is None:
        return ()
    found = software.versions(state.image)
    unmet = software.unmet(found, desired.requirements, "image_require")
    return (*unmet, *(judge(state.image) if desired.fail_on != "never" else ()))

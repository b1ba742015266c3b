# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the driver itself asks for to bring a GPU back: its own verdict."""

from __future__ import annotations

from ...facts.gpu_info import GpuInformation
from ..data.recovery_actions import BY_NAME
from ..types import GPU_LANE, Check, Cost, Expected, Judgement, Outcome, Remedy
from .gpu_common import each, finding, unread


def _one(gpu: GpuInformation, expected: Expected) -> Judgement:
    missed = unread(gpu, "repair.recovery_action")
    repair = gpu.groups.get("repair")
    asked = None if repair is None else repair.recovery_action
    if missed:
        return Judgement(findings=tuple(missed))
    if asked is None:
        return Judgement(not_applicable="this driver does not tell a recovery action")
    known = BY_NAME.get(asked)
    if known is None:
        reason = "the driver asks for a recovery action that is newer than this check: {0}".format(asked)
        found = finding(gpu, Outcome.FAIL, reason, "see nvidia-smi -q", Remedy.LOOK, "unknown")
    elif known.outcome is Outcome.PASS:
        return Judgement()
    else:
        reason = "the driver asks for {0}".format(known.text)
        found = finding(gpu, known.outcome, reason, known.remedy, known.action, known.name)
    return Judgement(findings=(found,))


CHECKS = (
    Check(
        "gpu_recovery_action",
        "The driver asks for no recovery of a GPU",
        Cost.QUICK,
        each("recovery action", _one, ("repair.recovery_action",)),
        lane=GPU_LANE,
        gpu_groups=("repair", "settings"),
    ),
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is seen and what is wanted to the steps, or to the reason why there are none. Pure.

A request passes these files once, in this order: ``disks`` judges each disk and each array, ``cases`` chooses the case
by what ``builds`` finds of earlier scratches and by the ``selection``; ``existing``, ``create`` (after ``erase``) and
``absent`` are the cases, and ``mount`` is the end of each; ``tools`` adds what a plan needs around it.
"""

from __future__ import annotations

from ...core.resource import Plan, Refusal
from ...core.systemd import boot_unit
from .cases import choose
from .disks import judge
from .options import Desired
from .tools import takes_away, with_tools
from .types import Found


def plan(found: Found, desired: Desired, unit: bool = True) -> Plan:
    """``unit`` False: the scratch alone, as the boot unit makes it."""
    node = judge(found.scratch, desired)
    planned = with_tools(node, choose(node, found.identity))
    if found.jobs and takes_away(planned, desired):
        reason = "{0}, and its files may be on the scratch".format(found.jobs[0])
        remedy = "drain the node, wait until it is empty, then run again"
        planned = Plan(refusals=(Refusal("our scratch", reason, remedy),), notes=planned.notes)
    wanted = desired.present and desired.boot_unit
    if not unit or (wanted and node.nothing and not desired.ahead):
        return planned
    # The unit is made and removed after the scratch: if the scratch is in use, nothing of it is removed.
    at_boot = boot_unit.plan(found.unit, desired.unit, wanted)
    refusals, notes = planned.refusals + at_boot.refusals, planned.notes + at_boot.notes
    if refusals:
        return Plan(refusals=refusals, notes=notes)
    if planned.skipped and at_boot.actions:
        return Plan(at_boot.actions, notes=(*notes, planned.skipped))
    return Plan(planned.actions + at_boot.actions, notes=notes, skipped=planned.skipped)

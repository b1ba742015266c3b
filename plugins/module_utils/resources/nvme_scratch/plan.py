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
from .cases import choose
from .disks import judge
from .options import Desired
from .tools import takes_away, with_tools, with_unit
from .types import Found


def plan(found: Found, desired: Desired, unit: bool = True) -> Plan:
    """``unit`` False: the scratch alone, as the boot unit makes it."""
    node = judge(found.scratch, desired)
    planned = with_tools(node, choose(node, found.identity))
    if found.jobs and takes_away(planned, desired):
        reason = "{0}, and its files may be on the scratch".format(found.jobs[0])
        remedy = "drain the node, wait until it is empty, then run again"
        planned = Plan(refusals=(Refusal("our scratch", reason, remedy),), notes=planned.notes)
    return with_unit(found, node, planned) if unit else planned

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is seen and what is wanted to the steps, or to the reason why there are none. Pure.

A request passes these files once, in this order: ``disks`` judges each disk and each array; by what ``builds`` finds of
earlier scratches and by the ``selection`` one case is chosen: ``existing``, ``create`` or ``absent``; ``mount`` is the
end of each, and ``tools`` adds what a plan needs around it.
"""

from __future__ import annotations

from typing import Tuple

from ...core.frozen import replaced
from ...core.resource import Plan, Refusal
from ...core.systemd import boot_unit
from ...facts.scratch.record import RECORD_PATH
from . import absent, existing
from .builds import Scratch, judge_builds, without_record
from .create import create
from .disks import judge
from .options import Desired
from .selection import examine
from .tools import takes_away, with_tools
from .types import Found, Identity, Node, State


def plan(found: Found, desired: Desired, unit: bool = True) -> Plan:
    """``unit`` False: the scratch alone, as the boot unit makes it."""
    node, planned = choose(found.scratch, desired, found.identity)
    planned = with_tools(node, planned)
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


def choose(state: State, desired: Desired, identity: Identity) -> Tuple[Node, Plan]:
    """The judged node, and the case. Never raises; a refusal stops everything on this node."""
    node = judge(state, desired)
    if state.record_error is not None:
        reason = "it cannot be used ({0})".format(state.record_error)
        remedy = "move it away and run again; a whole array with our name and label is then adopted"
        return node, Plan(refusals=(Refusal(RECORD_PATH, reason, remedy),))
    complete, left = judge_builds(node)
    if not desired.present:
        return node, absent.plan(node, left)
    finished = [one for one in complete if one.finished]
    if len(finished) > 1:
        # There are several when a user took an older one up again; the mounted one is meant.
        finished = [one for one in finished if desired.mount_point in one.mount_points] or finished
    kept = finished[0] if finished and not (finished[0].damaged and desired.rebuild) else without_record(node)
    choice = examine(node, left)
    if choice.wrong:
        planned = Plan(refusals=choice.wrong)
    elif len(finished) > 1:
        reason = "{0} of our file systems stand whole: {1}".format(
            len(finished), "; ".join(", ".join(judged.disk.serial for judged in one.disks) for one in finished)
        )
        remedy = "mount the one to keep at {0}, and wipe the other's disks".format(desired.mount_point)
        planned = Plan(refusals=(Refusal("scratch", reason, remedy),))
    elif isinstance(kept, Scratch):
        planned = existing.keep(node, kept, left)
    elif kept is not None:
        planned = Plan(refusals=(kept,))
    else:
        adopted, elsewhere = existing.adopt(node)
        # Complete but never finished: go on where a power cut stopped us, unless something else is asked for by now.
        begun = complete[0] if complete and not complete[0].build.finished else None
        if begun is not None and {judged.disk.name for judged in begun.disks} != {one.disk.name for one in node.chosen}:
            begun = None
        if begun is not None and (begun.content in ("unclear", "unread") or existing.differences(desired, begun)):
            begun = None
        moving = tuple(one.moving for one in left if one.moving is not None)
        if adopted is not None:
            planned = adopted
        elif choice.nothing is not None:
            planned = choice.nothing
        elif moving or elsewhere:
            # Alone: the remedies of other refusals end the program that moves the data, or erase or remove a disk that
            # has a part of them.
            planned = Plan(refusals=moving or elsewhere)
        elif begun is not None:
            planned = existing.keep(node, begun, left)
        else:
            planned = create(node, left, choice.count, identity)
    notes = (*planned.notes, *(() if planned.skipped else choice.left_out), *choice.unknown)
    return node, replaced(planned, notes=notes)

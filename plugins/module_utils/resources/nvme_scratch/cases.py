# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the case of a request: absent, refuse, keep what exists, adopt, nothing to manage, or build anew. Pure."""

from __future__ import annotations

from ...core.frozen import replaced
from ...core.resource import Plan, Refusal
from ...facts.scratch.record import RECORD_PATH
from . import absent, erase, existing
from .builds import Scratch, judge_builds, without_record
from .create import create
from .selection import examine
from .types import Identity, Node


def choose(node: Node, identity: Identity) -> Plan:
    """The decision. Never raises; a refusal stops everything on this node."""
    if node.state.record_error is not None:
        reason = "it cannot be used ({0})".format(node.state.record_error)
        remedy = "move it away and run again; a whole array with our name and label is then adopted"
        return Plan(refusals=(Refusal(RECORD_PATH, reason, remedy),))
    complete, left = judge_builds(node)
    if not node.desired.present:
        return absent.plan(node, left)
    finished = [one for one in complete if one.finished]
    if len(finished) > 1:
        # There are several when a user took an older one up again; the mounted one is meant.
        finished = [one for one in finished if node.desired.mount_point in one.mount_points] or finished
    kept = finished[0] if finished and not (finished[0].damaged and node.desired.rebuild) else without_record(node)
    choice = examine(node, left)
    if choice.wrong:
        planned = Plan(refusals=choice.wrong)
    elif len(finished) > 1:
        reason = "{0} of our file systems stand whole: {1}".format(
            len(finished), "; ".join(", ".join(judged.disk.serial for judged in one.disks) for one in finished)
        )
        remedy = "mount the one to keep at {0}, and wipe the other's disks".format(node.desired.mount_point)
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
        if begun is not None and (begun.content in ("unclear", "unread") or existing.differences(node.desired, begun)):
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
            planned = create(node, left, erase.protected(node, left), choice.count, identity)
    return replaced(planned, notes=(*planned.notes, *(() if planned.skipped else choice.left_out), *choice.unknown))

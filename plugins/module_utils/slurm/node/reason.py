# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reason of a drain of ours, which is all that a later run knows of an earlier one. Pure.

``gpu_node: rolling: being converged (run 3f2a9c1b); before: anna: new memory``
``gpu_node: rolling: failed: GPU 3 is slow (active)``
"""

from __future__ import annotations

import re
from typing import Optional

from ...core.frozen import frozen
from .. import drain

FAILED = "failed: "
WAITS = "waits for its jobs"
_BEFORE = "; before: "
# Behind them may be what slurmctld has added, also what drain.bare does not know.
_MARKS = re.compile(r" \((?:run ([0-9a-f]{8})|(active)|run ([0-9a-f]{8}), (active))\)(?= : |$)")


@frozen
class Ours:
    """``run``: the run that works on the node, or did until it was cut off. ``active``: it failed in a run that
    measures, and none has passed it since. ``before``: the reason that others gave."""

    run: Optional[str] = None
    failed: bool = False
    active: bool = False
    before: Optional[str] = None

    @property
    def for_somebody(self) -> bool:
        """The node was drained before, and not by this collection."""
        return self.before is not None and drain.read(self.before) is None


def read(text: str) -> Ours:
    head, found, before = drain.bare(text).partition(_BEFORE)
    marks = _MARKS.search(head)
    ours = drain.read(head)
    return Ours(
        run=marks.group(1) or marks.group(3) if marks else None,
        failed=ours is not None and ours.words.startswith(FAILED),
        active=bool(marks and (marks.group(2) or marks.group(4))),
        before=before if found else None,
    )


def written(words: str, run: Optional[str] = None, active: bool = False, before: Optional[str] = None) -> str:
    """What Slurm gets. Who failed belongs to no run: each may take it."""
    failed = words.startswith(FAILED)
    marks = ["run " + run] if run and not failed else []
    marks += ["active"] if active else []
    end = " ({0})".format(", ".join(marks)) if marks else ""
    # What the words have of our own signs would be read as such.
    head = drain.reason_text(drain.ROLLING + words, len(end) + 1).replace(_BEFORE, ", before: ")
    head = _MARKS.sub(lambda marks: marks.group(0) + ".", drain.bare(head))
    kept = Ours(before=before)
    return head + end + (_BEFORE + str(before) if before is not None and (kept.for_somebody or not failed) else "")

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node as slurmctld sees it, what is asked for it, and the two things that are done to it."""

from __future__ import annotations

import enum
import re
from typing import Any, Dict, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import Action, NodeError
from .. import drain
from ..types import SlurmNode
from . import reason as reasons

# No list, no range: scontrol takes gpu[001-999] for all of them.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_RUN = re.compile(r"[0-9a-f]{8}")
_NO_REASON = "no reason was given"


class Owner(enum.Enum):
    """Who took the node out of service, by the only proof that there is: the reason."""

    NOBODY = "nobody"
    ROLLING = "rolling"  # this resource, in this run or an earlier one
    COLLECTION = "collection"  # a hook or the gate of this collection, which also puts it back
    SOMEBODY = "somebody"


class Outcome(enum.Enum):
    READY = "ready"  # no job is there and none comes: it may be worked on
    BUSY = "busy"
    LEFT = "left"  # out of service by somebody else, or no machine is there
    IN_SERVICE = "in_service"


class Busy(enum.Enum):
    """What becomes of a node with jobs, when the time to wait for them is over."""

    LEAVE = "leave"
    DRAIN = "drain"


def check_wish(reason: str, run: str, owes: str, wait_seconds: float) -> None:
    """What is the same for the nodes of every scheduler.

    :raises NodeError: one of them cannot be.
    """
    if drain.reason_text(reason) == drain.PREFIX:
        raise NodeError("reason", "it is empty", "say in a few words why the node is drained")
    if run and not _RUN.fullmatch(run):
        raise NodeError("run {0!r}".format(run), "it is not 8 hexadecimal digits", "give such as 3f2a9c1b")
    ours = drain.read(owes)
    if owes and (ours is None or ours.kind != drain.HEALTH):
        remedy = "give the result 'owes' of health_check"
        raise NodeError("owes {0!r}".format(owes), "it is no reason of the health gate", remedy)
    check_seconds("wait_seconds", wait_seconds)


def check_seconds(option: str, seconds: float) -> None:
    """:raises NodeError: nobody waits for so long."""
    if not 0 <= seconds <= 7 * 86400:
        raise NodeError("{0} {1:g}".format(option, seconds), "it is not between 0 and a week", "give such a number")


@frozen
class State:
    """``jobs``: the jobs that hold the node; not asked for where the state tells that there are some."""

    node: SlurmNode
    jobs: Tuple[str, ...] = ()

    @property
    def owner(self) -> Owner:
        if not drain.out_of_service(self.node):
            return Owner.NOBODY
        if drain.is_for_rolling(self.node):
            return Owner.ROLLING
        return Owner.COLLECTION if drain.is_ours(self.node) else Owner.SOMEBODY

    @property
    def ours(self) -> Optional[reasons.Ours]:
        """What our drain tells of itself, where there is one."""
        return reasons.read(self.node.reason or "") if self.owner is Owner.ROLLING else None

    @property
    def before(self) -> Optional[str]:
        """The reason that the node goes back to when we are done, where it was drained before us."""
        if self.ours is not None:
            return self.ours.before
        return None if self.owner is Owner.NOBODY else self.node.reason or _NO_REASON

    def told(self) -> Dict[str, Any]:
        return {"node_state": sorted(self.node.flags), "node_reason": self.node.reason, "jobs": list(self.jobs)}


@frozen
class Desired:
    """``drained``: out of service and without jobs, or else in service again. ``others``: nodes that somebody else took
    out of service are worked on too, and stay out of service. ``run``: who works on it; another run lets go of it only
    with ``take_over``. ``active``: it is measured afterwards. ``same_host``: this is the machine of the node. ``owes``:
    the reason to leave it drained with, for the gate, where its health owes a proof."""

    name: str
    drained: bool = True
    reason: str = "being converged"
    busy: Busy = Busy.LEAVE
    wait_seconds: float = 0.0
    others: bool = False
    run: str = ""
    take_over: bool = False
    active: bool = False
    same_host: bool = True
    owes: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise NodeError(
                "name {0!r}".format(self.name), "this is not the name of one node", "give a NodeName of slurm.conf"
            )
        check_wish(self.reason, self.run, self.owes, self.wait_seconds)

    @property
    def failed(self) -> bool:
        return self.reason.startswith(reasons.FAILED)

    def text(self, before: Optional[str] = None, waits: bool = False, owes: bool = False) -> str:
        """The reason as slurmctld gets it. Who waits for jobs with no run beside it may be taken by each. ``owes``: it
        failed an active check and has passed none since."""
        owes = owes or (self.failed and self.active)
        if waits and self.run and not self.failed:
            return reasons.written(reasons.WAITS, None, owes, before)
        return reasons.written(self.reason, self.run, owes, before)


@frozen
class Drain(Action):
    reason: str

    def describe(self) -> str:
        return "drain it ({0})".format(self.reason)


@frozen
class Undrain(Action):
    def describe(self) -> str:
        return "take our drain back"


@frozen
class Decision:
    """The next step: an action, an outcome with its reason, or neither, which is to wait."""

    action: Optional[Action] = None
    outcome: Optional[Outcome] = None
    why: str = ""

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next step for a node on its way out of service or back. Pure.

A node is cordoned first and looked at then: between a look and a cordon a pod could come.
"""

from __future__ import annotations

import enum
from typing import Optional, Sequence

from ...core.frozen import replaced
from ...core.one_line import line
from ...core.resource import Action, NodeError
from ...slurm.node.plan import ACTIVE_WHY, other_run
from ...slurm.node.types import Outcome, Owner
from ..objects import some
from .types import Busy, Cordon, Decision, Desired, Evict, Release, State

_UNREGISTERED = "it is not registered in the cluster"
_NOT_READY = "its kubelet does not report (NotReady)"
_NOT_READY_REMEDY = "look at 'kubectl describe node {0}' and at the kubelet on it, then run it again"
_UNMANAGED = "{0} declares no controller, which would make it anew (gpu_node_rolling_evict_unmanaged)"
_LOCAL = "{0} would lose data in an emptyDir (gpu_node_rolling_delete_emptydir_data)"
# So many reasons are told.
_MOST = 5
_TEXT_MOST = 200


class _Stage(enum.Enum):
    FREE = 0  # no pod is in the way
    WAIT = 1  # for GPU pods to end by themselves
    EVICT = 2
    OVER = 3


def decide(state: State, desired: Desired, time_left: bool, evict_left: bool = True) -> Decision:
    """``time_left``: whether pods may be waited for still. ``evict_left``: the same of those that are evicted."""
    return _out(state, desired, time_left, evict_left) if desired.drained else _back(state, desired, time_left)


def _out(state: State, desired: Desired, time_left: bool, evict_left: bool) -> Decision:
    hindrance = _held(state, desired)
    if hindrance is not None:
        return Decision(outcome=Outcome.LEFT, why=hindrance)
    ours = state.ours
    if ours is not None and ours.for_somebody and not desired.others:
        return _taken_back(state)
    stage = _stage(state, desired, time_left, evict_left)
    owes = ours is not None and ours.active
    leaves = stage is _Stage.OVER and desired.busy is Busy.LEAVE and not owes
    # A cordon of others, or of a node that failed, keeps new pods away as well as ours would. Who evicts takes it.
    foreign = state.owner is Owner.SOMEBODY or (ours is not None and ours.failed)
    kept = foreign and desired.busy is not Busy.EVICT and stage is not _Stage.FREE
    if leaves and not kept and ours is not None:
        return _taken_back(state)
    text = desired.text(state.before, waits=stage is _Stage.OVER, owes=owes)
    if not leaves and not kept and (state.owner is not Owner.ROLLING or state.annotation != text):
        return Decision(Cordon(text))
    if stage is _Stage.FREE:
        return Decision(outcome=Outcome.READY, why="it is cordoned by us")
    if stage is _Stage.OVER:
        return Decision(outcome=Outcome.BUSY, why=_busy_why(state, desired))
    staying = tuple(pod for pod in state.pods if not pod.leaving)
    return Decision(Evict(staying)) if stage is _Stage.EVICT and staying else Decision()


def _back(state: State, desired: Desired, time_left: bool) -> Decision:
    """:raises NodeError: no pod would come to the node, as its kubelet has not reported since."""
    owner = state.owner
    if not state.registered:
        return Decision(outcome=Outcome.LEFT, why=_UNREGISTERED)
    if owner is Owner.ROLLING:
        other = other_run(state.ours, desired.run, desired.take_over)
        if other is not None:
            return Decision(outcome=Outcome.LEFT, why=other)
        if desired.owes and state.before is None:
            if state.annotation == desired.proof():
                return Decision(outcome=Outcome.LEFT, why=_whose(state))
            return Decision(Cordon(desired.proof()))
        if not state.ready and state.before is None:
            if time_left:
                return Decision()
            remedy = _NOT_READY_REMEDY.format(desired.name)
            raise NodeError("node " + desired.name, _NOT_READY, remedy)
        return _taken_back(state)
    if owner is Owner.NOBODY:
        # Somebody has uncordoned it by hand since.
        if state.annotation is not None:
            return Decision(Release())
        return Decision(outcome=Outcome.IN_SERVICE, why="it is in service")
    return Decision(outcome=Outcome.LEFT, why=_whose(state))


def _taken_back(state: State) -> Decision:
    return Decision(Release(cordoned=state.before is not None))


def expected(state: State, action: Action) -> State:
    """The state that an action leads to; for check mode, which does nothing."""
    if isinstance(action, Cordon):
        return replaced(state, cordoned=True, annotation=action.reason)
    if isinstance(action, Release):
        return replaced(state, cordoned=action.cordoned, annotation=None)
    return replaced(state, pods=())


def _held(state: State, desired: Desired) -> Optional[str]:
    """Why a node is not for this run to take."""
    if not state.registered:
        return _UNREGISTERED
    ours = state.ours
    other = other_run(ours, desired.run, desired.take_over)
    if other is not None:
        return other
    if ours is not None and ours.active and not desired.active:
        return ACTIVE_WHY
    kept = ours is not None and (ours.failed or ours.active) and ours.for_somebody
    if desired.others:
        return None
    if state.owner is Owner.SOMEBODY or kept:
        return _whose(state)
    return _NOT_READY if state.owner is Owner.NOBODY and not state.ready else None


def _stage(state: State, desired: Desired, time_left: bool, evict_left: bool) -> _Stage:
    evicts = desired.busy is Busy.EVICT
    if not (state.pods if evicts else state.with_gpus):
        return _Stage.FREE
    if time_left and state.with_gpus:
        return _Stage.WAIT
    return _Stage.EVICT if evicts and evict_left and not _refused(state, desired) else _Stage.OVER


def _refused(state: State, desired: Desired) -> Sequence[str]:
    """Pods that nobody allowed to evict. While there is one none is evicted, as by 'kubectl drain'."""
    found = []
    for pod in state.pods:
        if not pod.leaving and not pod.managed and not desired.evict_unmanaged:
            found.append(_UNMANAGED.format(pod.label))
        if not pod.leaving and pod.local and not desired.delete_emptydir_data:
            found.append(_LOCAL.format(pod.label))
    return found


def _busy_why(state: State, desired: Desired) -> str:
    evicts = desired.busy is Busy.EVICT
    told = ["pods hold it ({0})".format(some([pod.label for pod in (state.pods if evicts else state.with_gpus)]))]
    if evicts:
        held = ["{0}: {1}".format(pod.label, pod.held) for pod in state.pods if pod.held and not pod.leaving]
        told += [*_refused(state, desired), *held][:_MOST]
    return line("; ".join(told))


def _whose(state: State) -> str:
    if state.annotation is None:
        return "somebody else cordoned it"
    by = "this collection" if state.owner is Owner.ROLLING else "somebody else"
    return "{0} cordoned it ({1})".format(by, line(state.annotation)[:_TEXT_MOST])

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out a plan: one child process sets all GPUs, so NVML is opened once.

Opening NVML wakes up every GPU that is not persistent, and closing it lets the driver forget; so the setters of
a run share one session. A GPU that fails does not keep the others from being set.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.resource import Action, NodeError
from ...facts.nvml import processes
from ...facts.nvml.call import CallError, Kind
from ...facts.nvml.call import Gpu as OpenGpu
from ...facts.nvml.session import Survey, survey
from . import record
from .settings import SETTINGS, Ways
from .types import Entry, Forget, GpuAction, Remember

_CALLS = {step: call for setting in SETTINGS for step, call in setting.calls.items()}


@frozen
class Done:
    """Which GPUs were set, by label, and which were not, with the sentence about each."""

    set: Tuple[str, ...]
    failed: Tuple[Tuple[str, NodeError], ...]

    def error(self) -> Optional[NodeError]:
        if not self.failed:
            return None
        first = self.failed[0][1]
        if len({error.reason for dummy, error in self.failed}) == 1 and not self.set:
            thing = "GPU settings" if len(self.failed) > 1 else first.thing
            return NodeError(thing, first.reason, first.remedy)
        told = (
            ", ".join(self.set) + " were set"
            if len(self.set) > 1
            else (self.set[0] + " was set" if self.set else "none was set")
        )
        rest = "; ".join("{0} was not: {1}".format(label, error.reason) for label, error in self.failed)
        return NodeError("GPU settings", "{0}; {1}".format(told, rest), first.remedy + ", then run it again")


def set_gpus(host: Host, actions: Sequence[Action], call_timeout_seconds: float) -> Optional[NodeError]:
    """Carry out neighbouring steps of one plan in their order, the setters of all GPUs together.

    Returns what could not be done on some GPU.
    """
    by_uuid: Dict[str, List[GpuAction]] = {}
    for action in actions:
        if isinstance(action, GpuAction):
            by_uuid.setdefault(action.uuid, []).append(action)
    done = Done((), ())
    ways: Dict[str, Ways] = {}
    failed_uuids: List[str] = []
    setters_ran = False
    for action in actions:
        if isinstance(action, Remember):
            record.write(host, _entries(action, ways, failed_uuids))
        elif isinstance(action, Forget):
            record.write(host, [(uuid, None) for uuid, dummy in record.read(host) if uuid not in failed_uuids])
        elif not setters_ran:
            setters_ran = True
            done, ways, failed_uuids = _set_gpus(host, by_uuid, call_timeout_seconds)
    return done.error()


def _entries(action: Remember, ways: Dict[str, Ways], failed: Sequence[str]) -> List[Tuple[str, Optional[Entry]]]:
    """The entries to write: of GPUs that were set, with the way that worked."""
    entries: List[Tuple[str, Optional[Entry]]] = []
    for uuid, entry in action.entries:
        if uuid in failed:
            continue
        if action.stage == "after" and entry is not None and entry.clocks is not None and uuid in ways:
            entry = replaced(entry, clocks=replaced(entry.clocks, **ways[uuid]))
        entries.append((uuid, entry))
    return entries


def _set_gpus(
    host: Host, by_uuid: Dict[str, List[GpuAction]], call_timeout_seconds: float
) -> Tuple[Done, Dict[str, Ways], List[str]]:
    def visitor(gpu: OpenGpu) -> Iterator[Optional[Ways]]:
        for action in by_uuid.get(gpu.identity.uuid or "", ()):
            yield apply_one(gpu, action)

    # All GPUs are visited, since one that was lost just now has no UUID any more to be selected by.
    found: Survey[Optional[Ways]] = survey(visitor, call_timeout=call_timeout_seconds, host=host)
    found.require_driver()
    visits = {visit.identity.uuid: visit for visit in found.visits if visit.identity.uuid is not None}
    nameless = {visit.identity.index: visit for visit in found.visits if visit.identity.uuid is None}
    done: List[str] = []
    failed: List[Tuple[str, NodeError]] = []
    failed_uuids: List[str] = []
    ways: Dict[str, Ways] = {}
    for uuid, actions in by_uuid.items():
        label = actions[0].gpu
        visit = visits.get(uuid) or nameless.get(actions[0].index)
        if visit is not None and visit.fault is None and len(visit.parts) == len(actions):
            done.append(label)
            for part in visit.parts:
                ways.setdefault(uuid, {}).update(part or {})
            continue
        failed_uuids.append(uuid)
        if visit is not None and visit.fault is not None:
            failed.append((label, visit.fault.error()))
        else:
            failed.append(
                (label, NodeError(label, "it no longer answers", "look for NVRM and Xid lines in the kernel log"))
            )
    return Done(tuple(done), tuple(failed)), {uuid: facts for uuid, facts in ways.items() if facts}, failed_uuids


# In the child process ---------------------------------------------------------------------------------


def apply_one(gpu: OpenGpu, action: GpuAction) -> Optional[Ways]:
    try:
        ways = _CALLS[type(action)](gpu, action)
        return ways if isinstance(ways, dict) else None
    except CallError as error:
        if error.kind is not Kind.IN_USE:
            raise
        raise _in_use(gpu, error) from error


def _in_use(gpu: OpenGpu, error: CallError) -> NodeError:
    """The same error with the processes named, where NVML tells them."""
    pids = ", ".join(str(pid) for pid in sorted(set(processes.pids(gpu))))
    if not pids:
        return error
    return NodeError(
        error.thing, "{0}, by process {1}".format(error.reason, pids), "end these processes, then run it again"
    )

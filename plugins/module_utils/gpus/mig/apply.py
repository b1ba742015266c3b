# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps of a plan: one session for all GPUs, each of which goes back to what it was if a step fails.

A GPU that fails does not keep the others from being changed. Before a GPU's first step the record says how it was
(:mod:`.record`), so that a run that is killed leaves the way back behind.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set

from ...core import systemd
from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import Action, NodeError
from ...facts.nvml.call import CallError, Kind
from ...facts.nvml.call import Gpu as OpenGpu
from ...facts.nvml.session import Fault, Survey, survey
from . import clients, record
from . import devices as mig_devices
from .observe import compute_kinds, handles
from .types import (
    EndCompute,
    EndInstance,
    GpuAction,
    HoldUnits,
    MakeCompute,
    MakeFiles,
    MakeInstance,
    Remember,
    SetMode,
    StartUnits,
)

# nvml.h: what nvmlDeviceSetMigMode says of the change beside its own return value.
RESET_REQUIRED, IN_USE = 16, 19
# Why a mode waits: the words of Told.waits.
_RESET, _HELD = "reset", "in use"
_UNCHANGED = "something holds it open, so that its MIG mode does not change"
# How many holders of a GPU a sentence names.
_NAMED = 4
# NVML lists none of these among the processes of a GPU.
HOLDERS = (
    "stop what has /dev/nvidia* open (nvidia-dcgm, dcgm-exporter, nvsm, a device plugin, a display; fuser -v "
    "/dev/nvidia* lists it), then run it again"
)


@frozen
class Told:
    """What happened on one GPU: ``waits`` says why its mode did not change yet."""

    waits: Optional[str] = None


def carry_out(host: Host, actions: Sequence[Action], call_timeout_seconds: float) -> Optional[NodeError]:
    """Carry out neighbouring steps of one plan. Returns what could not be done on some GPU."""
    for action in actions:
        if isinstance(action, StartUnits):
            clients.start(host, action.units)
            record.note_stopped(host, ())
    held = tuple(unit for action in actions if isinstance(action, HoldUnits) for unit in action.units)
    if not held:
        return _carry_out(host, actions, call_timeout_seconds)
    record.note_stopped(host, held)
    try:
        systemd.stop(host, held)
        return _carry_out(host, actions, call_timeout_seconds)
    finally:
        clients.start(host, held)
        record.note_stopped(host, ())


def _carry_out(host: Host, actions: Sequence[Action], call_timeout_seconds: float) -> Optional[NodeError]:
    by_uuid: Dict[str, List[GpuAction]] = {}
    files: List[MakeFiles] = []
    for action in actions:
        if isinstance(action, MakeFiles):
            files.append(action)
        elif isinstance(action, GpuAction):
            by_uuid.setdefault(action.uuid, []).append(action)
    failed: List[GpuFailed] = []
    done = False
    for action in actions:
        if isinstance(action, Remember):
            left = {error.uuid for error in failed}
            record.write(host, [(uuid, entry) for uuid, entry in action.entries if uuid not in left])
        elif isinstance(action, GpuAction) and not done:
            done = True
            failed = _all(host, by_uuid, call_timeout_seconds) if by_uuid else []
            failed += _files(host, files, {error.uuid for error in failed})
    if not failed:
        return None
    if len(failed) == 1:
        return failed[0]
    return NodeError("GPU layouts", "; ".join("{0}: {1}".format(e.thing, e.reason) for e in failed), failed[0].remedy)


class GpuFailed(NodeError):
    """A GPU whose steps ended with an error."""

    def __init__(self, uuid: str, error: NodeError) -> None:
        super().__init__(error.thing, error.reason, error.remedy)
        self.uuid = uuid


def _files(host: Host, files: Sequence[MakeFiles], left: Set[str]) -> List[GpuFailed]:
    """The driver names the device files of an instance once it stands."""
    failed: List[GpuFailed] = []
    for action in files:
        try:
            if action.uuid not in left:
                mig_devices.make(host, action.minor)
        except NodeError as error:
            failed.append(GpuFailed(action.uuid, error))
    return failed


def _all(host: Host, by_uuid: Dict[str, List[GpuAction]], call_timeout_seconds: float) -> List[GpuFailed]:
    def visitor(gpu: OpenGpu) -> Iterator[Told]:
        steps = by_uuid.get(gpu.identity.uuid or "", ())
        if steps:
            yield Session(gpu).carry_out(steps)

    found: Survey[Told] = survey(visitor, call_timeout=call_timeout_seconds, host=host)
    found.require_driver()
    visits = {visit.identity.uuid: visit for visit in found.visits}
    failed: List[GpuFailed] = []
    for uuid, steps in by_uuid.items():
        visit = visits.get(uuid)
        if visit is None:
            gone = NodeError(
                steps[0].gpu, "it stopped answering before its steps", "look for Xid lines in the kernel log"
            )
            failed.append(GpuFailed(uuid, gone))
        elif visit.fault is not None:
            failed.append(GpuFailed(uuid, _with_holders(host, visit.fault, visit.identity.minor_number)))
        elif any(part.waits == _HELD for part in visit.parts):
            minor = visit.identity.minor_number
            if minor is None or not clients.holders(host, minor):  # those that can be named, the next look finds
                failed.append(GpuFailed(uuid, _without_process(host, NodeError(steps[0].gpu, _UNCHANGED, HOLDERS))))
    record.note_resets(
        host,
        {
            uuid: uuid in visits and any(part.waits == _RESET for part in visits[uuid].parts)
            for uuid, steps in by_uuid.items()
            if any(isinstance(step, SetMode) for step in steps)
        },
    )
    return failed


def _with_holders(host: Host, fault: Fault, minor: Optional[int]) -> NodeError:
    """Who holds a GPU that is in use, where that can be seen."""
    found = clients.holders(host, minor) if fault.kind is Kind.IN_USE and minor is not None else ()
    if not found:
        return _without_process(host, fault.error()) if fault.reason == _UNCHANGED else fault.error()
    told = " and ".join(client.told() for client in found[:_NAMED])
    if len(found) > _NAMED:
        told += " and {0} more".format(len(found) - _NAMED)
    remedy = "stop them, or list their units in mig_layout_stop_units, then run it again"
    return NodeError(fault.thing, "{0}; it is held open by {1}".format(fault.reason, told), remedy)


def _without_process(host: Host, error: NodeError) -> NodeError:
    """Name the kernel module that holds a GPU where no process has it open: fuser lists nothing then."""
    module = clients.kernel_holder(host)
    if not module:
        return error
    reason = "{0}; no process has it open, and kernel module {1} holds it".format(error.reason, module)
    remedy = "stop the display, run 'modprobe -r {0}', then run it again; load the module again afterwards".format(
        module
    )
    return NodeError(error.thing, reason, remedy)


class Session:
    """The steps on one GPU, in the child process that has NVML open."""

    def __init__(self, gpu: OpenGpu) -> None:
        self.gpu = gpu
        # The way back from each thing that was done, the last one last.
        self.way_back: List[Callable[[], object]] = []
        # GPU instances that were made again on the way back, by the number that they had.
        self.again: Dict[int, Any] = {}

    def carry_out(self, steps: Sequence[GpuAction]) -> Told:
        try:
            for step in steps:
                waits = self.set_mode(step) if isinstance(step, SetMode) else self.one(step)
                if waits is not None:
                    return Told(waits)  # what comes after it, comes after the reset
        except CallError as error:
            raise self.back(error) from error
        return Told()

    def set_mode(self, step: SetMode) -> Optional[str]:
        """Why the mode is not in force yet; None: it is. The binding returns this status and never raises for it.

        :raises CallError: the GPU needs no reset and something holds it; the change is taken back.
        """
        status = int(self.gpu.call("nvmlDeviceSetMigMode", int(step.on)))
        if status == 0:
            return None
        if status == IN_USE and step.resetless:
            self.gpu.call("nvmlDeviceSetMigMode", int(not step.on))
            raise CallError(
                self.gpu.name,
                _UNCHANGED,
                HOLDERS,
                Kind.IN_USE,
                "nvmlDeviceSetMigMode",
                status,
            )
        if status in (RESET_REQUIRED, IN_USE):
            return _RESET if status == RESET_REQUIRED else _HELD
        raise CallError.of_code(self.gpu.name, "nvmlDeviceSetMigMode", status)

    def one(self, step: GpuAction) -> Optional[str]:
        if isinstance(step, EndCompute):
            self.end_compute(step.gi, step.compute)
        elif isinstance(step, EndInstance):
            self.end_instance(step.gi)
        elif isinstance(step, MakeInstance):
            self.make_compute(self.make(step.profile_id, step.start, step.size), step.compute)
        elif isinstance(step, MakeCompute):
            self.make_compute(self.instance(step.gi), step.compute)
        return None

    def call(self, function: str, *arguments: Any) -> Any:
        return self.gpu.nvml.call(self.gpu.name, function, *arguments)

    def instance(self, number: int) -> Any:
        found = self.again.get(number)
        return self.gpu.call("nvmlDeviceGetGpuInstanceById", number) if found is None else found

    def end_compute(self, gi: int, numbers: Optional[Sequence[int]] = None) -> None:
        """End compute instances of a GPU instance: those of these numbers, or all."""
        instance = self.instance(gi)
        for kind, slices in compute_kinds(self.gpu, instance).items():
            for compute in handles(
                self.gpu, instance, "nvmlGpuInstanceGetComputeInstances", "c_nvmlComputeInstance_t", kind
            ):
                number = int(self.call("nvmlComputeInstanceGetInfo", compute).id)
                if numbers is None or number in numbers:
                    self.call("nvmlComputeInstanceDestroy", compute)
                    self.way_back.append(partial(self.remake_compute, gi, slices))

    def remake_compute(self, gi: int, slices: int) -> None:
        self.make_compute(self.instance(gi), (slices,))

    def end_instance(self, number: int) -> None:
        self.end_compute(number)
        instance = self.instance(number)
        info = self.call("nvmlGpuInstanceGetInfo", instance)
        place = int(info.profileId), int(info.placement.start), int(info.placement.size)
        self.call("nvmlGpuInstanceDestroy", instance)
        self.way_back.append(partial(self.remake, number, *place))

    def remake(self, number: int, profile: int, start: int, size: int) -> None:
        self.again[number] = self.make(profile, start, size)

    def make(self, profile: int, start: int, size: int) -> Any:
        import ctypes

        place = self.gpu.nvml.binding.c_nvmlGpuInstancePlacement_t(start, size)
        instance = self.gpu.call("nvmlDeviceCreateGpuInstanceWithPlacement", profile, ctypes.byref(place))
        self.way_back.append(partial(self.call, "nvmlGpuInstanceDestroy", instance))
        return instance

    def make_compute(self, instance: Any, compute: Sequence[int]) -> None:
        """The largest first: a small one in front of it could take its place."""
        kinds = {slices: kind for kind, slices in compute_kinds(self.gpu, instance).items()}
        for slices in sorted(compute, reverse=True):
            if slices not in kinds:
                raise CallError.of_code(self.gpu.name, "nvmlGpuInstanceGetComputeInstanceProfileInfo", 3)
            made = self.call("nvmlGpuInstanceCreateComputeInstance", instance, kinds[slices])
            self.way_back.append(partial(self.call, "nvmlComputeInstanceDestroy", made))

    def back(self, error: CallError) -> NodeError:
        """Undo what was done before the error, the last thing first, and tell both."""
        told, remedy = error.reason, error.remedy
        steps = self.way_back[::-1]
        try:
            for step in steps:
                step()
        except CallError as second:
            told += "; going back failed, too ({0})".format(second.reason)
            remedy = "see what stands with nvidia-smi mig -lgi, then run it again: it goes on to what is declared"
        else:
            if steps:
                told += "; what was there before stands again"
            if self.again:
                told += ", and MIG devices that were made again may have other UUIDs"
        return CallError(error.thing, told, remedy, error.kind, error.call, error.code)

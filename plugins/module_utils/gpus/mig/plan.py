# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what has to change on each GPU. Pure."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple, Union

from ...core.frozen import frozen
from ...core.resource import Action, Plan, Refusal
from ...facts.nvml.call import LOG
from . import in_use
from .arrange import arrange
from .choose import chosen_gpus
from .clients import MANAGER
from .instances import Changes, Impossible, Places, Wish
from .names import resolve
from .options import Asked, Desired, Layout
from .place import Placed
from .reasons import WHAT_USES_IT
from .remember import changes, made_by, places, with_record
from .types import (
    EndCompute,
    EndInstance,
    Entry,
    Gpu,
    GpuAction,
    MakeCompute,
    MakeFiles,
    MakeInstance,
    SetMode,
    Standing,
    State,
    standing,
)
from .wishes import wishes

_STOPPED = "a run that was killed has stopped {0}: the next one that refuses nothing starts it again"
_MANAGER = Refusal(
    MANAGER,
    "it is enabled, and gives the GPUs a layout of its own at each boot",
    "run 'systemctl disable {0}', or leave the layouts to it".format(MANAGER),
)


@frozen
class Decision:
    """The steps on one GPU, what speaks against them, and what there is to tell."""

    gpu: Gpu
    layout: Layout
    steps: Tuple[GpuAction, ...]
    refusals: Tuple[Refusal, ...]
    notes: Tuple[str, ...]


def decide(state: State, desired: Desired) -> Plan:
    """What brings the GPUs to what is desired. A GPU that nobody names is left alone."""
    if state.absent is not None:
        if desired.present and desired.require_gpus:
            remedy = "set require_gpus to false where nodes without GPUs are fine"
            return Plan(refusals=(Refusal("this node", state.absent, remedy),))
        return Plan(skipped=state.absent)
    if not desired.present:
        return undo(state)
    decisions, refusals = each(state, desired)
    if state.manager and decisions:
        refusals.append(_MANAGER)
    notes: List[str] = []
    steps_of: Dict[str, List[GpuAction]] = {}
    over: List[Tuple[str, Optional[Entry]]] = []
    for one in decisions:
        gpu, found = one.gpu, list(one.steps)
        refusals += one.refusals
        notes += one.notes
        if found:
            steps_of[gpu.uuid] = found
        if not changes(found) and gpu.mode == gpu.pending == one.layout.mig:
            # A killed run had come to its end, or it was so before us: where it stands is noted in any case.
            entry = state.entry(gpu.uuid)
            first = Entry(standing(gpu)) if entry is None else entry
            settled = Entry(first.before, None, made_by(gpu, ()))
            if settled != first:
                over.append((gpu.uuid, settled))
    return _decided(state, refusals, notes, with_record(state, steps_of, over))


def each(state: State, desired: Desired) -> Tuple[List[Decision], List[Refusal]]:
    """What is decided of each GPU that is asked for, whatever is of the others, and what is wrong with the choice."""
    chosen, refusals = chosen_gpus(state, desired)
    found = []
    for gpu, layout in chosen:
        made = places(state.entry(gpu.uuid))
        now = in_use.for_change(gpu, state)
        steps_of, why, notes = one_gpu(now, layout.mig, layout.instances, desired.exact, made)
        found.append(Decision(gpu, layout, tuple(steps_of), tuple(why), tuple(notes)))
    return found, refusals


def _decided(state: State, refusals: List[Refusal], notes: List[str], actions: Tuple[Action, ...]) -> Plan:
    if not refusals:
        refusals = list(in_use.job_runners(state, actions))
    if refusals:
        notes = notes + ([_STOPPED.format(" and ".join(state.stopped))] if state.stopped else [])
        return Plan(refusals=tuple(refusals), notes=tuple(notes))
    return Plan(actions, notes=tuple(notes))


def undo(state: State) -> Plan:
    """Each GPU that was changed here becomes what it was before."""
    notes: List[str] = []
    refusals: List[Refusal] = []
    steps_of: Dict[str, List[GpuAction]] = {}
    over: List[Tuple[str, Optional[Entry]]] = []
    answering = {gpu.uuid: gpu for gpu in state.gpus}
    for uuid, entry in state.entries:
        gpu = answering.get(uuid)
        if gpu is None:
            continue  # gone with its layout, or silent: its entry stays for the day when it answers
        now = in_use.for_change(gpu, state)
        found, why, told = one_gpu(now, entry.before.mode, entry.before, True)
        refusals += why
        notes += told
        if found:
            steps_of[uuid] = found
        if not changes(found) and gpu.mode == gpu.pending == entry.before.mode:
            over.append((uuid, None))
    return _decided(state, refusals, notes, with_record(state, steps_of, over, forget=True))


def reboot_pending(state: State, desired: Desired) -> bool:
    """Whether a GPU waits for the mode that is wanted of it, so that the rest comes with the next boot."""
    if desired.present:
        wanted = [(gpu, layout.mig) for gpu, layout in chosen_gpus(state, desired)[0]]
    else:
        wanted = [(gpu, entry.before.mode) for gpu in state.gpus for entry in [state.entry(gpu.uuid)] if entry]
    return any(waits(gpu, mig) for gpu, mig in wanted)


def waits(gpu: Gpu, mig: bool) -> bool:
    """Whether a GPU has this mode before it, at its next reset or when nothing holds it any more."""
    return gpu.mode is not None and gpu.mode != mig and gpu.pending == mig


def one_gpu(
    gpu: Gpu, mig: bool, asked: Union[Sequence[Asked], Standing], exact: bool, made: Optional[Places] = None
) -> Tuple[List[GpuAction], List[Refusal], List[str]]:
    """The steps on one GPU, what speaks against them, and what there is to tell. ``asked``: or how it was before."""
    found, refusals, notes = _wanted_steps(gpu, mig, asked, exact, made)
    if gpu.clients_untold is not None and any(isinstance(step, (SetMode, EndInstance, EndCompute)) for step in found):
        reason = "who uses it is not told: {0}".format(gpu.clients_untold)
        return [], [Refusal(gpu.label, reason, "see why the driver does not list its processes; " + LOG)], []
    return found, refusals, notes


def _wanted_steps(
    gpu: Gpu, mig: bool, asked: Union[Sequence[Asked], Standing], exact: bool, made: Optional[Places]
) -> Tuple[List[GpuAction], List[Refusal], List[str]]:
    if gpu.mode is None:
        refused = Refusal(gpu.label, "it cannot be divided (no MIG)", "leave it out of the layouts")
        return [], [refused] if mig else [], []
    try:
        # A driver that tells no profiles or places while MIG is off is asked again when it is on.
        wanted = _wanted(gpu, asked) if gpu.part.profiles else ()
        known = gpu.mode or gpu.part.told
        changes = arrange(gpu.part, gpu.instances, wanted, exact, made) if mig and known else Changes()
    except Impossible as why:
        return [], [_impossible(gpu, why)], []
    if mig != gpu.mode or gpu.pending != gpu.mode:
        return _mode(gpu, mig, changes)
    return (steps(gpu, changes), [], share(gpu, changes)) if mig else ([], [], [])


def _wanted(gpu: Gpu, asked: Union[Sequence[Asked], Standing]) -> Sequence[Wish]:
    if not isinstance(asked, Standing):
        return wishes(gpu.part, asked)
    return [
        Wish(resolve(gpu.part, str(piece.profile))[0], piece.start, piece.compute, bare=not piece.compute)
        for piece in asked.pieces
    ]


def _mode(gpu: Gpu, mig: bool, changes: Changes) -> Tuple[List[GpuAction], List[Refusal], List[str]]:
    """A GPU whose mode is another one, or is about to be."""
    switch: GpuAction = SetMode(gpu.label, gpu.uuid, mig, bool(gpu.resetless))
    if gpu.mode == mig:  # somebody else asked for a change that has not come yet; it is taken back
        return [switch], [], []
    if waits(gpu, mig) and (gpu.reset_told or gpu.clients):
        return [], [], [_waits(gpu, mig)]
    if gpu.clients:
        return [], [in_use.refusal(gpu, "switch MIG {0}".format("on" if mig else "off"))], []
    if not mig:
        # One that waits for its reset would offer its instances until then.
        ends = [
            EndInstance(gpu.label, gpu.uuid, i.id, i.placed.profile.name, i.placed.start, i.slices)
            for i in gpu.instances
        ]
        return [*ends, switch], [], []
    if not gpu.resetless or not gpu.part.told:
        return [switch], [], []
    return [switch, *steps(gpu, changes)], [], share(gpu, changes)


def steps(gpu: Gpu, changes: Changes) -> List[GpuAction]:
    """The changes as steps, in the order in which NVML can carry them out."""
    found: List[GpuAction] = []
    for instance, goes in changes.shrink:
        name = instance.placed.profile.name
        found.append(EndCompute(gpu.label, gpu.uuid, instance.id, name, tuple(compute.id for compute in goes)))
    for instance in changes.destroy:
        placed = instance.placed
        found.append(EndInstance(gpu.label, gpu.uuid, instance.id, placed.profile.name, placed.start, instance.slices))
    for new in changes.create:
        profile = new.placed.profile
        found.append(
            MakeInstance(
                gpu.label, gpu.uuid, profile.name, profile.id, new.placed.start, profile.memory_slices,
                tuple(sorted(new.compute, reverse=True)),
            )
        )  # fmt: skip
    for instance, sizes in changes.grow:
        found.append(MakeCompute(gpu.label, gpu.uuid, instance.id, instance.placed.profile.name, sizes))
    if gpu.minor is not None and (changes.create or changes.grow or gpu.files_missing):
        found.append(MakeFiles(gpu.label, gpu.uuid, gpu.minor))
    return found


def usable_percent(gpu: Gpu, layout: Sequence[Placed]) -> Optional[float]:
    """The share of the GPU's multiprocessors that its instances have; None where it does not tell."""
    if not gpu.part.multiprocessors:
        return None
    return 100.0 * sum(placed.profile.multiprocessors for placed in layout) / gpu.part.multiprocessors


def share(gpu: Gpu, changes: Changes) -> List[str]:
    """What a layout leaves unused is told: nobody sees it later."""
    percent = usable_percent(gpu, changes.layout)
    if percent is None or not changes.layout or percent >= 99.995:
        return []
    used = sum(placed.profile.multiprocessors for placed in changes.layout)
    return [
        "{0}: the layout uses {1} of {2} multiprocessors; {3:.2f} % of the GPU stay unused".format(
            gpu.label, used, gpu.part.multiprocessors, 100.0 - percent
        )
    ]


def _waits(gpu: Gpu, on: bool) -> str:
    what = "MIG is switched {0} and waits for a reset of the GPU".format("on" if on else "off")
    if not gpu.reset_told:
        told = in_use.named(gpu.clients)
        what = "MIG is switched {0} and waits for {1}".format("on" if on else "off", told)
        what += "; end {0} and run it again, or".format("them" if " and " in told else "it")
        return "{0}: {1} reboot the node".format(gpu.label, what)
    after = "; reboot the node, and what is declared is made at boot" if on else "; reboot the node"
    return "{0}: {1}{2}".format(gpu.label, what, after)


def _impossible(gpu: Gpu, why: Impossible) -> Refusal:
    reason, _comma, remedy = str(why).partition("; ")
    if gpu.clients:
        remedy = remedy.replace(WHAT_USES_IT, in_use.named(gpu.clients))
    return Refusal(gpu.label, reason, remedy or "ask for what this GPU has")

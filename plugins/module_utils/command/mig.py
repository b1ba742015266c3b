# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode mig``: how the GPUs are divided into instances, what they could be divided into, and what a wish would do.

The resource mig_layout looks and plans; here it is told. Nothing is changed.
"""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core import declaration, options
from ..core.frozen import frozen, replaced
from ..core.host import Host
from ..core.resource import Misuse, NodeError, Plan, Refusal
from ..facts.nvml.session import CALL_TIMEOUT_SECONDS
from ..gpus.mig.choose import chosen_gpus, silent
from ..gpus.mig.in_use import for_change
from ..gpus.mig.instances import Impossible
from ..gpus.mig.observe import observe
from ..gpus.mig.options import SECTION, Layout
from ..gpus.mig.place import ENGINES, Placed, Profile, room
from ..gpus.mig.plan import decide, one_gpu, usable_percent
from ..gpus.mig.types import Client, EndInstance, FailedGpu, Gpu, GpuAction, MakeInstance, SetMode
from ..gpus.mig.wishes import FORM, line, parse
from ..resources import mig_layout
from . import by_gpu, mig_lines
from .gpu_argument import selectors as selectors_of
from .status import DONE, NOT_DONE
from .table import print_json

OFF, EMPTY = "off", "empty"
_NO_MIG = Refusal("this node", "no GPU of it can be divided (no MIG)", "plan for one that has GPUs with MIG")


def show(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when a GPU does not answer or is not as declared, so that scripts notice."""
    declared, wrong = _declared(host)
    state = observe(host, CALL_TIMEOUT_SECONDS, False, () if declared is None else declared.stop_units)
    gpus, failed = by_gpu.selected(state.gpus, state.failed, selectors_of(arguments.gpu))
    layouts: Dict[str, Layout] = {}
    if declared is not None:
        pairs, refusals = chosen_gpus(state, declared)
        layouts = {gpu.uuid: layout for gpu, layout in pairs}
        wrong += [str(refusal) for refusal in refusals]
    rows = [
        _row(gpu, for_change(gpu, state), declared, layouts.get(gpu.uuid))
        for gpu in sorted(gpus, key=lambda one: one.index)
    ]
    if arguments.json:
        print_json(
            {
                "gpus": rows,
                "failed_gpus": by_gpu.plain_failed(failed),
                "declaration": wrong,
                "message": state.absent,
            }
        )
    else:
        mig_lines.show(mig_lines.listed(rows, state.absent, wrong))
        by_gpu.print_failed(failed)
    differs = any(one["declared"] is not None and not one["declared"]["as_declared"] for one in rows)
    return NOT_DONE if failed or wrong or differs else DONE


def profiles(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when a GPU does not answer."""
    state = observe(host, CALL_TIMEOUT_SECONDS, False)
    selectors = selectors_of([*(arguments.gpu or ()), *arguments.which])
    gpus, failed = by_gpu.selected(state.gpus, state.failed, selectors)
    rows = [
        {
            "index": gpu.index,
            "uuid": gpu.uuid,
            "pci_address": gpu.pci_address,
            "name": gpu.name,
            "mig": gpu.mode,
            "compute_slices": gpu.part.compute_slices,
            "memory_slices": gpu.part.memory_slices,
            "multiprocessors": gpu.part.multiprocessors or None,
            "profiles": [_profile(gpu, one) for one in _widest_first(gpu.part.profiles)],
        }
        for gpu in sorted(gpus, key=lambda one: one.index)
    ]
    if arguments.json:
        print_json({"gpus": rows, "failed_gpus": by_gpu.plain_failed(failed), "message": state.absent})
    else:
        mig_lines.show(mig_lines.of_profiles(rows, state.absent))
        by_gpu.print_failed(failed)
    return NOT_DONE if failed else DONE


def plan(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when it is refused, or a GPU that is meant does not answer."""
    declared, dummy = _declared(host)
    desired = _wish(arguments, () if declared is None else declared.stop_units)
    state = observe(host, CALL_TIMEOUT_SECONDS, False, desired.stop_units)
    by_gpu.selected(state.gpus, state.failed, desired.layouts[0].gpus)
    found = decide(state, desired)
    pairs = chosen_gpus(state, desired)[0]
    if not (pairs or found.refusals or state.absent or state.failed):
        found = replaced(found, refusals=(_NO_MIG,))
    planned = [] if found.refusals else [_planned(gpu, for_change(gpu, state), desired) for gpu, dummy_layout in pairs]
    failed = [FailedGpu(None, None, None, message) for message in silent(state, desired)]
    document = _document(desired, found, planned)
    if arguments.json:
        print_json(dict(document, failed_gpus=by_gpu.plain_failed(failed)))
    else:
        mig_lines.show(mig_lines.planned(document))
        by_gpu.print_failed(failed)
    return NOT_DONE if found.refusals or failed else DONE


# What is declared, what is wished ---------------------------------------------------------------------


def _declared(host: Host) -> Tuple[Optional[mig_layout.Desired], List[str]]:
    """What is in force on this node, and what is wrong with it."""
    section = declaration.read(host).get(SECTION)
    if section is None:
        return None, []
    try:
        return options.of(mig_layout.Desired, section), []
    except NodeError as error:
        return None, [str(error)]


def _wish(arguments: argparse.Namespace, stop_units: Tuple[str, ...]) -> mig_layout.Desired:
    text = " ".join(arguments.wish).strip()
    try:
        asked = () if text in (OFF, EMPTY) else parse(text)
    except Impossible as why:
        raise Misuse("gpunode mig plan " + text, str(why).partition("; ")[0], FORM + ", or empty, or off") from why
    except NodeError as error:
        raise Misuse("gpunode mig plan " + text, "{0}: {1}".format(error.thing, error.reason), error.remedy) from error
    layout = Layout(selectors_of(arguments.gpu), text != OFF, asked)
    rest = options.of(mig_layout.Desired, {"exact": not arguments.around, "stop_units": list(stop_units)})
    return replaced(rest, layouts=(layout,))


# What is told -----------------------------------------------------------------------------------------


def _row(gpu: Gpu, free: Gpu, declared: Optional[mig_layout.Desired], layout: Optional[Layout]) -> Dict[str, Any]:
    """As the module tells it, with who uses what and what is declared."""
    row = mig_layout.row(gpu)
    memory = {one.gi: one for one in gpu.memory}
    for one in row["instances"]:
        told = memory.get(one["gi"])
        one["memory_total_bytes"] = one["memory_mib"] << 20 if told is None else told.total_bytes
        one["memory_used_bytes"] = None if told is None else told.used_bytes
        one["engines"] = _engines(gpu.part.by_id(one["profile_id"]))
        own = [client for client in gpu.clients if client.gi == one["gi"]]
        for compute in one["compute"]:
            compute["clients"] = [_client(client) for client in own if client.ci == compute["ci"]]
        known = [compute["ci"] for compute in one["compute"]]
        # Of a process that NVML places in the GPU instance alone.
        one["clients"] = [_client(client) for client in own if client.ci not in known]
    gis = [one["gi"] for one in row["instances"]]
    held = not gpu.reset_told and bool(gpu.resetless or gpu.clients)
    waits = None if gpu.mode == gpu.pending else "clients" if held else "gpu_reset"
    return dict(
        row,
        waits_for=waits,
        compute_slices=gpu.part.compute_slices,
        memory_slices=gpu.part.memory_slices,
        multiprocessors=gpu.part.multiprocessors or None,
        clients=[_client(client) for client in gpu.clients if client.gi not in gis],
        declared=None if declared is None or layout is None else _comparison(free, declared, layout),
    )


def _comparison(gpu: Gpu, declared: mig_layout.Desired, layout: Layout) -> Dict[str, Any]:
    """What is declared of a GPU, and what a run would do."""
    steps, refusals, notes = one_gpu(gpu, layout.mig, layout.instances, declared.exact)
    return {
        "mig": layout.mig,
        "wish": (line(layout.instances) or EMPTY) if layout.mig else OFF,
        "as_declared": not steps and not refusals and gpu.mode in (layout.mig, None),
        "differences": [by_gpu.labelled(step.describe())[1] for step in steps],
        "refusals": [by_gpu.labelled(str(refusal))[1] for refusal in refusals],
        "notes": [by_gpu.labelled(note)[1] for note in notes],
    }


def _client(client: Client) -> Dict[str, Any]:
    return {
        "pid": client.pid,
        "command": _valid(client.command),
        "owner": _valid(client.owner),
        "unit": _valid(client.unit),
        "told": _valid(client.told()),
    }


def _valid(text: str) -> str:
    """Without the stand-ins for bytes that are no UTF-8, which strict readers of JSON refuse."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _profile(gpu: Gpu, profile: Profile) -> Dict[str, Any]:
    placed = [instance.placed for instance in gpu.instances]
    return {
        "id": profile.id,
        "name": profile.name,
        "compute_slices": profile.compute_slices,
        "memory_slices": profile.memory_slices,
        "memory_mib": profile.memory_mib,
        "multiprocessors": profile.multiprocessors,
        "engines": _engines(profile),
        "starts": list(profile.starts),
        "most": profile.most,
        "free": room(gpu.part, placed, profile) if gpu.mode else None,
    }


def _engines(profile: Optional[Profile]) -> Mapping[str, int]:
    return {} if profile is None else dict(zip(ENGINES, profile.engines))


def _widest_first(found: Sequence[Profile]) -> List[Profile]:
    return sorted(found, key=lambda one: (-one.compute_slices, -one.memory_slices, one.name))


# What would be done -----------------------------------------------------------------------------------


@frozen
class Planned:
    """One GPU: the steps now, those when its mode has changed, and what it has after them."""

    gpu: Gpu
    now: Tuple[GpuAction, ...]
    then: Tuple[GpuAction, ...]
    after: Tuple[Placed, ...]
    notes: Tuple[str, ...]


def _planned(gpu: Gpu, free: Gpu, desired: mig_layout.Desired) -> Planned:
    layout = desired.layouts[0]
    now, dummy, notes = one_gpu(free, layout.mig, layout.instances, desired.exact)
    later: List[GpuAction] = []
    waits = any(isinstance(step, SetMode) for step in now) and not any(isinstance(step, MakeInstance) for step in now)
    if layout.instances and not gpu.part.profiles:
        notes = [*notes, gpu.label + ": the driver tells what it can be divided into when MIG is on"]
    elif layout.mig and (waits or gpu.pending != gpu.mode):
        # The mode comes first; what is made then is known already.
        on = replaced(free, mode=True, pending=True, clients=())
        later, dummy, more = one_gpu(on, True, layout.instances, desired.exact)
        notes = [*notes, *more]
        if not gpu.part.told:
            notes.append(gpu.label + ": the driver did not tell where instances may lie; these are the usual places")
    after = _after(gpu, [*now, *later]) if layout.mig else ()
    return Planned(gpu, tuple(now), tuple(later), after, tuple(notes))


def _after(gpu: Gpu, steps: Sequence[GpuAction]) -> Tuple[Placed, ...]:
    ended = {step.gi for step in steps if isinstance(step, EndInstance)}
    stay = [instance.placed for instance in gpu.instances if instance.id not in ended]
    for step in steps:
        profile = gpu.part.by_id(step.profile_id) if isinstance(step, MakeInstance) else None
        if profile is not None and isinstance(step, MakeInstance):
            stay.append(Placed(profile, step.start))
    return tuple(sorted(stay, key=lambda placed: placed.start))


def _document(desired: mig_layout.Desired, found: Plan, planned: Sequence[Planned]) -> Dict[str, Any]:
    layout = desired.layouts[0]
    return {
        "wish": (line(layout.instances) or EMPTY) if layout.mig else OFF,
        "exact": desired.exact,
        # To note where an instance stands that nobody changes is no step for a person.
        "actions": [action.to_dict() for action in found.actions if any(one.now for one in planned)],
        "gpus": [
            {
                "index": one.gpu.index,
                "uuid": one.gpu.uuid,
                "pci_address": one.gpu.pci_address,
                "memory_slices": one.gpu.part.memory_slices,
                "as_wished": not one.now and not one.then and one.gpu.mode == layout.mig,
                "needs_reset": layout.mig != one.gpu.mode and not one.gpu.resetless,
                "then": [step.to_dict() for step in one.then],
                "after": [
                    {"profile": placed.profile.name, "start": placed.start, "size": placed.profile.memory_slices}
                    for placed in one.after
                ],
                "usable_percent": usable_percent(one.gpu, one.after) if layout.mig else None,
            }
            for one in planned
        ],
        "refusals": [
            {"thing": one.thing, "reason": one.reason, "remedy": one.remedy, "message": str(one)}
            for one in found.refusals
        ],
        "notes": list(dict.fromkeys([*found.notes, *(note for one in planned for note in one.notes)])),
        "message": found.skipped,
    }

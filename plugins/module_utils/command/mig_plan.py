# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode mig plan``: what would be done for a wish. The planner of mig_layout makes it; nothing is changed."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
from typing import Any, Dict, List, Sequence, Tuple

from ..core import options
from ..core.frozen import frozen, replaced
from ..core.host import Host
from ..core.resource import Misuse, NodeError, Plan, Refusal
from ..facts.nvml.session import CALL_TIMEOUT_SECONDS
from ..gpus.mig.choose import chosen_gpus, silent
from ..gpus.mig.in_use import for_change
from ..gpus.mig.instances import Impossible
from ..gpus.mig.observe import observe
from ..gpus.mig.options import Layout
from ..gpus.mig.place import Placed
from ..gpus.mig.plan import decide, one_gpu, usable_percent
from ..gpus.mig.types import EndInstance, FailedGpu, Gpu, GpuAction, MakeInstance, SetMode
from ..gpus.mig.wishes import FORM, line, parse
from ..resources import mig_layout
from . import by_gpu, mig_lines
from .arguments import gpu_selectors
from .exit_status import DONE, NOT_DONE
from .output import print_json

OFF, EMPTY = "off", "empty"
_NO_MIG = Refusal("this node", "no GPU of it can be divided (no MIG)", "plan for one that has GPUs with MIG")


@frozen
class Planned:
    """One GPU: the steps now, those when its mode has changed, and what it has after them."""

    gpu: Gpu
    now: Tuple[GpuAction, ...]
    then: Tuple[GpuAction, ...]
    after: Tuple[Placed, ...]
    notes: Tuple[str, ...]


def run(host: Host, arguments: argparse.Namespace, stop_units: Tuple[str, ...]) -> int:
    """Status 1 when it is refused, or a GPU that is meant does not answer."""
    desired = _wish(arguments, stop_units)
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


def _wish(arguments: argparse.Namespace, stop_units: Tuple[str, ...]) -> mig_layout.Desired:
    text = " ".join(arguments.wish).strip()
    try:
        asked = () if text in (OFF, EMPTY) else parse(text)
    except Impossible as why:
        raise Misuse("gpunode mig plan " + text, str(why).partition("; ")[0], FORM + ", or empty, or off") from why
    except NodeError as error:
        raise Misuse("gpunode mig plan " + text, "{0}: {1}".format(error.thing, error.reason), error.remedy) from error
    layout = Layout(gpu_selectors(arguments.gpu), text != OFF, asked)
    rest = options.of(mig_layout.Desired, {"exact": not arguments.around, "stop_units": list(stop_units)})
    return replaced(rest, layouts=(layout,))


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

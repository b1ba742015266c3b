# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Divides GPUs into instances (MIG): which there are to be, and what has to change for that.

For front ends, beside the record of the resource: ``converge_declared(host, check_mode)`` makes what is declared, None
when nothing is; ``row(gpu)`` is what is told of a GPU.

The parts: ``place`` (where instances may lie) and ``arrange`` (what changes) know no machine; ``names``, ``parted`` and
``wishes`` make wishes of what was written, ``choose`` tells of which GPUs; ``plan`` decides GPU by GPU of what
``observe`` saw, ``predict`` foresees what comes of it; ``apply`` changes all GPUs in one session, and each of them goes
back to what it was when a step fails. ``record`` holds how a GPU was before, ``remember`` says what is written there.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...core import declaration
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.options import given, of
from ...core.resource import Action, Line, NodeError, Outcome, Plan, Resource, Together, Wait
from ...core.run import run
from ...core.systemd import boot_unit
from ...core.systemd.boot_unit import BootUnit
from ...gpus.mig import jobs, record
from ...gpus.mig.apply import carry_out
from ...gpus.mig.choose import silent
from ...gpus.mig.instances import Instance
from ...gpus.mig.observe import observe
from ...gpus.mig.options import SECTION, Desired
from ...gpus.mig.place import room
from ...gpus.mig.plan import decide, reboot_pending, usable_percent
from ...gpus.mig.predict import NEW, predict
from ...gpus.mig.types import Gpu, GpuAction, HoldUnits, Remember, StartUnits, State, standing

__all__ = ["RESOURCE", "Desired", "Found", "State", "converge_declared", "row"]


@frozen
class Found:
    """The node as this resource sees it."""

    gpus: State
    unit: boot_unit.BootUnitState = boot_unit.BootUnitState()


def unit_of(desired: Desired) -> BootUnit:
    return BootUnit(
        SECTION,
        "Declared MIG layouts of this node",
        after=("nvidia-persistenced.service", "nvidia-fabricmanager.service"),
        before=("gpu-node-gpu_settings.service", "nvidia-dcgm.service", *desired.before_units),
        timeout_seconds=desired.boot_timeout_seconds,
    )


def asks(desired: Desired) -> bool:
    return bool(desired.present and (desired.layouts or desired.parted_config))


def look(host: Host, desired: Desired) -> Found:
    """Nothing is asked of the GPUs where nobody wants a layout and none was made: that is so on most nodes."""
    unit = boot_unit.look(host, unit_of(desired))
    declared = declaration.read(host).get(SECTION)
    wanted = asks(desired) or desired.require_gpus or not desired.present
    if not (wanted or declared is not None or record.read(host) or record.stopped(host)):
        return Found(State(absent="no layout is asked for, and none was made here"), unit)
    return Found(_gpus(host, desired), unit)


def _gpus(host: Host, desired: Desired) -> State:
    """slurmctld is asked for the jobs here only if something is to be changed."""
    state = observe(host, desired.call_timeout_seconds, stop_units=desired.stop_units)
    made = decide(state, desired)
    return jobs.asked(host, state) if made.actions or (state.jobs and made.refusals) else state


def plan(found: Found, desired: Desired) -> Plan:
    """The declaration first, so that a power cut leaves the wish on record; the unit goes before the layouts do.

    On a machine whose GPUs are all gone the declaration stays and is kept up to date: they may be back after a reboot.
    On one that never had any, nothing is declared.
    """
    gpus = decide(found.gpus, desired)
    declares = asks(desired) and not (gpus.skipped and found.gpus.declared is None)
    unit = boot_unit.plan(found.unit, unit_of(desired), desired.boot_unit and declares)
    notes = gpus.notes + unit.notes + _left(found.gpus, desired)
    if gpus.refusals or unit.refusals:
        return Plan(refusals=gpus.refusals + unit.refusals, notes=notes)
    sections = {} if found.gpus.declared is None else {SECTION: dict(found.gpus.declared)}
    content = given(desired) if declares else None
    declare = declaration.plan(sections, SECTION, content)
    first: Tuple[Action, ...] = (declare,) if declare is not None else ()
    actions = first + (gpus.actions + unit.actions if desired.present else unit.actions + gpus.actions)
    if gpus.skipped:
        return Plan(actions, notes=(*notes, gpus.skipped)) if actions else Plan(notes=notes, skipped=gpus.skipped)
    # What has to be looked at again comes last.
    looked_at = tuple(action for action in actions if action.then_look())
    if looked_at and gpus.actions and gpus.actions[-1].then_look():
        first += unit.actions
        actions = first + gpus.actions
    return Plan(actions, notes=notes)


def _left(state: State, desired: Desired) -> Tuple[str, ...]:
    """Instances that were made here, and that no boot makes again as nobody asks for them any more."""
    if asks(desired) or not desired.present:
        return ()
    before = {uuid: entry.before for uuid, entry in state.entries}
    left = [gpu for gpu in state.gpus if gpu.instances and gpu.uuid in before and standing(gpu) != before[gpu.uuid]]
    told = "{0} GPU(s) keep instances made here until the next reboot; set {1}_state: default to give them back now"
    return (told.format(len(left), SECTION),) if left else ()


def _together(host: Host, actions: Tuple[Action, ...], desired: Desired) -> Optional[NodeError]:
    return carry_out(host, actions, desired.call_timeout_seconds)


def _ending(found: Found, rest: Plan, desired: Desired, failed: Optional[NodeError]) -> str:
    """The GPUs that could not be changed, and those that do not answer."""
    if failed is None and rest.actions:
        return ""
    told = "" if failed is None else str(failed)
    more = [message for message in silent(found.gpus, desired) if message not in told]
    return " ".join([told, *more]).strip()


def _number(made: int) -> Optional[int]:
    return None if made == NEW else made


def row(gpu: Gpu) -> Dict[str, Any]:
    """What is told of a GPU."""
    placed = tuple(instance.placed for instance in gpu.instances)
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "pci_address": gpu.pci_address,
        "name": gpu.name,
        "mig": gpu.mode,
        "mig_pending": gpu.pending,
        "needs": "none" if gpu.mode == gpu.pending else "gpu_reset",
        "instances": [
            {
                "gi": _number(instance.id),
                "profile": instance.placed.profile.name,
                "profile_id": instance.placed.profile.id,
                "start": instance.placed.start,
                "size": instance.placed.profile.memory_slices,
                "memory_mib": instance.placed.profile.memory_mib,
                "multiprocessors": instance.placed.profile.multiprocessors,
                "compute": [
                    {"ci": _number(one.id), "slices": one.slices, "uuid": one.uuid, "in_use": one.used}
                    for one in instance.compute
                ],
            }
            for instance in sorted(gpu.instances, key=lambda one: one.placed.start)
        ],
        "free": {profile.name: room(gpu.part, placed, profile) for profile in gpu.part.profiles if gpu.mode},
        "usable_percent": None if not gpu.mode else usable_percent(gpu, placed),
    }


def _facts(outcome: Outcome[Found], desired: Desired) -> Dict[str, Any]:
    state = outcome.after.gpus
    failed = [
        {"index": gpu.index, "uuid": gpu.uuid, "pci_address": gpu.pci_address, "message": gpu.message}
        for gpu in state.failed
    ]
    return {
        "gpus": [row(gpu) for gpu in state.gpus],
        "failed_gpus": failed,
        "reboot_pending": reboot_pending(state, desired),
    }


def _shown(outcome: Outcome[Found], desired: Desired, planned: bool) -> str:
    found = outcome.after if planned else outcome.before
    rows = {
        "{0} {1}".format(gpu.pci_address, gpu.uuid): {
            "mig": gpu.mode,
            "pending": gpu.pending,
            "instances": [_instance(one) for one in sorted(gpu.instances, key=lambda one: one.placed.start)],
        }
        for gpu in found.gpus.gpus
    }
    steps = outcome.plan.actions if planned else ()
    return (
        json.dumps(rows, indent=2, sort_keys=True) + "\n" + boot_unit.text(outcome.before.unit, unit_of(desired), steps)
    )


def _instance(one: Instance) -> str:
    told = "{0} at {1}".format(one.placed.profile.name, one.placed.start)
    if one.slices == (one.placed.profile.compute_slices,):
        return told
    return told + ", divided into " + (" + ".join("{0}c".format(slices) for slices in one.slices) or "nothing")


def _predicted(found: Found, actions: Tuple[Action, ...], dummy: Desired) -> Found:
    return replaced(found, gpus=replaced(found.gpus, gpus=predict(found.gpus.gpus, actions)))


def _line(result: Mapping[str, Any]) -> str:
    counts: Dict[str, int] = {}
    for gpu in result.get("gpus") or []:
        names: List[str] = [instance["profile"] for instance in gpu["instances"]]
        told = " + ".join(sorted(names)) or ("empty" if gpu["mig"] else "whole")
        if gpu["needs"] != "none":
            told += " until a reset"
        counts[told] = counts.get(told, 0) + 1
    return "; ".join("{0} x {1}".format(count, told) for told, count in counts.items()) or "none"


def _waits(result: Mapping[str, Any]) -> str:
    if not result.get("reboot_pending"):
        return ""
    gpus = ["GPU {index} ({pci_address})".format(**gpu) for gpu in result["gpus"] if gpu["needs"] != "none"]
    return "the MIG mode of {0} changes at a reboot: reboot the node, then run this again".format(", ".join(gpus))


def converge_declared(host: Host, check_mode: bool = False) -> Optional[Outcome[Found]]:
    """What the boot unit runs: the GPUs alone.

    :raises NodeError: as a run of the resource.
    """
    section = declaration.read(host).get(SECTION)
    if section is None:
        return None
    if os.geteuid() != 0 and not check_mode:
        raise NodeError("MIG layouts", "only root may change them", "run it as root (in a play: become: true)")

    def found(host: Host, desired: Desired) -> Found:
        return Found(_gpus(host, desired))

    def gpus_alone(found: Found, desired: Desired) -> Plan:
        return decide(found.gpus, desired)

    return run(host, replaced(RESOURCE, observe=found, plan=gpus_alone), of(Desired, section), check_mode)


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=look,
    plan=plan,
    steps={**declaration.STEPS, **boot_unit.STEPS},
    facts=_facts,
    shown=_shown,
    title="MIG layouts",
    needs_command=True,
    together=Together((GpuAction, Remember, HoldUnits, StartUnits), _together),
    predict=_predicted,
    ending=_ending,
    line=Line("MIG", _line, foresees=True),
    wait=Wait("a reboot", _waits),
    at_boot=converge_declared,
)

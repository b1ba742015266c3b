# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observe, plan, apply and observe again, for the GPUs of a node.

As ``resource.converge``, with two differences: the setters of all GPUs share one NVML session, and a GPU that
does not answer fails the run only after the others were set.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any, Dict, List, Optional

from ...core import declaration
from ...core.host import Host
from ...core.resource import NodeError, Outcome, Plan, Refused
from .apply import apply_all
from .desired import Desired
from .observe import observe
from .plan import SECTION, decide
from .predict import predict
from .rules import live_claim
from .select import select, selected_failures
from .types import Gpu, GpuAction, State


class Unfinished(NodeError):
    """Some GPUs could not be set. ``outcome`` tells what was done on the others."""

    def __init__(self, message: str, outcome: Outcome[State]) -> None:
        super().__init__("GPU settings", message, "")
        self.message = message
        self.outcome = outcome

    def __str__(self) -> str:
        return self.message


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Bring the GPUs of this node to what is asked for.

    :raises Refused: when something cannot be met; nothing was changed.
    :raises Unfinished: when a GPU does not answer or a setter failed; the other GPUs were set.
    :raises NodeError: no driver, not root, …
    """
    root = os.geteuid() == 0
    # Two runs take turns. Check mode writes nothing, not even a lock; a user who is not root gets no further
    # than the plan.
    with host.lock(SECTION) if root and not check_mode else contextlib.nullcontext():
        return _run(host, desired, check_mode, root)


def converge_declared(host: Host, check_mode: bool = False) -> Optional[Outcome[State]]:
    """Bring the GPUs to what was declared for this node; None when nothing was. For boot units and ``gpunode``."""
    content = declaration.read(host).get(SECTION)
    if content is None:
        return None
    return run(host, Desired.from_options(dict(content, declare=False)), check_mode)


def _run(host: Host, desired: Desired, check_mode: bool, root: bool) -> Outcome[State]:
    before = _observe(host, desired)
    plan = _planned(before, desired)
    if check_mode or not plan.actions:
        outcome = Outcome(before, predict(before, plan.actions), plan, changed=bool(plan.actions))
        return _finish(outcome, desired, [])
    if not root:
        raise NodeError("GPU settings", "only root may change them", "run it as root (in a play: become: true)")
    done = apply_all(host, plan.actions, desired.call_timeout_seconds)
    after = _observe(host, desired)
    error = done.error()
    if error is None:
        rest = _planned(after, desired)
        if rest.actions:
            raise _still_different(after, rest)
        notes = plan.notes + tuple(note for note in rest.notes if note not in plan.notes)
        plan = Plan(actions=plan.actions, notes=notes)
    outcome = Outcome(before, after, plan, changed=True)
    return _finish(outcome, desired, [] if error is None else [str(error)])


def _observe(host: Host, desired: Desired) -> State:
    return observe(host, desired.call_timeout_seconds, with_declaration=desired.declare)


def _planned(state: State, desired: Desired) -> Plan:
    plan = decide(state, desired).plan
    if plan.refusals:
        raise Refused(plan.refusals)
    return plan


def _finish(outcome: Outcome[State], desired: Desired, messages: List[str]) -> Outcome[State]:
    told = " ".join(messages)
    for gpu in selected_failures(outcome.after, desired):
        # A GPU that failed while it was set is named by that failure already.
        if gpu.pci_address is None or gpu.pci_address not in told:
            messages.append(gpu.message)
    if messages:
        raise Unfinished(" ".join(messages), outcome)
    return outcome


def _still_different(after: State, rest: Plan) -> NodeError:
    left = "; ".join(action.describe() for action in rest.actions)
    gpus = {gpu.uuid: gpu for gpu in after.gpus}
    loose = [
        action.gpu
        for action in rest.actions
        if isinstance(action, GpuAction) and gpus[action.uuid].persistence is False
    ]
    if loose:
        return NodeError(
            loose[0],
            "the driver forgot its settings at once, since persistence mode is off and nothing else keeps the GPU open",
            "set persistence to true",
        )
    return NodeError(
        "GPU settings",
        "after all steps the node still differs from what was asked: " + left,
        "run it again, and report this as a bug if it stays",
    )


# For results ------------------------------------------------------------------------------------------


def details(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """What a result shows beside the actions: each GPU, what is pending, and what a GPU does not support."""
    state = outcome.after
    # Undo forgets the record, and with it what is pending.
    full = decide(outcome.before if desired.undo else state, desired)
    chosen = {gpu.uuid for gpu, dummy in select(state, desired)[0]}
    gpus = []
    for gpu in state.gpus:
        row = _row(state, gpu)
        row["selected"] = gpu.uuid in chosen
        gpus.append(row)
    failed = [
        {"index": gpu.index, "uuid": gpu.uuid, "pci_address": gpu.pci_address, "message": gpu.message}
        for gpu in state.failed
    ]
    return {"gpus": gpus, "failed_gpus": failed, "pending": full.pending, "unsupported": full.unsupported}


def _row(state: State, gpu: Gpu) -> Dict[str, Any]:
    row: Dict[str, Any] = {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "pci_address": gpu.pci_address,
        "name": gpu.name,
        "persistence": gpu.persistence,
        "ecc": gpu.ecc,
        "ecc_pending": gpu.ecc_pending,
        "compute_mode": gpu.compute_mode,
        "power_limit_watts": None if gpu.power_limit_mw is None else gpu.power_limit_mw / 1000.0,
        "application_graphics_mhz": gpu.application_graphics_mhz,
        "application_memory_mhz": gpu.application_memory_mhz,
    }
    row["clocks"] = _clocks(state, gpu)
    return row


def diff_text(state: State) -> Dict[str, Any]:
    """The state as a diff shows it: only settings, nothing that moves by itself (a clock reading, heat)."""
    gpus = {}
    for gpu in state.gpus:
        row = _row(state, gpu)
        for name in ("index", "uuid", "pci_address"):
            del row[name]
        gpus["{0} {1}".format(gpu.pci_address, gpu.uuid)] = row
    return {"declared": state.declared, "gpus": gpus, "failed": [gpu.message for gpu in state.failed]}


def _clocks(state: State, gpu: Gpu) -> Dict[str, Any]:
    """How the clocks of this GPU are held, for the result."""
    claim = live_claim(state, gpu)
    if claim is None:
        return {"graphics_way": None, "graphics_mhz": None, "memory_way": None, "memory_mhz": None}
    values = dataclasses.asdict(claim)
    return {name: values[name] for name in ("graphics_way", "graphics_mhz", "memory_way", "memory_mhz")}

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run tells: how it ended, each GPU, and the settings as diff mode compares them. Pure."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ...core.frozen import plain
from ...core.resource import NodeError, Outcome, Plan
from .plan import decide
from .rules import live_claim
from .select import select, selected_failures
from .types import Gpu, GpuAction, State
from .wish import Wish


def ending(state: State, rest: Plan, wish: Wish, failed: Optional[NodeError]) -> str:
    """What is wrong although the others were set: setters that failed, GPUs that do not answer or forget at once."""
    if failed is None:
        gpus = {gpu.uuid: gpu for gpu in state.gpus}
        loose = [
            action.gpu
            for action in rest.actions
            if isinstance(action, GpuAction) and gpus[action.uuid].persistence is False
        ]
        if loose:
            reason = "the driver forgot its settings at once, since persistence mode is off and nothing else keeps the "
            return str(NodeError(loose[0], reason + "GPU open", "set persistence to true"))
        if rest.actions:
            return ""
    messages = [] if failed is None else [str(failed)]
    told = " ".join(messages)
    for gpu in selected_failures(state, wish):
        # A GPU that failed while it was set is named by that failure already.
        if gpu.pci_address is None or gpu.pci_address not in told:
            messages.append(gpu.message)
    return " ".join(messages)


def details(outcome: Outcome[State], wish: Wish) -> Dict[str, Any]:
    """What a result shows beside the actions: each GPU, what is pending, and what a GPU does not support."""
    state = outcome.after
    # Undo forgets the record, and with it what is pending.
    full = decide(outcome.before if wish.undo else state, wish)
    chosen = {gpu.uuid for gpu, dummy in select(state, wish)[0]}
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
    values = plain(claim)
    return {name: values[name] for name in ("graphics_way", "graphics_mhz", "memory_way", "memory_mhz")}

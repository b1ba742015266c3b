# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run tells: how it ended, each GPU, and the settings as diff mode compares them. Pure."""

from __future__ import annotations

import collections
from typing import Any, Dict, Mapping, Optional

from ...core.resource import NodeError, Outcome, Plan
from .options import Settings
from .plan import decide, select, selected_failures
from .settings import FORGOT_SETTINGS, SETTINGS
from .types import Gpu, GpuAction, State


def ending(state: State, rest: Plan, settings: Settings, failed: Optional[NodeError]) -> str:
    """What is wrong although the others were set: setters that failed, GPUs that do not answer or forget at once."""
    if failed is None:
        gpus = {gpu.uuid: gpu for gpu in state.gpus}
        loose = [one for one in rest.actions if isinstance(one, GpuAction) and gpus[one.uuid].loose]
        if loose:
            return str(NodeError(loose[0].gpu, *FORGOT_SETTINGS))
        if rest.actions:
            return ""
    messages = [] if failed is None else [str(failed)]
    told = " ".join(messages)
    for gpu in selected_failures(state, settings):
        # A GPU that failed while it was set is named by that failure already.
        if gpu.pci_address is None or gpu.pci_address not in told:
            messages.append(gpu.message)
    return " ".join(messages)


def details(outcome: Outcome[State], settings: Settings) -> Dict[str, Any]:
    """What a result shows beside the actions: each GPU, what is pending, and what a GPU does not support."""
    state = outcome.after
    # Undo forgets the record, and with it what is pending.
    full = decide(outcome.before if not settings.present else state, settings)
    chosen = {gpu.uuid for gpu, dummy in select(state, settings)[0]}
    gpus = []
    for gpu in state.gpus:
        row = _row(state, gpu)
        row["selected"] = gpu.uuid in chosen
        gpus.append(row)
    failed = [
        {"index": gpu.index, "uuid": gpu.uuid, "pci_address": gpu.pci_address, "message": gpu.message}
        for gpu in state.failed
    ]
    return {
        "gpus": gpus,
        "failed_gpus": failed,
        "pending": list(full.pending),
        "unsupported": list(full.unsupported),
    }


def _row(state: State, gpu: Gpu) -> Dict[str, Any]:
    row: Dict[str, Any] = {"index": gpu.index, "uuid": gpu.uuid, "pci_address": gpu.pci_address, "name": gpu.name}
    known = state.known(gpu)
    for setting in SETTINGS:
        row.update(setting.report(known))
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


def summary(result: Mapping[str, Any]) -> str:
    """A result in one line."""
    if result.get("skipped_reason"):
        return "none: {0}".format(result["skipped_reason"])
    parts = [setting.summary for setting in reversed(SETTINGS) if setting.summary is not None]
    kinds = collections.Counter((gpu.get("name"), *(part(gpu) for part in parts)) for gpu in result.get("gpus") or [])
    return "; ".join("{0} x {1}".format(count, ", ".join(kind)) for kind, count in kinds.items()) or "none answers"

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVMe disks of a node that are not named as scratch material: in words, and as a line for an inventory. Pure."""

from __future__ import annotations

import glob
import json
from typing import Dict, List, Sequence, Tuple

from ...core.resource import Refusal
from ...core.units import size
from .classify import judge
from .options import Desired
from .types import Disk, State


def words(state: State, disks: Sequence[Disk]) -> str:
    """``2 x KIOXIA KCD8 of 3.5 TiB (serials S1, S2); 1 x ... (serial S3): it is mounted at /``."""
    kinds: Dict[Tuple[str, int, str], List[str]] = {}
    for disk in sorted(disks, key=lambda disk: (disk.model, disk.serial)):
        verdict = judge(disk, state)
        why = ": " + verdict.reason if isinstance(verdict, Refusal) else ""
        if not why and not _alone(disk, state):
            why = ": another disk bears the same serial number"
        kinds.setdefault((disk.model, disk.size_bytes, why), []).append(disk.serial or "none")
    return "; ".join(
        "{0} x {1} of {2} (serial{3} {4}){5}".format(
            len(serials), model or "unknown model", size(size_bytes), "s" * (len(serials) > 1), ", ".join(serials), why
        )
        for (model, size_bytes, why), serials in kinds.items()
    )


def line(state: State, desired: Desired, chosen: Sequence[Disk]) -> str:
    """The variable that would make scratch material of the disks that are free, with its value; empty: none is.

    By models where that names no other disk, as one line then serves all nodes of a kind; it takes the place of a list
    of which no disk here fits. Serials are added to what is named already. What is pasted has to be enough, so a disk
    that shares its serial number is not offered, and a model is a pattern that fits only itself.
    """
    free = [
        disk for disk in others(state, chosen) if not isinstance(judge(disk, state), Refusal) and _alone(disk, state)
    ]
    models = sorted({disk.model for disk in free})
    if not free:
        return ""
    if not chosen and all(models) and not {disk.model for disk in state.disks if disk not in free} & set(models):
        return "nvme_scratch_models: " + json.dumps([glob.escape(model) for model in models])
    here = {disk.serial for disk in state.disks}
    named = [serial for serial in desired.serials if serial in here]
    return "nvme_scratch_serials: " + json.dumps(named + sorted(disk.serial for disk in free))


def offered(state: State, desired: Desired, chosen: Sequence[Disk]) -> str:
    """The line and where it belongs: a serial number in the variables of a group is refused on its other nodes."""
    text = line(state, desired, chosen)
    return text + " for this node alone (host_vars)" if text.startswith("nvme_scratch_serials") else text


def _alone(disk: Disk, state: State) -> bool:
    return sum(disk.serial == other.serial for other in state.disks) == 1


def others(state: State, chosen: Sequence[Disk]) -> List[Disk]:
    names = {disk.name for disk in chosen}
    return [disk for disk in state.disks if disk.name not in names]

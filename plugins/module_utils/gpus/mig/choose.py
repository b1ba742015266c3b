# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs are meant, and with which layout. Pure."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from ...core.resource import Refusal
from ...facts.nvml.selectors import ALL, identity_of, matches, matches_any, refused
from .options import Asked, Desired, Layout
from .parted import entries, of_gpu
from .types import Gpu, State


def chosen_gpus(state: State, desired: Desired) -> Tuple[List[Tuple[Gpu, Layout]], List[Refusal]]:
    """Each GPU that is asked for, with its layout, and what is wrong with the choice."""
    if not desired.parted_config:
        return select(state, desired.layouts)
    known = entries(desired.parted_config, desired.parted_label)
    addresses = [*(gpu.pci_address for gpu in state.gpus), *(gpu.pci_address for gpu in state.failed)]
    if None in addresses and any(entry.devices is not None for entry in known):
        reason = "a GPU that does not answer has no known address, so its indices may mean other GPUs"
        return [], [Refusal("option parted_config", reason, "repair that GPU, or use layouts with UUIDs")]
    order = sorted(address for address in addresses if address is not None)
    found = []
    for gpu in sorted(state.gpus, key=lambda one: one.pci_address):
        entry = of_gpu(known, order.index(gpu.pci_address), gpu.pci_id, gpu.subsystem_id)
        if entry is None or (gpu.mode is None and (entry.devices is None or not entry.enabled)):
            continue
        asked = tuple(Asked(name, count, None, ()) for name, count in entry.instances)
        found.append((gpu, Layout((gpu.uuid,), entry.enabled, asked)))
    return found, []


def select(state: State, layouts: Sequence[Layout]) -> Tuple[List[Tuple[Gpu, Layout]], List[Refusal]]:
    """Each GPU with its layout, in the order of PCI addresses, and what is wrong with the selection."""
    refusals: List[Refusal] = []
    chosen: Dict[str, Layout] = {}
    for layout in layouts:
        for selector in layout.gpus:
            hits = [gpu for gpu in state.gpus if matches(identity_of(gpu), selector)]
            refusals += refused([*state.gpus, *state.failed], [selector])
            for gpu in hits:
                if selector == ALL and gpu.mode is None and layout.mig:
                    continue  # all that can be divided
                if gpu.uuid in chosen and chosen[gpu.uuid] is not layout:
                    refusals.append(Refusal(gpu.label, "two layouts name it", "name it in one of them"))
                chosen[gpu.uuid] = layout
    pairs = [(gpu, chosen[gpu.uuid]) for gpu in state.gpus if gpu.uuid in chosen]
    pairs.sort(key=lambda pair: (pair[0].pci_address, pair[0].index))
    return pairs, refusals


def silent(state: State, desired: Desired) -> List[str]:
    """What there is to tell of GPUs that are wanted and do not answer; one that nobody knows may be wanted."""
    named = [selector for layout in desired.layouts for selector in layout.gpus]
    wanted = ["all"] if desired.parted_config else named
    return [
        gpu.message
        for gpu in state.failed
        if wanted
        and (
            gpu.index is None and gpu.uuid is None and gpu.pci_address is None or matches_any(identity_of(gpu), wanted)
        )
    ]

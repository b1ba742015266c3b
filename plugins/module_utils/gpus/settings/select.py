# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs a wish is about: by index, UUID or PCI address. Pure."""

from __future__ import annotations

from typing import Dict, List, Optional, Set, Tuple

from ...core.resource import Refusal
from ...facts.nvml.selectors import identity_of, matches, matches_any, refused
from .types import FailedGpu, Gpu, State
from .wish import Settings, Wish


def _wanted(gpus: Optional[Tuple[str, ...]], gpu: "Gpu | FailedGpu") -> bool:
    return gpus is None or matches_any(identity_of(gpu), gpus)


def selected_failures(state: State, wish: Wish) -> List[FailedGpu]:
    """The GPUs that the wish is about and that do not answer. An unknown one counts: it may be the one."""
    return [
        gpu
        for gpu in state.failed
        if _wanted(wish.gpus, gpu) or (gpu.index is None and gpu.uuid is None and gpu.pci_address is None)
    ]


def select(state: State, wish: Wish) -> Tuple[List[Tuple[Gpu, Settings]], List[Refusal]]:
    """Each selected GPU with its settings, in the order of PCI addresses, and what is wrong with the selection."""
    refusals: List[Refusal] = []
    everything: List["Gpu | FailedGpu"] = [*state.gpus, *state.failed]
    refusals += refused(everything, wish.gpus or ())
    settings: Dict[str, Settings] = {gpu.uuid: wish.settings for gpu in state.gpus if _wanted(wish.gpus, gpu)}
    overridden: Set[str] = set()
    for override in wish.overrides:
        hits = [gpu for gpu in state.gpus if matches(identity_of(gpu), override.gpu)]
        refusals += refused(everything, [override.gpu])
        for gpu in hits:
            if gpu.uuid not in settings:
                refusals.append(
                    Refusal(
                        gpu.label,
                        "it has an override and is not among the selected GPUs",
                        "add it to gpus, or drop the override",
                    )
                )
            elif gpu.uuid in overridden:
                refusals.append(Refusal(gpu.label, "it has two overrides", "join them into one"))
            else:
                overridden.add(gpu.uuid)
                settings[gpu.uuid] = override.settings.over(wish.settings)
    chosen = [(gpu, settings[gpu.uuid]) for gpu in state.gpus if gpu.uuid in settings]
    chosen.sort(key=lambda pair: (pair[0].pci_address, pair[0].index))
    return chosen, refusals

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clocks of a job's GPUs: to their maximum before it, back to what was declared for the node after it.

The other GPUs of the node are not touched. Whatever goes wrong here is told and holds no job.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence, Tuple

from ...core.host import Host
from ...core.options import of, of_section
from ...facts.nvml.identity import Identity
from ...gpus.settings.clocks import on_gpu
from ...gpus.settings.options import SECTION, Clocks, Settings, asked_of
from ...slurm.gpus import CALL_TIMEOUT_SECONDS, asked, identities


def declared_clocks(settings: Settings, gpu: Identity) -> Clocks:
    """What was declared for this GPU, which a job has had as a whole; the driver's default where nothing was. Pure."""
    return on_gpu(asked_of(settings, gpu, "clocks") or "default", mig=False)


def raise_to_maximum(host: Host, gpus: Sequence[str]) -> List[str]:
    """``gpus`` are PCI addresses. What went wrong with single GPUs is returned.

    :raises NodeError: no driver, no such GPU.
    """
    return _word(host, "max", gpus) if gpus else []


def return_to_declared(host: Host, gpus: Sequence[str], declared: Mapping[str, Any]) -> List[str]:
    section = declared.get(SECTION)
    # Only a declaration that tells GPUs apart wants all their names.
    apart = section is not None and ("gpus" in section or "overrides" in section)
    known = (identities(host) or asked(host)) if apart else ()
    settings = of_section(Settings, section)
    wanted: List[Tuple[Clocks, List[str]]] = []
    for one in sorted(gpus):
        named = next((gpu for gpu in known if gpu.pci_address == one), Identity(-1, pci_address=one))
        clocks = declared_clocks(settings, named)
        same = next((some for other, some in wanted if other == clocks), None)
        if same is None:
            wanted.append((clocks, [one]))
        else:
            same.append(one)
    told: List[str] = []
    for clocks, some in wanted:
        if isinstance(clocks, str):
            told += _word(host, clocks, some)
        else:
            told += _exact(host, clocks, some, settings.snap)
    return told


def _word(host: Host, word: str, chosen: Sequence[str]) -> List[str]:
    from ...gpus.settings import clocks_session  # one visit to each GPU, where the general run makes three

    done = clocks_session.run(host, word, chosen, call_timeout_seconds=CALL_TIMEOUT_SECONDS)
    # Its notes are about the node, the same before each job, and gpu_settings has told them.
    return [done.skipped] if done.skipped else [gpu.message for gpu in done.failed]


def _exact(host: Host, clocks: Clocks, chosen: Sequence[str], snap: bool) -> List[str]:
    from ...gpus.settings.run import set_gpus

    asked_for = {"clocks": clocks, "gpus": list(chosen), "snap": snap, "call_timeout_seconds": CALL_TIMEOUT_SECONDS}
    set_gpus(host, of(Settings, asked_for))
    return []

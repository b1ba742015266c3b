# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clocks of a job's GPUs: to their maximum before it, back to what was declared for the node after it.

The other GPUs of the node are not touched. Whatever goes wrong here is told and holds no job.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...core.host import Host
from ...facts.nvml.identity import Identity
from ...facts.nvml.selectors import matches
from ...gpus.settings.wish import Clocks, Settings, Wish
from ...slurm.gpus import CALL_TIMEOUT_SECONDS, asked, identities

SECTION = "gpu_settings"
MAXIMUM, DEFAULT = Clocks(word="max"), Clocks(word="default")


def declared_clocks(section: Optional[Mapping[str, Any]], gpu: Identity) -> Clocks:
    """What was declared for this GPU, which a job has had as a whole; the driver's default where nothing was. Pure.

    :raises NodeError: the declaration is not what we write.
    """
    if section is None:
        return DEFAULT
    wish = Wish.from_section(section)
    if wish.gpus is not None and not any(matches(gpu, one) for one in wish.gpus):
        return DEFAULT
    settings = next((one.settings for one in wish.overrides if matches(gpu, one.gpu)), Settings())
    return (settings.over(wish.settings).clocks or DEFAULT).of(mig=False)


def raise_to_maximum(host: Host, gpus: Sequence[str]) -> List[str]:
    """``gpus`` are PCI addresses. What went wrong with single GPUs is returned.

    :raises NodeError: no driver, no such GPU.
    """
    return _word(host, "max", gpus) if gpus else []


def return_to_declared(host: Host, gpus: Sequence[str], section: Optional[Mapping[str, Any]]) -> List[str]:
    # Only a declaration that tells GPUs apart wants all their names.
    apart = section is not None and ("gpus" in section or "overrides" in section)
    known = (identities(host) or asked(host)) if apart else ()
    wishes: Dict[Clocks, List[str]] = {}
    for one in gpus:
        named = next((gpu for gpu in known if gpu.pci_address == one), Identity(-1, pci_address=one))
        wishes.setdefault(declared_clocks(section, named), []).append(one)
    told: List[str] = []
    for clocks, some in sorted(wishes.items(), key=lambda pair: pair[1]):
        if clocks.word is not None:
            told += _word(host, clocks.word, some)
        else:
            told += _exact(host, clocks, some, bool((section or {}).get("snap")))
    return told


def _word(host: Host, word: str, chosen: Sequence[str]) -> List[str]:
    from ...gpus.settings import clocks_session  # one visit to each GPU, where the general run makes three

    done = clocks_session.run(host, word, chosen, call_timeout_seconds=CALL_TIMEOUT_SECONDS)
    # Its notes are about the node, the same before each job, and gpu_settings has told them.
    return [done.skipped] if done.skipped else [gpu.message for gpu in done.failed]


def _exact(host: Host, clocks: Clocks, chosen: Sequence[str], snap: bool) -> List[str]:
    from ...gpus.settings.run import set_gpus

    settings = Settings(clocks=clocks)
    set_gpus(host, Wish(settings, tuple(chosen), snap=snap, call_timeout_seconds=CALL_TIMEOUT_SECONDS))
    return []

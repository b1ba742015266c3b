# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clocks of a job's GPUs: to their maximum before it, back to what was declared for the node after it.

The other GPUs of the node are not touched. Whatever goes wrong here is told and holds no job.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..gpu_settings.desired import Clocks, Desired, Settings
from ..host import Host
from ..nvml.identity import Identity, matches, normalise_pci_address

SECTION = "gpu_settings"
# One NVML call; a healthy one takes milliseconds, a hanging one must not hold a job for long.
CALL_TIMEOUT_SECONDS = 3.0
_KNOWN = "/proc/driver/nvidia/gpus"
MAXIMUM, DEFAULT = Clocks(word="max"), Clocks(word="default")


def identities(host: Host) -> Tuple[Identity, ...]:
    """The GPUs as the driver lists them in /proc, without opening NVML; nothing on a machine without that list."""
    found = []
    for address in host.names(_KNOWN):
        text = host.read("{0}/{1}/information".format(_KNOWN, address)) or ""
        minor = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
        uuid = re.search(r"^GPU UUID:\s*(GPU-\S+)", text, re.MULTILINE)
        pci_address = normalise_pci_address(address)
        if minor is not None and pci_address is not None:
            found.append((pci_address, uuid.group(1) if uuid else None, int(minor.group(1))))
    # NVML numbers the GPUs by PCI address.
    return tuple(Identity(index, uuid, address, None, minor) for index, (address, uuid, minor) in enumerate(found))


def selectors(gpus: Sequence[str], known: Sequence[Identity]) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """(what NVML is to be asked for, notes): PCI addresses where the driver lists them, else the numbers. Pure.

    Slurm's number of a GPU is the N of its device file /dev/nvidiaN: NVML's index on most machines, not on all.
    """
    chosen: List[str] = []
    notes: List[str] = []
    for gpu in gpus:
        if gpu.upper().startswith("MIG-"):
            notes.append("GPU {0}: the clocks belong to the whole GPU, so they stay as they are".format(gpu))
            continue
        if not gpu.isdigit():
            chosen.append(gpu)
            continue
        addresses = [one.pci_address for one in known if one.minor_number == int(gpu)]
        if addresses and addresses[0] is not None:
            chosen.append(addresses[0])
        elif known:
            notes.append("GPU {0}: the driver has no /dev/nvidia{0}".format(gpu))
        else:
            chosen.append(gpu)
    return tuple(chosen), tuple(notes)


def declared_clocks(section: Optional[Mapping[str, Any]], gpu: Identity) -> Clocks:
    """What was declared for this GPU; the driver's default where nothing was. Pure.

    :raises NodeError: the declaration is not what we write.
    """
    if section is None:
        return DEFAULT
    desired = Desired.from_options(dict(section, declare=False))
    if desired.gpus is not None and not any(matches(gpu, one) for one in desired.gpus):
        return DEFAULT
    settings = next((one.settings for one in desired.overrides if matches(gpu, one.gpu)), Settings())
    return settings.over(desired.settings).clocks or DEFAULT


def raise_to_maximum(host: Host, gpus: Sequence[str]) -> List[str]:
    """:raises NodeError: no driver, no such GPU. What went wrong with single GPUs is returned."""
    chosen, notes = selectors(gpus, identities(host))
    return list(notes) + (_word(host, "max", chosen) if chosen else [])


def return_to_declared(host: Host, gpus: Sequence[str], section: Optional[Mapping[str, Any]]) -> List[str]:
    known = identities(host)
    chosen, notes = selectors(gpus, known)
    wishes: Dict[Clocks, List[str]] = {}
    for one in chosen:
        named = next((gpu for gpu in known if matches(gpu, one)), None)
        wishes.setdefault(declared_clocks(section, named or _asked(host, one, section)), []).append(one)
    told = list(notes)
    for clocks, some in sorted(wishes.items(), key=lambda pair: pair[1]):
        if clocks.word is not None:
            told += _word(host, clocks.word, some)
        else:
            told += _exact(host, clocks, some, bool((section or {}).get("snap")))
    return told


def _asked(host: Host, selector: str, section: Optional[Mapping[str, Any]]) -> Identity:
    """The names of a GPU that is known by one only. NVML is asked for them where a declaration tells GPUs apart."""
    if section is not None and ("gpus" in section or "overrides" in section):
        from ..nvml.session import Survey, survey  # loaded only where it is wanted

        found: Survey[int] = survey(lambda dummy: (), [selector], CALL_TIMEOUT_SECONDS, host=host)
        found.require_driver()
        return found.visits[0].identity
    return Identity(int(selector)) if selector.isdigit() else Identity(-1, uuid=selector)


def _word(host: Host, word: str, chosen: Sequence[str]) -> List[str]:
    from ..cli import clocks_session  # one visit to each GPU, where the general run makes three

    done = clocks_session.run(host, word, chosen, call_timeout_seconds=CALL_TIMEOUT_SECONDS)
    # Its notes are about the node, the same before each job, and gpu_tuning has told them.
    return [done.skipped] if done.skipped else [gpu.message for gpu in done.failed]


def _exact(host: Host, clocks: Clocks, chosen: Sequence[str], snap: bool) -> List[str]:
    from .. import gpu_settings

    wish = Desired(
        settings=Settings(clocks=clocks),
        gpus=tuple(chosen),
        snap=snap,
        declare=False,
        call_timeout_seconds=CALL_TIMEOUT_SECONDS,
    )
    gpu_settings.run(host, wish)
    return []

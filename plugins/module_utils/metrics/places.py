# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs and GPU instances a job has, by the numbers that metrics have for them.

dcgm-exporter and NVML count GPUs by their PCI addresses, Slurm by the positions of gres.conf (:mod:`..slurm.gpus`).
"""

from __future__ import annotations

import re
from typing import Callable, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..core.host import Host
from ..facts.nvml.identity import Identity
from ..gpus.mig import devices as mig_devices
from ..slurm import gpus
from ..slurm.types import Job
from .jobs import Place

_GPU = re.compile(r"/dev/nvidia([0-9]{1,4})")


def of_job(host: Host, job: Job, addresses: Sequence[str]) -> Tuple[Place, ...]:
    """``addresses``: of its whole GPUs, where they are certain. Nothing where nothing is certain.

    :raises NodeError: NVML had to be asked and does not answer.
    """
    known = gpus.identities(host) or gpus.asked(host)
    if addresses:
        return tuple((one.index, None) for one in known if one.pci_address in addresses)
    if not job.gpus:
        return ()
    devices = gpus.devices_of(host, job.node, job.slurm_conf or gpus.configuration(host))
    if devices.reason is not None:
        return ()
    return resolve(job.gpus, devices.positions, known, lambda minor: _instances(host, minor))


def resolve(
    positions: Iterable[str],
    files: Sequence[Tuple[str, ...]],
    known: Sequence[Identity],
    instances: Callable[[int], Mapping[str, int]],
) -> Tuple[Place, ...]:
    """``files``: of each position. ``instances``: of /dev/nvidiaN, the GPU instance of each capability's file. All
    places, or none where one is not certain. Pure."""
    found: List[Place] = []
    for word in positions:
        own = files[int(word)] if re.fullmatch(r"[0-9]{1,4}", word) and int(word) < len(files) else ()
        place = _place(own, known, instances)
        if place is None:
            return ()
        found.append(place)
    return tuple(dict.fromkeys(found))


def _place(
    files: Sequence[str], known: Sequence[Identity], instances: Callable[[int], Mapping[str, int]]
) -> Optional[Place]:
    minors = [int(match.group(1)) for match in map(_GPU.fullmatch, files) if match is not None]
    indexes = [one.index for one in known if minors == [one.minor_number]]
    if len(indexes) != 1:
        return None
    rest = [one for one in files if _GPU.fullmatch(one) is None]
    if not rest:
        return indexes[0], None
    own = instances(minors[0])
    of_files = {own.get(one) for one in rest}
    instance = of_files.pop()
    return (indexes[0], instance) if not of_files and instance is not None else None


def _instances(host: Host, minor: int) -> Mapping[str, int]:
    return {one.file: gi for (gi, dummy), one in mig_devices.of_gpu(host, minor).items()}

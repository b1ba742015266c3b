# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs and instances the jobs of this node have."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from ...core import declaration
from ...core.frozen import replaced
from ...core.host import Host
from ...slurm import holding, on_node
from ...slurm.holding import Holding
from . import devices as mig_devices
from .types import Gpu, Job, Place, State


def look(host: Host, gpus: Sequence[Gpu]) -> Tuple[Job, ...]:
    """What the node itself knows."""
    return tuple(_job(host, one, gpus) for one in holding.look(host))


def asked(host: Host, state: State) -> State:
    """With the jobs that only slurmctld knows, and what it reports of the jobs that may have any GPU."""
    slurm = on_node.slurm_of(host, declaration.read(host))
    found = holding.of_slurm(host, holding.look(host), slurm)
    return replaced(state, jobs=tuple(_job(host, one, state.gpus) for one in holding.asked(host, found, slurm.program)))


def _job(host: Host, one: Holding, gpus: Sequence[Gpu]) -> Job:
    name = "job {0}".format(one.job)
    if one.gpus is not None:
        return Job(name, tuple((address, None) for address in one.gpus))
    if one.files is None:
        return Job(name)
    places = [place_of(files, {gpu.minor: gpu for gpu in gpus}, host) for files in one.files]
    known: List[Place] = [place for place in places if place is not None]
    return Job(name, tuple(known) if len(known) == len(places) else None)


def place_of(files: Sequence[str], gpus: Dict[Optional[int], Gpu], host: Host) -> Optional[Place]:
    """The instance that has these device files, or the GPU; None: it is not known."""
    minors = [re.fullmatch(r"/dev/nvidia([0-9]{1,4})", file) for file in files]
    own = [gpus.get(int(found.group(1))) for found in minors if found]
    gpu = own[0] if len(own) == 1 else None
    if gpu is None or gpu.minor is None:
        return None
    capabilities = mig_devices.of_gpu(host, gpu.minor)
    rest = [file for file, found in zip(files, minors) if not found]
    instances = {gi for (gi, dummy), one in capabilities.items() if one.file in rest}
    # A GPU with a file that is no longer there may have been divided otherwise when the job began.
    exact = len(instances) == 1 and all(any(one.file == file for one in capabilities.values()) for file in rest)
    return gpu.pci_address, (instances.pop() if exact else None)

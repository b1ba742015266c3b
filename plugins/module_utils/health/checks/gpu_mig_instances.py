# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances of divided GPUs (MIG), whoever divided them: that programs can use them, and their figures.

The labels of the figures are those of dcgm-exporter (UUID, GPU_I_ID, GPU_I_PROFILE), so that both can be joined. NVML
tells no utilisation of an instance: DCGM's profiling fields do.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple, Union

from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts.nvml.call import LOG
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .gpu_common import NO_GPU, NOT_OPENED, parted

_LAYOUT = "mig_layout"
_NONE = "no GPU here is in MIG mode"


@frozen
class Instance:
    """``used_bytes`` None: its memory is not told. ``compute``: how many compute instances it has."""

    gi: int
    profile: str
    start: int
    multiprocessors: int
    compute: int
    total_bytes: Optional[int] = None
    used_bytes: Optional[int] = None


@frozen
class Divided:
    """A GPU in MIG mode. ``multiprocessors``: of the whole GPU, 0 where that is not told."""

    label: str
    uuid: str
    pci_address: str
    multiprocessors: int
    instances: Tuple[Instance, ...]


@frozen
class Seen:
    """``untold``: GPUs that answer, and do not tell how they are divided."""

    gpus: Tuple[Divided, ...]
    untold: Tuple[str, ...] = ()


def look(evidence: Evidence) -> Union[Seen, str]:
    """A text says why there is nothing to look at."""
    if evidence.none_in_mig_mode:
        return Seen(())
    try:
        state = evidence.mig
    except NodeError:
        return NOT_OPENED
    if state.absent is not None:
        return NO_GPU
    gpus = []
    for gpu in state.gpus:
        memory = {one.gi: one for one in gpu.memory}
        instances = [
            Instance(
                one.id,
                one.placed.profile.name,
                one.placed.start,
                one.placed.profile.multiprocessors,
                len(one.compute),
                memory[one.id].total_bytes if one.id in memory else None,
                memory[one.id].used_bytes if one.id in memory else None,
            )
            for one in gpu.instances
        ]
        if gpu.mode:
            gpus.append(Divided(gpu.label, gpu.uuid, gpu.pci_address, gpu.part.multiprocessors, tuple(instances)))
    return Seen(tuple(gpus), tuple(gpu.message for gpu in state.failed if not gpu.lost))


def judge(seen: Union[Seen, str], expected: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    if not (seen.gpus or seen.untold):
        return Judgement(not_applicable=_NONE)
    # What is declared is compared by gpu_mig_layout, which tells these two as well.
    declared = _LAYOUT in expected.declared
    findings: List[Finding] = []
    if not declared:
        findings += [
            Finding(Outcome.UNKNOWN, "MIG instances", *parted(text, LOG), Remedy.LOOK, code="unread")
            for text in seen.untold
        ]
        findings += [_useless(gpu, one) for gpu in seen.gpus for one in gpu.instances if not one.compute]
    findings += [
        _memory_untold(gpu, one) for gpu in seen.gpus for one in gpu.instances if one.compute and one.used_bytes is None
    ]
    count = sum(len(gpu.instances) for gpu in seen.gpus)
    told = "{0} instances of {1} GPUs; NVML tells no utilisation of them".format(count, len(seen.gpus))
    return Judgement(told, tuple(findings), tuple(figure for gpu in seen.gpus for figure in _figures(gpu)))


def _useless(gpu: Divided, one: Instance) -> Finding:
    reason = "its {0} at {1} has no compute instance, so no program can use it".format(one.profile, one.start)
    remedy = "declare the layout for mig_layout, or make one with 'nvidia-smi mig -cci'"
    return Finding(
        Outcome.WARN, gpu.label, reason, remedy, Remedy.CONFIGURE, key=_key(gpu, one), code="no_compute_instance"
    )


def _memory_untold(gpu: Divided, one: Instance) -> Finding:
    reason = "the memory of its {0} at {1} is not told".format(one.profile, one.start)
    return Finding(Outcome.UNKNOWN, gpu.label, reason, LOG, Remedy.LOOK, key=_key(gpu, one), code="memory_unread")


def _key(gpu: Divided, one: Instance) -> str:
    return "{0}/gi{1}".format(gpu.pci_address, one.gi)


def _figures(gpu: Divided) -> List[Measured]:
    found = []
    counts: Dict[str, int] = {}
    for one in gpu.instances:
        counts[one.profile] = counts.get(one.profile, 0) + 1
        labels = {"UUID": gpu.uuid, "GPU_I_ID": str(one.gi), "GPU_I_PROFILE": one.profile}
        values = [("gpu_instance_multiprocessors", one.multiprocessors)]
        if one.total_bytes is not None and one.used_bytes is not None:
            values.append(("gpu_instance_memory_total_bytes", one.total_bytes))
            values.append(("gpu_instance_memory_used_bytes", one.used_bytes))
        found += [Measured(name, float(value), _key(gpu, one), labels=labels) for name, value in values]
    for profile, count in sorted(counts.items()):
        labels = {"UUID": gpu.uuid, "GPU_I_PROFILE": profile}
        key = "{0}/{1}".format(gpu.pci_address, profile)
        found.append(Measured("gpu_instances", float(count), key, labels=labels))
    if gpu.multiprocessors:
        used = sum(one.multiprocessors for one in gpu.instances)
        share = 100.0 * used / gpu.multiprocessors
        found.append(Measured("gpu_instances_share_percent", share, gpu.pci_address, labels={"UUID": gpu.uuid}))
    return found


CHECKS = (
    Check(
        "gpu_mig_instances",
        "Programs can use each GPU instance",
        Cost.PASSIVE,
        judge,
        look,
        "settings",
        seconds=20.0,
    ),
)

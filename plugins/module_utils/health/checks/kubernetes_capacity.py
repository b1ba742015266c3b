# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kubelet offers to pods against the GPUs and MIG devices that there are.

The kubelet keeps the healthy devices of each device plugin. The ids of NVIDIA's are UUIDs, with ``::N`` behind them for
a replica (k8s-device-plugin, internal/rm/devices.go), whatever the resources are called. A device that it once called
unhealthy stays so until the plugin starts anew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, List, Mapping, Optional, Tuple, Union

from ...core import processes
from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts.kubelet import FOLDER, PREFIX, parse, read
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import NO_GPU, NOT_OPENED

if TYPE_CHECKING:
    from ...gpus.mig.types import State

_OFFERS = re.compile(r"nvidia\.com/(gpu|mig-[a-z0-9.]+)(\.shared)?")
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# A MIG device before driver branch 470 has the UUID of its GPU and the ids of its instances.
_ID = re.compile("(GPU-{0}|MIG-{0}|MIG-GPU-{0}/[0-9]+/[0-9]+)(?:::[0-9]+)?".format(_UUID))
_NAMED = 4
_RESTART = "restart the pod of NVIDIA's device plugin on this node"
_LOOK = "look at the kubelet, or leave this check out (health_gate_without)"


@frozen
class Device:
    """Something that pods can get. ``whole``: the UUID of its GPU, by which it is offered with MIG strategy none."""

    name: str
    uuid: str
    whole: str = ""


@frozen
class Seen:
    """``offered``: ids without their replicas; ``strange``: how many were none of NVIDIA's plugin. ``others``: what may
    be offered beside the devices; None where NVML did not tell of all."""

    devices: Tuple[Device, ...]
    offered: Tuple[str, ...]
    strange: int = 0
    others: Optional[Tuple[str, ...]] = ()


def look(evidence: Evidence) -> Union[Seen, str]:
    """A text says why there is nothing to compare.

    :raises NodeError: the checkpoint cannot be read.
    """
    host = evidence.host
    if not host.exists(FOLDER):
        return "this node has no kubelet"
    found = read(host, _LOOK)
    if found is None:
        return "no device plugin has registered with the kubelet"
    offers, written = parse(found[0], _LOOK), found[1]
    ids, strange = _ids(offers)
    if not ids and not any(_OFFERS.fullmatch(name) for name in offers):
        return "the kubelet has no resource of NVIDIA's device plugin"
    if strange and not ids:
        return "what the kubelet offers is not of NVIDIA's device plugin"
    started = processes.boot_time(host)
    if started is not None and written < started:
        return "no device plugin has registered since the boot"
    try:
        state = evidence.mig
    except NodeError:
        return NOT_OPENED
    if state.absent is not None and not ids:
        return NO_GPU
    devices, others = _there(state)
    return Seen(devices, ids, strange, others)


def _ids(offers: Mapping[str, Tuple[str, ...]]) -> Tuple[Tuple[str, ...], int]:
    """Other plugins of NVIDIA (KubeVirt, RDMA) have ids of other forms under names of their own."""
    found, strange = {}, 0
    for resource, ids in offers.items():
        if not resource.startswith(PREFIX):
            continue
        for one in ids:
            match = _ID.fullmatch(one)
            if match is not None:
                found[match.group(1)] = True
            elif _OFFERS.fullmatch(resource):
                strange += 1
    return tuple(sorted(found)), strange


def _there(state: State) -> Tuple[Tuple[Device, ...], Optional[Tuple[str, ...]]]:
    """Without what is not known of a GPU, which other checks tell."""
    devices: List[Device] = []
    others: List[str] = []
    whole = not state.failed
    for gpu in state.gpus:
        if not gpu.mode:
            devices.append(Device(gpu.label, gpu.uuid))
            continue
        others.append(gpu.uuid)
        for instance in gpu.instances:
            for compute in instance.compute:
                if compute.uuid is None:
                    whole = False
                    continue
                name = "MIG device {0}.{1} of {2}".format(instance.id, compute.id, gpu.label)
                devices.append(Device(name, compute.uuid, gpu.uuid))
    return tuple(devices), tuple(others) if whole else None


def judge(seen: Union[Seen, str], dummy: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    offered = set(seen.offered)
    missing = [one for one in seen.devices if one.uuid not in offered and one.whole not in offered]
    kinds = "GPUs and MIG devices" if any(one.whole for one in seen.devices) else "GPUs"
    told = "the kubelet offers {0} of {1} {2}".format(len(seen.devices) - len(missing), len(seen.devices), kinds)
    findings: List[Finding] = []
    if missing:
        names = ["{0} ({1})".format(one.uuid, one.name) for one in missing]
        reason = "it offers {0} of the {1} {2} that NVML sees; {3} missing".format(
            len(seen.devices) - len(missing), len(seen.devices), kinds, _some(names)
        )
        remedy = _RESTART + " when the device is well: until then it takes back none that it called unhealthy"
        findings.append(_finding(Outcome.WARN, reason, remedy, "missing"))
    if seen.others is not None:
        extra = sorted(offered - {one.uuid for one in seen.devices} - set(seen.others))
        if extra:
            reason = (
                "it offers what NVML does not have, so a pod may get a device that is not there; {0} too much".format(
                    _some(extra)
                )
            )
            findings.append(_finding(Outcome.FAIL, reason, _RESTART + ", so that it lists the devices anew", "extra"))
    if seen.strange:
        reason = "{0} of the devices that it offers have ids of a form that is not known".format(seen.strange)
        findings.append(_finding(Outcome.UNKNOWN, reason, _LOOK, "ids"))
    return Judgement(told, tuple(findings))


def _some(names: List[str]) -> str:
    """``A is``, ``A, B are``, ``A, B, C, D and 5 more are``."""
    more = " and {0} more".format(len(names) - _NAMED) if len(names) > _NAMED else ""
    return "{0}{1} {2}".format(", ".join(names[:_NAMED]), more, "is" if len(names) == 1 else "are")


def _finding(outcome: Outcome, reason: str, remedy: str, code: str) -> Finding:
    return Finding(outcome, "kubelet", reason, remedy, Remedy.LOOK, key="kubelet", code=code)


CHECKS = (
    Check(
        "kubernetes_capacity",
        "The kubelet offers the GPUs that there are",
        Cost.PASSIVE,
        judge,
        look,
        "settings",
        seconds=20.0,
    ),
)

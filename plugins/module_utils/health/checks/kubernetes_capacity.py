# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs that the kubelet offers to pods against those that NVML has.

The kubelet keeps the device ids that plugins registered as healthy in a file of its own (kubernetes
pkg/kubelet/cm/devicemanager/checkpoint): ``Data.RegisteredDevices`` by the name of the resource. Its form has no version,
so one that reads otherwise is unknown. The ids of NVIDIA's plugin are UUIDs, ``UUID::N`` where GPUs are shared.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from ...core.frozen import frozen
from ...core.resource import NodeError
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

PATH = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
# Devices of 16 GPUs with 64 replicas each and the pods that hold them are some 200 kB.
_MOST_BYTES = 4 << 20
_GPU = re.compile(r"nvidia\.com/gpu(\.shared)?")
_RESTART = "restart the pod of NVIDIA's device plugin on this node once the GPU is healthy; the plugin does not take one back by itself"


@frozen
class Seen:
    """``offered``: UUIDs of whole GPUs, without replicas; None: the file reads otherwise. ``there``: (UUID, PCI address)
    of the GPUs of NVML that are not divided. ``divided``: those that are, and ``instances``: ids of MIG instances."""

    offered: Optional[Tuple[str, ...]]
    there: Tuple[Tuple[str, str], ...] = ()
    divided: int = 0
    instances: int = 0


def look(evidence: Evidence) -> Union[Seen, str]:
    """A text says why there is nothing to compare."""
    text = evidence.host.read(PATH)
    if text is None:
        return "this node has no kubelet, or its plugins registered nothing"
    registered = None if len(text) > _MOST_BYTES else devices(text)
    if registered is None:
        return Seen(None)
    ids = {name: found for name, found in registered.items() if name.startswith("nvidia.com/")}
    if not ids:
        return "the kubelet has no resource of NVIDIA's device plugin"
    try:
        state = evidence.mig
    except NodeError:
        return "NVML cannot be opened, see gpu_driver"
    if state.absent is not None or state.failed:
        return "not every GPU answers, see gpu_lost"
    whole = {one.partition("::")[0] for name, found in ids.items() if _GPU.fullmatch(name) for one in found}
    return Seen(
        tuple(sorted(one for one in whole if one.startswith("GPU-"))),
        tuple((gpu.uuid, gpu.pci_address) for gpu in state.gpus if not gpu.mode),
        sum(1 for gpu in state.gpus if gpu.mode),
        len({one.partition("::")[0] for found in ids.values() for one in found if one.startswith("MIG-")}),
    )


def devices(text: str) -> Optional[Dict[str, Tuple[str, ...]]]:
    """Pure. The registered ids by the name of the resource; None: it is not the file that we know."""
    try:
        content = json.loads(text)
    except ValueError:
        return None
    data: Any = content.get("Data") if isinstance(content, Mapping) else None
    registered = data.get("RegisteredDevices") if isinstance(data, Mapping) else None
    if not isinstance(registered, Mapping):
        return None
    found = {}
    for name, ids in registered.items():
        if ids is not None and not (isinstance(ids, list) and all(isinstance(one, str) for one in ids)):
            return None
        found[str(name)] = tuple(ids or ())
    return found


def judge(seen: Union[Seen, str], dummy: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    if seen.offered is None:
        reason = "it does not read as the file that the kubelet of today writes, so what it offers is not known"
        return Judgement("unknown", (_finding(Outcome.UNKNOWN, PATH, reason, "leave this check out", "", "unread"),))
    told = "{0} GPUs".format(len(seen.offered))
    found = []
    for uuid, address in seen.there:
        if uuid not in seen.offered:
            reason = "the kubelet does not offer it ({0}), and NVML has it".format(uuid)
            found.append(_finding(Outcome.WARN, "GPU {0}".format(address), reason, _RESTART, address, "not_offered"))
    known = {uuid for uuid, dummy2 in seen.there}
    extra = [uuid for uuid in seen.offered if uuid not in known]
    if extra:
        reason = "it offers {0}, and no whole GPU of this node is that".format(", ".join(extra))
        found.append(_finding(Outcome.WARN, "kubelet", reason, _RESTART, "kubelet", "not_there"))
    if seen.divided and not seen.instances:
        reason = "{0} GPUs are in MIG mode, and it offers no instance".format(seen.divided)
        remedy = "make a layout, look at the MIG strategy of the device plugin, and restart its pod on this node"
        found.append(_finding(Outcome.WARN, "kubelet", reason, remedy, "kubelet", "no_instances"))
    return Judgement(told, tuple(found))


def _finding(outcome: Outcome, thing: str, reason: str, remedy: str, key: str, code: str) -> Finding:
    return Finding(outcome, thing, reason, remedy, Remedy.RESTART_SERVICE, key=key or thing, code=code)


CHECKS = (
    Check(
        "kubernetes_capacity",
        "The kubelet offers the GPUs that NVML has",
        Cost.PASSIVE,
        judge,
        look,
        "settings",
        seconds=20.0,
    ),
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as the cluster has it, and where that is not what is on it. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from ...core.resource import sentence
from ..objects import mapping, numbers, some, taint
from .devices import DRIVER, Device, Devices, counts

GPU = "nvidia.com/gpu"
_MIG = re.compile(r"nvidia\.com/(mig-.+)\.count")
_CONDITION = "GpuNodeUnhealthy"
# The label of the pods of NVIDIA's device plugin, and of the node that is to have none.
_PLUGIN = "nvidia-device-plugin-daemonset"
_NO_PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
# The same of the DRA driver, which the operator sets where a GPUCluster is in place of a ClusterPolicy.
_DRA_PLUGIN = "nvidia-dra-driver-kubelet-plugin"
_DRA = "nvidia.com/gpu.deploy.dra-driver"
# What the operator's MIG manager leaves in the label of the node (mig-parted, deployments/container).
_MIG_STATE = "nvidia.com/mig.config.state"
_MIG_WORDS = {
    "failed": (
        "it could not be made",
        "read the log of the pod nvidia-mig-manager of this node; pods that hold GPUs stop it",
    ),
    "pending": ("it is being made", "wait; no pod may hold a GPU of the node meanwhile"),
    "rebooting": ("the node reboots for it", "wait for the node"),
}
# Of docs/modules/gpu_info.md, as far as it is compared.
_TYPES: Mapping[str, type] = {"gpu_count": int, "gpus": list, "pci_gpus": list, "driver_version": str}
_LABELS = ("nvidia.com/", "trainyard.io/")


def node(
    name: str,
    seen: Optional[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Any],
    devices: Devices,
) -> Dict[str, Any]:
    """``facts``: the answer of gpu_info, {} without one. ``offers`` is what the kubelet lets pods have, ``devices``
    what the DRA driver published. An answer of another form costs the comparison of this node alone."""
    wrong = _wrong(facts)
    facts = {} if wrong else facts
    seen = seen or {}
    metadata, spec, status = (mapping(seen.get(part)) for part in ("metadata", "spec", "status"))
    labels = {str(key): str(value) for key, value in mapping(metadata.get("labels")).items()}
    found: Dict[str, Any] = {
        "name": name,
        "registered": bool(seen),
        "ready": _condition(status, "Ready") == "True" if seen else None,
        "schedulable": not spec.get("unschedulable") if seen else None,
        "taints": [taint(one) for one in spec.get("taints") or () if isinstance(one, dict)],
        "labels": {key: value for key, value in sorted(labels.items()) if key.startswith(_LABELS)},
        "capacity": numbers(status.get("capacity")),
        "offers": numbers(status.get("allocatable")),
        "devices": counts(devices.nodes.get(name, ())),
        "pods": [_pod(one) for one in pods],
        "mig_config": labels.get("nvidia.com/mig.config"),
        "mig_config_state": labels.get(_MIG_STATE),
        "unhealthy": _condition(status, _CONDITION),
        "compared": bool(seen) and facts.get("gpu_count") is not None,
    }
    findings = list(_findings(found, labels, facts, pods, devices))
    if wrong:
        remedy = "look for what changes the output of Python on the node; the node may be compromised"
        findings.append(("node {0}".format(name), "its answer to gpu_info is not used: {0}".format(wrong), remedy))
    found["findings"] = [sentence(*one) for one in findings]
    return found


def _wrong(facts: Mapping[str, Any]) -> str:
    """What is not as gpu_info writes it; empty: nothing. A node without an answer has no facts."""
    for name, kind in _TYPES.items():
        value = facts.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            return "{0} has the type {1}".format(name, type(value).__name__)
    if (facts.get("gpu_count") or 0) < 0:
        return "gpu_count is negative"
    gpus = facts.get("gpus") or ()
    if not all(isinstance(one, dict) and isinstance(one.get("settings"), (dict, type(None))) for one in gpus):
        return "gpus has an entry of another form"
    return ""


def _findings(
    found: Mapping[str, Any],
    labels: Mapping[str, str],
    facts: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    devices: Devices,
) -> Iterator[Sequence[str]]:
    thing = "node {0}".format(found["name"])
    if not found["registered"]:
        yield thing, "it is not registered in the cluster", "start the kubelet there, or correct the name"
        return
    if not found["ready"]:
        yield thing, "its kubelet is not ready", "look at 'kubectl describe node' and at the kubelet's journal"
    for pod in found["pods"]:
        if pod["state"] not in ("Running", "Succeeded"):
            remedy = "look at 'kubectl logs -n {0} {1}'".format(pod["namespace"], pod["name"])
            yield thing, "pod {0} of the operator is {1}".format(pod["name"], pod["state"]), remedy
    yield from _of_mig(thing, found)
    if found["unhealthy"] == "True":
        yield thing, "its condition {0} is True".format(_CONDITION), "run 'gpunode health' there"
    yield from _offered(thing, found, labels)
    apps = {mapping(mapping(one.get("metadata")).get("labels")).get("app") for one in pods}
    published = devices.nodes.get(found["name"], ())
    # Beside the device plugin the same pod may be there for compute domains alone.
    by_dra = bool(published) or (not found["capacity"] and (labels.get(_DRA) == "true" or _DRA_PLUGIN in apps))
    unknown = bool(devices.unread and facts.get("gpu_count")) and not found["capacity"] and not published
    if by_dra and not unknown:
        yield from _published(thing, found, facts, devices)
    elif unknown:
        reason = "it has no {0}, and whether it has devices of {1} is not known ({2})"
        remedy = "give the account of the kubeconfig the rights that docs/kubernetes.md lists"
        yield thing, reason.format(GPU, DRIVER, devices.unread), remedy
    if found["compared"]:
        if not unknown and (found["capacity"] or not by_dra):  # a node may have both
            yield from _counted(thing, found, labels, facts)
        yield from _compared(thing, found, labels, facts)
    no_plugin = _PLUGIN not in apps and labels.get(_NO_PLUGIN) != "false" and not by_dra and not unknown
    if no_plugin and not found["capacity"] and facts.get("gpu_count"):
        reason = "no pod of the device plugin is on it, so it offers no GPU"
        yield thing, reason, "look whether the plugin's DaemonSet tolerates the taints of the node"


def _published(
    thing: str, found: Mapping[str, Any], facts: Mapping[str, Any], devices: Devices
) -> Iterator[Sequence[str]]:
    """Devices of dynamic resource allocation. The capacity of such a node has no GPU."""
    published: Sequence[Device] = devices.nodes.get(found["name"], ())
    log = "look at the log of the pod {0} of this node".format(_DRA_PLUGIN)
    if not published:
        yield thing, "it has no ResourceSlice of the driver {0}, so it offers no GPU".format(DRIVER), log
        return
    if found["name"] in devices.incomplete:
        reason = "its driver {0} published a part of its ResourceSlices, and the scheduler uses none of them"
        yield thing, reason.format(DRIVER), log
    tainted = [one for one in published if one.taints]
    if tainted:
        keys = sorted({key for one in tainted for key in one.taints})
        reason = "{0} of {1} have a taint ({2}), and no new pod gets them"
        remedy = "run 'gpunode health' there; look at the taints in 'kubectl get resourceslices -o yaml'"
        yield thing, reason.format(some([one.name for one in tainted]), DRIVER, ", ".join(keys)), remedy
    if not found["compared"]:
        return
    gpus = facts.get("gpus") or ()
    count, number = facts["gpu_count"], found["devices"].get("gpu", 0)
    divided = sum(1 for one in gpus if _is_divided(one))
    # Where the driver makes instances itself, a GPU in MIG mode may be a device, too.
    made_later = any(one.kind == "mig" and not one.uuid for one in published)
    if not count - divided <= number <= (count if made_later else count - divided):
        seen = "{0} GPUs".format(count) + (", {0} of them in MIG mode".format(divided) if divided else "")
        known = {one.uuid for one in published}
        missing = [str(one["uuid"]) for one in gpus if one.get("uuid") and not _is_divided(one)]
        missing = [uuid for uuid in missing if uuid not in known]
        words = "; {0} is missing".format(some(missing)) if missing else ""
        reason = "{0} has {1} devices of the type gpu, and NVML sees {2}{3}".format(DRIVER, number, seen, words)
        yield thing, reason, "restart the pod {0} of this node once all GPUs are healthy".format(_DRA_PLUGIN)


def _is_divided(gpu: Mapping[str, Any]) -> bool:
    return bool((gpu.get("settings") or gpu).get("mig_current"))


def _of_mig(thing: str, found: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    state = found["mig_config_state"]
    if found["mig_config"] is None or state in (None, "success"):
        return
    reason, remedy = _MIG_WORDS.get(state, ("the MIG manager calls it {0}".format(state), "read its log"))
    yield "{0}, MIG layout {1}".format(thing, found["mig_config"]), reason, remedy


def _offered(thing: str, found: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Sequence[str]]:
    """The kubelet's own word: what it has, less what the plugin calls unhealthy."""
    for name, number in sorted(found["capacity"].items()):
        offers = found["offers"].get(name, 0)
        if offers < number:
            reason = "the kubelet has {0} {1} and offers {2}, so the device plugin takes the others for unhealthy"
            remedy = "look at Xids in 'gpunode health' there; the plugin forgets them when its pod starts anew"
            yield thing, reason.format(number, name, offers), remedy
    if labels.get(GPU + ".product", "").endswith("-MIG-INVALID"):
        reason = "its instances are unequal under the MIG strategy single, so it offers none"
        yield thing, reason, "make them equal, or use the strategy mixed"
    # Devices before sharing, by GPU feature discovery.
    for label, value in sorted(labels.items()):
        match = _MIG.fullmatch(label)
        if match is not None and value.isdigit():
            resource = "nvidia.com/" + match.group(1)
            wanted = int(value) * _replicas(labels, resource)
            there = _capacity(found, resource)
            if there != wanted:
                reason = "the kubelet has {0} {1}, and GPU feature discovery sees {2}".format(there, resource, wanted)
                yield thing, reason, "restart the device plugin's pod of this node, and look again in some minutes"


def _counted(
    thing: str, found: Mapping[str, Any], labels: Mapping[str, str], facts: Mapping[str, Any]
) -> Iterator[Sequence[str]]:
    """What the device plugin registered."""
    count = facts["gpu_count"]
    divided = sum(1 for one in facts.get("gpus") or () if _is_divided(one))
    strategy = labels.get("nvidia.com/mig.strategy", "none")
    single = strategy == "single" and divided
    whole = count if strategy == "none" else count - divided
    offers = _capacity(found, GPU)
    replicas = _replicas(labels, GPU)
    if not single and offers != whole * replicas:
        seen = "{0} GPUs".format(count) + (", {0} of them in MIG mode".format(divided) if divided else "")
        times = " ({0} replicas of each)".format(replicas) if replicas > 1 else ""
        reason = "the kubelet has {0} {1}{2}, and NVML sees {3}".format(offers, GPU, times, seen)
        yield thing, reason, "restart the device plugin's pod of this node once all GPUs are healthy"


def _compared(
    thing: str, found: Mapping[str, Any], labels: Mapping[str, str], facts: Mapping[str, Any]
) -> Iterator[Sequence[str]]:
    count = facts["gpu_count"]
    on_bus = len(facts.get("pci_gpus") or ())
    if on_bus > count:
        reason = "NVML sees {0} GPUs, and {1} are on the PCI bus".format(count, on_bus)
        yield thing, reason, "run 'gpunode health' there; a GPU that the driver lost needs a reboot"
    label = labels.get("nvidia.com/cuda.driver-version.full") or _old_driver(labels)
    if label and facts.get("driver_version") and label != facts["driver_version"]:
        reason = "it is labelled with driver {0}, and {1} is loaded".format(label, facts["driver_version"])
        yield thing, reason, "restart the pod of GPU feature discovery on this node"


def _old_driver(labels: Mapping[str, str]) -> Optional[str]:
    parts = [labels.get("nvidia.com/cuda.driver." + one) for one in ("major", "minor", "rev")]
    return ".".join(part for part in parts if part) if parts[0] else None


def _capacity(found: Mapping[str, Any], resource: str) -> int:
    capacity = found["capacity"]
    return int(capacity.get(resource, 0)) + int(capacity.get(resource + ".shared", 0))


def _replicas(labels: Mapping[str, str], resource: str) -> int:
    value = labels.get(resource + ".replicas", "")
    return max(int(value), 1) if value.isdigit() else 1


def _pod(found: Mapping[str, Any]) -> Dict[str, Any]:
    metadata, status = mapping(found.get("metadata")), mapping(found.get("status"))
    containers = [one for key in ("initContainerStatuses", "containerStatuses") for one in status.get(key) or ()]
    waiting = [mapping(mapping(one.get("state")).get("waiting")).get("reason") for one in containers]
    state = next(
        (str(one) for one in waiting if one and one != "PodInitializing"), str(status.get("phase") or "Unknown")
    )
    if state == "Running" and _condition(status, "Ready") == "False":
        state = "not ready"
    return {
        "name": str(metadata.get("name")),
        "namespace": str(metadata.get("namespace")),
        "state": state,
        "restarts": sum(int(one.get("restartCount") or 0) for one in containers),
    }


def _condition(status: Mapping[str, Any], kind: str) -> Optional[str]:
    conditions: List[Any] = status.get("conditions") or []
    return next(
        (str(one.get("status")) for one in conditions if isinstance(one, dict) and one.get("type") == kind), None
    )

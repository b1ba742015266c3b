# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's devices of dynamic resource allocation: the ResourceSlices of the driver gpu.nvidia.com, and DeviceClasses.

The attributes of a device are those of kubernetes-sigs/dra-driver-nvidia-gpu (``cmd/gpu-kubelet-plugin/deviceinfo.go``
and ``mig.go``): ``type`` (gpu, mig, vfio), ``uuid`` of a GPU and of an instance that is there. A device of the type mig
without ``uuid`` is an instance that the driver would make.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from ...core.frozen import frozen
from ..kubectl import Kubectl, KubectlError
from ..objects import mapping

DRIVER = "gpu.nvidia.com"
_GROUP = "/apis/resource.k8s.io"
# Newest first. Before v1beta1 (Kubernetes 1.32) a slice had another form.
_VERSIONS = ("v1", "v1beta2", "v1beta1")


@frozen
class Device:
    """``kind``: its attribute ``type``. ``taints``: why the scheduler does not give it to a new claim."""

    name: str
    kind: str
    uuid: str = ""
    taints: Tuple[str, ...] = ()


@frozen
class Devices:
    """``nodes``: the devices of each node. ``incomplete``: nodes that published a part of their slices. ``classes``:
    the DeviceClasses of NVIDIA. ``version``: of the API, "" where it has none. ``unread``, ``classes_unread``: why
    slices or classes are not known."""

    nodes: Mapping[str, Tuple[Device, ...]]
    incomplete: Tuple[str, ...] = ()
    classes: Tuple[str, ...] = ()
    version: str = ""
    unread: str = ""
    classes_unread: str = ""


def read(kubectl: Kubectl) -> Devices:
    """:raises KubectlError: the cluster does not answer."""
    try:
        served = [str(mapping(one).get("version")) for one in kubectl.raw(_GROUP).get("versions") or ()]
    except KubectlError as error:
        if error.kind == "NotFound":
            return Devices({})
        return Devices({}, unread=_why(error))
    version = next((one for one in _VERSIONS if one in served), "")
    if not version:
        return Devices({}, unread="the API serves {0} of resource.k8s.io alone".format(", ".join(served)))
    place, unread, classes_unread = "{0}/{1}/".format(_GROUP, version), "", ""
    slices: List[Dict[str, Any]] = []
    classes: List[str] = []
    try:
        slices = list(kubectl.pages(place + "resourceslices", "spec.driver=" + DRIVER))
    except KubectlError as error:
        unread = _why(error)
    try:
        names = [str(mapping(one.get("metadata")).get("name")) for one in kubectl.pages(place + "deviceclasses")]
        classes = sorted(name for name in names if name.endswith(".nvidia.com"))
    except KubectlError as error:
        classes_unread = _why(error)
    nodes, incomplete = of_slices(slices)
    return Devices(nodes, incomplete, tuple(classes), version, unread, classes_unread)


def _why(error: KubectlError) -> str:
    """:raises KubectlError: it is not about these objects alone."""
    if error.kind not in ("Forbidden", "NotFound"):
        raise error
    return "{0}: {1}".format(error.thing, error.reason)


def of_slices(slices: Iterable[Mapping[str, Any]]) -> Tuple[Dict[str, Tuple[Device, ...]], Tuple[str, ...]]:
    """Pure. (devices by node, nodes with a pool that has fewer slices than it says). Of a pool the newest generation
    counts, as it does for the scheduler."""
    pools: Dict[Tuple[str, str], List[Mapping[str, Any]]] = {}
    for one in slices:
        spec = mapping(one.get("spec"))
        if spec.get("driver") == DRIVER and spec.get("nodeName"):
            pools.setdefault((str(spec["nodeName"]), str(mapping(spec.get("pool")).get("name"))), []).append(spec)
    found: Dict[str, Tuple[Device, ...]] = {}
    incomplete = set()
    for (node, _pool), specs in sorted(pools.items()):
        newest = max(_number(one, "generation") for one in specs)
        newest_specs = [one for one in specs if _number(one, "generation") == newest]
        if len(newest_specs) < max(_number(one, "resourceSliceCount") for one in newest_specs):
            incomplete.add(node)
        devices = [_device(mapping(one)) for spec in newest_specs for one in spec.get("devices") or ()]
        found[node] = (*found.get(node, ()), *devices)
    return found, tuple(sorted(incomplete))


def _number(spec: Mapping[str, Any], name: str) -> int:
    value = mapping(spec.get("pool")).get(name)
    return value if isinstance(value, int) else 0


def _device(found: Mapping[str, Any]) -> Device:
    # v1beta1 has what a device is one level down.
    about = mapping(found.get("basic")) or found
    attributes = {str(key).rpartition("/")[2]: mapping(one) for key, one in mapping(about.get("attributes")).items()}

    def text(name: str) -> str:
        return str(mapping(attributes.get(name)).get("string") or "")

    taints = [mapping(one) for one in about.get("taints") or ()]
    told = [str(one.get("key")) for one in taints if one.get("effect") in ("NoSchedule", "NoExecute")]
    return Device(str(found.get("name")), text("type") or "unknown", text("uuid"), tuple(told))


def counts(devices: Sequence[Device]) -> Dict[str, int]:
    """How many there are of each kind."""
    kinds = [one.kind for one in devices]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

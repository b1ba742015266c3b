# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dynamic resource allocation, for the stand-in of :mod:`.server`: the group resource.k8s.io, in one version, whose
ResourceSlices and DeviceClasses can be listed.

The form of a slice is that of k8s.io/api/resource/v1 and v1beta1 (there a device is in ``basic``), with the attributes
that kubernetes-sigs/dra-driver-nvidia-gpu publishes (``cmd/gpu-kubelet-plugin/deviceinfo.go``, ``mig.go``).
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from . import choose
from .server import Api, Object, Refused

_KINDS = {"resourceslices": "ResourceSlice", "deviceclasses": "DeviceClass"}
DRIVER = "gpu.nvidia.com"


class DeviceApi(Api):
    """An :class:`Api` with the group. ``version``: the one that it serves."""

    def __init__(self, version: str = "v1") -> None:
        super().__init__()
        self._group_version = "resource.k8s.io/" + version
        self._lists: Dict[str, List[Object]] = {name: [] for name in _KINDS}

    def publish(self, plural: str, made: Mapping[str, Any]) -> None:
        self._lists[plural].append(dict(made))

    def publish_gpus(self, node: str, devices: Sequence[Mapping[str, Any]], **pool: int) -> None:
        """A slice of the driver of a node."""
        if self._group_version.endswith("/v1beta1"):
            devices = [
                {"name": one["name"], "basic": {key: one[key] for key in one if key != "name"}} for one in devices
            ]
        spec: Object = {"driver": DRIVER, "nodeName": node, "devices": list(devices)}
        spec["pool"] = {"name": node, "generation": 1, "resourceSliceCount": 1, **pool}
        number = len(self._lists["resourceslices"])
        self.publish("resourceslices", {"metadata": {"name": "{0}-{1}".format(node, number)}, "spec": spec})

    def _discovered(self, path: str) -> Optional[Object]:
        answer = super()._discovered(path)
        version = {"groupVersion": self._group_version, "version": self._group_version.partition("/")[2]}
        group = {"name": "resource.k8s.io", "versions": [version], "preferredVersion": version}
        if path == "/apis" and answer is not None:
            answer["groups"].append(group)
        if path == "/apis/resource.k8s.io":
            return {"kind": "APIGroup", "apiVersion": "v1", **group}
        if path == "/apis/" + self._group_version:
            resources = [
                {"name": plural, "singularName": kind.lower(), "namespaced": False, "kind": kind, "verbs": ["list"]}
                for plural, kind in _KINDS.items()
            ]
            made = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": self._group_version}
            return dict(made, resources=resources)
        return answer

    def _of_objects(
        self, method: str, path: str, query: Mapping[str, List[str]], content_type: str, body: bytes
    ) -> Object:
        found = re.fullmatch("/apis/{0}/([a-z]+)".format(re.escape(self._group_version)), path)
        if method != "GET" or found is None or found.group(1) not in _KINDS:
            return super()._of_objects(method, path, query, content_type, body)
        plural = found.group(1)
        try:
            items, more = choose.page(choose.chosen(self._lists[plural], plural, query), query)
        except choose.Wrong as error:
            raise Refused(400, str(error)) from None
        metadata = {"resourceVersion": str(self._version), **more}
        kind = _KINDS[plural] + "List"
        return {"kind": kind, "apiVersion": self._group_version, "metadata": metadata, "items": items}


def gpu(number: int, **more: Any) -> Object:
    """A whole GPU, as the driver publishes it."""
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": "GPU-{0}".format(number)},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "driverVersion": {"version": "570.148.8"},
    }
    return {
        "name": "gpu-{0}".format(number),
        "attributes": attributes,
        "capacity": {"memory": {"value": "80Gi"}},
        **more,
    }


def mig(parent: int, number: int, made: bool = True) -> Object:
    """An instance; one that the driver would make has no UUID."""
    attributes = {"type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}
    attributes["parentUUID"] = {"string": "GPU-{0}".format(parent)}
    attributes.update({"uuid": {"string": "MIG-{0}-{1}".format(parent, number)}} if made else {})
    return {"name": "gpu-{0}-mig-1g10gb-19-{1}".format(parent, number), "attributes": attributes}

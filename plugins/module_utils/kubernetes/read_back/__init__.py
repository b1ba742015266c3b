# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster says of its GPU nodes, compared with what NVML says on them: asked of kubectl, changes nothing."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Sequence

from ...core.host import Host
from ...core.resource import sentence
from .. import options
from ..objects import mapping
from . import devices
from .compare import node

__all__ = ["gather"]


def gather(host: Host, given: Mapping[str, Any]) -> Dict[str, Any]:
    """The result of the module kubernetes_gpu_info. ``given["nodes"]``: each with its name, and as ``facts`` what the
    module gpu_info told on it; without any, all nodes of the cluster that have NVIDIA's labels or resources.

    :raises NodeError: the cluster does not answer, or not this account.
    """
    kubectl = options.client(host, options.reached(given), "docs/kubernetes.md")
    seen = {str((one.get("metadata") or {}).get("name")): one for one in kubectl.nodes()}
    pods: Dict[str, List[Dict[str, Any]]] = {}
    for pod in kubectl.pods_in(given["namespace"]):
        pods.setdefault(str(mapping(pod.get("spec")).get("nodeName")), []).append(pod)
    found = devices.read(kubectl)
    with_gpus = [name for name, one in sorted(seen.items()) if _has_gpus(one) or name in found.nodes]
    asked = given["nodes"] or [{"name": name} for name in with_gpus]
    nodes = []
    for one in asked:
        name = one["name"]
        nodes.append(node(name, seen.get(name), pods.get(name, ()), one.get("facts") or {}, found))
    not_read = [one for one in (found.unread, found.classes_unread) if one]
    of_cluster = [sentence(*one) for one in _of_cluster(found)]
    return {
        "nodes": nodes,
        "device_classes": list(found.classes),
        "not_read": not_read,
        "findings": of_cluster + [finding for one in nodes for finding in one["findings"]],
        "lines": _lines(nodes) + of_cluster + ["not read: " + one for one in not_read],
    }


def _of_cluster(found: devices.Devices) -> Iterator[Sequence[str]]:
    if found.nodes and devices.DRIVER not in found.classes and not found.classes_unread:
        reason = "it has devices of the driver {0} and no DeviceClass of this name".format(devices.DRIVER)
        yield "the cluster", reason, "look at the chart that installed the driver; claims name this class"


def _has_gpus(found: Mapping[str, Any]) -> bool:
    names = [*((found.get("metadata") or {}).get("labels") or {}), *((found.get("status") or {}).get("capacity") or {})]
    return any(name.startswith("nvidia.com/") for name in names)


def _lines(nodes: List[Dict[str, Any]]) -> List[str]:
    lines: List[str] = []
    for one in nodes:
        parts = ["{0} {1}".format(number, name) for name, number in sorted(one["offers"].items())]
        parts += ["{0} {1} of {2}".format(one["devices"][kind], kind, devices.DRIVER) for kind in one["devices"]]
        offers = ", ".join(parts)
        state = "offers {0}".format(offers or "no GPU") if one["registered"] else "is not registered"
        state += "" if one["schedulable"] is not False else ", cordoned"
        lines.append(
            "{0}: {1}{2}".format(one["name"], state, "" if one["findings"] else ", as NVML has it" * one["compared"])
        )
        lines += ["  " + finding for finding in one["findings"]]
    return lines

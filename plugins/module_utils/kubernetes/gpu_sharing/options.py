# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the sharing of GPUs in a cluster."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.nearest import nearest
from ...core.options import REQUIRED, option, options, state
from ...core.resource import NodeError, together
from ..kubectl import LABEL_VALUE, NAME
from . import configs as plugin

_NAME = (NAME, "name of an object in Kubernetes", "use lower-case letters, digits, - and .")
_CONFIG = (LABEL_VALUE, "name of a config", "use letters, digits and -_. as in slice-4")
_PATH = (r"|/.*|~.*", "absolute path", "begin it with a slash")
_EXAMPLE = {
    "slice-4": {"time_slicing": {"nvidia.com/gpu": 4}},
    "mps-4": {"mps": {"nvidia.com/gpu": 4}},
}


@options
class Node:
    """A node of the cluster, and how its GPUs are shared."""

    name: str = option(
        REQUIRED,
        "Name of the node in Kubernetes. The role takes C(kubernetes_node_name), or the name of the host in the "
        "inventory, where none is given.",
        form=_NAME,
    )
    config: str = option(
        "",
        [
            "Name of the config that the node is labelled with.",
            "Empty: the node has no label of ours, and the plugin's default config holds.",
        ],
        form=_CONFIG,
        example="slice-4",
    )
    gpus: Optional[int] = option(
        None,
        "How many GPUs the node has, for the expected capacity where the node's own labels do not say it yet.",
        bounds=(1, 1024),
        example=8,
    )


@options
class Desired:
    _for_absent = ("nodes", "namespace", "config_map", "folder", "kubeconfig")

    present: bool = state(
        "V(absent) takes away the labels and the config map, as far as they were made here. A label that somebody else "
        "set is left, and so is a config map that pods still mount or other nodes are labelled for."
    )
    configs: Mapping[str, Any] = option(
        {},
        [
            "The configs by their names. Each has C(time_slicing) or C(mps), which map resources to replicas, the "
            "number of pods that share each device. Resources are C(nvidia.com/gpu) and, under the MIG strategy "
            "C(mixed), C(nvidia.com/mig-PROFILE) (time-slicing alone).",
            "C(rename) (false) offers shared resources with the suffix C(.shared). "
            "C(fail_requests_greater_than_one) (true) refuses pods that ask for several replicas, which bring no "
            "larger share.",
            "The config C(whole), which shares nothing, is always there.",
        ],
        read=plugin.read,
        example=_EXAMPLE,
    )
    default: str = option(
        plugin.WHOLE,
        "The config of nodes without a label. It is a setting of the GPU operator, which is told of it by its values.",
        form=_CONFIG,
    )
    nodes: Tuple[Node, ...] = option(
        (),
        [
            "The nodes.",
            "Where the option is not given, they are the hosts of the play, each by its variables C(gpu_sharing_name), "
            "C(gpu_sharing_config) and C(gpu_sharing_gpus). With V(absent) no entry at all means every node that was "
            "labelled here.",
        ],
        inner=Node,
        per_host=True,
    )
    namespace: str = option(
        "gpu-operator", "Namespace of the device plugin, where its config map must lie.", form=_NAME
    )
    config_map: str = option(
        "gpu-node-sharing",
        "Name of the config map, which the GPU operator is to be told as C(devicePlugin.config.name).",
        form=_NAME,
    )
    apply: str = option(
        "kubectl",
        "V(kubectl) brings it into the cluster. V(files) writes files into O(folder) and asks no cluster.",
        choices=("kubectl", "files"),
    )
    folder: str = option(
        "",
        "Folder for C(gpu-sharing-config-map.yaml), C(gpu-sharing-values.yaml) (of the GPU operator) and "
        "C(gpu-sharing-labels.sh). Empty: none are written.",
        kind="path",
        form=_PATH,
    )
    kubectl: str = option("kubectl", "The program, by its name or its path.")
    kubeconfig: str = option(
        "", "The kubeconfig. Empty for the one that kubectl takes by itself.", kind="path", form=_PATH
    )
    context: str = option("", "The context of the kubeconfig. Empty for its current one.")
    seconds: float = option(60, "Time limit of one call of kubectl.", bounds=(1, 3600), unit="seconds")

    def __post_init__(self) -> None:
        object.__setattr__(self, "configs", self.configs or plugin.read({}))
        object.__setattr__(self, "folder", self.folder.rstrip("/"))
        wrong = list(self._twice())
        if self.present:
            wrong += [self._unknown("default", self.default, "")] if self.default not in self.configs else []
            for node in self.nodes:
                if node.config and node.config not in self.configs:
                    where = " (node {0})".format(node.name) if len(self.nodes) > 1 else ""
                    wrong.append(self._unknown("config", node.config, where))
        if self.apply == "files" and not self.folder:
            wrong.append(NodeError("option folder", "there is none, and apply is files", "name a folder for the files"))
        if wrong:
            raise together(wrong)

    def _unknown(self, name: str, value: str, where: str) -> NodeError:
        remedy = "{0}use one of {1}, or add it to option configs".format(
            nearest(value, self.configs), ", ".join(self.configs)
        )
        return NodeError("option " + name, "{0!r}{1} is no config".format(value, where), remedy)

    def _twice(self) -> Tuple[NodeError, ...]:
        seen = set()
        found = {}
        for node in self.nodes:
            if node.name in seen:
                found[node.name] = NodeError("option nodes", node.name + " is named twice", "name each node once")
            seen.add(node.name)
        return tuple(found.values())

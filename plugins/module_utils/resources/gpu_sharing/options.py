# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the sharing of GPUs in a cluster."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.nearest import nearest
from ...core.options import option, options, shared, state
from ...core.resource import NodeError, together
from ...kubernetes import options as cluster
from ...kubernetes import sharing_configs as plugin
from ...kubernetes.kubectl import LABEL_VALUE

_CONFIG = (LABEL_VALUE, "name of a config", "use letters, digits and -_. as in slice-4")
_EXAMPLE = {
    "slice-4": {"time_slicing": {"nvidia.com/gpu": 4}},
    "mps-4": {"mps": {"nvidia.com/gpu": 4}},
}


@options
class Node:
    """A node of the cluster, and how its GPUs are shared."""

    name: str = shared(cluster.NODE)
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
    namespace: str = shared(cluster.NAMESPACE)
    config_map: str = option(
        "gpu-node-sharing",
        "Name of the config map in O(namespace), which the GPU operator is to be told as C(devicePlugin.config.name).",
        form=cluster.OBJECT,
    )
    apply: str = option(
        "kubectl",
        "V(kubectl) brings it into the cluster. V(files) writes files into O(folder) and asks no cluster.",
        choices=("kubectl", "files"),
    )
    folder: str = shared(
        cluster.folder(
            "C(gpu-sharing-config-map.yaml), C(gpu-sharing-values.yaml) (of the GPU operator) and "
            "C(gpu-sharing-labels.sh)"
        )
    )
    kubectl: str = shared(cluster.KUBECTL)
    kubeconfig: str = shared(cluster.KUBECONFIG)
    context: str = shared(cluster.CONTEXT)
    seconds: float = shared(cluster.SECONDS)

    def __post_init__(self) -> None:
        object.__setattr__(self, "configs", self.configs or plugin.read({}))
        object.__setattr__(self, "folder", self.folder.rstrip("/"))
        wrong = cluster.wrong(self)
        if self.present:
            wrong += [self._unknown("default", self.default, "")] if self.default not in self.configs else []
            for node in self.nodes:
                if node.config and node.config not in self.configs:
                    where = " (node {0})".format(node.name) if len(self.nodes) > 1 else ""
                    wrong.append(self._unknown("config", node.config, where))
        if wrong:
            raise together(wrong)

    def _unknown(self, name: str, value: str, where: str) -> NodeError:
        remedy = "{0}use one of {1}, or add it to option configs".format(
            nearest(value, self.configs), ", ".join(self.configs)
        )
        return NodeError("option " + name, "{0!r}{1} is no config".format(value, where), remedy)

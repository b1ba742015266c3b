# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of a cluster with GPU nodes."""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, Optional, Tuple

from ...core.options import option, options, shared, state
from ...core.resource import NodeError, together
from ...kubernetes import options as cluster
from ...kubernetes.kubectl import LABEL_VALUE, NAME
from ...kubernetes.objects import mapping
from ..gpu_sharing.types import LABEL as SHARING
from . import chart
from .chart import VERSION
from .marks import Taint, taint, tolerates

_KEY = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_TAINT = (
    r"|" + _KEY + "(=(" + LABEL_VALUE + ")?)?:(NoSchedule|PreferNoSchedule)",
    "taint that nodes may have",
    "write it as key=value:NoSchedule or key=value:PreferNoSchedule",
)
_WHO = ("auto", "host", "operator")
# NVIDIA's own, which its pods and the admission plugin ExtendedResourceToleration know.
_DEFAULT_TAINT = "nvidia.com/gpu=present:NoSchedule"


@options
class Node:
    """A node of the cluster, and what is on it."""

    name: str = shared(cluster.NODE)
    tainted: bool = option(True, "Whether the node has the taint of O(taint).")
    labels: Mapping[str, Any] = option(
        {},
        [
            "Labels of the node, such as C(nvidia.com/mig.config) of the operator's MIG manager. One that is taken out "
            "again goes where it still has the value that it was given.",
            "Not C(nvidia.com/device-plugin.config), which is of the role gpu_sharing.",
        ],
        example={"nvidia.com/mig.config": "all-balanced"},
    )
    host_driver: Optional[bool] = option(
        None,
        "Whether NVIDIA's driver is installed on the node. The playbook kubernetes.yml looks, where it is not given.",
    )
    host_toolkit: Optional[bool] = option(
        None,
        "Whether NVIDIA's container toolkit is installed on the node. The playbook looks, where it is not given.",
    )
    host_ofed: Optional[bool] = option(
        None,
        "Whether NVIDIA's OFED is installed on the node, whose drivers GPUDirect RDMA needs then. The playbook looks, "
        "where it is not given.",
    )

    def __post_init__(self) -> None:
        wrong = []
        made = {}
        for key, value in self.labels.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            made[str(key)] = text
            if value is None or isinstance(value, (Mapping, list, tuple)):
                reason = "{0}: {1} cannot be its value".format(key, "null" if value is None else "a list or mapping")
                wrong.append(NodeError("option labels", reason, "give a text, or '' for a label without a value"))
            elif not re.fullmatch(_KEY, str(key)):
                reason = "{0!r} cannot be the name of a label".format(key)
                wrong.append(NodeError("option labels", reason, "write it as example.com/name"))
            elif key == SHARING:
                reason = "{0} is set by the role gpu_sharing".format(key)
                wrong.append(NodeError("option labels", reason, "give gpu_sharing_config in place of it"))
            elif text and not re.fullmatch(LABEL_VALUE, text):
                remedy = "use at most 63 letters, digits and -_. with a letter or digit at both ends"
                wrong.append(NodeError("option labels", "{0}: {1!r} cannot be its value".format(key, text), remedy))
        object.__setattr__(self, "labels", made)
        if wrong:
            raise together(wrong)


@options
class Desired:
    _for_absent = ("nodes", "namespace", "folder", "kubeconfig", "taint")

    present: bool = state(
        "V(absent) takes away taints and labels that were set here, and the files. What others set is left, and so is "
        "the GPU operator, which this never uninstalls."
    )
    apply: str = option(
        "kubectl",
        [
            "V(kubectl) sets taints and labels, and compares the operator that runs with the values. V(helm) also "
            "installs or upgrades the operator with them. V(files) writes files into O(folder) and asks no cluster.",
        ],
        choices=("kubectl", "helm", "files"),
    )
    folder: str = shared(cluster.folder("C(gpu-operator-values.yaml) and C(gpu-node-marks.sh) (taints and labels)"))
    nodes: Tuple[Node, ...] = option(
        (),
        [
            "The nodes.",
            "Where the option is not given, they are the hosts of the play, each by its variables "
            "C(kubernetes_gpu_name), C(kubernetes_gpu_tainted), C(kubernetes_gpu_labels) and C(kubernetes_gpu_host_*). "
            "With V(absent) no entry at all means every node that was marked here.",
        ],
        inner=Node,
        per_host=True,
    )
    taint: str = option(
        _DEFAULT_TAINT,
        [
            "Taint that keeps pods without GPUs away, as kubectl writes one. Empty: none.",
            "Pods that ask for C(nvidia.com/gpu) tolerate the default by themselves where the cluster has the "
            "admission plugin ExtendedResourceToleration. With another key, such as "
            "C(node-role.kubernetes.io/gpu=true:NoSchedule), users write the toleration, and the operator gets it by "
            "the values.",
            "C(NoExecute) is refused, as it ends the pods that run.",
        ],
        form=_TAINT,
    )
    namespace: str = shared(cluster.NAMESPACE)
    release: str = option("gpu-operator", "Name of helm's release.", form=cluster.OBJECT)
    chart: str = option(
        "nvidia/gpu-operator", "The chart, as helm takes it: from a repository, a registry, or a file of a mirror."
    )
    chart_version: str = option(
        VERSION,
        "Version of the chart. Keys of values are checked against those of {0}; for another version, one that "
        "is not known is told and not refused.".format(VERSION),
        form=(r"v?[0-9][0-9A-Za-z.+-]*", "version", "write it as " + VERSION),
    )
    stack: str = option(
        "device_plugin",
        [
            "How pods get GPUs. V(device_plugin) is NVIDIA's device plugin (a ClusterPolicy of the operator), V(dra) "
            "is dynamic resource allocation (a GPUCluster, a technology preview of the chart v26.7.0).",
            "The operator does not change a cluster from one to the other. With V(dra) it installs no container "
            "toolkit and no MIG manager.",
        ],
        choices=("device_plugin", "dra"),
    )
    driver: str = option(
        "auto",
        "Who brings the driver: V(host), V(operator), or by what is on the nodes. A node with two has none.",
        choices=_WHO,
    )
    toolkit: str = option(
        "auto", "Who brings the container toolkit: V(host), V(operator), or by what is on the nodes.", choices=_WHO
    )
    mig_manager: bool = option(
        False,
        "Whether the operator's MIG manager divides GPUs, by the label C(nvidia.com/mig.config) of a node. Not beside "
        "the role mig_layout: one of them owns MIG.",
    )
    mig_configs: Mapping[str, Any] = option(
        {},
        "The layouts of the MIG manager by their names, as in C(mig-configs) of nvidia-mig-parted. Without them it has "
        "those of NVIDIA.",
        example={"all-1g.10gb": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]},
    )
    mig_strategy: str = option(
        "mixed",
        "How instances are offered. V(mixed) names each kind, V(single) offers them as C(nvidia.com/gpu) and none at "
        "all where they are unequal, V(none) offers whole GPUs.",
        choices=("mixed", "single", "none"),
    )
    sharing_config_map: str = option(
        "",
        "Config map of the role gpu_sharing that the device plugin reads. Empty: none.",
        form=("|" + NAME, *cluster.OBJECT[1:]),
    )
    sharing_default: str = option("whole", "The config of nodes without a label, in that config map.")
    exporter: str = option(
        "operator",
        "Who exports the metrics: V(operator), with the fields of the role gpu_metrics, or V(host) (that role).",
        choices=("operator", "host"),
    )
    rdma: str = option(
        "auto",
        "GPUDirect RDMA of the operator's driver: with V(host_ofed), V(none), or by what is on the nodes. Of no use to "
        "a driver of the host.",
        choices=("auto", "host_ofed", "none"),
    )
    cdi: bool = option(True, "Whether containers get their GPUs by the Container Device Interface.")
    nfd: bool = option(
        True, "Whether the chart brings node feature discovery. Switch it off where the cluster has one already."
    )
    values: Mapping[str, Any] = option(
        {},
        "More values of the chart, over those that are made here.",
        example={"driver": {"version": "570.148.08"}},
    )
    take_over: bool = option(
        False, "Upgrade a release that somebody else made or changed, without values that only they gave."
    )
    kubectl: str = shared(cluster.KUBECTL)
    helm: str = option("helm", "The program, by its name or its path.")
    kubeconfig: str = shared(cluster.KUBECONFIG)
    context: str = shared(cluster.CONTEXT)
    seconds: float = shared(cluster.SECONDS)
    helm_seconds: float = option(600, "Time limit of one call of helm.", bounds=(1, 7200), unit="seconds")

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.folder.rstrip("/"))
        wrong = cluster.wrong(self)
        if self.present:
            if self.chart_version == chart.VERSION:
                wrong += chart.wrong(self.values)
            if self.mig_configs and not self.mig_manager:
                remedy = "set mig_manager, or give the layouts to the role mig_layout"
                wrong.append(NodeError("option mig_configs", "the MIG manager that reads them is off", remedy))
            if self.mig_manager and self.mig_strategy == "none":
                remedy = "use mixed or single"
                wrong.append(NodeError("option mig_strategy", "it is none, and the MIG manager is on", remedy))
            wrong += self._not_of_dra()
            wrong += self._pods_kept_out()
        if wrong:
            raise together(wrong)

    def _not_of_dra(self) -> Iterator[NodeError]:
        given = {
            "mig_manager": self.mig_manager,
            "sharing_config_map": bool(self.sharing_config_map),
            "toolkit": self.toolkit == "operator",
        }
        for name in given if self.stack == "dra" else ():
            if given[name]:
                reason = "the GPU operator has no part for it where stack is dra"
                yield NodeError("option " + name, reason, "remove it, or set stack to device_plugin")

    def _pods_kept_out(self) -> Iterator[NodeError]:
        """A list of the site's own is in place of ours, and may lack the taint that the nodes get here."""
        asked = self.wanted_taint
        if asked is None or asked.effect != "NoSchedule" or not any(node.tainted for node in self.nodes):
            return
        worker = mapping(self.values.get("node-feature-discovery")).get("worker") if self.nfd else None
        for path, section in (("daemonsets", self.values.get("daemonsets")), ("node-feature-discovery.worker", worker)):
            given = mapping(section).get("tolerations")
            if isinstance(given, list) and not tolerates([one for one in given if isinstance(one, dict)], asked):
                reason = "{0}.tolerations tolerates {1} no more, which keeps the operator's pods away from the nodes"
                remedy = "add a toleration of it, or give option taint another value"
                yield NodeError("option values", reason.format(path, asked), remedy)

    @property
    def wanted_taint(self) -> Optional[Taint]:
        return taint(self.taint) if self.taint else None

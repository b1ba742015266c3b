# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values for the GPU operator's chart, of what was asked and what is on the nodes. Pure."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ...core.resource import NodeError
from ...facts import dcgm
from ...kubernetes import yaml
from ...kubernetes.objects import some
from ..gpu_sharing.files import operator_values
from . import chart
from .options import Desired, Node

# What the chart gives its own pods, which a list of ours replaces.
_CHART_TOLERATIONS = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)
_CHART_NFD_TOLERATIONS = (
    {"key": "node-role.kubernetes.io/control-plane", "operator": "Equal", "value": "", "effect": "NoSchedule"},
    *_CHART_TOLERATIONS,
)
# The taints of a node that is sick or not yet converged: what brings its driver and looks at it comes there, too.
_OURS = ("trainyard.io/gpu-node-health", "trainyard.io/gpu-node-not-ready")
EXPORTER_MAP, MIG_MAP = "gpu-node-exporter-metrics", "gpu-node-mig-configs"


def values(desired: Desired) -> Dict[str, Any]:
    driver, toolkit = by_operator(desired, "driver"), by_operator(desired, "toolkit")
    exporter: Dict[str, Any] = {"enabled": desired.exporter == "operator"}
    if exporter["enabled"]:
        # Jobs and pods have labels of their own in it, which a target's must not replace.
        exporter["serviceMonitor"] = {"honorLabels": True}
        exporter["config"] = {"create": True, "name": EXPORTER_MAP, "data": dcgm.table(dcgm.chosen(()))}
    mig: Dict[str, Any] = {"enabled": desired.mig_manager}
    if desired.mig_configs:
        text = yaml.dump({"version": "v1", "mig-configs": desired.mig_configs})
        mig["config"] = {"create": True, "name": MIG_MAP, "data": {"config.yaml": text}}
    if desired.stack == "dra":
        return chart.merged(_dra(desired, driver, exporter), desired.values)
    found: Dict[str, Any] = {
        "nfd": {"enabled": desired.nfd},
        "cdi": {"enabled": desired.cdi},
        "driver": {"enabled": driver},
        "toolkit": {"enabled": toolkit},
        "mig": {"strategy": desired.mig_strategy},
        "migManager": mig,
        "dcgmExporter": exporter,
        "daemonsets": {"tolerations": _tolerations(desired, _CHART_TOLERATIONS)},
    }
    if driver:
        found["driver"]["rdma"] = _rdma(desired)
    if desired.sharing_config_map:
        found.update(operator_values(desired.sharing_config_map, desired.sharing_default))
    found.update(_nfd(desired))
    return chart.merged(found, desired.values)


def _dra(desired: Desired, driver: bool, exporter: Dict[str, Any]) -> Dict[str, Any]:
    """The operator makes a GPUCluster, and never one beside a ClusterPolicy. It has no part for the container toolkit,
    the device plugin and MIG, and its driver is one of the kind NVIDIADriver (``templates/validations.yaml``)."""
    found: Dict[str, Any] = {
        "nfd": {"enabled": desired.nfd},
        "clusterPolicy": {"deployCR": False},
        "gpuCluster": {"deployCR": True},
        "driver": {"enabled": driver},
        "dcgmExporter": exporter,
        "daemonsets": {"tolerations": _tolerations(desired, _CHART_TOLERATIONS)},
    }
    if driver:
        found["driver"].update(nvidiaDriverCRD={"enabled": True}, rdma=_rdma(desired))
    return {**found, **_nfd(desired)}


def _rdma(desired: Desired) -> Dict[str, Any]:
    ofed = desired.rdma == "host_ofed" or (desired.rdma == "auto" and any(one.host_ofed for one in desired.nodes))
    return {"enabled": ofed, "useHostMofed": ofed}


def _nfd(desired: Desired) -> Dict[str, Any]:
    if not desired.nfd:
        return {}
    worker = {"tolerations": _tolerations(desired, _CHART_NFD_TOLERATIONS)}
    master = {"config": {"extraLabelNs": ["nvidia.com", "trainyard.io"]}}
    return {"node-feature-discovery": {"worker": worker, "master": master}}


def _tolerations(desired: Desired, of_chart: Tuple[Dict[str, Any], ...]) -> List[Dict[str, Any]]:
    asked = desired.wanted_taint
    ours = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in _OURS]
    if asked is not None:
        ours.insert(0, {"key": asked.key, "operator": "Exists", "effect": asked.effect})
    return [dict(one) for one in of_chart] + [one for one in ours if one not in of_chart]


def by_operator(desired: Desired, what: str) -> bool:
    """Whether the operator brings the driver or the toolkit; of nodes that nobody looked at, none has one."""
    chosen: str = getattr(desired, what)
    return chosen == "operator" if chosen != "auto" else not any(_has(one, what) for one in desired.nodes)


def _has(node: Node, what: str) -> Optional[bool]:
    return node.host_driver if what == "driver" else node.host_toolkit


def unsettled(desired: Desired, others: Sequence[str] = ()) -> Iterator[NodeError]:
    """What of the values cannot be known. A second driver on a node, or none, is a night of a whole cluster.
    ``others``: GPU nodes of the cluster that the run is not about."""
    parts = (("driver", "NVIDIA's driver"), ("toolkit", "NVIDIA's container toolkit"))
    for what, word in parts[:1] if desired.stack == "dra" else parts:
        there = {one.name: _has(one, what) for one in desired.nodes}
        unknown = [name for name, value in there.items() if value is None]
        with_it = [name for name, value in there.items() if value]
        without = [name for name, value in there.items() if value is False]
        chosen: str = getattr(desired, what)
        if chosen == "auto" and with_it and without:
            reason = "{0} is on {1}, and not on {2}".format(word, some(with_it), some(without))
            remedy = "install it on all or on none, or say who brings it: host or operator"
            if what == "driver":
                remedy += " (with operator, give the first ones the label nvidia.com/gpu.deploy.driver=false)"
            yield NodeError("option " + what, reason, remedy)
        elif chosen == "auto" and (unknown or not there):
            reason = "it is not known whether {0} is on {1}".format(word, some(unknown) if unknown else "the nodes")
            remedy = "give host or operator, or run playbooks/kubernetes.yml, which looks on nodes that it can reach"
            yield NodeError("option " + what, reason, remedy)
        elif chosen == "auto" and others:
            yield _of_others(what, word, others, "host or operator")
        elif chosen == "operator" and what == "driver":
            twice = [one.name for one in desired.nodes if one.host_driver and not _left_out(one)]
            if twice:
                reason = "the operator is to bring it, and {0} has one of its own".format(some(twice))
                remedy = "give host, or give these nodes the label nvidia.com/gpu.deploy.driver=false"
                yield NodeError("option driver", reason, remedy)
        elif chosen == "host" and without:
            reason = "the host is to have it, and there is none on {0}".format(some(without))
            yield NodeError("option " + what, reason, "install it there, or give operator")
    if others and desired.driver == "operator" and desired.rdma == "auto":
        yield _of_others("rdma", "NVIDIA's OFED", others, "host_ofed or none")


def _of_others(what: str, word: str, others: Sequence[str], choices: str) -> NodeError:
    reason = "it is not known whether {0} is on {1}, in this cluster and not in this run".format(word, some(others))
    return NodeError("option " + what, reason, "run it for all GPU nodes of the cluster, or give " + choices)


def _left_out(node: Node) -> bool:
    return node.labels.get("nvidia.com/gpu.deploy.driver") == "false"

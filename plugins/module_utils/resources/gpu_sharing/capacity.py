# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node will offer under a config, by what GPU feature discovery and the kubelet say of it. Pure.

Labels of GPU feature discovery (k8s-device-plugin, internal/lm): ``gpu.count`` and ``mig-PROFILE.count`` are devices
before sharing; ``gpu.count`` counts GPUs in MIG mode, too, which offer no ``nvidia.com/gpu`` beside instances.
"""

from __future__ import annotations

import re
from typing import Dict, Mapping, Optional, Tuple

from ...core.resource import NodeError
from ...kubernetes.sharing_configs import GPU, MIG, MPS, MPS_CLIENTS_OLD, SHARED, Config
from .types import SeenNode

_MIG_COUNT = re.compile(re.escape(MIG) + r"(.+)\.count")
_SUFFIX = "-SHARED"
_INVALID = "-MIG-INVALID"
# Of GPUs with this compute capability and newer an MPS server has more clients.
_NEWER = (7, 5)


def devices(node: Optional[SeenNode], gpus: Optional[int]) -> Optional[Dict[str, int]]:
    """How many devices of each resource there are before sharing; None: nothing tells."""
    if node is None:
        return None if gpus is None else {GPU: gpus}
    labels = dict(node.labels)
    found = {}
    for label, value in labels.items():
        match = _MIG_COUNT.fullmatch(label)
        if match is not None and _number(value):
            found[MIG + match.group(1)] = int(value)
    count = _number(labels.get(GPU + ".count"))
    replicas = _number(labels.get(GPU + ".replicas"))
    # Under the strategy mixed a GPU in MIG mode that has no instances is counted and not offered.
    mixed = labels.get("nvidia.com/mig.strategy") == "mixed" and replicas is not None
    if not found and not mixed:
        count = gpus if count is None else count
        return None if count is None else {GPU: count} if count else {}
    whole = _beside_instances(node, labels)
    if whole is None or (not found and replicas and not 0 < whole <= (count or 0)):
        return None  # the plugin has not started, or is about to offer something else
    return {**({GPU: whole} if whole else {}), **found}


def _beside_instances(node: SeenNode, labels: Mapping[str, str]) -> Optional[int]:
    """GPUs that are not divided, where others are."""
    replicas = _number(labels.get(GPU + ".replicas"))
    if replicas == 0:  # the label of a node whose GPUs of this name are all in MIG mode
        return 0
    offered = sum(number for name, number in node.capacity if name in (GPU, GPU + SHARED))
    if not replicas or offered % replicas:
        return None
    return offered // replicas


def _number(text: Optional[str]) -> Optional[int]:
    return int(text) if text is not None and re.fullmatch("[0-9]{1,9}", text) else None


def expected(node: Optional[SeenNode], config: Config, gpus: Optional[int]) -> Optional[Dict[str, int]]:
    """What pods can ask for; None: it cannot be told yet."""
    there = devices(node, gpus)
    if there is None:
        return None
    return {config.offered_as(name): number * config.of(name) for name, number in sorted(there.items())}


def offered(node: Optional[SeenNode]) -> Dict[str, int]:
    """What the node offers now."""
    return {} if node is None else {name: number for name, number in node.capacity if number}


def product(node: Optional[SeenNode], config: Config) -> Optional[str]:
    """The label ``nvidia.com/gpu.product`` under this config."""
    name = dict(node.labels).get(GPU + ".product") if node is not None else None
    if name is None:
        return None
    plain = name[: -len(_SUFFIX)] if name.endswith(_SUFFIX) else name
    return plain + _SUFFIX if config.of(GPU) > 1 and not config.rename else plain


def memory_mib(node: Optional[SeenNode], config: Config) -> Optional[int]:
    """The memory of a GPU divided by the pods that share it."""
    total = _number(dict(node.labels).get(GPU + ".memory")) if node is not None else None
    return total // config.of(GPU) if total and config.of(GPU) > 1 else None


def unfit(node: SeenNode, config: Config) -> Optional[NodeError]:
    """Why the plugin would not start on this node with this config."""
    if config.strategy != MPS:
        return None
    labels = dict(node.labels)
    thing = "node {0}".format(node.name)
    with_it = "config {0} shares by MPS".format(config.name)
    if labels.get("nvidia.com/mig.strategy") == "mixed":
        remedy = "use a config with time_slicing, or set mig.strategy of the GPU operator to single or none"
        return NodeError(thing, with_it + ", which the plugin refuses under the MIG strategy mixed", remedy)
    divided = any(_MIG_COUNT.fullmatch(label) for label in labels) or "-MIG-" in labels.get(GPU + ".product", "")
    if divided:
        return NodeError(thing, with_it + ", and GPUs of this node are in MIG mode", "use a config with time_slicing")
    version = _capability(labels)
    if version is not None and version < _NEWER and config.of(GPU) > MPS_CLIENTS_OLD:
        reason = "{0} among {1} pods, and an MPS server on these GPUs has at most {2} clients"
        remedy = "give at most {0} replicas".format(MPS_CLIENTS_OLD)
        return NodeError(thing, reason.format(with_it, config.of(GPU), MPS_CLIENTS_OLD), remedy)
    return None


def _capability(labels: Mapping[str, str]) -> Optional[Tuple[int, int]]:
    major, minor = (_number(labels.get("{0}.compute.{1}".format(GPU, part))) for part in ("major", "minor"))
    return None if major is None or minor is None else (major, minor)


def invalid(node: SeenNode) -> bool:
    """Unequal instances under the MIG strategy "single": nothing is offered, whatever the config."""
    return dict(node.labels).get(GPU + ".product", "").endswith(_INVALID)

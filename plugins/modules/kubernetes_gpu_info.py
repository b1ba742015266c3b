#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Kubernetes cluster says of its GPU nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_gpu_info
short_description: Compare what a Kubernetes cluster says of its GPU nodes with what is on them
description:
  - Reads labels, capacity, taints, conditions and the operator's pods of GPU nodes, and compares them with what
    M(trainyard.gpu_node.gpu_info) told on the nodes.
  - Of nodes whose GPUs are given by dynamic resource allocation, reads the ResourceSlices of the driver
    C(gpu.nvidia.com) and the DeviceClasses (C(resource.k8s.io) v1, v1beta2 or v1beta1).
  - Whatever does not fit is a finding, in one sentence. Findings are warnings of the run, and no failure.
  - Runs on a machine that has kubectl and a kubeconfig, mostly the controller (C(delegate_to)). Needs no root there.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
extends_documentation_fragment:
  - trainyard.gpu_node.kubectl
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
  - trainyard.gpu_node.attributes.info_module
requirements:
  - kubectl
options:
  nodes:
    description: The nodes. Without any, all nodes of the cluster with NVIDIA's labels, resources or devices.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Its name in Kubernetes.
        type: str
        required: true
      facts:
        description: The result of M(trainyard.gpu_node.gpu_info) on this node. Without it the cluster is compared with itself alone.
        type: dict
  namespace:
    description: Namespace of the GPU operator, whose pods are looked at.
    type: str
    default: gpu-operator
seealso:
  - module: trainyard.gpu_node.gpu_info
  - module: trainyard.gpu_node.kubernetes_gpu
"""

EXAMPLES = r"""
- name: Read all GPU nodes of the cluster
  trainyard.gpu_node.kubernetes_gpu_info:
  delegate_to: localhost
  run_once: true

- name: Gather what is on the nodes
  trainyard.gpu_node.gpu_info:
    gather: [settings]
  become: true
  register: gpus

- name: Compare the cluster with a node
  trainyard.gpu_node.kubernetes_gpu_info:
    nodes:
      - {name: "{{ inventory_hostname }}", facts: "{{ gpus }}"}
  delegate_to: localhost
  register: kubernetes
  failed_when: kubernetes.findings is not defined or kubernetes.findings | length > 0
"""

RETURN = r"""
nodes:
  description: The nodes, in the order they were given.
  type: list
  elements: dict
  returned: success
  contains:
    name: {description: Its name in Kubernetes., type: str}
    registered: {description: Whether the cluster has a node of this name., type: bool}
    ready: {description: Whether its kubelet is ready., type: bool}
    schedulable: {description: V(false) where it is cordoned., type: bool}
    taints: {description: "Its taints, as kubectl writes them.", type: list, elements: str}
    labels: {description: Its labels of C(nvidia.com) and C(trainyard.io)., type: dict}
    capacity: {description: "NVIDIA's resources that its kubelet has.", type: dict, sample: {nvidia.com/gpu: 8}}
    offers: {description: "Those of them that pods can have (allocatable).", type: dict, sample: {nvidia.com/gpu: 8}}
    devices: {description: "Devices of dynamic resource allocation, by their type.", type: dict, sample: {gpu: 8}}
    pods:
      description: The operator's pods on it.
      type: list
      elements: dict
      contains:
        name: {description: Its name., type: str}
        namespace: {description: Its namespace., type: str}
        state: {description: "Its phase, or what it waits for, such as V(CrashLoopBackOff).", type: str}
        restarts: {description: How often its containers started anew., type: int}
    mig_config: {description: The layout that the operator's MIG manager is to make., type: str}
    mig_config_state: {description: "V(success), V(pending), V(failed) or V(rebooting), as the MIG manager says.", type: str}
    unhealthy: {description: "The condition GpuNodeUnhealthy - V(True), V(False), V(Unknown), or V(null) where there is none.", type: str}
    compared: {description: Whether it was compared with what NVML told., type: bool}
    findings: {description: What does not fit., type: list, elements: str}
findings:
  description: Those of all nodes.
  type: list
  elements: str
  returned: success
  sample: ["node gpu01: the kubelet has 7 nvidia.com/gpu, and NVML sees 8 GPUs; restart the device plugin's pod of this node once all GPUs are healthy."]
device_classes:
  description: NVIDIA's DeviceClasses of the cluster.
  type: list
  elements: str
  returned: success
  sample: [gpu.nvidia.com, mig.nvidia.com]
not_read:
  description: ResourceSlices or DeviceClasses that could not be read, and why.
  type: list
  elements: str
  returned: success
lines:
  description: The same for people, a line for each node and finding.
  type: list
  elements: str
  returned: success
"""

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

SPEC = {
    "nodes": {
        "type": "list",
        "elements": "dict",
        "options": {"name": {"type": "str", "required": True}, "facts": {"type": "dict"}},
        "default": [],
    },
    "namespace": {"type": "str", "default": "gpu-operator"},
    "kubectl": {"type": "str", "default": "kubectl"},
    "kubeconfig": {"type": "path", "default": ""},
    "context": {"type": "str", "default": ""},
    "seconds": {"type": "float", "default": 60},
}


def main():
    node_command.main("kubernetes_gpu_info", SPEC)


if __name__ == "__main__":
    main()

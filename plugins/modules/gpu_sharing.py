#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time-slicing and MPS in a Kubernetes cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_sharing
short_description: Share the GPUs of Kubernetes nodes by time-slicing or MPS
description:
  - Writes configs of NVIDIA's device plugin into one config map, and labels each node with the name of its config
    (C(nvidia.com/device-plugin.config)). Tells what each node will offer.
  - Refuses what the plugin would refuse on each node, and what would keep it from starting there - a label that no config has, one
    replica, MPS with MIG, a config that goes while a node is labelled with it.
  - Changes and removes only what was made here, by a label of the config map and an annotation of the nodes. A config map of somebody
    else's stops it.
  - A node that is not registered yet is told as pending, and is no failure.
  - Runs once for a cluster, on a machine that has kubectl and a kubeconfig, mostly the controller (C(delegate_to)). Needs no root there.
  - Installs no operator and no plugin. The GPU operator has to be told the name of the config map once, see RV(operator_values).
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description: V(absent) takes away the labels and the config map, as far as they were made here. A label that
      somebody else set is left, and so is a config map that pods still mount or other nodes are labelled for.
    type: str
    choices: [present, absent]
    default: present
  configs:
    description:
      - The configs by their names. Each has C(time_slicing) or C(mps), which map resources to replicas, the number of
        pods that share each device. Resources are C(nvidia.com/gpu) and, under the MIG strategy C(mixed),
        C(nvidia.com/mig-PROFILE) (time-slicing alone).
      - C(rename) (false) offers shared resources with the suffix C(.shared). C(fail_requests_greater_than_one) (true)
        refuses pods that ask for several replicas, which bring no larger share.
      - The config C(whole), which shares nothing, is always there.
    type: dict
    default: {}
  default:
    description: The config of nodes without a label. It is a setting of the GPU operator, which is told of it by its
      values.
    type: str
    default: whole
  nodes:
    description:
      - The nodes.
      - Where the option is not given, they are the hosts of the play, each by its variables C(gpu_sharing_name),
        C(gpu_sharing_config) and C(gpu_sharing_gpus). With V(absent) no entry at all means every node that was labelled
        here.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - Name of the node in Kubernetes.
          - By default the role takes C(gpu_node_kubernetes_name), otherwise the name of the host in the inventory.
        type: str
        required: true
      config:
        description:
          - Name of the config that the node is labelled with.
          - 'Empty: the node has no label of ours, and the plugin''s default config holds.'
        type: str
        default: ''
      gpus:
        description:
          - How many GPUs the node has, for the expected capacity where the node's own labels do not say it yet.
          - From 1 to 1024.
        type: int
  namespace:
    description:
      - Namespace of the GPU operator and its device plugin.
      - By default the role takes C(gpu_node_kubernetes_namespace), otherwise V(gpu-operator).
    type: str
  config_map:
    description: Name of the config map in O(namespace), which the GPU operator is to be told as
      C(devicePlugin.config.name).
    type: str
    default: gpu-node-sharing
  apply:
    description: V(kubectl) brings it into the cluster. V(files) writes files into O(folder) and asks no cluster.
    type: str
    choices: [kubectl, files]
    default: kubectl
  folder:
    description: 'Folder for C(gpu-sharing-config-map.yaml), C(gpu-sharing-values.yaml) (of the GPU operator) and
      C(gpu-sharing-labels.sh). Empty: none are written.'
    type: path
    default: ''
  kubectl:
    description:
      - The program, by its name or its path.
      - By default the role takes C(gpu_node_kubernetes_kubectl), otherwise V(kubectl).
    type: str
  kubeconfig:
    description:
      - The kubeconfig. Empty for the one that kubectl takes by itself.
      - By default the role takes C(gpu_node_kubernetes_kubeconfig).
    type: path
  context:
    description:
      - The context of the kubeconfig. Empty for its current one.
      - By default the role takes C(gpu_node_kubernetes_context).
    type: str
  seconds:
    description:
      - Time limit of one call of kubectl.
      - By default the role takes C(gpu_node_kubernetes_seconds), otherwise V(60).
      - From 1 to 3600 seconds.
    type: float
attributes:
  check_mode:
    support: full
    description: Tells what would be done; changes nothing. The cluster is read.
  diff_mode:
    support: full
    description: Shows the configs, the labels and the files before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
seealso:
  - module: trainyard.gpu_node.mig_layout
  - module: trainyard.gpu_node.slurm_hooks
"""

EXAMPLES = r"""
- name: Four pods share each GPU of one node, and another node is left whole
  trainyard.gpu_node.gpu_sharing:
    configs:
      slice-4:
        time_slicing: {nvidia.com/gpu: 4}
    nodes:
      - {name: gpu01, config: slice-4}
      - {name: gpu02}
  delegate_to: localhost
  run_once: true

- name: As the hosts of the play have it in gpu_sharing_config, in a cluster that is named
  trainyard.gpu_node.gpu_sharing:
    configs: "{{ gpu_sharing_configs }}"
    kubeconfig: ~/.kube/training
    context: training
  delegate_to: localhost
  run_once: true

- name: Files for a repository, without asking a cluster
  trainyard.gpu_node.gpu_sharing:
    configs:
      mps-4:
        mps: {nvidia.com/gpu: 4}
    nodes:
      - {name: gpu01, config: mps-4, gpus: 8}
    apply: files
    folder: /srv/cluster/gpu_sharing
  delegate_to: localhost
  run_once: true

- name: As it was before
  trainyard.gpu_node.gpu_sharing:
    state: absent
    nodes: []
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: What a person has to know or do, such as a node that is not registered yet. They are warnings of the run, too.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: V(null).
  type: str
  returned: success
nodes:
  description: The nodes, in the order they were given.
  type: list
  elements: dict
  returned: success
  contains:
    name:
      description: Its name in Kubernetes.
      type: str
    label:
      description: The config that it is labelled with, or V(null) for none of ours.
      type: str
    pending:
      description: Whether it is not registered in the cluster yet, so that the label waits.
      type: bool
    strategy:
      description: V(time-slicing), V(mps) or V(none).
      type: str
    capacity_expected:
      description: What pods can ask for when the plugin has read its config, or V(null) where neither the labels of the node nor
        O(nodes[].gpus) say how many GPUs it has.
      type: dict
      sample: {nvidia.com/gpu: 32}
    capacity:
      description: What the node offers now, or V(null) where the cluster does not know it.
      type: dict
      sample: {nvidia.com/gpu: 8}
    in_force:
      description: Whether RV(nodes[].capacity) is what is expected, or V(null) where one of them is not known.
      type: bool
    product_label:
      description: What C(nvidia.com/gpu.product) is then, or V(null) where the node has no such label. Shared resources that are not
        renamed add C(-SHARED).
      type: str
    memory_per_replica_mib:
      description: The memory of a GPU divided by the pods that share it, in MiB, or V(null).
      type: int
    memory_enforced:
      description: Whether a pod is kept to it. MPS does, time-slicing does not.
      type: bool
lines:
  description: The same, a line for each node.
  type: list
  elements: str
  returned: success
  sample: ["gpu01: slice-4, will offer 32 nvidia.com/gpu, offers 8 nvidia.com/gpu now"]
configs:
  description: The content of the config map, by the names of the configs.
  type: dict
  returned: success
operator_values:
  description: What the chart of the GPU operator is to be given, so that the plugin reads the config map.
  type: dict
  returned: success
  sample: {devicePlugin: {config: {create: false, name: gpu-node-sharing, default: whole}}}
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource gpu_sharing (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "configs": {"type": "dict",
"default": {}}, "default": {"type": "str", "default": "whole"}, "nodes": {"type": "list", "elements": "dict",
"options": {"name": {"type": "str", "required": true}, "config": {"type": "str", "default": ""},
"gpus": {"type": "int"}}, "default": []}, "namespace": {"type": "str"}, "config_map": {"type": "str",
"default": "gpu-node-sharing"}, "apply": {"type": "str", "choices": ["kubectl", "files"], "default": "kubectl"},
"folder": {"type": "path", "default": ""}, "kubectl": {"type": "str"}, "kubeconfig": {"type": "path"},
"context": {"type": "str"}, "seconds": {"type": "float"}}
""")


def main():
    node_command.main("gpu_sharing", SPEC)


if __name__ == "__main__":
    main()

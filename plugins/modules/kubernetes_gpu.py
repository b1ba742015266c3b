#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU nodes of a Kubernetes cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_gpu
short_description: Configure the GPU operator, taints and labels of a Kubernetes cluster
description:
  - Makes the values of NVIDIA's GPU operator from what is asked and what is on the nodes, and refuses what ends in a node with two
    drivers or none, or that the chart would pass over. Writes them to a file, or gives them to helm.
  - Sets a taint and labels of the nodes. What was set here is remembered in an annotation of the node; what others set stays.
  - Tells which pods would not come back to a node that gets the taint, before it gets it.
  - A node that is not registered yet is told as pending, and is no failure.
  - Runs once for a cluster, on a machine that has kubectl and a kubeconfig, mostly the controller (C(delegate_to)). Needs no root there.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description: V(absent) takes away taints and labels that were set here, and the files. What others set is left, and
      so is the GPU operator, which this never uninstalls.
    type: str
    choices: [present, absent]
    default: present
  apply:
    description: V(kubectl) sets taints and labels, and compares the operator that runs with the values. V(helm) also
      installs or upgrades the operator with them. V(files) writes files into O(folder) and asks no cluster.
    type: str
    choices: [kubectl, helm, files]
    default: kubectl
  folder:
    description: 'Folder for C(gpu-operator-values.yaml) and C(gpu-node-marks.sh) (taints and labels). Empty: none are
      written.'
    type: path
    default: ''
  nodes:
    description:
      - The nodes.
      - Where the option is not given, they are the hosts of the play, each by its variables C(kubernetes_gpu_name),
        C(kubernetes_gpu_tainted), C(kubernetes_gpu_labels) and C(kubernetes_gpu_host_*). With V(absent) no entry at all
        means every node that was marked here.
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
      tainted:
        description: Whether the node has the taint of O(taint).
        type: bool
        default: true
      labels:
        description:
          - Labels of the node, such as C(nvidia.com/mig.config) of the operator's MIG manager. One that is taken out
            again goes where it still has the value that it was given.
          - Not C(nvidia.com/device-plugin.config), which is of the role gpu_sharing.
        type: dict
        default: {}
      host_driver:
        description: Whether NVIDIA's driver is installed on the node. The playbook kubernetes.yml looks, where it is
          not given.
        type: bool
      host_toolkit:
        description: Whether NVIDIA's container toolkit is installed on the node. The playbook looks, where it is not
          given.
        type: bool
      host_ofed:
        description: Whether NVIDIA's OFED is installed on the node, whose drivers GPUDirect RDMA needs then. The
          playbook looks, where it is not given.
        type: bool
  taint:
    description:
      - 'Taint that keeps pods without GPUs away, as kubectl writes one. Empty: none.'
      - Pods that ask for C(nvidia.com/gpu) tolerate the default by themselves where the cluster has the admission
        plugin ExtendedResourceToleration. With another key, such as C(node-role.kubernetes.io/gpu=true:NoSchedule),
        users write the toleration, and the operator gets it by the values.
      - C(NoExecute) is refused, as it ends the pods that run.
    type: str
    default: nvidia.com/gpu=present:NoSchedule
  namespace:
    description:
      - Namespace of the GPU operator and its device plugin.
      - By default the role takes C(gpu_node_kubernetes_namespace), otherwise V(gpu-operator).
    type: str
  release:
    description: Name of helm's release.
    type: str
    default: gpu-operator
  chart:
    description: 'The chart, as helm takes it: from a repository, a registry, or a file of a mirror.'
    type: str
    default: nvidia/gpu-operator
  chart_version:
    description: Version of the chart. Keys of values are checked against those of v26.7.0; for another version, one
      that is not known is told and not refused.
    type: str
    default: v26.7.0
  stack:
    description:
      - How pods get GPUs. V(device_plugin) is NVIDIA's device plugin (a ClusterPolicy of the operator), V(dra) is
        dynamic resource allocation (a GPUCluster, a technology preview of the chart v26.7.0).
      - The operator does not change a cluster from one to the other. With V(dra) it installs no container toolkit and
        no MIG manager.
    type: str
    choices: [device_plugin, dra]
    default: device_plugin
  driver:
    description: 'Who brings the driver: V(host), V(operator), or by what is on the nodes. A node with two has none.'
    type: str
    choices: [auto, host, operator]
    default: auto
  toolkit:
    description: 'Who brings the container toolkit: V(host), V(operator), or by what is on the nodes.'
    type: str
    choices: [auto, host, operator]
    default: auto
  mig_manager:
    description: 'Whether the operator''s MIG manager divides GPUs, by the label C(nvidia.com/mig.config) of a node. Not
      beside the role mig_layout: one of them owns MIG.'
    type: bool
    default: false
  mig_configs:
    description: The layouts of the MIG manager by their names, as in C(mig-configs) of nvidia-mig-parted. Without them
      it has those of NVIDIA.
    type: dict
    default: {}
  mig_strategy:
    description: How instances are offered. V(mixed) names each kind, V(single) offers them as C(nvidia.com/gpu) and
      none at all where they are unequal, V(none) offers whole GPUs.
    type: str
    choices: [mixed, single, none]
    default: mixed
  sharing_config_map:
    description: 'Config map of the role gpu_sharing that the device plugin reads. Empty: none.'
    type: str
    default: ''
  sharing_default:
    description: The config of nodes without a label, in that config map.
    type: str
    default: whole
  exporter:
    description: 'Who exports the metrics: V(operator), with the fields of the role gpu_metrics, or V(host) (that
      role).'
    type: str
    choices: [operator, host]
    default: operator
  rdma:
    description: 'GPUDirect RDMA of the operator''s driver: with V(host_ofed), V(none), or by what is on the nodes. Of
      no use to a driver of the host.'
    type: str
    choices: [auto, host_ofed, none]
    default: auto
  cdi:
    description: Whether containers get their GPUs by the Container Device Interface.
    type: bool
    default: true
  nfd:
    description: Whether the chart brings node feature discovery. Switch it off where the cluster has one already.
    type: bool
    default: true
  values:
    description: More values of the chart, over those that are made here.
    type: dict
    default: {}
  take_over:
    description: Upgrade a release that somebody else made or changed, without values that only they gave.
    type: bool
    default: false
  kubectl:
    description:
      - The program, by its name or its path.
      - By default the role takes C(gpu_node_kubernetes_kubectl), otherwise V(kubectl).
    type: str
  helm:
    description: The program, by its name or its path.
    type: str
    default: helm
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
  helm_seconds:
    description:
      - Time limit of one call of helm.
      - From 1 to 7200 seconds.
    type: float
    default: 600
attributes:
  check_mode:
    support: full
    description: Tells what would be done, and asks the cluster for it.
  diff_mode:
    support: full
    description: Shows files, taints, labels and the values of the release before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
seealso:
  - module: trainyard.gpu_node.gpu_sharing
  - module: trainyard.gpu_node.kubernetes_gpu_info
requirements:
  - kubectl
  - helm 3 or 4, for O(apply=helm)
"""

EXAMPLES = r"""
- name: Taint two nodes, of which one is divided by the operator's MIG manager
  trainyard.gpu_node.kubernetes_gpu:
    mig_manager: true
    nodes:
      - {name: gpu01, host_driver: true, host_toolkit: true}
      - {name: gpu02, host_driver: true, host_toolkit: true, labels: {nvidia.com/mig.config: all-1g.10gb}}
  delegate_to: localhost
  run_once: true

- name: Install the operator as well, with values of the site
  trainyard.gpu_node.kubernetes_gpu:
    apply: helm
    chart: /srv/mirror/gpu-operator-v26.7.0.tgz
    driver: operator
    toolkit: operator
    values:
      driver: {version: 570.148.08}
    nodes:
      - {name: gpu01}
  delegate_to: localhost
  run_once: true

- name: Write files for a repository, without asking a cluster
  trainyard.gpu_node.kubernetes_gpu:
    driver: host
    toolkit: host
    apply: files
    folder: /srv/cluster/gpu_operator
    nodes:
      - {name: gpu01}
  delegate_to: localhost
  run_once: true

- name: Take away the taints and labels that were set here
  trainyard.gpu_node.kubernetes_gpu:
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
  description: What a person has to know or do, such as pods that would not come back to a node. They are warnings of the run, too.
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
    pending:
      description: Whether it is not registered in the cluster yet, so that its marks wait.
      type: bool
    taint:
      description: The taint that it is to have, or V(null).
      type: str
    taints:
      description: All its taints, or V(null) where the cluster does not know it.
      type: list
      elements: str
    labels:
      description: The labels that it is to have.
      type: dict
lines:
  description: The same, a line for each node.
  type: list
  elements: str
  returned: success
  sample: ["gpu01: nvidia.com/gpu=present:NoSchedule"]
operator_values:
  description: The values for the chart of the GPU operator. Empty where it is not known what is on the nodes.
  type: dict
  returned: success
operator_not_compared:
  description: Why the operator that runs is not compared with the values. Empty where it is compared, or where helm is given the values.
  type: str
  returned: success
  sample: this account may not list clusterpolicies.nvidia.com
release:
  description: With O(apply=helm), the release - its version, its state as helm calls it, and whether its last revision was made here.
  type: dict
  returned: success
stranded:
  description: What owns the pods that go on beside a new taint and would not come back to its node.
  type: list
  elements: str
  returned: success
  sample: ["DaemonSet kube-system/fluentd (12 pods)"]
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource kubernetes_gpu (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "apply": {"type": "str",
"choices": ["kubectl", "helm", "files"], "default": "kubectl"}, "folder": {"type": "path", "default": ""},
"nodes": {"type": "list", "elements": "dict", "options": {"name": {"type": "str", "required": true},
"tainted": {"type": "bool", "default": true}, "labels": {"type": "dict", "default": {}},
"host_driver": {"type": "bool"}, "host_toolkit": {"type": "bool"}, "host_ofed": {"type": "bool"}}, "default": []},
"taint": {"type": "str", "default": "nvidia.com/gpu=present:NoSchedule"}, "namespace": {"type": "str"},
"release": {"type": "str", "default": "gpu-operator"}, "chart": {"type": "str", "default": "nvidia/gpu-operator"},
"chart_version": {"type": "str", "default": "v26.7.0"}, "stack": {"type": "str", "choices": ["device_plugin",
"dra"], "default": "device_plugin"}, "driver": {"type": "str", "choices": ["auto", "host", "operator"],
"default": "auto"}, "toolkit": {"type": "str", "choices": ["auto", "host", "operator"], "default": "auto"},
"mig_manager": {"type": "bool", "default": false}, "mig_configs": {"type": "dict", "default": {}},
"mig_strategy": {"type": "str", "choices": ["mixed", "single", "none"], "default": "mixed"},
"sharing_config_map": {"type": "str", "default": ""}, "sharing_default": {"type": "str", "default": "whole"},
"exporter": {"type": "str", "choices": ["operator", "host"], "default": "operator"}, "rdma": {"type": "str",
"choices": ["auto", "host_ofed", "none"], "default": "auto"}, "cdi": {"type": "bool", "default": true},
"nfd": {"type": "bool", "default": true}, "values": {"type": "dict", "default": {}}, "take_over": {"type": "bool",
"default": false}, "kubectl": {"type": "str"}, "helm": {"type": "str", "default": "helm"},
"kubeconfig": {"type": "path"}, "context": {"type": "str"}, "seconds": {"type": "float"},
"helm_seconds": {"type": "float", "default": 600}}
""")


def main():
    node_command.main("kubernetes_gpu", SPEC)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a node of Kubernetes out of service for work on it, and put it back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_node
short_description: Take a node of Kubernetes out of service for work on it, and put it back
description:
  - With O(state=drained) the node is cordoned first and looked at then, so no pod can come in between. The result RV(outcome) says
    whether it may be worked on - no pod that asks for resources of C(nvidia.com), or has a resource claim, is left.
  - Pods of DaemonSets and static pods stay, and so do all others that hold no GPU, unless O(busy=evict).
  - "Our cordon has the annotation C(trainyard.io/gpu-node-drain), whose text begins with C(gpu_node: rolling: ). It is set by the request
    that cordons the node. Only a cordon with it is ever taken back."
  - A node that somebody else cordoned stays cordoned. On one that we have cordoned, a second cordon by somebody else leaves no trace,
    and ends with ours.
  - A node with pods, one of somebody else, and one that is not registered are answers and not errors of this module.
  - Runs where C(kubectl) and a kubeconfig are, mostly on the controller (C(delegate_to)). Needs no root there.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - kubectl 1.20 or newer
options:
  name:
    description: Name of the node in the cluster.
    type: str
    required: true
  busy:
    description:
      - What becomes of a node that has pods with GPUs when O(wait_seconds) are over.
      - V(leave) takes our cordon back, so it goes on as before. V(drain) lets the cordon stand, so a later run finds it without pods.
      - V(evict) evicts all pods of the node as C(kubectl drain) does, respecting disruption budgets. Where pods are left after
        O(evict_seconds), or one may not be evicted, the cordon stands.
    type: str
    choices: [leave, drain, evict]
    default: leave
  evict_seconds:
    description: How long pods that are evicted, and budgets that do not allow it yet, are waited for.
    type: float
    default: 300
  evict_unmanaged:
    description: Evict also pods without a controller, which nothing makes anew. Without it such a pod keeps all others, too.
    type: bool
    default: false
  delete_emptydir_data:
    description:
      - Evict also pods with an C(emptyDir) volume, whose data are lost. Without it such a pod keeps all others, too.
      - C(/dev/shm) of most training jobs is such a volume.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Tells what would be done; waits for nothing. The cluster is read.
  diff_mode:
    support: full
    description: Shows cordon and annotation before and after, and the pods that were evicted.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.rolling
  - trainyard.gpu_node.kubectl
  - trainyard.gpu_node.attributes
seealso:
  - module: trainyard.gpu_node.slurm_node
  - module: trainyard.gpu_node.gpu_sharing
"""

EXAMPLES = r"""
- name: Cordon the node, and wait up to an hour for pods with GPUs
  trainyard.gpu_node.kubernetes_node:
    name: "{{ inventory_hostname }}"
    reason: new driver
    wait_seconds: 3600
  delegate_to: localhost
  register: node

- name: Work on it
  ansible.builtin.include_tasks: work.yml
  when: node.outcome == 'ready'

- name: Uncordon the node
  trainyard.gpu_node.kubernetes_node:
    name: "{{ inventory_hostname }}"
    state: in_service
  delegate_to: localhost

- name: Evict what is left on it after ten minutes
  trainyard.gpu_node.kubernetes_node:
    name: gpu01
    busy: evict
    wait_seconds: 600
    delete_emptydir_data: true
    kubeconfig: ~/.kube/training
  delegate_to: localhost
"""

RETURN = r"""
outcome:
  description:
    - V(ready) - it is cordoned and no pod holds its GPUs. V(busy) - it has such pods. V(left) - somebody else or another run cordoned it,
      its kubelet does not report, or it is not registered. V(in_service) - it takes pods.
  type: str
  returned: success
  sample: ready
why:
  description: The outcome for people.
  type: str
  returned: success
owner:
  description: Who has it out of service - V(nobody), V(rolling) for this module, V(somebody).
  type: str
  returned: success
node_state:
  description: Of V(cordoned), V(ready) (its kubelet reports) and V(unregistered) what holds.
  type: list
  elements: str
  returned: success
  sample: [cordoned, ready]
node_reason:
  description: Our annotation on a node that is cordoned, or V(null).
  type: str
  returned: success
pods:
  description: The pods that hold GPUs, as C(namespace/name).
  type: list
  elements: str
  returned: success
evicted:
  description: The pods that were evicted, or in check mode would be.
  type: list
  elements: str
  returned: success
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
drained:
  description: Whether our cordon of this call may stand.
  type: bool
  returned: failure
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import argument_spec, argument_spec_of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes import node, options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.node.types import ANNOTATION, Busy
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.options import Asked, asked


def shown(state, evicted=()):
    text = "unschedulable: {0}\n{1}: {2}\n".format(str(state.cordoned).lower(), ANNOTATION, state.annotation or "")
    return text + "".join("evicted: {0}\n".format(pod) for pod in evicted)


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "busy": {"type": "str", "choices": ["leave", "drain", "evict"], "default": "leave"},
            "evict_seconds": {"type": "float", "default": 300},
            "evict_unmanaged": {"type": "bool", "default": False},
            "delete_emptydir_data": {"type": "bool", "default": False},
            **argument_spec(Asked),
            **argument_spec_of(options.of_module()),
        },
        supports_check_mode=True,
    )
    given = module.params
    own = ("name", "evict_seconds", "evict_unmanaged", "delete_emptydir_data")
    try:
        desired = node.Desired(
            busy=Busy(given["busy"]),
            **{name: given[name] for name in own},
            **asked(given),
        )
        kubectl = options.client(Host(), options.reached(given), "docs/rolling.md")
        done = node.run(kubectl, desired, module.check_mode)
    except NodeError as error:
        module.fail_json(msg=str(error), drained=isinstance(error, node.DrainStands))
    evicted = node.evicted(done)
    before, after = shown(done.before), shown(done.after, evicted)
    module.exit_json(
        changed=before != after,
        diff={"before": before, "after": after, "before_header": desired.name, "after_header": desired.name},
        evicted=evicted,
        **done.to_dict(),
    )


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of this name, which runs the module of the scheduler."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rolling_node
short_description: Take a node of Slurm or Kubernetes out of service, and put it back
description:
  - Runs M(trainyard.gpu_node.slurm_node) or M(trainyard.gpu_node.kubernetes_node), which describe what it does and what it returns.
    C(rolling.yml) is written with it once for both.
  - For Slurm it is run on the node as root. For Kubernetes it is delegated to a host that has kubectl.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  scheduler:
    description: Whose node it is.
    type: str
    choices: [slurm, kubernetes]
    default: slurm
  slurm:
    description: Options that M(trainyard.gpu_node.slurm_node) alone has, and C(name).
    type: dict
    default: {}
  kubernetes:
    description: Options that M(trainyard.gpu_node.kubernetes_node) alone has, and C(name).
    type: dict
    default: {}
  busy:
    description: What becomes of a node that has jobs or pods when O(wait_seconds) are over. V(evict) is for Kubernetes alone.
    type: str
    choices: [leave, drain, evict]
    default: leave
attributes:
  check_mode:
    support: full
    description: Tells what would be done; waits for nothing.
  diff_mode:
    support: full
    description: Shows state and reason before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.rolling
  - trainyard.gpu_node.attributes
seealso:
  - module: trainyard.gpu_node.slurm_node
  - module: trainyard.gpu_node.kubernetes_node
"""

EXAMPLES = r"""
- name: Drain the node
  trainyard.gpu_node.rolling_node:
    scheduler: slurm
    slurm:
      name: "{{ slurm_node_name }}"
  become: true
  register: node

- name: Cordon the node
  trainyard.gpu_node.rolling_node:
    scheduler: kubernetes
    kubernetes:
      name: "{{ inventory_hostname }}"
      kubeconfig: ~/.kube/training
  delegate_to: localhost
  register: node
"""

RETURN = r"""
outcome:
  description: V(ready), V(busy), V(left) or V(in_service), as the module tells it.
  type: str
  returned: success
why:
  description: The outcome for people.
  type: str
  returned: success
"""

#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a whole node to its declaration, in one run of the node command."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node
short_description: Bring a whole node to its declaration
description:
  - Sends the declaration of a node, one section for each resource, and has the node command C(gpunode converge) do the rest.
    The node command is sent only to a node that has another one.
  - What one resource fails at stops those that need it, and no other. The result has a part for each.
  - In check mode the node command goes to a temporary folder where the node lacks it, and nothing stays.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description: V(absent) takes away what a converge made, in the opposite order. Data on the scratch are lost then.
    type: str
    choices: [present, absent]
    default: present
  declaration:
    description:
      - What is wanted of the node, a mapping of options for each resource, as the page C(docs/declaration.md) has it.
      - By default it is made of the variables of the node, those of O(resources).
    type: dict
  resources:
    description: The resources that get a section made of the node's variables, such as C(nccl_settings) for C(nccl).
    type: list
    elements: str
  write_to:
    description:
      - Write the declaration to this file on the controller, with mode 0600, and leave the node as it is. What a vault keeps
        secret is in the clear there.
      - Tags, O(only) and O(without) choose nothing then, and options that count for one run only are left out.
    type: path
  only:
    description: Only these resources, or C(health) for the verdict. By default those that the tags of the run name, else all.
    type: list
    elements: str
    default: []
  without:
    description: Not these. By default those that the skipped tags of the run name.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
    description: Tells what would be done on the whole node; changes nothing.
  diff_mode:
    support: full
    description: Shows files and settings of each resource before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
  facts:
    description: Sets facts of the host.
    support: full
    details: RV(ansible_facts.gpu_node_profile).
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: Converge by the variables of the node
  trainyard.gpu_node.node:
    resources: [node_profile, nvme_scratch, gpu_settings, nccl, health]

- name: Write the declaration for a node that converges itself
  trainyard.gpu_node.node:
    write_to: declarations/{{ inventory_hostname }}.json

- name: Converge by a declaration
  trainyard.gpu_node.node:
    declaration:
      node_profile: {}
      nvme_scratch:
        mount_point: /scratch
      health:
        fail_on: fail
"""

RETURN = r"""
ready:
  description:
    - Whether nothing failed and the node waits for nothing. A node that is not ready is no failure of this module; RV(failures) and
      RV(waits) tell why.
    - A verdict counts as failed from the option C(fail_on) of the section C(health) on. A node that converges itself goes by
      a stricter limit where that is not given, see C(docs/bundle.md).
  type: bool
  returned: success, without O(write_to)
path:
  description: The file on the controller.
  type: str
  returned: success, with O(write_to)
failures:
  description: What failed, a sentence each.
  type: list
  elements: str
  returned: success
waits:
  description:
    - What the node waits for before it may take jobs, although nothing failed. The play C(rolling.yml) keeps it drained until then,
      and C(gpunode converge) ends with C(not ready); the run of a boot does not, as nobody is there to do it.
    - C(for) is V(a reboot) or V(slurmd), C(why) is a sentence with the remedy.
  type: list
  elements: dict
  returned: success, without O(write_to)
  sample: [{"for": "a reboot", "why": "the MIG mode of GPU 0 (0001:00:00.0) changes at a reboot: reboot the node, then run this again"}]
resources:
  description: By the name of the resource, what its own module would return. Where slurmd had yet to read something, C(slurmd) tells of its
    restart, which all resources have in common.
  type: dict
  returned: success
health:
  description: The verdict with its findings, as the module M(trainyard.gpu_node.health_check) returns it. Empty without one.
  type: dict
  returned: success
profile:
  description: The profile of the machine and how the machine differs from it, or V(null).
  type: dict
  returned: success
summary:
  description: All of it in a few lines for a person.
  type: list
  elements: str
  returned: success
ansible_facts:
  description: Facts of the host.
  type: dict
  returned: when a profile was chosen
  contains:
    gpu_node_profile:
      description: As RV(profile).
      type: dict
"""

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "declaration": {"type": "dict"},
    "resources": {"type": "list", "elements": "str"},
    "write_to": {"type": "path"},
    "only": {"type": "list", "elements": "str", "default": []},
    "without": {"type": "list", "elements": "str", "default": []},
}


def main():
    node_command.main("node", SPEC, secret=True)


if __name__ == "__main__":
    main()

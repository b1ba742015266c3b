#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the profile of a machine, compare, and declare the choice on the node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_profile
short_description: Choose what this machine must look like, and tell how it differs
description:
  - Chooses a profile by O(name), else by the VM size that the cloud or the firmware tells, else by what
    NVML and sysfs show.
  - A machine that no profile, or more than one, describes is V(unknown). That is a state of its own with a reason,
    not an error,
    and RV(compared) is then V(false); an unknown machine never counts as matching.
  - Compares the machine with its profile - GPUs, their NUMA nodes, processors, memory, local NVMe disks and
    InfiniBand ports - and
    lists every difference.
  - Keeps the choice in section C(profile) of C(/etc/gpu_node/node.json) and changes nothing else.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
attributes:
  check_mode:
    description: Can run in check mode and tell what it would do without changing anything.
    support: full
  diff_mode:
    description: Shows what changes when run in diff mode.
    support: full
    details: Shows the section of the declaration before and after.
  idempotent:
    description: A second run in a row changes nothing.
    support: full
  facts:
    description: Sets facts of the host.
    support: full
    details: RV(ansible_facts.gpu_node_profile).
options:
  state:
    description: V(absent) takes the section out of the declaration, and looks at nothing.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - The profile. V(auto) chooses one by the VM size, else by the hardware. V(unknown) says that none is wanted.
      - A name that there is no profile of is an error that lists those there are.
    type: str
    default: auto
  profiles:
    description:
      - 'Profiles of the site: a mapping of profiles by name, or the path of a folder on the controller with a YAML file
        for each. One takes the place of the collection''s profile of the same name.'
      - The page C(docs/profiles.md) tells what a profile may hold.
    type: raw
    default: {}
  metadata:
    description:
      - Whether the cloud is asked for the VM size. With V(auto) only a machine whose firmware names Azure, GCP or OCI
        asks, and only when O(name) is V(auto), so that no time is lost elsewhere.
      - On AWS the firmware tells the instance type, and nobody is asked.
    type: str
    choices: [auto, always, never]
    default: auto
  metadata_url:
    description:
      - Where the cloud is asked, with C(http://). No proxy is used.
      - The default stands for the address of the machine's own cloud.
    type: str
    default: http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01
  metadata_timeout_seconds:
    description:
      - How long the cloud is waited for, in all.
      - From 0.01 to 60 seconds.
    type: float
    default: 0.5
  gpus:
    description:
      - Whether NVML is asked. Without it, GPUs are known by their PCI ids.
      - By default V(true), and V(false) when O(root) is another tree.
    type: bool
  call_timeout_seconds:
    description:
      - After this time a single NVML call is given up.
      - From 0.01 to 600 seconds.
    type: float
    default: 10.0
  declare:
    description: Whether the choice is kept in C(/etc/gpu_node/node.json), where the node's own checks find it. On a
      machine that is left alone nothing is kept, see O(manage).
    type: bool
    default: true
  manage:
    description:
      - Which machines are managed. V(any) means all.
      - V(known) means those with an NVIDIA GPU or NVSwitch on the PCI bus, with a driver or without, with a profile,
        with a disk of O(scratch_models), or with a scratch or GPU settings that were declared before. Any other machine
        is left alone but for what is in O(asked). The playbooks of the collection say so unless C(gpu_node_manage) is
        true.
    type: str
    choices: [any, known]
    default: any
  asked:
    description: Resources that were asked for by name, or C(comm) for those of the communication stack. Other words are
      passed over, so tags of a run can be given.
    type: list
    elements: str
    default: []
  scratch_models:
    description: Patterns of the models of disks that are scratch material, as C(nvme_scratch_models).
    type: list
    elements: str
    default: []
  require_known:
    description: Fail when no profile describes the machine. Otherwise it is called unknown, and nothing is compared.
    type: bool
    default: false
  fail_on:
    description: Fail when the machine differs from its profile. V(fail) is for a missing part, say, V(warn) for any
      difference.
    type: str
    choices: [never, fail, warn]
    default: never
  root:
    description: Look at a captured tree (a folder that holds C(sys) and C(proc)) instead of this machine, and declare
      in it.
    type: path
    default: /
seealso:
  - module: trainyard.gpu_node.topology_info
"""

EXAMPLES = r"""
- name: Choose among the profiles of the collection
  trainyard.gpu_node.node_profile:

- name: Choose among those and the site's own, of a folder on the controller
  trainyard.gpu_node.node_profile:
    profiles: "{{ inventory_dir }}/profiles"

- name: Forget the profile
  trainyard.gpu_node.node_profile:
    state: absent
"""

RETURN = r"""
ansible_facts:
  description: Facts of the host.
  type: dict
  returned: when O(state=present)
  contains:
    gpu_node_profile:
      description: What this module found, for the roles that follow.
      type: dict
      contains:
        name:
          description: As RV(name).
          type: str
        source:
          description: As RV(source).
          type: str
        reason:
          description: As RV(reason).
          type: str
        data:
          description: The content of the profile; empty for V(unknown).
          type: dict
        compared:
          description: As RV(compared).
          type: bool
        matches:
          description: As RV(matches).
          type: bool
        differences:
          description: As RV(differences).
          type: list
          elements: dict
        roles:
          description: As RV(roles).
          type: list
          elements: str
        left:
          description: As RV(left).
          type: str
        lost:
          description: As RV(lost).
          type: str
name:
  description: The profile of this machine, or V(unknown).
  type: str
  returned: when O(state=present)
  sample: nd96asr_v4
source:
  description:
    - What it was chosen by. V(explicit), V(metadata), V(hardware), V(declared) or V(none).
    - V(declared) is the profile of an earlier run, on a machine that fits it but for missing devices, or whose cloud
      did not tell the VM size this time.
  type: str
  returned: when O(state=present)
reason:
  description: Why it was chosen, in a sentence.
  type: str
  returned: when O(state=present)
compared:
  description: Whether the machine was compared with a profile. V(false) for V(unknown).
  type: bool
  returned: when O(state=present)
matches:
  description: Whether it was compared and nothing differs.
  type: bool
  returned: when O(state=present)
differences:
  description: How the machine differs from its profile.
  type: list
  elements: dict
  returned: when O(state=present)
  contains:
    subject:
      description: What differs.
      type: str
      sample: local NVMe disks
    expected:
      description: What the profile says.
      type: raw
      sample: 8
    found:
      description: What the machine has.
      type: raw
      sample: 7
    severity:
      description:
        - V(fail) for a part that is missing, another one or elsewhere; V(warn) for what cannot be told or is off by a
          little.
      type: str
roles:
  description: The roles that manage this machine.
  type: list
  elements: str
  returned: when O(state=present)
left:
  description: Why the machine is left alone but for RV(roles), and how to ask for more. V(null) where it is not.
  type: str
  returned: when O(state=present)
lost:
  description: What tells that the machine had GPUs, when none is left and no profile says so. V(null) otherwise.
  type: str
  returned: when O(state=present)
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: What a person should know about this machine, a sentence each.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: V(null).
  type: str
  returned: success
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource node_profile (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "name": {"type": "str",
"default": "auto"}, "profiles": {"type": "raw", "default": {}}, "metadata": {"type": "str", "choices": ["auto",
"always", "never"], "default": "auto"}, "metadata_url": {"type": "str",
"default": "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01"},
"metadata_timeout_seconds": {"type": "float", "default": 0.5}, "gpus": {"type": "bool"},
"call_timeout_seconds": {"type": "float", "default": 10.0}, "declare": {"type": "bool", "default": true},
"manage": {"type": "str", "choices": ["any", "known"], "default": "any"}, "asked": {"type": "list",
"elements": "str", "default": []}, "scratch_models": {"type": "list", "elements": "str", "default": []},
"require_known": {"type": "bool", "default": false}, "fail_on": {"type": "str", "choices": ["never", "fail",
"warn"], "default": "never"}, "root": {"type": "path", "default": "/"}}
""")


def main():
    node_command.main("node_profile", SPEC)


if __name__ == "__main__":
    main()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG layouts of the GPUs of a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_layout
short_description: Divide NVIDIA GPUs into instances (MIG)
version_added: 0.1.0
description:
  - Brings GPUs to a layout of GPU instances and compute instances. What stands and is wanted stays; what is in use never goes.
  - Places are chosen by an exact search, so that a layout that fits is always found. One that does not is refused with one that does.
  - A GPU on which a step fails goes back to what it was. A run that was killed is finished by the next one.
  - No GPU keeps its instances over a reboot, and those since Hopper not even the mode, so that
    C(gpu-node-mig_layout.service) makes them again at each boot, before slurmd and the container runtimes start.
  - A change of the mode that waits for a reset of the GPU, as on an A100, is no failure. It is told, and the layout is made after
    the reboot.
  - An instance or a GPU that Slurm has given to a job counts as in use from its prolog to its epilog, whether the job computes or not.
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description:
      - V(present) makes the layouts.
      - V(default) returns each GPU that was changed here to the mode and the instances that it had before, and removes
        the boot unit, the declaration and the record. The options that hold layouts do not matter then.
    type: str
    choices: [present, default]
    default: present
  layouts:
    description: What is wanted of which GPUs. A GPU that none of them names is left alone; one that two name is
      refused.
    type: list
    elements: dict
    default: []
    suboptions:
      gpus:
        description:
          - 'The GPUs: V(all) that can be divided, or a list of indexes, UUIDs and PCI addresses.'
          - An index may mean another GPU after a reboot; UUIDs and PCI addresses do not.
        type: list
        elements: str
        default: [all]
      mig:
        description: Whether MIG is on. V(false) gives the GPU back as a whole.
        type: bool
        default: true
      instances:
        description: 'The GPU instances. None: MIG is on, and the GPU is empty.'
        type: list
        elements: dict
        default: []
        suboptions:
          profile:
            description:
              - The profile as the GPU names it (V(3g.20gb), V(1g.10gb+me)), its id, or without the memory (V(3g)), so
                that one line serves GPUs of 40, 80 and 141 GB.
              - V(1c.3g.20gb) is a compute instance, as nvidia-mig-parted has it; those of one profile share as few GPU
                instances as they fit in.
            type: str
            required: true
          count:
            description:
              - So many of them.
              - From 1 to 14.
            type: int
            default: 1
          start:
            description:
              - The memory slice at which it starts. By default the place is chosen so that most of what stands stays,
                and then so that most can be made beside it.
              - From 0 to 15.
            type: int
          compute:
            description: Its compute instances, as V(1c) and V(2c). By default there is one, as large as it is.
            type: list
            elements: str
            default: []
  parted_config:
    description:
      - A configuration of nvidia-mig-parted as it is, in place of O(layouts).
      - Its indices count the GPUs by PCI address, as that program does.
    type: dict
    default: {}
  parted_label:
    description: The configuration of O(parted_config) that is wanted; needed where it has several.
    type: str
  stop_units:
    description:
      - Units that hold the GPUs open and work for nobody, as C(nvidia-dcgm.service). They are stopped while a mode
        changes or instances end, and started again after it, also when it fails.
      - Not one that runs jobs or containers. Without it, what holds a GPU is named, and nothing is stopped.
    type: list
    elements: str
    default: []
  exact:
    description: Whether instances that nobody asked for go. V(false) keeps them, and the others are placed around them.
      What is in use never goes.
    type: bool
    default: true
  require_gpus:
    description: Fail, instead of skip, on a machine without GPUs.
    type: bool
    default: false
  call_timeout_seconds:
    description:
      - A single call of the driver may take so long. A call that takes longer fails the GPU that it was made for.
      - From 0.1 to 600 seconds.
    type: float
    default: 10.0
  boot_unit:
    description:
      - Install and enable C(gpu-node-mig_layout.service). It makes the layouts again, as no GPU keeps its instances
        over a reboot.
      - V(false) removes it.
    type: bool
    default: true
  before_units:
    description: Units that start only after the boot unit has ended, successfully or not. One that is not installed
      does no harm.
    type: list
    elements: str
    default: [slurmd.service, docker.service, containerd.service, kubelet.service]
  boot_timeout_seconds:
    description:
      - The boot continues without the resource after this time.
      - From 1 to 86400 seconds.
    type: int
    default: 480
attributes:
  check_mode:
    support: full
    description: Tells what would be made and ended, and changes nothing.
  diff_mode:
    support: full
    description: Shows the mode and the instances of each GPU and the boot unit before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
  platform:
    platforms: linux
    support: full
    description: Linux with an NVIDIA driver and Python 3.8 or newer.
requirements:
  - systemd and the node command gpunode for O(boot_unit) (module trainyard.gpu_node.node_runtime)
  - NVIDIA's Python binding, either inside C(gpunode) (see M(trainyard.gpu_node.node_runtime)) or installed as
    C(nvidia-ml-py)
seealso:
  - module: trainyard.gpu_node.gpu_settings
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
"""

EXAMPLES = r"""
- name: Give four users an instance each, on GPUs of any size
  trainyard.gpu_node.mig_layout:
    layouts:
      - instances:
          - profile: 3g
          - profile: 2g
          - profile: 1g
            count: 2

- name: Divide one GPU, and give another one back as a whole
  trainyard.gpu_node.mig_layout:
    layouts:
      - gpus: ["0001:00:00.0"]
        instances:
          - {profile: 3g.40gb, start: 4, compute: [1c, 2c]}
      - gpus: ["0002:00:00.0"]
        mig: false

- name: Take a configuration of nvidia-mig-parted as it is
  trainyard.gpu_node.mig_layout:
    parted_config: "{{ lookup('ansible.builtin.file', 'config.yaml') | from_yaml }}"
    parted_label: all-balanced

- name: Return the GPUs to what they were
  trainyard.gpu_node.mig_layout:
    state: default
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken, in their order.
  type: list
  elements: dict
  returned: success, and when a GPU could not be changed
  contains:
    action:
      description: The kind of step, such as V(make_instance).
      type: str
      returned: always
    description:
      description: The step in words.
      type: str
      returned: always
    gpu:
      description: The GPU by index and PCI address, for steps on a GPU.
      type: str
      returned: steps on a GPU
    uuid:
      description: The UUID of the GPU, for steps on a GPU.
      type: str
      returned: steps on a GPU
gpus:
  description: Each GPU that answers.
  type: list
  elements: dict
  returned: success, and when a GPU could not be changed
  contains:
    index:
      description: The index of the GPU in this boot.
      type: int
      returned: always
    uuid:
      description: The UUID of the GPU.
      type: str
      returned: always
    pci_address:
      description: The PCI address of the GPU with its domain.
      type: str
      returned: always
    name:
      description: The product name.
      type: str
      returned: always
    mig:
      description: Whether MIG is on; null for a GPU that cannot be divided.
      type: bool
      returned: always
    mig_pending:
      description: Whether MIG will be on after the next reset of the GPU.
      type: bool
      returned: always
    needs:
      description: V(gpu_reset) where the mode waits for a reset or a reboot, otherwise V(none).
      type: str
      returned: always
    instances:
      description: The GPU instances by their place, each with its id, profile, start, size and compute instances, whose
        UUIDs programs take in CUDA_VISIBLE_DEVICES.
      type: list
      elements: dict
      returned: always
      sample:
        - gi: 2
          profile: 3g.40gb
          profile_id: 9
          start: 4
          size: 4
          memory_mib: 40448
          multiprocessors: 60
          compute:
            - {ci: 0, slices: 3, uuid: MIG-9c6a3f2e-4d1b-5e0a-8f77-1b2c3d4e5f60, in_use: false}
    free:
      description: How many more instances of each profile could be made beside these.
      type: dict
      returned: always
      sample: {"1g.10gb": 4, "3g.40gb": 1}
    usable_percent:
      description: The share of the GPU's multiprocessors that its instances have; null without MIG.
      type: float
      returned: always
reboot_pending:
  description: Whether a GPU has the mode that is asked for only after a reboot of the node, which makes the rest, too.
  type: bool
  returned: success, and when a GPU could not be changed
failed_gpus:
  description: The GPUs that do not answer.
  type: list
  elements: dict
  returned: success, and when a GPU could not be changed
  contains:
    index:
      description: The index, null where it is not known.
      type: int
      returned: always
    uuid:
      description: The UUID, null where it is not known.
      type: str
      returned: always
    pci_address:
      description: The PCI address, null where it is not known.
      type: str
      returned: always
    message:
      description: What is wrong with it and what to do.
      type: str
      returned: always
notes:
  description: Sentences about changes that wait, and what a layout leaves unused.
  type: list
  elements: str
  returned: success, and when a GPU could not be changed
skipped_reason:
  description: Why there was nothing to do, null otherwise.
  type: str
  returned: success, and when a GPU could not be changed
refusals:
  description: Everything that stands in the way.
  type: list
  elements: dict
  returned: when refused
  contains:
    thing:
      description: What it is about, such as a GPU by index and PCI address.
      type: str
      returned: always
    reason:
      description: What is wrong with it.
      type: str
      returned: always
    remedy:
      description: What to do.
      type: str
      returned: always
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource mig_layout (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "default"], "default": "present"}, "layouts": {"type": "list",
"elements": "dict", "options": {"gpus": {"type": "list", "elements": "str", "default": ["all"]},
"mig": {"type": "bool", "default": true}, "instances": {"type": "list", "elements": "dict",
"options": {"profile": {"type": "str", "required": true}, "count": {"type": "int", "default": 1},
"start": {"type": "int"}, "compute": {"type": "list", "elements": "str", "default": []}}, "default": []}},
"default": []}, "parted_config": {"type": "dict", "default": {}}, "parted_label": {"type": "str"},
"stop_units": {"type": "list", "elements": "str", "default": []}, "exact": {"type": "bool", "default": true},
"require_gpus": {"type": "bool", "default": false}, "call_timeout_seconds": {"type": "float", "default": 10.0},
"boot_unit": {"type": "bool", "default": true}, "before_units": {"type": "list", "elements": "str",
"default": ["slurmd.service", "docker.service", "containerd.service", "kubelet.service"]},
"boot_timeout_seconds": {"type": "int", "default": 480}}
""")


def main():
    node_command.main("mig_layout", SPEC)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Persistence mode, clocks, power limit, ECC and compute mode of the GPUs of a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_settings
short_description: Set persistence mode, clocks, power limit, ECC and compute mode of NVIDIA GPUs
description:
  - Sets all GPUs of a node, or selected ones, in one run.
  - What is asked for is also declared in C(/etc/gpu_node/node.json), so that C(gpu-node-gpu_settings.service) and
    C(gpunode apply gpu_settings) set it again after each boot; the driver itself keeps none of it but the ECC mode.
  - C(nvidia-persistenced) is enabled and started first where it is installed, as it keeps the driver loaded. The unit
    C(gpu-node-gpu_settings.service) is enabled and not started, as the module sets the GPUs itself.
  - Clocks are held by locked clocks where the GPU has them (graphics clock since Volta, memory clock since Ampere),
    by application clocks where only those exist. The driver cannot tell which clocks are locked, so they are
    remembered in C(/var/lib/gpu_node/gpu_settings.json). That record counts only for the boot and the load of the
    driver under which it was written, and only while the clock readings do not speak against it.
  - A GPU that does not answer does not keep the others from being set; the run fails afterwards and names it.
  - Nothing is rebooted or reset. A change that waits for that is returned in RV(pending).
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description:
      - V(present) brings the GPUs to what is asked for.
      - V(default) returns what was changed here, on all GPUs of the node, and removes the boot unit, the declaration
        and the record. Clocks, power limit and compute mode return to the driver's defaults, persistence mode is
        switched off if it was switched on here, and the ECC mode becomes what it was before. The options that hold
        settings do not matter then.
    type: str
    choices: [present, default]
    default: present
  persistence:
    description:
      - Keep the driver loaded while no program uses the GPUs. Without it the driver forgets clocks and power limit when
        the last user of a GPU leaves.
      - Where C(nvidia-persistenced) runs and holds it on, V(false) changes nothing and says so.
    type: bool
    default: true
  clocks:
    description:
      - V(max) locks the highest supported graphics and memory clock. A GPU that lacks one of these abilities takes what
        it has, and the rest is returned in RV(unsupported).
      - V(default) lifts all locks and resets application clocks.
      - V(auto) is V(default) where Slurm's hooks (module M(trainyard.gpu_node.slurm_hooks)) raise the clocks for each
        job and slurm.conf reaches them, otherwise V(max). A GPU in MIG mode has V(max) in any case, as no hook sets
        clocks that several jobs share.
      - V(leave) leaves the clocks as they are.
      - A mapping with C(graphics_mhz), C(memory_mhz) or both sets these clocks, in MHz. A clock that a GPU does not
        support is refused, with the nearest supported ones named, unless O(snap) is set.
    type: raw
    default: auto
  power_limit_watts:
    description:
      - The power limit in watts, V(default) for the driver's default or V(max) for the highest one allowed. Left alone
        when unset.
      - A number outside the range of a GPU is refused, with the range named.
    type: raw
  ecc:
    description: Switch ECC of the GPU memory on or off. A change waits for a GPU reset or a reboot, which is never done
      here, and is returned in RV(pending) until then. Left alone when unset.
    type: bool
  compute_mode:
    description: 'Who may compute on the GPU: any number of processes, one process, or nobody. Left alone when unset.'
    type: str
    choices: [default, exclusive_process, prohibited]
  gpus:
    description:
      - 'The GPUs to set: V(all), or a list of indexes, UUIDs and PCI addresses (V(0001:00:00.0)).'
      - An index may mean another GPU after a reboot; UUIDs and PCI addresses do not.
    type: list
    elements: str
    default: [all]
  overrides:
    description: Settings of single GPUs that differ from those of the others. A setting that is left out here is that
      of the others.
    type: list
    elements: dict
    default: []
    suboptions:
      gpu:
        description: The GPU by index, UUID or PCI address. It must be among O(gpus).
        type: str
        required: true
      persistence:
        description: As O(persistence), for this GPU.
        type: bool
      clocks:
        description: V(max), V(default) or a mapping, as O(clocks), for this GPU.
        type: raw
      power_limit_watts:
        description: As O(power_limit_watts), for this GPU.
        type: raw
      ecc:
        description: As O(ecc), for this GPU.
        type: bool
      compute_mode:
        description: As O(compute_mode), for this GPU.
        type: str
        choices: [default, exclusive_process, prohibited]
  snap:
    description: Take the nearest supported clock, with a note, instead of refusing an unsupported one.
    type: bool
    default: false
  call_timeout_seconds:
    description:
      - A single call of the driver may take so long. A call that takes longer fails the GPU that it was made for.
      - From 0.1 to 600 seconds.
    type: float
    default: 10.0
  declare:
    description: Write the settings into C(/etc/gpu_node/node.json), so that C(gpunode apply gpu_settings) repeats them
      at each boot. V(false) leaves the declaration as it is.
    type: bool
    default: true
  require_gpus:
    description: Fail, instead of skip, on a machine without GPUs.
    type: bool
    default: false
  persistenced:
    description: Enable and start C(nvidia-persistenced.service) where it is installed, unless O(persistence) is
      V(false). It stays enabled when the settings go.
    type: bool
    default: true
  boot_unit:
    description:
      - Install and enable C(gpu-node-gpu_settings.service). It sets the GPUs again, as the driver itself keeps no
        setting but the ECC mode.
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
    default: 120
attributes:
  check_mode:
    support: full
    description:
      - Tells what would be set; changes nothing and writes nothing. It does not need root.
      - Where Slurm's hooks are yet to be set up, O(clocks=auto) foresees V(max).
  diff_mode:
    support: full
    description: Shows the settings of each GPU, the declaration and the boot unit before and after.
  idempotent:
    support: full
    description:
      - A second run changes nothing, until a reboot, a reload of the driver or somebody else changes a setting.
      - O(clocks=default) lifts locks once when it is not known whether there are any, since the driver cannot tell.
  platform:
    platforms: linux
    support: full
    description: Linux with an NVIDIA driver and Python 3.8 or newer.
requirements:
  - systemd and the node command gpunode for O(boot_unit) (module trainyard.gpu_node.node_runtime)
  - NVIDIA's Python binding, either inside C(gpunode) (see M(trainyard.gpu_node.node_runtime)) or installed as
    C(nvidia-ml-py)
seealso:
  - module: trainyard.gpu_node.gpu_info
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
"""

EXAMPLES = r"""
- name: Set all GPUs to their highest clocks
  trainyard.gpu_node.gpu_settings:
    clocks: max

- name: Limit the power of a rack, and of one GPU further
  trainyard.gpu_node.gpu_settings:
    power_limit_watts: 350
    clocks:
      graphics_mhz: 1300
    snap: true
    overrides:
      - gpu: "0001:00:00.0"
        power_limit_watts: 300

- name: Allow one process at a time on two GPUs, until the next boot
  trainyard.gpu_node.gpu_settings:
    compute_mode: exclusive_process
    clocks: leave
    gpus: ["0001:00:00.0", "0002:00:00.0"]
    declare: false
    boot_unit: false

- name: Return all GPUs to the driver's own settings
  trainyard.gpu_node.gpu_settings:
    state: default
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken, in their order.
  type: list
  elements: dict
  returned: success, and when a GPU could not be set
  contains:
    action:
      description: The kind of step, such as V(set_clocks).
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
    index:
      description: The index of the GPU in this boot, for steps on a GPU.
      type: int
      returned: steps on a GPU
gpus:
  description: The settings of each GPU that answers. A setting that a GPU does not have is null.
  type: list
  elements: dict
  returned: success, and when a GPU could not be set
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
    selected:
      description: Whether this GPU is among O(gpus).
      type: bool
      returned: always
    persistence:
      description: Whether persistence mode is on.
      type: bool
      returned: always
    ecc:
      description: Whether ECC is on.
      type: bool
      returned: always
    ecc_pending:
      description: Whether ECC will be on after the next reset or reboot.
      type: bool
      returned: always
    compute_mode:
      description: The compute mode.
      type: str
      returned: always
    power_limit_watts:
      description: The power limit in watts.
      type: float
      returned: always
    application_graphics_mhz:
      description: The graphics application clock in MHz.
      type: int
      returned: always
    application_memory_mhz:
      description: The memory application clock in MHz.
      type: int
      returned: always
    clocks:
      description:
        - The clocks that were set and the way they are held. A way is V(locked), V(application), V(fixed) (the GPU
          has one memory clock only), V(unsupported), V(untouched) or V(default) (locks were lifted); null where
          nothing is known to be set.
      type: dict
      returned: always
      contains:
        graphics_way:
          description: How the graphics clock is held.
          type: str
          returned: always
        graphics_mhz:
          description: The graphics clock that was set, in MHz.
          type: int
          returned: always
        memory_way:
          description: How the memory clock is held.
          type: str
          returned: always
        memory_mhz:
          description: The memory clock that was set, in MHz.
          type: int
          returned: always
failed_gpus:
  description: The GPUs that do not answer.
  type: list
  elements: dict
  returned: success, and when a GPU could not be set
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
pending:
  description: Changes that wait for a reset or a reboot.
  type: list
  elements: dict
  returned: success, and when a GPU could not be set
  sample:
    - gpu: GPU 0 (0001:00:00.0)
      uuid: GPU-5ae01bcc-5d69-4e4c-8a23-6a5d22e1a4f1
      setting: ecc
      value: true
      needs: GPU reset or reboot
unsupported:
  description: Settings that were asked for as V(max) or V(default) and that a GPU does not have.
  type: list
  elements: dict
  returned: success, and when a GPU could not be set
  sample:
    - gpu: GPU 0 (0001:00:00.0)
      uuid: GPU-5ae01bcc-5d69-4e4c-8a23-6a5d22e1a4f1
      setting: clocks
      reason: the driver offers no way to set its memory clock
notes:
  description: Sentences about snapped clocks, waiting changes and settings that were left alone.
  type: list
  elements: str
  returned: success, and when a GPU could not be set
skipped_reason:
  description: Why there was nothing to set, null otherwise.
  type: str
  returned: success, and when a GPU could not be set
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

# Generated by "make docs" from the options of the resource gpu_settings (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "default"], "default": "present"},
"persistence": {"type": "bool", "default": true}, "clocks": {"type": "raw", "default": "auto"},
"power_limit_watts": {"type": "raw"}, "ecc": {"type": "bool"}, "compute_mode": {"type": "str",
"choices": ["default", "exclusive_process", "prohibited"]}, "gpus": {"type": "list", "elements": "str",
"default": ["all"]}, "overrides": {"type": "list", "elements": "dict", "options": {"gpu": {"type": "str",
"required": true}, "persistence": {"type": "bool"}, "clocks": {"type": "raw"},
"power_limit_watts": {"type": "raw"}, "ecc": {"type": "bool"}, "compute_mode": {"type": "str",
"choices": ["default", "exclusive_process", "prohibited"]}}, "default": []}, "snap": {"type": "bool",
"default": false}, "call_timeout_seconds": {"type": "float", "default": 10.0}, "declare": {"type": "bool",
"default": true}, "require_gpus": {"type": "bool", "default": false}, "persistenced": {"type": "bool",
"default": true}, "boot_unit": {"type": "bool", "default": true}, "before_units": {"type": "list",
"elements": "str", "default": ["slurmd.service", "docker.service", "containerd.service", "kubelet.service"]},
"boot_timeout_seconds": {"type": "int", "default": 120}}
""")


def main():
    node_command.main("gpu_settings", SPEC)


if __name__ == "__main__":
    main()

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
  - Sets all GPUs of a node, or selected ones, in one run. What is not asked for is left alone.
  - What is asked for is also declared in C(/etc/gpu_node/node.json), so that C(gpu-node-settings.service) and
    C(gpunode apply settings) set it again after each boot; the driver itself keeps none of it but the ECC mode.
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
      - V(default) undoes what this module changed on this node, on all GPUs. Clocks, power limit and compute mode go
        back to the driver's defaults, persistence mode goes off if this module switched it on, and the ECC mode
        becomes what it was before this module changed it. The declaration and the record are removed. The options
        that hold settings are not looked at.
    type: str
    choices: [present, default]
    default: present
  persistence:
    description:
      - Whether the driver keeps the GPU initialised when nothing uses it. Without it the driver forgets clocks and
        power limit when the last user of a GPU leaves.
      - Where C(nvidia-persistenced) runs and holds it on, V(false) changes nothing and says so.
    type: bool
  clocks:
    description:
      - V(max) locks the highest supported graphics and memory clock. A GPU that lacks one of these abilities takes
        what there is, and the rest is returned in RV(unsupported).
      - V(default) lifts all locks and application clocks.
      - A mapping with C(graphics_mhz), C(memory_mhz) or both sets these clocks, in MHz. A clock that a GPU does not
        support is refused, with the nearest supported ones named, unless O(snap) is set.
    type: raw
  power_limit_watts:
    description:
      - The power limit in watts, V(default) for the driver's default or V(max) for the highest one allowed.
      - A number outside the range of a GPU is refused, with the range named.
    type: raw
  ecc:
    description:
      - Whether ECC of the GPU memory is on. A change waits for a GPU reset or a reboot and is returned in RV(pending)
        until then.
    type: bool
  compute_mode:
    description: Who may compute on the GPU. Any number of processes, one process, or nobody.
    type: str
    choices: [default, exclusive_process, prohibited]
  gpus:
    description:
      - The GPUs to set. V(all), or a list of indexes, UUIDs and PCI addresses (V(0001:00:00.0)).
      - An index may mean another GPU after a reboot; UUIDs and PCI addresses do not.
    type: list
    elements: str
    default: [all]
  overrides:
    description: GPUs whose settings differ from those of the others. A setting that is left out here is that of the
      others.
    type: list
    elements: dict
    suboptions:
      gpu:
        description: The GPU by index, UUID or PCI address. It must be among O(gpus).
        type: str
        required: true
      persistence:
        description: As O(persistence), for this GPU.
        type: bool
      clocks:
        description: As O(clocks), for this GPU.
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
    description: Whether a clock that is not supported is replaced by the nearest supported one, with a note, and not
      refused.
    type: bool
    default: false
  declare:
    description: Whether what is asked for is to be set again after each boot. V(false) leaves the declaration as it
      is.
    type: bool
    default: true
  require_gpus:
    description: Whether a node without any GPU is a failure. Otherwise it is skipped, and RV(skipped_reason) says why.
    type: bool
    default: false
  call_timeout:
    description: How long one call of the driver may take, in seconds. A call that takes longer fails the GPU that it
      was made for.
    type: float
    default: 10
attributes:
  check_mode:
    support: full
    description: Tells what would be set; changes nothing and writes nothing. It does not need root.
  diff_mode:
    support: full
    description: Shows the settings of each GPU and the declaration before and after.
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
  - NVIDIA's Python binding, either inside C(gpunode) (see M(trainyard.gpu_node.node_runtime)) or installed as
    C(nvidia-ml-py)
seealso:
  - module: trainyard.gpu_node.gpu_info
"""

EXAMPLES = r"""
- name: All GPUs at their highest clocks, kept initialised
  trainyard.gpu_node.gpu_settings:
    persistence: true
    clocks: max

- name: A quieter rack, and one GPU quieter still
  trainyard.gpu_node.gpu_settings:
    persistence: true
    power_limit_watts: 350
    clocks:
      graphics_mhz: 1300
    snap: true
    overrides:
      - gpu: "0001:00:00.0"
        power_limit_watts: 300

- name: One process at a time on two GPUs, until the next boot
  trainyard.gpu_node.gpu_settings:
    compute_mode: exclusive_process
    gpus: ["0001:00:00.0", "0002:00:00.0"]
    declare: false

- name: As the driver has it
  trainyard.gpu_node.gpu_settings:
    state: default
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken, in their order.
  type: list
  elements: dict
  returned: always, except for wrong options
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
  returned: when there are GPUs
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
  returned: when there are GPUs
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
  returned: when there are GPUs
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
  returned: when there are GPUs
  sample:
    - gpu: GPU 0 (0001:00:00.0)
      uuid: GPU-5ae01bcc-5d69-4e4c-8a23-6a5d22e1a4f1
      setting: clocks
      reason: the driver offers no way to set its memory clock
notes:
  description: Sentences about snapped clocks, waiting changes and settings that were left alone.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: Why there was nothing to set, null otherwise.
  type: str
  returned: success
"""

import json

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import gpu_settings

SETTINGS = {
    "persistence": {"type": "bool"},
    "clocks": {"type": "raw"},
    "power_limit_watts": {"type": "raw"},
    "ecc": {"type": "bool"},
    "compute_mode": {"type": "str", "choices": ["default", "exclusive_process", "prohibited"]},
}


def result_of(outcome, desired):
    before, after = gpu_settings.diff_text(outcome.before), gpu_settings.diff_text(outcome.after)
    result = {
        "changed": outcome.changed,
        "actions": [action.to_dict() for action in outcome.plan.actions],
        "notes": list(outcome.plan.notes),
        "skipped_reason": outcome.plan.skipped,
        "diff": {"before": text(before), "after": text(after)},
    }
    result.update(gpu_settings.details(outcome, desired))
    return result


def text(state):
    return json.dumps(state, indent=2, sort_keys=True) + "\n"


ARGUMENTS = {
    "argument_spec": dict(
        SETTINGS,
        state={"type": "str", "choices": ["present", "default"], "default": "present"},
        gpus={"type": "list", "elements": "str", "default": ["all"]},
        overrides={
            "type": "list",
            "elements": "dict",
            "options": dict(SETTINGS, gpu={"type": "str", "required": True}),
        },
        snap={"type": "bool", "default": False},
        declare={"type": "bool", "default": True},
        require_gpus={"type": "bool", "default": False},
        call_timeout={"type": "float", "default": 10},
    ),
}


def desired_of(given):
    return gpu_settings.Desired.from_options(given)


def main():
    module = AnsibleModule(supports_check_mode=True, **ARGUMENTS)
    try:
        desired = desired_of(module.params)
        outcome = gpu_settings.run(Host(), desired, module.check_mode)
    except gpu_settings.Unfinished as error:
        module.fail_json(msg=str(error), **result_of(error.outcome, desired))
    except NodeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result_of(outcome, desired))


if __name__ == "__main__":
    main()

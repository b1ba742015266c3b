#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd unit that re-applies a declared resource at boot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: boot_unit
short_description: Re-apply a declared resource at each boot
description:
  - Writes C(gpu-node-RESOURCE.service), enables it, and has systemd read it again when that is needed. The unit runs
    C(gpunode apply RESOURCE) before the units that need the result; it is skipped on a node on which nothing was declared.
  - A unit file of the same name that is not ours, or is masked, is left as it is.
  - The unit is not started. The declared state is made by the module of the resource itself.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - systemd
  - the node command gpunode (module trainyard.gpu_node.node_runtime)
options:
  resource:
    description: What the unit re-applies.
    type: str
    choices: [settings]
    required: true
  state:
    description: Whether the unit is there and enabled.
    type: str
    choices: [present, absent]
    default: present
  before:
    description: Units that start only after this one has ended, well or not.
    type: list
    elements: str
    default: [slurmd.service, docker.service, containerd.service, kubelet.service]
  after_mounts:
    description:
      - Places where C(/etc/fstab) may mount something, also with C(nofail) or C(x-systemd.automount). The unit starts
        only after that has ended, well or not; nothing is mounted for its sake.
    type: list
    elements: path
    default: []
  timeout_seconds:
    description: The boot goes on without the resource after this many seconds.
    type: int
    default: 300
attributes:
  check_mode:
    support: full
    description: Tells what would be done; changes nothing.
  diff_mode:
    support: full
    description: Shows the unit file before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: GPU settings are re-applied at boot
  trainyard.gpu_node.boot_unit:
    resource: settings

- name: GPU settings are no longer re-applied at boot
  trainyard.gpu_node.boot_unit:
    resource: settings
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: Facts for the reader.
  type: list
  elements: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import boot_unit

ARGUMENTS = {
    "argument_spec": {
        "resource": {"type": "str", "choices": ["settings"], "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "before": {
            "type": "list",
            "elements": "str",
            "default": ["slurmd.service", "docker.service", "containerd.service", "kubelet.service"],
        },
        "after_mounts": {"type": "list", "elements": "path", "default": []},
        "timeout_seconds": {"type": "int", "default": 300},
    },
}


def desired_of(given):
    return boot_unit.Desired(
        given["resource"],
        given["state"] == "present",
        tuple(given["before"]),
        given["timeout_seconds"],
        tuple(given["after_mounts"]),
    )


def main():
    module = AnsibleModule(supports_check_mode=True, **ARGUMENTS)
    try:
        desired = desired_of(module.params)
        outcome = boot_unit.run(Host(), desired, module.check_mode)
    except NodeError as error:
        module.fail_json(msg=str(error))
    before = outcome.before.text or ""
    planned = (desired.text() if desired.present else "") if outcome.plan.actions else before
    path = boot_unit.types.FOLDER + "/" + desired.name
    module.exit_json(
        changed=outcome.changed,
        actions=[action.to_dict() for action in outcome.plan.actions],
        notes=list(outcome.plan.notes),
        diff={"before": before, "after": planned, "before_header": path, "after_header": path},
    )


if __name__ == "__main__":
    main()

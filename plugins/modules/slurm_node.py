#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a node of Slurm out of service for work on it, and put it back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node
short_description: Take a node of Slurm out of service for work on it, and put it back
description:
  - With O(state=drained) the node is drained first and looked at then, so no job can begin in between. The result RV(outcome) says
    whether it may be worked on.
  - "Our drain has a reason that begins with C(gpu_node: rolling: ). Only such a drain is ever taken back."
  - "A node that the hooks or the health gate of this collection drained, or with O(others) one that somebody else drained, is held by our
    drain meanwhile, with the old reason behind C(; before: ). It gets that reason again and stays drained."
  - A node with jobs, one of somebody else, and one without a machine behind it are answers and not errors of this module.
  - Runs where C(scontrol) is and may change nodes - on the node itself as root, or on a login node by C(delegate_to).
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - scontrol and squeue
options:
  name:
    description: NodeName of the node in slurm.conf. By default the NodeName of this machine, by slurmd's own rules.
    type: str
    default: ""
  inventory_name:
    description:
      - Name of this machine in the inventory, for a check without O(name). If Slurm has another node of this name, without its
        domain, the module uses that node, and O(same_host) fails because it is on another machine.
    type: str
    default: ""
  busy:
    description:
      - What becomes of a node that has jobs when O(wait_seconds) are over.
      - V(leave) takes our drain back, so it goes on as before. V(drain) lets the drain stand, so a later run finds it without jobs.
    type: str
    choices: [leave, drain]
    default: leave
  same_host:
    description:
      - Fail where Slurm has the node on another host than this machine. Switch it off where this is run on a login node, or where the
        NodeHostName of slurm.conf is not the machine's host name.
    type: bool
    default: true
attributes:
  async:
    support: none
    description: Supports the keyword C(async).
    details: The task fails. O(wait_seconds) waits without it.
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
"""

EXAMPLES = r"""
- name: Drain the node and wait up to an hour for its jobs
  trainyard.gpu_node.slurm_node:
    reason: new driver
    wait_seconds: 3600
  become: true
  register: node

- name: Work on it
  ansible.builtin.include_tasks: work.yml
  when: node.outcome == 'ready'

- name: Resume the node
  trainyard.gpu_node.slurm_node:
    state: in_service
  become: true
"""

RETURN = r"""
outcome:
  description:
    - V(ready) - it is out of service and has no jobs. V(busy) - it has jobs. V(left) - somebody else or another run took it out of service,
      it is down, no machine is behind it, or a reboot was asked for. V(in_service) - it takes jobs.
  type: str
  returned: success
  sample: ready
why:
  description: The outcome for people.
  type: str
  returned: success
owner:
  description: Who has it out of service - V(nobody), V(rolling) for this module, V(collection) for a hook or the gate, V(somebody).
  type: str
  returned: success
node_state:
  description: Its states in Slurm.
  type: list
  elements: str
  returned: success
  sample: [DRAIN, IDLE]
node_reason:
  description: The reason in Slurm, or V(null).
  type: str
  returned: success
jobs:
  description: Jobs that hold it though its state does not show them, such as suspended ones.
  type: list
  elements: str
  returned: success
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
drained:
  description: Whether our drain of this call may stand.
  type: bool
  returned: failure
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import argument_spec
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.options import Asked, asked
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.run import DrainStands, named, run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.types import Busy, Desired


def shown(state):
    return "State={0}\nReason={1}\n".format("+".join(sorted(state.node.flags)), state.node.reason or "")


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "default": ""},
            "inventory_name": {"type": "str", "default": ""},
            "busy": {"type": "str", "choices": ["leave", "drain"], "default": "leave"},
            "same_host": {"type": "bool", "default": True},
            **argument_spec(Asked),
        },
        supports_check_mode=True,
    )
    given, host = module.params, Host()
    try:
        desired = Desired(
            name=named(host, given["name"], given["inventory_name"]),
            busy=Busy(given["busy"]),
            same_host=given["same_host"],
            **asked(given),
        )
        done = run(host, desired, module.check_mode)
    except NodeError as error:
        module.fail_json(msg=str(error), drained=isinstance(error, DrainStands))
    before, after = shown(done.before), shown(done.after)
    module.exit_json(
        changed=before != after,
        diff={"before": before, "after": after, "before_header": desired.name, "after_header": desired.name},
        **done.to_dict(),
    )


if __name__ == "__main__":
    main()

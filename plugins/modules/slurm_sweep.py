#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make cloud nodes usable again that Slurm powered down while this collection had them drained."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_sweep
short_description: Make cloud nodes usable again that Slurm powered down while they were drained by us
description:
  - Slurm starts no drained node. So a cloud node that was powered down with a drain of this collection is never used again, though its
    next machine is another one. This ends such drains (C(State=UNDRAIN)), and no other.
  - A node is swept when it is C(CLOUD), C(POWERED_DOWN), drained with a reason that begins with C(gpu_node:), and not down.
  - Where the next machine is the same one after all, the health gate on it remembers what it was drained for, and drains it again.
  - With C(SlurmctldParameters=idle_on_node_suspend), as CycleCloud sets it, Slurm ends these drains itself, and there is nothing to sweep.
  - Up to Slurm 22.05 it sees such nodes only with C(PrivateData=cloud) in slurm.conf, which CycleCloud sets. Without it it finds nothing.
  - Runs where C(sinfo) and C(scontrol) are, as a user who may change nodes.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - sinfo and scontrol
options:
  percent:
    description:
      - Share of the cloud nodes, in percent, that may come back at once. One may in any case, but for V(0). With more of them nothing is
        done, and the module fails, for so many are no broken machines.
    type: float
    default: 20
attributes:
  check_mode:
    support: full
    description: Tells which nodes would be swept.
  diff_mode:
    support: none
    description: The result names the nodes.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.attributes
seealso:
  - module: trainyard.gpu_node.health_gate
  - module: trainyard.gpu_node.slurm_node
"""

EXAMPLES = r"""
- name: End drains of ours on cloud nodes that are powered down
  trainyard.gpu_node.slurm_sweep:
  become: true
"""

RETURN = r"""
swept:
  description: The nodes whose drain was ended, or in check mode would be.
  type: list
  elements: str
  returned: success
  sample: [gpu017]
left:
  description: The nodes that are powered down with a drain of ours that stays, each with the reason.
  type: list
  elements: dict
  returned: success
  contains:
    name: {description: The node., type: str, sample: gpu018}
    why: {description: Why its drain stays., type: str}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node import sweep


def main():
    module = AnsibleModule(
        argument_spec={"percent": {"type": "float", "default": 20}},
        supports_check_mode=True,
    )
    percent = module.params["percent"]
    try:
        if not 0 <= percent <= 100:
            raise NodeError("percent {0:g}".format(percent), "it is not between 0 and 100", "give such a number")
        done = sweep.run(Host(), percent, module.check_mode)
    except NodeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(done.names), **done.to_dict())


if __name__ == "__main__":
    main()

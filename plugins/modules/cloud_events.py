#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cloud announces for this node, and what that does."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cloud_events
short_description: Configure what an event of the cloud does to a node
description:
  - Has a service follow what the cloud announces for this machine, such as a reboot of its host. The node can be drained in Slurm
    before, with a reason that names the event, and is converged, checked and resumed after it. Only what was drained for an event
    by us is ever resumed, and a node that was taken out of service otherwise keeps its reason.
  - Knows Scheduled Events of Azure. For other clouds a program of the site prints the events.
  - Where there is no Slurm, events are told in the log and the metrics. What is drained counts in the limit of
    M(trainyard.gpu_node.health_gate) (C(drained_percent)).
  - Asks nobody for events itself and does not touch Slurm; the service does.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - the node command gpunode (module trainyard.gpu_node.node_runtime)
options:
  state:
    description:
      - V(absent) removes the service, its section of the declaration and what it remembers.
      - A node that is drained for an event stays drained; a note tells of it.
    type: str
    choices: [present, absent]
    default: present
  provider:
    description:
      - Whom the node asks for events.
      - V(auto) is V(azure) where the firmware says that the machine is of Azure, and V(none) elsewhere.
      - V(azure) asks the metadata service of Azure for Scheduled Events. V(command) runs O(command).
    type: str
    choices: [auto, azure, command, none]
    default: auto
  command:
    description:
      - A program, as a list with its arguments, that prints the events of this machine as JSON, for a cloud that is not
        known here or a scheduler of maintenance of the site. For O(provider=command).
      - It is run by root every O(interval_seconds) and may take 20 seconds.
    type: list
    elements: str
    default: []
  freeze:
    description: What a pause of the machine for some seconds does. Jobs go on after it.
    type: str
    choices: [drain, tell, ignore]
    default: tell
  reboot:
    description:
      - What a reboot does.
      - 'V(drain) drains the node in Slurm before, with a reason that begins with C(gpu_node: event:), and resumes it
        after. V(tell) writes it into the log and the metrics. V(ignore) does nothing.'
    type: str
    choices: [drain, tell, ignore]
    default: drain
  redeploy:
    description: What a move to another host does. The local disks are lost with it.
    type: str
    choices: [drain, tell, ignore]
    default: drain
  preempt:
    description: What the end of a spot machine does. The cloud tells 30 seconds before.
    type: str
    choices: [drain, tell, ignore]
    default: drain
  terminate:
    description: What the deletion of the machine does.
    type: str
    choices: [drain, tell, ignore]
    default: drain
  other:
    description: What an event of a type does that is not known here.
    type: str
    choices: [drain, tell, ignore]
    default: tell
  lead_minutes:
    description:
      - How long before its time an event drains. One that is announced later drains at once.
      - A host that is predicted to fail is announced up to a week before. With V(0) the node is drained when the event
        has started.
      - From 0 to 20160 minutes.
    type: int
    default: 1440
  approve:
    description:
      - Tell Azure that an event may start before its time, once the node is drained for it by us and no job is on it
        any more. It is only done for an event of this machine alone, since it counts for all of them.
      - An event that is told or ignored is never approved.
    type: bool
    default: false
  interval_seconds:
    description:
      - Time between two looks.
      - From 1 to 3600 seconds.
    type: int
    default: 5
  machine_name:
    description: What events call this machine. Empty asks Azure; the host name counts in any case.
    type: str
    default: ''
  slurm_node:
    description: NodeName of this node. Empty finds it by slurmd's own rules.
    type: str
    default: ''
  textfile:
    description: File for the textfile collector of Prometheus' node exporter, in a folder that is there. Empty for
      none.
    type: str
    default: ''
attributes:
  check_mode:
    support: full
    description: Tells what would be done; changes nothing.
  diff_mode:
    support: full
    description: Shows the unit before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
seealso:
  - module: trainyard.gpu_node.health_gate
"""

EXAMPLES = r"""
- name: Drain the node before its host is rebooted
  trainyard.gpu_node.cloud_events:

- name: Let Azure begin as soon as no job is left, with metrics for Prometheus
  trainyard.gpu_node.cloud_events:
    approve: true
    textfile: /var/lib/node_exporter/textfile_collector/gpu_node_events.prom

- name: Ask a program of the site
  trainyard.gpu_node.cloud_events:
    provider: command
    command: [/usr/local/sbin/maintenance, --json]
    interval_seconds: 60

- name: As it was before
  trainyard.gpu_node.cloud_events:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
skipped_reason:
  description: Why nobody is asked for events here, or V(null).
  type: str
  returned: success
notes:
  description: Facts for the reader, such as a node that stays drained.
  type: list
  elements: str
  returned: success
provider:
  description: Who is asked, V(azure), V(command) or V(none). V(null) with O(state=absent).
  type: str
  returned: success
drained_for:
  description: Ids of the events that the node is drained for by us.
  type: list
  elements: str
  returned: success
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource cloud_events (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "provider": {"type": "str",
"choices": ["auto", "azure", "command", "none"], "default": "auto"}, "command": {"type": "list",
"elements": "str", "default": []}, "freeze": {"type": "str", "choices": ["drain", "tell", "ignore"],
"default": "tell"}, "reboot": {"type": "str", "choices": ["drain", "tell", "ignore"], "default": "drain"},
"redeploy": {"type": "str", "choices": ["drain", "tell", "ignore"], "default": "drain"},
"preempt": {"type": "str", "choices": ["drain", "tell", "ignore"], "default": "drain"},
"terminate": {"type": "str", "choices": ["drain", "tell", "ignore"], "default": "drain"}, "other": {"type": "str",
"choices": ["drain", "tell", "ignore"], "default": "tell"}, "lead_minutes": {"type": "int", "default": 1440},
"approve": {"type": "bool", "default": false}, "interval_seconds": {"type": "int", "default": 5},
"machine_name": {"type": "str", "default": ""}, "slurm_node": {"type": "str", "default": ""},
"textfile": {"type": "str", "default": ""}}
""")


def main():
    node_command.main("cloud_events", SPEC)


if __name__ == "__main__":
    main()

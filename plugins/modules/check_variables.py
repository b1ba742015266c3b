#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of this name, which has the code: nothing of it runs on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check_variables
short_description: Check the variables of all hosts of a play before anything is changed
description:
  - Runs on the controller, once for all hosts of a play, and connects to none of them. The playbooks of this collection begin with it.
  - Fails when a variable of the roles or of the playbooks has a wrong value on any host. It holds the values against the options of
    the modules that the roles call. The message names the variable, the reason, the remedy and the hosts.
  - Warns of a variable that nothing reads and whose name is like one of this collection, or begins as those of a role do. Tells the
    nearest name where there is one.
  - Does not judge a value that needs a fact of the node; the role that uses it does.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  roles:
    description:
      - The roles whose variables are checked. By default all of this collection.
      - With an empty list, only the facts of the hosts are checked. If Ansible turns facts into variables, a fact that sets what
        happens on the controller or on the monitoring server is refused.
    type: list
    elements: str
  hosts:
    description: The hosts whose variables are checked. By default those of the play.
    type: list
    elements: str
  state:
    description: With V(absent) only the options that matter to what goes away are checked.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    support: full
    description: The same; nothing is ever changed.
  diff_mode:
    support: none
    description: There is nothing to show.
  idempotent:
    support: full
    description: Never reports a change.
  platform:
    details: The controller.
extends_documentation_fragment:
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: Check the inventory
  hosts: gpu_nodes
  gather_facts: false
  tasks:
    - name: Check the variables of all nodes
      trainyard.gpu_node.check_variables:
        roles: [nvme_scratch, gpu_settings]
      run_once: true
"""

RETURN = r"""
unread:
  description: A sentence for each variable that nothing reads and that looks misspelt.
  type: list
  elements: str
  returned: success
"""

#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of this name, which has the code: nothing of it runs on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: health_report
short_description: Show which nodes are unhealthy, why, and what to do, for all hosts of a play
description:
  - Runs on the controller, once for all hosts of a play, and connects to none of them. C(health.yml) ends with it.
  - Shows the verdicts that M(trainyard.gpu_node.health_check) returned as a table. The worst nodes come first, with a line for each
    reason and remedy; healthy nodes are counted, and nodes without a verdict are named.
  - Where the callback P(trainyard.gpu_node.health_report#callback) is enabled, it shows the table, and this module does not. The
    callback also writes HTML, JSON and JUnit XML.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  registered:
    description: The name of the variable that the results of M(trainyard.gpu_node.health_check) were registered as.
    type: str
    required: true
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
- name: Give the verdict on the node
  trainyard.gpu_node.health_check:
  register: verdict

- name: Show unhealthy nodes
  trainyard.gpu_node.health_report:
    registered: verdict
  run_once: true
"""

RETURN = r"""
lines:
  description: The lines of the table.
  type: list
  elements: str
  returned: success
"""

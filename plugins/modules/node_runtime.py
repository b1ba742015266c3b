#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install or remove the node command gpunode."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_runtime
short_description: Install the node command gpunode
description:
  - Installs C(/opt/gpu_node/gpunode.pyz), one file that holds this collection's library and NVIDIA's Python binding, and links
    C(/usr/local/bin/gpunode) to it. The node needs neither pip nor a network.
  - Its man page and the completions of bash and zsh go to C(/usr/local/share), that of fish to C(/etc/fish/completions); a file of
    somebody else's there is left as it is.
  - The file is built on the controller from the collection itself, byte for byte the same for the same version, and is sent only
    when the node has another one. The node adds bytecode for its own Python, so that a hook before each job starts fast.
  - The controller needs C(nvidia-ml-py) beside ansible-core.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description: Whether the node command is there.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    support: full
    description: Tells what would be installed; changes nothing.
  diff_mode:
    support: full
    description: Shows the checksum and the link before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
  platform:
    platforms: linux
    support: full
    description: Linux with Python 3.8 or newer.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
"""

EXAMPLES = r"""
- name: The node command is installed
  trainyard.gpu_node.node_runtime:

- name: The node command is gone
  trainyard.gpu_node.node_runtime:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
sha256:
  description:
    - SHA-256, in hexadecimal digits, of the controller's file which the installed one was made from.
    - Null when there is none, or it is damaged or was made for another Python.
  type: str
  returned: success
"""

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def main():
    node_command.main("node_runtime", SPEC)


if __name__ == "__main__":
    main()

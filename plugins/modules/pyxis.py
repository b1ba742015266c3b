#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pyxis on this node: Build and configure pyxis, Slurm's plugin for containers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pyxis
short_description: Build and configure pyxis, Slurm's plugin for containers
description:
  - Builds pyxis from its source with the headers of the installed Slurm, or takes a plugin that was built elsewhere for that version.
    This is done again when, and only when, the version of Slurm, the source or the plugin itself has changed.
  - The plugin takes the place of the former one in one step, so steps that run keep theirs. It lies in C(/opt/gpu_node/pyxis).
  - Writes C(/etc/slurm/plugstack.conf.d/50-gpu_node_pyxis.conf), and C(plugstack.conf) where there is none. A C(plugstack.conf) that
    is not ours is never written; when it does not include the folder, a note has the line to add.
  - slurmd is restarted only if something changed, and only while no job runs on the node. Otherwise RV(restart_pending) is true.
  - It does the same on login and on compute nodes, since C(srun) needs the plugin as well.
  - A pyxis that Slurm loads already, such as that of CycleCloud 4, is used as it is, since Slurm cannot load two;
    a note names it. Giving O(options) is then refused, and so is a second one beside ours.
  - A node without Slurm is skipped, and so is one for which neither O(source) nor O(prebuilt) was ever given.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - gcc, make, tar, binutils and the headers of Slurm, where it is built
  - enroot 3.1 or newer, where jobs run
options:
  state:
    description: V(absent) removes the plugin and what was written for it. Where its line is on a network file system,
      both stay, as other nodes read the line.
    type: str
    choices: [present, absent]
    default: present
  source:
    description: Tarball of pyxis's source, a URL or an absolute path on the node. It is built there for the Slurm that
      is installed.
    type: str
    default: ''
  sha256:
    description: Its checksum.
    type: str
    default: ''
  prebuilt:
    description: Plugins that were built elsewhere. One for the installed version of Slurm is taken instead of building.
    type: list
    elements: dict
    default: []
    suboptions:
      slurm_version:
        description: The version of Slurm that it was built for, as C(srun --version) shows it.
        type: str
        required: true
      source:
        description: C(spank_pyxis.so), a URL or an absolute path on the node.
        type: str
        required: true
      sha256:
        description: Its checksum.
        type: str
        required: true
  options:
    description:
      - Options of pyxis, such as V(container_scope). A name or a value that pyxis does not take is refused.
      - Those that are left out are pyxis's own, as an older pyxis may not know them.
    type: dict
    default: {}
  plugstack:
    description: Path of C(plugstack.conf). Empty means the path in C(PlugStackConfig=) of slurm.conf, or the directory
      of the slurm.conf that slurmd reads, or C(/etc/slurm/plugstack.conf).
    type: str
    default: ''
  restart:
    description: Restart slurmd when something changed and no job runs on the node. Otherwise that is only reported.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: Tells what would be done; changes nothing.
  diff_mode:
    support: full
    description: Shows the files, and what the plugin was built for, before and after.
  idempotent:
    support: full
    description: A second run changes nothing. A restart that was put off is done by the first run that finds the node idle.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: Built on the node
  trainyard.gpu_node.pyxis:
    source: https://mirror.example.org/pyxis-0.24.0.tar.gz
    sha256: "{{ pyxis_sha256 }}"

- name: Built elsewhere, for nodes without a compiler
  trainyard.gpu_node.pyxis:
    prebuilt:
      - slurm_version: 25.11.5
        source: /shared/slurm/spank_pyxis-25.11.5.so
        sha256: "{{ pyxis_plugin_sha256 }}"
    options:
      container_scope: job

- name: As it was before
  trainyard.gpu_node.pyxis:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: Facts for the reader, such as a line that plugstack.conf lacks, or why slurmd was not restarted.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: Why there is nothing to manage here, or V(null).
  type: str
  returned: success
slurm_version:
  description: The version of the Slurm that is installed, or V(null).
  type: str
  returned: success
  sample: 25.11.5
built_for:
  description: The version of Slurm that the plugin was built for, or V(null) without one.
  type: str
  returned: success
  sample: 25.11.5
plugin:
  description: Path of the plugin, or V(null) without one.
  type: str
  returned: success
  sample: /opt/gpu_node/pyxis/spank_pyxis.so
adopted:
  description: The file whose line loads a pyxis that was there already and is used as it is, or V(null).
  type: str
  returned: success
  sample: /etc/slurm/plugstack.conf.d/pyxis.conf
plugstack:
  description: The plugstack.conf that Slurm reads here.
  type: str
  returned: success
plugstack_reached:
  description: Whether that comes to a line that loads a pyxis, ours or the one that was adopted.
  type: bool
  returned: success
restart_pending:
  description: Whether slurmd still runs with what it read before this changed.
  type: bool
  returned: success
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource pyxis (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "source": {"type": "str",
"default": ""}, "sha256": {"type": "str", "default": ""}, "prebuilt": {"type": "list", "elements": "dict",
"options": {"slurm_version": {"type": "str", "required": true}, "source": {"type": "str", "required": true},
"sha256": {"type": "str", "required": true}}, "default": []}, "options": {"type": "dict", "default": {}},
"plugstack": {"type": "str", "default": ""}, "restart": {"type": "bool", "default": true}}
""")


def main():
    node_command.main("pyxis", SPEC, secret=True)


if __name__ == "__main__":
    main()

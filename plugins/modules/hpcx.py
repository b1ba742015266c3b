# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HPC-X: adopted or installed, its link and its modulefiles."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hpcx
short_description: Install or adopt NVIDIA HPC-X (Open MPI, UCX, SHARP), with modulefiles
version_added: 0.1.0
description:
  - Uses an HPC-X that the image has already, or installs one from a tarball into a folder of its version.
  - An installation is atomic. The tarball is verified by its sha256 and unpacked under a hidden name, and the folder gets its name
    when all of it is on the disk, so a half-unpacked one never counts as installed.
  - C(PREFIX/current) leads to the one that jobs get, and is switched in one step.
  - Modulefiles for Lmod (Lua) and Environment Modules (Tcl) set what C(hpcx-init.sh) sets, the settings of Open MPI and UCX for jobs
    with NCCL, and exclude other MPIs. They need no GPU, so they serve on a login node as well.
  - An HPC-X that somebody else put there is never changed, moved or removed.
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description: V(present) has jobs find an HPC-X. V(absent) removes what was installed and written here, and leaves
      what was adopted.
    type: str
    choices: [present, absent]
    default: present
  source:
    description:
      - The tarball, as C(http://), C(https://) or C(file:///) URL, or as an absolute path on the node. Proxies of the
        environment are used.
      - Without it nothing is installed; what is on the node is used, and a node without any is skipped.
    type: str
    default: ''
  sha256:
    description: SHA-256 of the tarball, 64 hexadecimal digits.
    type: str
    default: ''
  version:
    description:
      - The version that jobs get, such as V(2.24.1). The tarball of O(source) must hold it; a suffix such as
        V(2.24.1-cuda13) tells two builds of a version apart.
      - Without it and without O(source), jobs keep what they have, else get the newest that is there.
    type: str
    default: ''
  prefix:
    description: The folder that versions are installed in.
    type: path
    default: /opt/hpcx
  keep:
    description:
      - How many other versions of ours stay, the latest first. One that a process runs from is not removed, which is a
        note.
      - From 0 to 100.
    type: int
    default: 1
  adopt:
    description: When an HPC-X of the image is used. V(same_version) is when it has O(version) or no O(source) is given;
      V(any), whatever its version is; V(never), not at all.
    type: str
    choices: [same_version, any, never]
    default: same_version
  adopt_paths:
    description: Where to look for one, as paths or shell patterns.
    type: list
    elements: str
    default: ['/opt/hpcx-*', /opt/hpcx, '/opt/hpcx/hpcx-*', '/usr/local/hpcx-*', /usr/local/hpcx]
  modulefiles:
    description: Which modulefiles are written. V(auto) is for the module systems that are installed.
    type: str
    choices: [auto, lmod, environment_modules, none]
    default: auto
  modulefile_dir:
    description: Where they go. Empty for the folder that the module system keeps for those of a site.
    type: str
    default: ''
  module_name:
    description: The name of the module. That of a single version is the same with a hyphen and the version after it.
    type: str
    default: mpi/hpcx
  conflicts:
    description: Modules that cannot be loaded beside it.
    type: list
    elements: str
    default: [mpi, openmpi, mvapich, mvapich2, mpich, impi, intel-mpi, intelmpi]
  ucx:
    description: Settings of UCX for the modulefiles, such as those of the profile. A boolean becomes 1 or 0.
    type: dict
    default: {}
  environment:
    description: Further variables for the modulefiles. They win over those of O(ucx) and over our own.
    type: dict
    default: {}
  hcoll:
    description: Whether HCOLL is on. Jobs with NCCL want it off.
    type: bool
    default: false
  sharp_plugin:
    description: Whether NCCL finds the plugin for RDMA and SHARP, where there is one.
    type: bool
    default: true
  timeout_seconds:
    description:
      - How long the download may take.
      - From 1 to 86400 seconds.
    type: float
    default: 600.0
attributes:
  check_mode:
    support: full
    description: Tells what would be done; downloads and changes nothing.
  diff_mode:
    support: full
    description: Shows the installed versions, the link and the modulefiles before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: Use the HPC-X that the image has
  trainyard.gpu_node.hpcx:

- name: Install a version from a mirror
  trainyard.gpu_node.hpcx:
    source: https://mirror.example.com/hpcx-v2.24.1-gcc-doca_ofed-ubuntu22.04-cuda12-x86_64.tbz
    sha256: "{{ hpcx_tarball_sha256 }}"
    version: 2.24.1
    ucx:
      UCX_IB_PCI_RELAXED_ORDERING: "on"

- name: Back to the version before, which was kept
  trainyard.gpu_node.hpcx:
    version: "2.23"

- name: As it was before
  trainyard.gpu_node.hpcx:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: Facts for the reader, such as a version that is kept because a process runs from it.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: Why there is nothing to manage here, or V(null).
  type: str
  returned: success
home:
  description: The folder of the HPC-X that jobs get, or V(null).
  type: str
  returned: success
  sample: /opt/hpcx/2.24.1
version:
  description: Its version, or V(null) when it does not tell.
  type: str
  returned: success
adopted:
  description: Whether it is one that somebody else put there.
  type: bool
  returned: success
current:
  description: The link that leads to it, or V(null) where there is none.
  type: str
  returned: success
  sample: /opt/hpcx/current
installed:
  description: Those that this module installed.
  type: list
  elements: dict
  returned: success
  contains:
    path:
      description: Its folder.
      type: str
    version:
      description: Its version.
      type: str
    sha256:
      description: SHA-256 of the tarball it came from.
      type: str
found:
  description: Those that others put there.
  type: list
  elements: dict
  returned: success
  contains:
    path:
      description: Its folder.
      type: str
    version:
      description: Its version, or V(null) when it does not tell.
      type: str
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource hpcx (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "source": {"type": "str",
"default": ""}, "sha256": {"type": "str", "default": ""}, "version": {"type": "str", "default": ""},
"prefix": {"type": "path", "default": "/opt/hpcx"}, "keep": {"type": "int", "default": 1},
"adopt": {"type": "str", "choices": ["same_version", "any", "never"], "default": "same_version"},
"adopt_paths": {"type": "list", "elements": "str", "default": ["/opt/hpcx-*", "/opt/hpcx", "/opt/hpcx/hpcx-*",
"/usr/local/hpcx-*", "/usr/local/hpcx"]}, "modulefiles": {"type": "str", "choices": ["auto", "lmod",
"environment_modules", "none"], "default": "auto"}, "modulefile_dir": {"type": "str", "default": ""},
"module_name": {"type": "str", "default": "mpi/hpcx"}, "conflicts": {"type": "list", "elements": "str",
"default": ["mpi", "openmpi", "mvapich", "mvapich2", "mpich", "impi", "intel-mpi", "intelmpi"]},
"ucx": {"type": "dict", "default": {}}, "environment": {"type": "dict", "default": {}}, "hcoll": {"type": "bool",
"default": false}, "sharp_plugin": {"type": "bool", "default": true}, "timeout_seconds": {"type": "float",
"default": 600.0}}
""")


def main():
    node_command.main("hpcx", SPEC, secret=True)


if __name__ == "__main__":
    main()

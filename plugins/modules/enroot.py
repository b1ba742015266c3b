#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""enroot on this node: packages, settings, hooks, and what the kernel must allow."""

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot
short_description: Configure enroot for the containers of users
description:
  - Installs enroot from files that are known by their sha256, or takes the one that is installed.
  - Writes C(/etc/enroot/enroot.conf.d/50-gpu_node.conf). Runtime, cache, data and temporary folders are each user's own, on the
    scratch of the node. The prolog of Slurm makes them for the job's user alone, and the epilog removes them.
  - Switches hooks on by links to those that the package lays aside.
  - Lets every container see C(/etc/nccl.conf) and the topology file of NCCL.
  - Raises the limits of user and mount namespaces where they are too low. Where only programs with an AppArmor profile may make user
    namespaces (Ubuntu 24.04), it loads a profile for enroot; that protection is not switched off.
  - A file in one of these places that is not ours is never written over or removed.
  - A node without enroot, for which no packages are given, is skipped.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description:
      - V(absent) removes what was written here, the packages that were installed here, and restores the kernel
        settings.
      - What a package manager brought along as dependencies stays, and so does a package that was there before.
    type: str
    choices: [present, absent]
    default: present
  packages:
    description:
      - The files to install. Without any, the enroot that is installed is set up.
      - All of them are fetched and verified before the package manager is called.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the package, such as V(enroot) or V(enroot+caps).
        type: str
        required: true
      version:
        description: Its whole version as dpkg or rpm tells it, such as V(4.1.2-1).
        type: str
        required: true
      source:
        description: URL of the file, or its absolute path on the node.
        type: str
        required: true
      sha256:
        description: Its checksum.
        type: str
        required: true
      architecture:
        description: The machines that it is for, V(amd64) or V(arm64). Files for other machines are skipped. Left out,
          it is for all.
        type: str
        default: ''
  allow_downgrade:
    description: Replace a newer version by the wanted one.
    type: bool
    default: false
  scratch:
    description:
      - Mount point under which the folders of users lie, in a folder C(enroot).
      - Empty means the scratch that is declared for this node (module M(trainyard.gpu_node.nvme_scratch)), else
        O(fallback).
    type: str
    default: ''
  fallback:
    description: Folder for the same on a node without scratch.
    type: str
    default: /var/lib/enroot
  user_folders:
    description:
      - Whether enroot is configured to use these folders. Someone has to make them, since users may not.
      - V(auto) means where slurmd is installed, whose prolog does that. Elsewhere enroot uses the home folder, as it
        does by itself.
    type: str
    choices: [auto, always, never]
    default: auto
  keep_cache:
    description: Keep downloaded layers of images on the scratch after the last job of their user.
    type: bool
    default: false
  settings:
    description:
      - Further keys of enroot.conf, or other values for those that are set here. An empty value leaves a key to enroot.
      - A key that enroot does not know is refused, and so is a value that the shell would interpret.
    type: dict
    default: {}
  environment:
    description: Variables for every container.
    type: dict
    default: {}
  hooks:
    description:
      - The hooks that are on. V(nvidia) and V(mellanox) come with enroot, and do nothing unless they are listed.
      - V(slurm-pmi), V(slurm-pytorch), V(sharp) and V(mig-config) are links to those in the package.
    type: list
    elements: str
    choices: [nvidia, mellanox, slurm-pmi, slurm-pytorch, sharp, mig-config]
    default: [nvidia, mellanox, slurm-pmi, slurm-pytorch]
  mounts:
    description: Files and folders of the node that every container sees at the same place, read-only. Missing ones are
      skipped.
    type: list
    elements: str
    default: [/etc/nccl.conf, /etc/gpu_node/nccl_topology.xml]
  user_namespaces:
    description: Manage the limits of namespaces and the AppArmor profile.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: Tells what would be done; changes nothing.
  diff_mode:
    support: full
    description: Shows packages, links, settings of the kernel and files before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: The enroot of the image, with folders of users on the scratch
  trainyard.gpu_node.enroot:

- name: A version from a mirror
  trainyard.gpu_node.enroot:
    packages:
      - name: enroot
        version: 4.1.2-1
        architecture: amd64
        source: https://mirror.example.org/enroot_4.1.2-1_amd64.deb
        sha256: "{{ enroot_sha256 }}"

- name: Home folders in containers, and room for larger images
  trainyard.gpu_node.enroot:
    keep_cache: true
    settings:
      ENROOT_MOUNT_HOME: "yes"

- name: As it was before
  trainyard.gpu_node.enroot:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: Facts for the reader, such as a missing nvidia-container-cli.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: Why there is nothing to manage here, or V(null).
  type: str
  returned: success
version:
  description: The version of the package enroot, or V(null) without one.
  type: str
  returned: success
  sample: 4.1.2-1
user_folders:
  description: The folders that the prolog makes for each user.
  type: list
  elements: dict
  returned: success
  contains:
    purpose:
      description: One of V(runtime), V(cache), V(data) and V(temp).
      type: str
    path:
      description: Where, with C({uid}) in place of the user's number.
      type: str
    remove:
      description: Whether the epilog removes it after the user's last job.
      type: bool
settings:
  description: What is written into enroot.conf, key and value.
  type: dict
  returned: success
nvidia_container_cli:
  description: Where C(nvidia-container-cli) is, without which no container gets a GPU, or V(null).
  type: str
  returned: success
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource enroot (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "packages": {"type": "list",
"elements": "dict", "options": {"name": {"type": "str", "required": true}, "version": {"type": "str",
"required": true}, "source": {"type": "str", "required": true}, "sha256": {"type": "str", "required": true},
"architecture": {"type": "str", "default": ""}}, "default": []}, "allow_downgrade": {"type": "bool",
"default": false}, "scratch": {"type": "str", "default": ""}, "fallback": {"type": "str",
"default": "/var/lib/enroot"}, "user_folders": {"type": "str", "choices": ["auto", "always", "never"],
"default": "auto"}, "keep_cache": {"type": "bool", "default": false}, "settings": {"type": "dict", "default": {}},
"environment": {"type": "dict", "default": {}}, "hooks": {"type": "list", "choices": ["nvidia", "mellanox",
"slurm-pmi", "slurm-pytorch", "sharp", "mig-config"], "elements": "str", "default": ["nvidia", "mellanox",
"slurm-pmi", "slurm-pytorch"]}, "mounts": {"type": "list", "elements": "str", "default": ["/etc/nccl.conf",
"/etc/gpu_node/nccl_topology.xml"]}, "user_namespaces": {"type": "bool", "default": true}}
""")


def main():
    node_command.main("enroot", SPEC, secret=True)


if __name__ == "__main__":
    main()

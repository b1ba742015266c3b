# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python environments: built by content, switched by a link, with their modulefiles."""

from __future__ import annotations

DOCUMENTATION = r"""
module: python_env
short_description: Build Python environments for training jobs, of venv or conda
version_added: 0.1.0
description:
  - Builds environments in a folder that all nodes see, or on the scratch of each node, and keeps homes out of it.
  - An environment is known by a SHA-256 over what is installed, the Python, the machine and the major version of CUDA. Another content is
    built beside the former one and verified, and then a link is switched in one step; a process that runs keeps what it has.
  - Where nodes share the folder one builds at a time, and the others use what it has built.
  - Lock files with a SHA-256 for each package make builds the same; presets have what Horovod, DeepSpeed, ONNX Runtime and PyTorch need.
  - Users get modulefiles, and on request caches and conda environments on scratch in place of their homes.
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description: V(present) builds the environments and removes those of ours that are no longer wanted. V(absent)
      removes all of ours, with their modulefiles and what was written for users.
    type: str
    choices: [present, absent]
    default: present
  folder:
    description:
      - Where the environments lie. On a folder that all nodes see one node builds for all; on a scratch of its own each
        node does, and does again when the scratch was made anew.
      - Empty for V(envs) on the scratch of this node (module M(trainyard.gpu_node.nvme_scratch)).
    type: str
    default: ''
  environments:
    description: The environments.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Its name, by which the link and the modulefile are called.
        type: str
        required: true
      kind:
        description: What it is made with.
        type: str
        choices: [venv, conda]
        default: venv
      preset:
        description: A set of packages, build variables and checks that is known here; C(docs/python_env.md) lists them.
          Those whose projects have ended are frozen, and a note says why.
        type: str
        choices: ['', pytorch, horovod, deepspeed, onnxruntime]
        default: ''
      packages:
        description: What is installed, as requirements of pip or specifications of conda.
        type: list
        elements: str
        default: []
      lock:
        description:
          - The exact packages in place of C(packages) and of those of C(preset), as text or as an absolute path on the
            node.
          - For V(venv) requirements with C(--hash=sha256:...), which pip then demands of every package; for V(conda) an
            explicit list, each package with its SHA-256.
        type: str
        default: ''
      clone_of:
        description: 'An environment of the site, as an absolute path, whose packages this one gets: of a venv the same
          versions, of one of conda all of it.'
        type: str
        default: ''
      python:
        description: The Python that a V(venv) is made with.
        type: path
        default: /usr/bin/python3
      source_packages:
        description: Packages of a V(venv) that are built on the node, after all others. Of any other package only a
          wheel is taken, since building one runs its code as root.
        type: list
        elements: str
        default: []
      variables:
        description: Variables for building, such as V(HOROVOD_WITH_MPI). They win over those of C(preset).
        type: dict
        default: {}
      verify_imports:
        description: Modules that have to be importable.
        type: list
        elements: str
        default: []
      verify_commands:
        description: Commands that have to succeed, run by bash with the environment first in the search path. Until all
          have, the link stays where it was.
        type: list
        elements: str
        default: []
  keep:
    description:
      - How many former builds of an environment stay, the latest first. One that a process uses is not removed, which
        is a note.
      - From 0 to 100.
    type: int
    default: 1
  index_url:
    description: The package index of pip. Empty for pip's own.
    type: str
    default: ''
  find_links:
    description: 'A folder of the node with the files of packages, in place of an index: no network is used.'
    type: str
    default: ''
  channels:
    description: Channels of conda, where packages are not locked.
    type: list
    elements: str
    default: [conda-forge]
  conda:
    description: The program that makes environments of conda, as a path; V(auto) looks for conda, mamba and micromamba
      where they are usually installed.
    type: str
    default: auto
  cuda:
    description: The major version of CUDA that environments are built for, which is a part of what they are. V(auto) is
      that of C(/usr/local/cuda); V(none) for none, as on nodes without GPUs.
    type: str
    default: auto
  cuda_architectures:
    description:
      - Compute capabilities that packages are built for (C(TORCH_CUDA_ARCH_LIST), C(HOROVOD_BUILD_CUDA_CC_LIST)), so
        that a machine without a GPU can build. By default those of the GPUs of the profile.
      - By default what the profile of the machine says (C(gpus.products)).
    type: list
    elements: str
  modulefiles:
    description: Which modulefiles are written, one for each environment. V(auto) is for the module systems that are
      installed.
    type: str
    choices: [auto, lmod, environment_modules, none]
    default: auto
  modulefile_dir:
    description: Where they go. Empty for the folder that the module system keeps for those of a site.
    type: str
    default: ''
  module_prefix:
    description: What their names begin with, as C(env/NAME).
    type: str
    default: env
  user_folder:
    description:
      - Where the caches and own conda environments of users go in place of their homes, such as V(/scratch/$USER). It
        has C($USER) as a folder.
      - Empty leaves users' settings alone.
    type: str
    default: ''
  extensions_folder:
    description: 'Where PyTorch builds extensions (C(TORCH_EXTENSIONS_DIR)), such as V(/mnt/resource_nvme/$USER): on a
      network file system the ranks of a job wait for each other''s locks. Empty for a folder in O(user_folder).'
    type: str
    default: ''
  unset_conda_paths:
    description: Unset C(CONDA_ENVS_PATH), C(CONDA_ENVS_DIRS) and C(CONDA_PKGS_DIRS) at login and in our modulefiles.
      Some modules of sites set them, and they win over what O(user_folder) says.
    type: bool
    default: false
  timeout_seconds:
    description:
      - How long the build of one environment may take.
      - From 1 to 86400 seconds.
    type: float
    default: 3600.0
attributes:
  check_mode:
    support: full
    description: Tells the hash and what would be built; downloads and changes nothing.
  diff_mode:
    support: full
    description: Shows the builds, the links and the files before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: An environment for all nodes, locked
  trainyard.gpu_node.python_env:
    folder: /shared/envs
    environments:
      - name: data-science
        lock: /shared/locks/data-science.txt
        verify_imports: [torch]
    user_folder: /scratch/$USER
    extensions_folder: /mnt/resource_nvme/$USER

- name: Horovod, as its last release has it, on the scratch of each node
  trainyard.gpu_node.python_env:
    environments:
      - name: horovod
        preset: horovod
        python: /usr/bin/python3.10
    cuda_architectures: ["8.0"]

- name: As it was before
  trainyard.gpu_node.python_env:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: Facts for the reader, such as a former build that is kept because a process uses it.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: Why there is nothing to manage here, or V(null).
  type: str
  returned: success
folder:
  description: Where the environments lie, or V(null).
  type: str
  returned: success
  sample: /shared/envs
environments:
  description: Those that are wanted.
  type: list
  elements: dict
  returned: success
  contains:
    name:
      description: Its name.
      type: str
    kind:
      description: V(venv) or V(conda).
      type: str
    path:
      description: The folder of this build.
      type: str
      sample: /shared/envs/data-science-0123456789ab
    link:
      description: The link that leads to the build in use.
      type: str
    sha256:
      description: What it is, as a SHA-256.
      type: str
    machine:
      description: What it is built for.
      type: str
      sample: Python 3.10, x86_64, CUDA 12
    built:
      description: Whether it is there; in check mode, was there before.
      type: bool
installed:
  description: All builds of ours.
  type: list
  elements: dict
  returned: success
  contains:
    path:
      description: Its folder.
      type: str
    name:
      description: The environment that it is of.
      type: str
    sha256:
      description: What it is.
      type: str
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource python_env (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "folder": {"type": "str",
"default": ""}, "environments": {"type": "list", "elements": "dict", "options": {"name": {"type": "str",
"required": true}, "kind": {"type": "str", "choices": ["venv", "conda"], "default": "venv"},
"preset": {"type": "str", "choices": ["", "pytorch", "horovod", "deepspeed", "onnxruntime"], "default": ""},
"packages": {"type": "list", "elements": "str", "default": []}, "lock": {"type": "str", "default": ""},
"clone_of": {"type": "str", "default": ""}, "python": {"type": "path", "default": "/usr/bin/python3"},
"source_packages": {"type": "list", "elements": "str", "default": []}, "variables": {"type": "dict",
"default": {}}, "verify_imports": {"type": "list", "elements": "str", "default": []},
"verify_commands": {"type": "list", "elements": "str", "default": []}}, "default": []}, "keep": {"type": "int",
"default": 1}, "index_url": {"type": "str", "default": ""}, "find_links": {"type": "str", "default": ""},
"channels": {"type": "list", "elements": "str", "default": ["conda-forge"]}, "conda": {"type": "str",
"default": "auto"}, "cuda": {"type": "str", "default": "auto"}, "cuda_architectures": {"type": "list",
"elements": "str"}, "modulefiles": {"type": "str", "choices": ["auto", "lmod", "environment_modules", "none"],
"default": "auto"}, "modulefile_dir": {"type": "str", "default": ""}, "module_prefix": {"type": "str",
"default": "env"}, "user_folder": {"type": "str", "default": ""}, "extensions_folder": {"type": "str",
"default": ""}, "unset_conda_paths": {"type": "bool", "default": false}, "timeout_seconds": {"type": "float",
"default": 3600.0}}
""")


def main():
    node_command.main("python_env", SPEC)


if __name__ == "__main__":
    main()

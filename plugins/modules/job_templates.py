#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job scripts for nodes like this one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: job_templates
short_description: Write job scripts for nodes like this one, ready to submit
description:
  - Writes scripts for Slurm and for mpirun into a folder, usually one that all nodes see. NCCL all-reduce and all-to-all (in a
    container, with Slurm alone, with mpirun), HPL in a container, PyTorch, Horovod, and a check of MPI without GPUs.
  - Every script binds its ranks beside their GPUs, by the topology of the machine that the module runs on, and holds on any
    number of nodes of that type. Its head says how to submit it, what figure to expect and how to read the result.
  - The figures come from the profile in the node's declaration, and from what is published about it.
  - A machine without GPUs gets the check of MPI alone. Where a GPU is lost, the scripts of GPU jobs are left as they are.
  - A file in one of these places that is not ours stops the module; nothing else in the folder is touched.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  state:
    description: V(present) writes the scripts. V(absent) removes ours, and the folders that were made for them.
    type: str
    choices: [present, absent]
    default: present
  folder:
    description: Where the scripts go. Scripts name each other by this path, so it must be the same on all nodes of a
      job; best a folder that all of them see.
    type: str
    default: /usr/local/share/gpu_node/jobs
  nodes:
    description:
      - How many nodes a script asks for by itself. C(sbatch --nodes) overrides it.
      - From 1 to 100000.
    type: int
    default: 2
  gpus_per_node:
    description:
      - How many ranks, each with a GPU, run on a node. By default as many as there are GPUs.
      - From 1 to 1024.
    type: int
  mpi_ranks_per_node:
    description:
      - How many ranks the check of MPI runs on a node. By default one for each NUMA node.
      - From 1 to 65536.
    type: int
  partition:
    description: Partition of Slurm. Empty for the cluster's default.
    type: str
    default: ''
  account:
    description: Account of Slurm. Empty for the user's default.
    type: str
    default: ''
  time:
    description: Time limit of a job as C(sbatch --time) takes it, such as V(30), V(2:00:00) or V(1-12). Empty for the
      partition's default.
    type: str
    default: ''
  memory:
    description: Memory of each node as C(sbatch --mem) takes it. V(0) is all of it, which an exclusive job does not get
      by itself. Empty for the cluster's default.
    type: str
    default: '0'
  gres_type:
    description:
      - Type of GPU to ask for, as slurm.conf has it in C(Gres=gpu:TYPE:COUNT); V(auto) takes it from the product. Empty
        for any.
      - By default the role takes C(slurm_hooks_gres_type).
    type: str
  log_folder:
    description:
      - Where the output of jobs goes. May have patterns of sbatch, such as V(/shared/logs/%u).
      - Slurm before 23.02 makes no folder, and a job whose log folder is not there fails without a message.
      - Empty for the folder that a job is submitted from.
    type: str
    default: ''
  error_file:
    description: Write errors to a file of their own, C(.err) beside C(.out).
    type: bool
    default: false
  directives:
    description: More options of C(sbatch) for all scripts, such as V(--qos=train) or V(--constraint=ndr).
    type: list
    elements: str
    default: []
  image:
    description:
      - Container image of NCCL's tests and of PyTorch, as pyxis takes it.
      - Empty leaves out NCCL's tests in a container, and PyTorch runs with what is installed on the nodes.
    type: str
    default: nvcr.io#nvidia/pytorch:25.02-py3
  hpl_image:
    description: Container image with NVIDIA's HPL. Empty leaves HPL out.
    type: str
    default: nvcr.io#nvidia/hpc-benchmarks:25.02
  horovod_image:
    description:
      - Container image with Horovod. NVIDIA's PyTorch images list none; TensorFlow's of 21.05 and MXNet's of 24.05 do.
      - Empty runs in the environment that is active when a job is submitted.
    type: str
    default: ''
  environment:
    description: Python environment of the nodes that training outside of a container runs in, as an absolute path, such
      as the link of one of M(trainyard.gpu_node.python_env). Empty for the one that is active when a job is submitted;
      C(PYTHON_ENV) at C(sbatch) overrides it.
    type: str
    default: ''
  mounts:
    description:
      - What containers see of the node, as C(/from:/to) or C(/from:/to:ro).
      - C(/etc/nccl.conf), the topology file that it names and the working folder are mounted in any case.
    type: list
    elements: str
    default: []
  nccl_tests:
    description: Folder with C(all_reduce_perf) and C(alltoall_perf) on the nodes, built with MPI.
    type: str
    default: /opt/nccl-tests/build
  mpi_module:
    description: Module that is loaded where no mpirun is in the search path.
    type: str
    default: mpi/hpcx
  slurm_mpi:
    description: What C(srun --mpi) is given, one of those that C(srun --mpi=list) shows.
    type: str
    default: pmix
attributes:
  check_mode:
    support: full
    description: Tells what would be done; changes nothing.
  diff_mode:
    support: full
    description: Shows the files before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
seealso:
  - module: trainyard.gpu_node.topology_info
"""

EXAMPLES = r"""
- name: Job scripts in a folder that all nodes see
  trainyard.gpu_node.job_templates:
    folder: /shared/gpu_node/jobs
    partition: gpu
    time: "1:00:00"
    gres_type: a100
    directives: [--qos=train]

- name: With an image and data of one's own
  trainyard.gpu_node.job_templates:
    folder: /shared/gpu_node/jobs
    image: /shared/images/pytorch.sqsh
    mounts: ["/shared/data:/data:ro"]

- name: As it was before
  trainyard.gpu_node.job_templates:
    folder: /shared/gpu_node/jobs
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: Facts for the reader, such as why there are no scripts for GPUs.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: Why there is nothing to manage here, or V(null).
  type: str
  returned: success
folder:
  description: Where the scripts are.
  type: str
  returned: success
files:
  description: Names of the scripts that are there, or in check mode would be there.
  type: list
  elements: str
  returned: success
  sample: [mpi-check.sh, mpi_check.sh, nccl-all-reduce.mpirun.sh]
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource job_templates (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "folder": {"type": "str",
"default": "/usr/local/share/gpu_node/jobs"}, "nodes": {"type": "int", "default": 2},
"gpus_per_node": {"type": "int"}, "mpi_ranks_per_node": {"type": "int"}, "partition": {"type": "str",
"default": ""}, "account": {"type": "str", "default": ""}, "time": {"type": "str", "default": ""},
"memory": {"type": "str", "default": "0"}, "gres_type": {"type": "str"}, "log_folder": {"type": "str",
"default": ""}, "error_file": {"type": "bool", "default": false}, "directives": {"type": "list",
"elements": "str", "default": []}, "image": {"type": "str", "default": "nvcr.io#nvidia/pytorch:25.02-py3"},
"hpl_image": {"type": "str", "default": "nvcr.io#nvidia/hpc-benchmarks:25.02"}, "horovod_image": {"type": "str",
"default": ""}, "environment": {"type": "str", "default": ""}, "mounts": {"type": "list", "elements": "str",
"default": []}, "nccl_tests": {"type": "str", "default": "/opt/nccl-tests/build"}, "mpi_module": {"type": "str",
"default": "mpi/hpcx"}, "slurm_mpi": {"type": "str", "default": "pmix"}}
""")


def main():
    node_command.main("job_templates", SPEC)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hooks of Slurm on this node, gres.conf and node features."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_hooks
short_description: Configure prolog, epilog, gres.conf and node features of a GPU node
description:
  - Writes two hooks into the drop-in folders of Slurm. The prolog checks the scratch, makes a folder for the job and raises the
    clocks of the job's GPUs; the epilog ends what the job left on them, returns the clocks and removes the folder.
  - The order of the scripts in these folders does not matter. The prolog lies there under two names, of which one comes
    first from A to Z (wrappers such as run-parts) and one from Z to A (Slurm itself, CycleCloud); the second call ends at once.
  - Writes C(gres.conf) with the device file of each GPU and the cores near it, by the machine's own topology,
    and the features that jobs can ask for with C(--constraint).
  - From Slurm 24.11 on C(Cores) must cover whole sockets, or slurmctld takes the node out of service. So they are those of the
    NUMA node where its version and the sockets of slurm.conf allow that, else those of the socket, else left out; a note says which and why.
  - A C(gres.conf) that is not ours (CycleCloud), or that slurmctld hands out (configless), is left as it is and compared with
    this machine. GPUs in MIG mode are not listed as whole ones.
  - C(slurm.conf) is read and never written. Notes have the lines to add when its C(Prolog=) or C(Epilog=) does not reach these folders, the
    prolog runs late, a job that the prolog turns away would be held, or power saving would undo a drain. slurmctld is not restarted, slurmd
    only with O(restart) while no job runs, and Slurm is reconfigured only with O(reconfigure).
  - Hooks that belong to another user than root or SlurmUser are written anew; folders that others may write to are refused.
  - A node without slurmd, or with one that was never configured, is skipped. On one without GPUs the hooks are written, for the
    scratch, and C(gres.conf) is not.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - slurmd
  - the node command gpunode (module trainyard.gpu_node.node_runtime)
options:
  state:
    description: V(absent) removes hooks and files, and the folders that were made for them. Those on a network file
      system stay, as other nodes run them.
    type: str
    choices: [present, absent]
    default: present
  clocks:
    description: Raise the clocks of a job's GPUs, and return them to what was declared for the node.
    type: bool
    default: true
  job_folder:
    description: Give each job a folder of its own on the scratch, C(SCRATCH/jobs/JOBID), and remove it after the job.
    type: bool
    default: true
  end_processes:
    description: End processes that a job left on its GPUs.
    type: bool
    default: true
  grace_seconds:
    description:
      - Time between SIGTERM and SIGKILL for such a process.
      - From 0 to 120 seconds.
    type: float
    default: 5.0
  prolog_dir:
    description: Drop-in folder that C(Prolog=) of slurm.conf names.
    type: str
    default: /etc/slurm/prolog.d
  epilog_dir:
    description: Drop-in folder that C(Epilog=) of slurm.conf names.
    type: str
    default: /etc/slurm/epilog.d
  gres_file:
    description:
      - Where the lines about the GPUs go. Empty leaves them out.
      - Slurm reads only C(gres.conf) beside slurm.conf. Of another file only the lines can be copied there; an
        C(Include) of it is safe where every node that reads C(gres.conf) has that file, and never with CLOUD nodes, for
        which slurmctld itself reads it.
    type: str
    default: /etc/slurm/gres.conf
  gres_type:
    description:
      - The type that slurm.conf gives these GPUs in C(Gres=gpu:TYPE:COUNT). Empty for C(Gres=gpu:COUNT).
      - V(auto) takes it from the product, V(a100) for NVIDIA A100-SXM4-40GB.
    type: str
    default: ''
  gres_cores:
    description:
      - What C(Cores) of a GPU are.
      - V(auto) is those of its NUMA node where slurmctld takes these, else those of its socket.
      - V(sockets) is those of its socket, also before slurmctld is upgraded to 24.11 or newer. V(none) leaves them out.
    type: str
    choices: [auto, sockets, none]
    default: auto
  shards_per_gpu:
    description:
      - 'Into how many shards each whole GPU is divided, so that as many jobs can share it (C(--gres=shard:1)). V(0)
        makes none. Nothing keeps such jobs apart: each sees all of the GPU''s memory.'
      - C(GresTypes) and C(Gres) of slurm.conf need them, too; what is missing there is told.
      - From 0 to 1024.
    type: int
    default: 0
  features_file:
    description: Where the node features go, one line of names with commas. Empty leaves them out.
    type: str
    default: /etc/slurm/gpu_node_features
  slurm_conf:
    description: Where slurm.conf is, or will be. Found by itself in its usual places.
    type: str
    default: ''
  reconfigure:
    description: Run C(scontrol reconfigure), at which slurmctld and every slurmd read their files again, when Slurm has
      yet to read what was changed. Otherwise that is only reported.
    type: bool
    default: false
  restart:
    description: Restart slurmd when it has yet to read C(gres_file) and no job runs on the node. Otherwise that is only
      reported. With O(reconfigure) it is not needed.
    type: bool
    default: true
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
"""

EXAMPLES = r"""
- name: Hooks, gres.conf and features
  trainyard.gpu_node.slurm_hooks:

- name: Before slurmctld is upgraded to 24.11
  trainyard.gpu_node.slurm_hooks:
    gres_type: a100
    gres_cores: sockets

- name: As it was before
  trainyard.gpu_node.slurm_hooks:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
notes:
  description: Facts for the reader, such as a line that slurm.conf lacks.
  type: list
  elements: str
  returned: success
skipped_reason:
  description: Why there is nothing to manage here, or V(null).
  type: str
  returned: success
features:
  description: The node features.
  type: list
  elements: str
  returned: success
  sample: [gpu_node, numa4, gpus8, a100, a100-sxm4-40gb]
gpus:
  description: The GPUs that the driver lists.
  type: list
  elements: dict
  returned: success
  contains:
    minor:
      description: N of C(/dev/nvidiaN). Slurm's number of a GPU is its position in gres.conf.
      type: int
    cores:
      description: Slurm's (hwloc's) numbers of the cores of its NUMA node. Empty where the NUMA node is not known.
      type: list
      elements: int
    product:
      description: Its product name.
      type: str
    mig:
      description: Whether it is in MIG mode.
      type: bool
gres_conf:
  description: The gres.conf that slurmd reads on this node, or V(null).
  type: str
  returned: success
gres_lines:
  description: The lines about the GPUs that fit this machine, with C(NodeName) where the file is not ours. Empty with MIG on.
  type: list
  elements: str
  returned: success
  sample: [Name=gpu File=/dev/nvidia0 Cores=0-47]
gres_differences:
  description: What does not fit this machine in a gres.conf that is not ours.
  type: list
  elements: str
  returned: success
  sample: ["it does not list /dev/nvidia7, which no job gets"]
slurm_conf:
  description: The slurm.conf that was read, or V(null).
  type: str
  returned: success
prolog_reached:
  description: Whether C(Prolog=) in slurm.conf reaches the hook. V(null) when nothing tells.
  type: bool
  returned: success
epilog_reached:
  description: Whether C(Epilog=) in slurm.conf reaches the hook. V(null) when nothing tells.
  type: bool
  returned: success
unread:
  description: The files that were changed and that Slurm does not show to have read since, of C(gres.conf) and C(slurm.conf). An own
    gres.conf counts as read when slurmd began, or O(reconfigure) had Slurm read it, after it was changed.
  type: list
  elements: str
  returned: success
  sample: [/etc/slurm/gres.conf]
reconfigure_pending:
  description: Whether Slurm has yet to read a changed file, one of RV(unread).
  type: bool
  returned: success
restart_pending:
  description: Whether that is our C(gres.conf), for which slurmd has to be restarted; a note tells why it was not.
  type: bool
  returned: success
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource slurm_hooks (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "clocks": {"type": "bool",
"default": true}, "job_folder": {"type": "bool", "default": true}, "end_processes": {"type": "bool",
"default": true}, "grace_seconds": {"type": "float", "default": 5.0}, "prolog_dir": {"type": "str",
"default": "/etc/slurm/prolog.d"}, "epilog_dir": {"type": "str", "default": "/etc/slurm/epilog.d"},
"gres_file": {"type": "str", "default": "/etc/slurm/gres.conf"}, "gres_type": {"type": "str", "default": ""},
"gres_cores": {"type": "str", "choices": ["auto", "sockets", "none"], "default": "auto"},
"shards_per_gpu": {"type": "int", "default": 0}, "features_file": {"type": "str",
"default": "/etc/slurm/gpu_node_features"}, "slurm_conf": {"type": "str", "default": ""},
"reconfigure": {"type": "bool", "default": false}, "restart": {"type": "bool", "default": true}}
""")


def main():
    node_command.main("slurm_hooks", SPEC)


if __name__ == "__main__":
    main()

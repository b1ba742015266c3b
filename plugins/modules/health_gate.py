#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict on the health of this node does."""

from __future__ import annotations

DOCUMENTATION = r"""
module: health_gate
short_description: Configure what a health verdict does to a node
description:
  - Declares what happens when a node is found sick. It can be drained in Slurm, with a reason that begins with C(gpu_node:), and
    put back into service after clean verdicts in a row. Only what was drained for its health by us is ever resumed.
  - A circuit breaker bounds how much of a partition is drained at a time. Beyond that a person must decide.
  - Declares silences, which are known faults that somebody answers for until a date, and other settings of the checks.
  - Writes a systemd timer that runs the passive checks and leaves a verdict, metrics for Prometheus and labels for Kubernetes,
    and a script for C(HealthCheckProgram) of slurm.conf. slurm.conf itself is read and never written.
  - Runs no check and does not touch Slurm. A file in one of these places that is not ours stops the module.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
requirements:
  - the node command gpunode (module trainyard.gpu_node.node_runtime)
options:
  state:
    description:
      - V(absent) removes the gate's files, its sections of the declaration and what checks have found.
      - A node that is drained stays drained; a note tells of it.
    type: str
    choices: [present, absent]
    default: present
  drain:
    description: Drain this node in Slurm for a failing verdict.
    type: bool
    default: true
  resume:
    description: Resume, after clean verdicts, what was drained for its health.
    type: bool
    default: true
  drain_after:
    description:
      - How many failing verdicts in a row drain. In a prolog one does.
      - From 1 to 20.
    type: int
    default: 1
  resume_after:
    description:
      - How many clean verdicts in a row resume. Those that looked less far than the failing one do not count.
      - From 1 to 20.
    type: int
    default: 3
  resumes_a_day:
    description:
      - A node that was resumed so often within a day stays drained until a person resumes it.
      - From 1 to 100.
    type: int
    default: 3
  proof:
    description:
      - Have a node that went out for a fault pass the active checks of what failed before it is resumed, as the table
        in docs/health_gate.md says. Clean passive verdicts are asked for beside them.
      - They run in C(gpu-node-health-proof.service), on a node that was drained for its health and has no job.
      - With V(false) clean passive verdicts are enough.
    type: bool
    default: true
  proof_attempts:
    description:
      - How often these checks are started, an hour apart, before the node waits for a person.
      - From 1 to 24.
    type: int
    default: 3
  proof_seconds:
    description:
      - Time budget of these checks together, in seconds; with 0 they take the time that they need.
      - A check that it does not cover is still owed, and the next attempt runs it. A check whose shortest useful run is
        longer never passes, and the node waits for a person.
      - From 0 to 86400.
    type: float
    default: 0.0
  unknown_drains:
    description: Count a verdict V(unknown) as a failing one. It never counts as a clean one.
    type: bool
    default: false
  drained_percent:
    description:
      - Share of a partition, in percent of its machines, that may be drained by us at a time, for whatever reason of
        ours. One node may in any case.
      - Beyond it a failing prolog of ours lets the job start. The drains of C(rolling.yml) count, and have limits of
        their own.
      - V(0) drains none.
      - From 0 to 100 percent.
    type: float
    default: 20.0
  prolog:
    description: Run the quick checks before each job, and keep the job away from a sick node. Needs the hooks of
      M(trainyard.gpu_node.slurm_hooks).
    type: bool
    default: true
  epilog:
    description: Run the quick checks after each job as well.
    type: bool
    default: false
  interval_seconds:
    description:
      - Time between two runs of the timer. Labels expire after two and a half of them.
      - From 30 to 65535 seconds.
    type: int
    default: 300
  keep_powered:
    description:
      - Keep a node that is drained for its health powered on, by C(SuspendExcNodes) of Slurm 23.02 or later. It is
        taken out of there when it is no more drained for its health, and only if it was put there by this.
      - Without it, a cluster that powers idle nodes down takes the machine away, and starts another one when a job
        needs it.
    type: bool
    default: false
  keepalive:
    description:
      - A command, as a list, that is run once when this node was drained, such as one that opens a ticket.
      - To keep the node powered on use O(keep_powered).
    type: list
    elements: str
    default: []
  remedies:
    description:
      - What this node tries by itself on a part that failed, once it is drained for its health and has no job. None by
        default.
      - 'V(restart_service): a service of NVIDIA''s driver that a finding names. V(reset_gpu): the GPU that failed, by
        C(nvidia-smi --gpu-reset). V(reboot): by C(scontrol reboot); the node stays drained. V(redeploy):
        O(redeploy_command).'
      - The least that may help has to be among them. The next stronger one that is among them follows when it was tried
        O(remedy_attempts) times. The node comes back by its verdicts only.
    type: list
    elements: str
    choices: [restart_service, reset_gpu, reboot, redeploy]
    default: []
  remedy_attempts:
    description:
      - How often one remedy is tried on the same part within 7 days.
      - From 1 to 10.
    type: int
    default: 2
  remedies_a_day:
    description:
      - 'After so many remedies within a day the breaker is latched when one more is wanted: none is tried until a
        person runs C(gpunode remedy release --by NAME).'
      - From 1 to 50.
    type: int
    default: 4
  remedied_percent:
    description:
      - Share of a partition, in percent of its machines, that may have had a remedy and not come back at a time. One
        node may in any case. Beyond it the breaker of the node that wants one more is latched, and no other node tries
        any.
      - From 1 to 100 percent.
    type: float
    default: 10.0
  remedy_units:
    description: Units that hold GPUs open and work for nobody, as C(nvidia-dcgm.service). They are stopped for a reset
      and started again after it, as C(nvidia-persistenced.service) is in any case. Not one that runs jobs or
      containers.
    type: list
    elements: str
    default: []
  redeploy_command:
    description:
      - A command of the site, as a list, that has this machine replaced. Root runs it, so the file and the folders
        above it must be root's, and nobody else may write to them.
      - It gets C(node), C(findings) and C(attempts) as JSON on its standard input.
    type: list
    elements: str
    default: []
  redeploy_seconds:
    description:
      - Time limit of that command.
      - From 10 to 7200 seconds.
    type: int
    default: 900
  textfile:
    description: File for the textfile collector of Prometheus' node exporter, in a folder that is there. Empty for
      none.
    type: str
    default: ''
  labels_file:
    description: File for the local source of Node Feature Discovery, in a folder that is there. Its labels expire.
      Empty for none.
    type: str
    default: ''
  journal_folder:
    description:
      - Folder on a file system that nodes share, where the history of each GPU, disk and port is kept too, so that it
        survives a redeploy and goes with a part to another node. Root of the nodes must be able to write there, and
        users must not. It has to be there; one on a tmpfs or on the scratch is refused.
      - Empty keeps it in C(/var/lib/gpu_node/health/journal.json) alone.
    type: str
    default: ''
  kubernetes_node:
    description: Name of this node in Kubernetes. With it, taint and condition are written as commands of kubectl into
      C(/var/lib/gpu_node/health/kubernetes.json). Nothing runs them.
    type: str
    default: ''
  silences:
    description: Known faults that do not count until a date. One that has ended is told.
    type: list
    elements: dict
    default: []
    suboptions:
      finding:
        description: Name of a finding, C(check/code/key), or a pattern that begins with the id of a check, as
          C(gpu_xid/xid_63/*).
        type: str
        required: true
      until:
        description: The last day on which it holds, V(2026-12-31), or a time, V(2026-12-31T18:00Z), in UTC without a
          zone.
        type: str
        required: true
      owner:
        description: Who answers for it.
        type: str
        required: true
      reason:
        description: Why it may be so.
        type: str
        required: true
      nodes:
        description: Host names, or patterns of them, where it holds. By default on each node that this is set for.
        type: list
        elements: str
  thresholds:
    description:
      - Limits of measured figures in place of those of the profile and of the checks.
      - By the name of the figure, with C(better) (C(higher) or C(lower)), C(warn) and C(fail).
    type: dict
    default: {}
  without:
    description: Ids of checks, or patterns of them, that are not run on this node.
    type: list
    elements: str
    default: []
  observe:
    description:
      - Checks that are only observed. What they find is told as C(observed), drains nothing, and changes neither the
        outcome of the node nor an exit status.
      - Ids of checks, or patterns of them, V(ib_*), or names of findings as in O(silences), V(gpu_xid/xid_94/*). V(*)
        observes all of them. A pattern behind V(!) counts whatever the others say, V(!gpu_lost); a list of nothing but
        these observes no check and is refused.
      - For a check that the site does not act on yet. For a known fault use O(silences), which has an owner and a date.
    type: list
    elements: str
    default: []
  settings:
    description: Settings of single checks.
    type: dict
    default: {}
    suboptions:
      acknowledged:
        description: Xids that somebody has looked at. They are told no more; those that come later are.
        type: list
        elements: dict
        suboptions:
          code:
            description: The number of the Xid.
            type: int
            required: true
          before:
            description: Until when, V(2026-11-21T20:00:00Z), UTC unless it says otherwise, or seconds since 1970.
            type: str
            required: true
          pci_address:
            description: The GPU that is meant, V(0000:0b:00.0). By default each of them.
            type: str
      partition_keys:
        description: Partition keys that each InfiniBand port must have in its table, V(0x8012). The highest bit asks
          for full membership.
        type: list
        elements: str
      tools:
        description: Whole paths of tools that active checks run, where they are not found by themselves.
        type: dict
        suboptions:
          nvbandwidth:
            description: NVIDIA's nvbandwidth.
            type: str
          all_reduce_perf:
            description: The all-reduce test of nccl-tests.
            type: str
          ib_write_bw:
            description: The write test of perftest.
            type: str
          dcgmi:
            description: The command of NVIDIA's DCGM.
            type: str
          fio:
            description: The tester of disks.
            type: str
      compute_seconds:
        description: Seconds of load in the check C(gpu_compute), on all GPUs at once, V(1) to V(150), V(10) by default.
        type: float
      memory_test_seconds:
        description: Seconds of the memory test, which tests all GPUs at the same time, V(1) to V(120), V(4) by default.
        type: float
      scratch_probe_gibibytes:
        description: Size of the file that is written to the scratch and read back, V(0.125) to V(64), V(8) by default.
        type: float
      dcgm_level:
        description: Level of C(dcgmi diag), V(1) to V(3), V(1) by default.
        type: int
      hpl_output:
        description: The file that a job of HPL wrote. Without it the check C(hpl_result) does not run.
        type: str
  overrules:
    description: Nodes that come back without that proof until a date. Each is told in every verdict while it holds.
    type: list
    elements: dict
    default: []
    suboptions:
      until:
        description: The last day on which it holds, V(2026-12-31), or a time, V(2026-12-31T18:00Z), in UTC without a
          zone.
        type: str
        required: true
      owner:
        description: Who answers for it.
        type: str
        required: true
      reason:
        description: Why it may be so.
        type: str
        required: true
      nodes:
        description: Host names, or patterns of them, where it holds. By default on each node that this is set for.
        type: list
        elements: str
  program:
    description: The script for C(HealthCheckProgram=) of slurm.conf, written where slurmd is installed. Empty for none.
    type: str
    default: /etc/slurm/gpu_node_health_check
  timer:
    description: Have a systemd timer run the passive checks.
    type: bool
    default: true
  by_timer:
    description: Let the timer drain and resume too, where C(HealthCheckProgram=) of the cluster is somebody else's.
    type: bool
    default: false
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
  - module: trainyard.gpu_node.health_check
  - module: trainyard.gpu_node.slurm_hooks
"""

EXAMPLES = r"""
- name: Sick nodes take no job, with metrics for Prometheus
  trainyard.gpu_node.health_gate:
    textfile: /var/lib/node_exporter/textfile_collector/gpu_node.prom

- name: A known fault on one node, until its replacement comes
  trainyard.gpu_node.health_gate:
    silences:
      - finding: gpu_pcie/width/0000:0b:00.0
        nodes: [gpu017]
        until: 2026-12-31
        owner: anna
        reason: the riser is replaced at the end of the year

- name: Settings of single checks
  trainyard.gpu_node.health_gate:
    settings:
      partition_keys: ["0x8012"]
      tools:
        python: /opt/pytorch/bin/python
      acknowledged:
        - code: 79
          pci_address: "0000:0b:00.0"
          before: "2026-11-21T20:00:00Z"

- name: Only look, never drain
  trainyard.gpu_node.health_gate:
    drain: false
    prolog: false

- name: As it was before
  trainyard.gpu_node.health_gate:
    state: absent
"""

RETURN = r"""
actions:
  description: The steps that were taken, or in check mode would be taken.
  type: list
  elements: dict
  returned: success
skipped_reason:
  description: V(null).
  type: str
  returned: success
notes:
  description: Facts for the reader, such as a silence that has ended or a line that slurm.conf lacks.
  type: list
  elements: str
  returned: success
active:
  description: Whether the node has a gate.
  type: bool
  returned: success
enforced:
  description: Whether something acts on a verdict. This is Slurm with a C(slurm.conf), O(labels_file) or O(kubernetes_node).
  type: bool
  returned: success
health_check_program:
  description: C(HealthCheckProgram) of slurm.conf, or V(null).
  type: str
  returned: success
program_reached:
  description: Whether slurm.conf names the script. V(null) when it names none, or nothing tells.
  type: bool
  returned: success
silences:
  description: The silences that are declared.
  type: list
  elements: dict
  returned: success
"""

import json

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

# Generated by "make docs" from the options of the resource health_gate (options.py); change them there.
SPEC = json.loads(r"""
{"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}, "drain": {"type": "bool",
"default": true}, "resume": {"type": "bool", "default": true}, "drain_after": {"type": "int", "default": 1},
"resume_after": {"type": "int", "default": 3}, "resumes_a_day": {"type": "int", "default": 3},
"proof": {"type": "bool", "default": true}, "proof_attempts": {"type": "int", "default": 3},
"proof_seconds": {"type": "float", "default": 0.0}, "unknown_drains": {"type": "bool", "default": false},
"drained_percent": {"type": "float", "default": 20.0}, "prolog": {"type": "bool", "default": true},
"epilog": {"type": "bool", "default": false}, "interval_seconds": {"type": "int", "default": 300},
"keep_powered": {"type": "bool", "default": false}, "keepalive": {"type": "list", "elements": "str",
"default": []}, "remedies": {"type": "list", "choices": ["restart_service", "reset_gpu", "reboot", "redeploy"],
"elements": "str", "default": []}, "remedy_attempts": {"type": "int", "default": 2},
"remedies_a_day": {"type": "int", "default": 4}, "remedied_percent": {"type": "float", "default": 10.0},
"remedy_units": {"type": "list", "elements": "str", "default": []}, "redeploy_command": {"type": "list",
"elements": "str", "default": []}, "redeploy_seconds": {"type": "int", "default": 900},
"textfile": {"type": "str", "default": ""}, "labels_file": {"type": "str", "default": ""},
"journal_folder": {"type": "str", "default": ""}, "kubernetes_node": {"type": "str", "default": ""},
"silences": {"type": "list", "elements": "dict", "options": {"finding": {"type": "str", "required": true},
"until": {"type": "str", "required": true}, "owner": {"type": "str", "required": true}, "reason": {"type": "str",
"required": true}, "nodes": {"type": "list", "elements": "str"}}, "default": []}, "thresholds": {"type": "dict",
"default": {}}, "without": {"type": "list", "elements": "str", "default": []}, "observe": {"type": "list",
"elements": "str", "default": []}, "settings": {"type": "dict", "options": {"acknowledged": {"type": "list",
"elements": "dict", "options": {"code": {"type": "int", "required": true}, "before": {"type": "str",
"required": true}, "pci_address": {"type": "str"}}}, "partition_keys": {"type": "list", "no_log": false,
"elements": "str"}, "tools": {"type": "dict", "options": {"nvbandwidth": {"type": "str"},
"all_reduce_perf": {"type": "str"}, "ib_write_bw": {"type": "str"}, "dcgmi": {"type": "str"},
"fio": {"type": "str"}}}, "compute_seconds": {"type": "float"}, "memory_test_seconds": {"type": "float"},
"scratch_probe_gibibytes": {"type": "float"}, "dcgm_level": {"type": "int"}, "hpl_output": {"type": "str"}},
"default": {}}, "overrules": {"type": "list", "elements": "dict", "options": {"until": {"type": "str",
"required": true}, "owner": {"type": "str", "required": true}, "reason": {"type": "str", "required": true},
"nodes": {"type": "list", "elements": "str"}}, "default": []}, "program": {"type": "str",
"default": "/etc/slurm/gpu_node_health_check"}, "timer": {"type": "bool", "default": true},
"by_timer": {"type": "bool", "default": false}}
""")


def main():
    node_command.main("health_gate", SPEC)


if __name__ == "__main__":
    main()

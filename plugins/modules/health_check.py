#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on this node: what is wrong, how sure that is, and what to do."""

from __future__ import annotations

DOCUMENTATION = r"""
module: health_check
short_description: Tell whether this node may take a job
description:
  - Runs the checks of a level, each under its own time limit, and gives one verdict. A check that hangs or fails is a finding and does
    not hold up the others.
  - The outcome is V(pass), V(warn), V(fail) or V(unknown). What could not be checked is V(unknown), with the reason, and never counts
    as a pass. An unknown machine is V(unknown), since it was compared with nothing.
  - A node that is not well is an answer and not an error of this module; O(fail_on) makes it one.
  - Changes nothing on the node. With O(record=true) the verdict is stored, with the counters that later ones are compared with.
  - What a node is held against is its declaration - C(/etc/gpu_node/node.json), with the profile that M(trainyard.gpu_node.node_profile)
    chose and what the other modules declared.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  level:
    description:
      - How much to check.
      - V(quick) is what is worth its milliseconds before each job. V(passive) reads more and loads nothing.
      - V(active) measures, on a node without jobs only - it uses the GPUs, the links and the scratch, and takes minutes.
    type: str
    choices: [quick, passive, active]
    default: passive
  only:
    description: Ids of checks, or patterns such as V(gpu_*), to run no others.
    type: list
    elements: str
    default: []
  without:
    description: Ids or patterns of checks to leave out. The verdict does not speak of them.
    type: list
    elements: str
    default: []
  fail_on:
    description:
      - The outcome from which on this module fails. V(unknown) includes V(fail), and V(warn) all three.
    type: str
    choices: [fail, unknown, warn, never]
    default: never
  proof:
    description:
      - Reach what this node has to prove before it takes jobs again, as M(trainyard.gpu_node.health_gate) has it - where it owes active
        checks after a fault, they are run whatever O(level) says, and the verdict counts for the gate. Not in check mode.
    type: bool
    default: false
  record:
    description:
      - Store counters and verdict in C(/var/lib/gpu_node/health), and write the files for Prometheus and Kubernetes that
        M(trainyard.gpu_node.health_gate) declared. Each run stores a verdict of its own, so it always reports a change. In check mode
        nothing is stored, and the change is reported all the same.
    type: bool
    default: false
  profile:
    description:
      - Compare the node with this profile instead of the declared one, with the keys C(name) and C(data) of the fact C(gpu_node_profile).
      - For check mode, in which M(trainyard.gpu_node.node_profile) declares nothing.
    type: dict
    suboptions:
      name: {description: The name of the profile., type: str, required: true}
      data: {description: What the profile says of such a machine., type: dict, required: true}
  seconds:
    description:
      - Time budget of all active checks together, in seconds. The checks that tell most per second run first, each with at least the
        shortest useful time. A check that gets too little time is not started, and has the finding C(not_covered), which is V(unknown).
      - It applies to O(level=active), and with O(proof=true) to the checks that the node owes; other levels ignore it. Without it the
        checks take the time that they need.
      - If it is too short for every check, the module fails with the shortest useful time.
    type: float
  call_timeout:
    description: Seconds that one call to NVML may take.
    type: float
    default: 10
attributes:
  check_mode:
    support: full
    description: The same verdict; nothing is stored. With O(record=true) it reports the change that a run would make.
  diff_mode:
    support: none
    description: There is nothing to show.
  idempotent:
    support: partial
    description: Reports a change only with O(record=true), and then always.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
"""

EXAMPLES = r"""
- name: This node may take a job
  trainyard.gpu_node.health_check:
    level: passive
    fail_on: unknown

- name: Validate an idle node in a minute
  trainyard.gpu_node.health_check:
    level: active
    seconds: 60
    fail_on: fail

- name: What the links and disks of an idle node give
  trainyard.gpu_node.health_check:
    level: active
    only: [host_device_bandwidth, scratch_rate]
  register: measured
"""

RETURN = r"""
verdict:
  description: The verdict. Its JSON has a published schema, see docs/verdict.schema.json.
  type: dict
  returned: success, and when O(fail_on) was reached
  contains:
    schema: {description: Name and version of this form., type: str, sample: trainyard.gpu_node/verdict/1}
    node: {description: The host name., type: str}
    time: {description: When it was given in seconds since 1970., type: float}
    level: {description: The level of checking., type: str}
    profile: {description: "The profile that the node was held against, or V(unknown).", type: str}
    outcome: {description: "V(pass), V(warn), V(unknown) or V(fail).", type: str}
    results:
      description: Every check that was run.
      type: list
      elements: dict
      contains:
        id: {description: The id of the check., type: str, sample: gpu_xid}
        title: {description: What a pass of it means., type: str}
        outcome: {description: Its outcome., type: str}
        seen: {description: What was looked at., type: str}
        seconds: {description: How long that took., type: float}
        findings:
          description: What is not as it should be.
          type: list
          elements: dict
          contains:
            outcome: {description: "V(warn), V(unknown) or V(fail).", type: str}
            thing: {description: What it is about., type: str, sample: "GPU 3 (0000:0b:00.0)"}
            reason: {description: What is wrong with it., type: str}
            remedy: {description: What to do., type: str}
            action:
              description: "The same for programs. V(watch), V(configure), V(restart_service), V(reset_gpu), V(reboot), V(replace) or V(look)."
              type: str
            certainty: {description: "How sure it is. V(certain), V(likely) or V(possible).", type: str}
            key: {description: "A name of the thing that stays, such as a PCI address.", type: str}
            code: {description: Which kind of finding of this check., type: str, sample: xid_79}
        measured:
          description: The figures that were read.
          type: list
          elements: dict
          contains:
            name: {description: The name with the unit., type: str, sample: temperature_celsius}
            value: {description: The figure., type: float}
            key: {description: What it was measured on., type: str}
            counter: {description: Whether it only grows., type: bool}
            better: {description: "V(higher), V(lower) or nothing.", type: str}
            parts: {description: "What a sum is of, such as the links that answered; sums of other parts are not compared.", type: str}
            labels: {description: "What its metric has beside check and key, such as GPU_I_ID of a GPU instance.", type: dict}
    not_applicable: {description: Checks that do not apply to this machine with the reason., type: dict}
    silenced: {description: Findings that somebody silenced with the silence., type: list, elements: dict}
    observed: {description: Findings that are only observed with the entry that says so., type: list, elements: dict}
    seconds: {description: How long all of it took., type: float}
outcome:
  description: The outcome of the verdict.
  type: str
  returned: as RV(verdict)
  sample: fail
findings:
  description: Everything that is wrong, a sentence each, the worst first.
  type: list
  elements: str
  returned: as RV(verdict)
owes:
  description:
    - With O(proof=true), the reason that this node has to be drained with after this look, as it owes the health gate a proof still;
      empty where it may come back. M(trainyard.gpu_node.slurm_node) takes it.
  type: str
  returned: as RV(verdict)
"""

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

SPEC = {
    "level": {"type": "str", "choices": ["quick", "passive", "active"], "default": "passive"},
    "only": {"type": "list", "elements": "str", "default": []},
    "without": {"type": "list", "elements": "str", "default": []},
    "fail_on": {"type": "str", "choices": ["fail", "unknown", "warn", "never"], "default": "never"},
    "proof": {"type": "bool", "default": False},
    "record": {"type": "bool", "default": False},
    "profile": {
        "type": "dict",
        "options": {"name": {"type": "str", "required": True}, "data": {"type": "dict", "required": True}},
    },
    "seconds": {"type": "float"},
    "call_timeout": {"type": "float", "default": 10},
}


def main():
    node_command.main("health_check", SPEC)


if __name__ == "__main__":
    main()

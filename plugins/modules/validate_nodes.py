#!/usr/bin/python
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run NCCL's tests between nodes until the bad node or pair has a name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validate_nodes
short_description: Run NCCL's tests between nodes until the bad node or pair has a name
description:
  - Tests each node in two pairs, then all nodes together. When they fall short, halves the set, tests the halves side by side, and goes on
    until the bad nodes or pairs are named. A set that falls short is run again, and the majority of its runs counts.
  - A node is named when it falls short with two partners that do well with others, and with nobody does well; two nodes are a bad pair
    when they fall short together in at least three runs and each does well with another twice.
  - Without O(busbw_min) sets are compared with sets of like size only, since two nodes may exceed the rate of their NICs; after the test of
    all nodes, halves of them are compared. The median of the pairs is not taken for less than what two nodes reach by the profile of the
    machine that this runs on, where it has such a figure.
  - Runs where jobs are started - on a login node of Slurm, or on a node from which C(mpirun) reaches the others.
  - The tests load the nodes. Take nodes without jobs; a job of Slurm waits for its nodes within O(seconds_per_test).
  - Changes nothing on the nodes.
version_added: 0.1.0
author: trainyard.gpu_node contributors (@trainyard)
options:
  nodes:
    description: Names of the nodes as the launcher knows them. Neighbours in this list are tested together first.
    type: list
    elements: str
    required: true
  launcher:
    description:
      - How a set of nodes is tested. V(slurm) submits O(script) with C(sbatch --wait) for exactly these nodes.
      - V(mpirun) runs O(script) with a file of host names as its argument.
      - V(command) runs O(command).
    type: str
    choices: [slurm, mpirun, command]
    default: slurm
  script:
    description:
      - Job script that runs NCCL's tests. M(trainyard.gpu_node.job_templates) makes C(nccl-all-reduce.slurm.sh),
        C(nccl-all-reduce.pyxis.sh) and C(nccl-all-reduce.mpirun.sh).
    type: path
  command:
    description:
      - The words of the command for O(launcher=command). It ends with status 0 and prints what NCCL's tests print.
      - C({nodes}) stands for the names with commas, C({count}) for how many, C({hostfile}) for a file with a name a line, C({output}) for
        a file that is read instead of what the command prints, C({script}) for O(script), C({minutes}) for the time limit and C({name})
        for a name of this test.
    type: list
    elements: str
    default: []
  cancel:
    description: The words of a command that ends a test past its time, with the same places. For O(launcher=slurm) it is C(scancel).
    type: list
    elements: str
    default: []
  pairwise:
    description: Test pairs of nodes first, each node in two or more. Needed where O(busbw_min) is not given.
    type: bool
    default: true
  busbw_min:
    description:
      - Bus bandwidth in GB/s that each set must reach at its best message size.
      - By default 89 % of what the faster sets of like size agree on. With fewer than six nodes, and no figure in the profile, the outcome
        is then never V(pass), and with fewer than five nothing is compared.
    type: float
  runs:
    description:
      - A set is good after so many good runs without a bad one. After a bad one the majority counts.
      - More find what comes and goes. With O(busbw_min) a node has three tests at least; one that fails in 30 % of its runs is not seen to
        fail in a third of the searches with 1, and in 4 % with 3 (by arithmetic).
    type: int
    default: 1
  parallel:
    description: How many tests may run at the same time. 0 for as many as have no node in common.
    type: int
    default: 0
  seconds_per_test:
    description: Seconds that one test may take, its time in a queue included.
    type: float
    default: 900
  rounds_max:
    description: The search ends after so many rounds, whatever was found by then.
    type: int
    default: 60
  folder:
    description:
      - Where files of the tests lie while it runs. For O(launcher=slurm) all nodes must see it.
      - By default the folder for temporary files.
    type: path
    default: ""
  record:
    description: JSON file with every test, written after each round. Empty for none. Not written in check mode.
    type: path
    default: ""
attributes:
  check_mode:
    support: full
    description: Runs nothing, and tells the first round.
  diff_mode:
    support: none
    description: There is nothing to show.
  idempotent:
    support: full
    description: Never reports a change.
extends_documentation_fragment:
  - trainyard.gpu_node.node_command
  - trainyard.gpu_node.attributes
seealso:
  - module: trainyard.gpu_node.job_templates
"""

EXAMPLES = r"""
- name: All nodes of a partition, compared with each other
  trainyard.gpu_node.validate_nodes:
    nodes: [gpu01, gpu02, gpu03, gpu04, gpu05, gpu06, gpu07, gpu08]
    script: /shared/gpu_node/jobs/nccl-all-reduce.slurm.sh
    folder: /shared/gpu_node
    record: /shared/gpu_node/validation.json

- name: By mpirun over ssh, against a figure
  trainyard.gpu_node.validate_nodes:
    nodes: "{{ groups['gpu_nodes'] }}"
    launcher: mpirun
    script: /shared/gpu_node/jobs/nccl-all-reduce.mpirun.sh
    busbw_min: 400
"""

RETURN = r"""
outcome:
  description: >-
    V(pass) when all did well together, V(fail) when a node, a pair or all together fall short, V(unknown) when it cannot be
    told who it is, when nothing says what healthy nodes reach, or when nodes are suspect, since they fell short in some runs only.
    In check mode V(unknown).
  type: str
  returned: success
lines:
  description: The result for people.
  type: list
  elements: str
  returned: success
bad_nodes:
  description: Nodes that fall short with different partners.
  type: list
  elements: str
  returned: success
bad_pairs:
  description: Nodes, or two groups of them, that fall short only together.
  type: list
  elements: dict
  returned: success
  contains:
    one: {description: The one side., type: list, elements: str}
    other: {description: The other side., type: list, elements: str}
proven:
  description: The largest set that did well together, without suspects and those of bad pairs. Empty when nothing was compared.
  type: list
  elements: str
  returned: success
busbw_limit_gigabytes_per_second:
  description: What two nodes had to reach. V(null) when nothing was compared.
  type: float
  returned: success
next_tests:
  description: In check mode, the sets of the first round.
  type: list
  elements: list
  returned: success
rounds:
  description: Every test in the order of the rounds.
  type: list
  elements: list
  returned: success
"""

from ansible_collections.trainyard.gpu_node.plugins.module_utils.front import node_command

SPEC = {
    "nodes": {"type": "list", "elements": "str", "required": True},
    "launcher": {"type": "str", "choices": ["slurm", "mpirun", "command"], "default": "slurm"},
    "script": {"type": "path"},
    "command": {"type": "list", "elements": "str", "default": []},
    "cancel": {"type": "list", "elements": "str", "default": []},
    "pairwise": {"type": "bool", "default": True},
    "busbw_min": {"type": "float"},
    "runs": {"type": "int", "default": 1},
    "parallel": {"type": "int", "default": 0},
    "seconds_per_test": {"type": "float", "default": 900},
    "rounds_max": {"type": "int", "default": 60},
    "folder": {"type": "path", "default": ""},
    "record": {"type": "path", "default": ""},
}


def main():
    node_command.main("validate_nodes", SPEC)


if __name__ == "__main__":
    main()

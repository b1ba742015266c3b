# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode hook``."""

from __future__ import annotations

import argparse

DETAILS = """slurmd sets what prolog and epilog need: SLURM_JOB_ID, SLURM_JOB_UID,
SLURM_JOB_GPUS, CUDA_VISIBLE_DEVICES, SLURMD_NODENAME and SLURM_CONF, beside
which gres.conf says which GPUs these are. What they do is declared by the role
trainyard.gpu_node.slurm_hooks.

exit status of prolog and epilog:
  0  all is well, or what failed holds no job (the logs have it)
  1  this node can take no job: it was drained, with a reason that begins with
     "gpu_node: "
that of health and proof: 0 pass, 1 fail, 3 warnings, 4 something could not be
checked, or nothing at all

examples:
  gpunode hook prolog    scratch checked, folder of the job made, clocks raised
  gpunode hook epilog    processes ended, clocks returned, folder removed
  gpunode hook resume    resume this node, if it was drained by these hooks and
                         what it was drained for is gone
  gpunode hook health    the passive checks, and drain or resume by them: what
                         HealthCheckProgram of slurm.conf runs
  gpunode hook proof     the active checks that a drained node owes after a
                         fault, and resume it when they pass
"""
SUMMARIES = (
    ("prolog", "before a job: the scratch is there, the clocks of its GPUs are up"),
    ("epilog", "after a job: nothing of it is left on its GPUs and on the scratch"),
    ("resume", "put this node back into service, if these hooks drained it"),
    ("health", "check this node, and drain it or put it back by what is found"),
    ("proof", "run what this node has to pass before it takes jobs again"),
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "What slurmd runs before and after each job on this node."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="event", metavar="EVENT", required=True)
    for name, summary in SUMMARIES:
        one = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        one.set_defaults(function="job_hooks.run")
        if name in ("resume", "health", "proof"):
            what = "NodeName of this node; found by slurmd's own rules without it"
            one.add_argument("--node", metavar="NAME", help=what)

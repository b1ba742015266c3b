# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode hook prolog|epilog|resume|health|proof``: what Slurm's hooks call, and the way back into service."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import sys
import syslog

from ..core.host import Host
from ..core.resource import NodeError, printable
from ..jobs.hooks import run as hook
from ..jobs.hooks.hook import Tell
from ..slurm.drain import RESUME
from ..slurm.types import Job
from .output import print_json

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "What slurmd runs before and after each job on this node."
    parser.epilog = DETAILS
    commands = parser.add_subparsers(dest="event", metavar="EVENT", required=True)
    for name, summary in SUMMARIES:
        one = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name in ("resume", "health", "proof"):
            what = "NodeName of this node; found by slurmd's own rules without it"
            one.add_argument("--node", metavar="NAME", help=what)


def _tell(event: str) -> Tell:
    """Into slurmd's log by standard error, and into the journal."""
    syslog.openlog("gpu_node", syslog.LOG_PID, syslog.LOG_DAEMON)
    job = os.environ.get("SLURM_JOB_ID", "")

    def tell(text: str) -> None:
        of_job = " of job " + job if job and event in ("prolog", "epilog") else ""
        line = printable("{0}{1}: {2}".format(event, of_job, text))
        print("gpunode: " + line, file=sys.stderr)
        syslog.syslog(syslog.LOG_WARNING, line)

    return tell


def _node(host: Host, arguments: argparse.Namespace) -> str:
    return arguments.node or _this_node(host)


def _this_node(host: Host) -> str:
    told = os.environ.get("SLURMD_NODENAME")
    if told:  # before each job, so that nothing is loaded for it
        return told
    from ..slurm import this_node

    return this_node.here(host).node_name


def _health(host: Host, node: str, tell: Tell, event: str, as_json: bool) -> int:
    """What it found is in its answer and in Slurm; Slurm does not look at the status of HealthCheckProgram."""
    from ..health.formats import EXIT_STATUS
    from ..health.types import Outcome
    from ..jobs.hooks import health  # not wanted by the other hooks

    watch = (health.prove if event == "proof" else health.watch)(host, node, tell)
    if as_json:
        print_json(watch.to_dict())
    else:
        print("{0}: {1}".format(node, watch.verdict))
        if watch.decision is not None:
            print("{0}: {1}: {2}".format(node, watch.decision["decision"]["action"], watch.decision["decision"]["why"]))
    return EXIT_STATUS[Outcome(watch.outcome)]


def run(host: Host, arguments: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise NodeError("gpunode hook", "only root may run it, as slurmd does", "run it as root")
    tell = _tell(arguments.event)
    if arguments.event in ("health", "proof"):
        try:
            return _health(host, _node(host, arguments), tell, arguments.event, arguments.json)
        except NodeError as error:
            # Nobody reads the output and the status of HealthCheckProgram.
            syslog.syslog(syslog.LOG_WARNING, printable("{0}: {1}".format(arguments.event, error)))
            raise
    if arguments.event == "resume":
        node = _node(host, arguments)
        status, report = hook.resume(host, node, tell)
        if not arguments.json and report.decision is not None and status == 0:
            verb = "resumed" if report.decision.action == RESUME else "left as it is"
            print("{0}: {1}: {2}".format(node, verb, report.decision.why))
    else:
        job = Job.from_environment(os.environ, _this_node(host))
        status, report = (hook.prolog if arguments.event == "prolog" else hook.epilog)(host, job, tell)
    if arguments.json:
        print_json(report.to_dict())
    return status

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode reset``: drain this node, and remove all that converges made."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import json
import os
import sys

from ..core.host import Host
from ..core.resource import Misuse, NodeError
from ..node import reset
from ..node.summary import lines
from .exit_status import DONE, NOT_DONE
from .version import VERSION

DETAILS = """Undoes all that converges made, in the order of reset.yml, on a node without a
controller. ALL DATA ON THE SCRATCH ARE LOST. It is refused while a job is on
the node, or a process computes on a GPU. The node is drained first and stays
drained: resume it by scontrol, or take it out of slurm.conf.

examples:
  gpunode reset --check               what would be undone; nothing is changed
  gpunode reset --yes                 drain, then undo it
  gpunode reset --yes --without-slurm slurmctld is gone for good
  gpunode reset --yes --without-nvml  the driver does not answer

exit status: 0 all is gone, 1 refused, or something is left, 2 wrong use,
75 a converge runs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Take away all that converges made of this node, after it was drained."
    parser.epilog = DETAILS
    parser.add_argument("--yes", action="store_true", help="lose the scratch; without it nothing is done")
    parser.add_argument("--check", action="store_true", help="tell what would be done; change nothing")
    told = "ask and drain nothing in Slurm; what this node itself knows of jobs counts"
    parser.add_argument("--without-slurm", action="store_true", help=told)
    told = "do not ask the driver who computes; who has /dev/nvidia-uvm open counts"
    parser.add_argument("--without-nvml", action="store_true", help=told)


def run(host: Host, arguments: argparse.Namespace) -> int:
    if not arguments.yes and not arguments.check:
        remedy = "run 'gpunode reset --check' first, then 'gpunode reset --yes'"
        raise Misuse("gpunode reset", "all data on the scratch are lost", remedy)
    if os.geteuid() != 0:
        raise NodeError("gpunode reset", "only root may do that", "run it as root")

    def tell(text: str) -> None:
        print(text, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    done = reset.run(host, VERSION, tell, arguments.check, not arguments.without_slurm, not arguments.without_nvml)
    report = done.report
    if arguments.json:
        print(
            json.dumps(dict(report.to_dict(), summary=lines(report, changed_only=True), drained=done.drained), indent=2)
        )
    else:
        for line in lines(report, changed_only=True):
            print(line.rstrip("\n"))
        if done.drained:
            print("the node stays drained: resume it by scontrol, or take it out of slurm.conf")
    return NOT_DONE if report.failures else DONE

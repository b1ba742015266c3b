# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode lease`` and ``gpunode reset``."""

from __future__ import annotations

import argparse

LEASE = """status  until when this node may be used, and how far its end is (default)
follow  what the timer runs: warn and reserve; at the end drain, reset and
        hand back

The lease is declared by the resource node_lease; a run of site.yml with a later
node_lease_until extends it. docs/node_lease.md tells what happens at the end.

examples:
  gpunode lease                       until when, and what will be done then
  gpunode lease --json                the same for programs

exit status: 0 it runs, or there is none; 1 it is over; for follow 0 also while
the end waits for something, 1 it cannot be followed
"""

RESET = """Undoes all that converges made, in the order of reset.yml, on a node without a
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


def lease(parser: argparse.ArgumentParser) -> None:
    _say(parser, "Tell until when this node may be used, and what becomes of it then.", LEASE)
    parser.add_argument("what", nargs="?", choices=["status", "follow"], default="status")
    parser.set_defaults(function="lease.run")


def reset(parser: argparse.ArgumentParser) -> None:
    _say(parser, "Take away all that converges made of this node, after it was drained.", RESET)
    parser.add_argument("--yes", action="store_true", help="lose the scratch; without it nothing is done")
    parser.add_argument("--check", action="store_true", help="tell what would be done; change nothing")
    told = "ask and drain nothing in Slurm; what this node itself knows of jobs counts"
    parser.add_argument("--without-slurm", action="store_true", help=told)
    told = "do not ask the driver who computes; who has /dev/nvidia-uvm open counts"
    parser.add_argument("--without-nvml", action="store_true", help=told)
    parser.set_defaults(function="lease.reset")


def _say(parser: argparse.ArgumentParser, description: str, details: str) -> None:
    parser.description = description
    parser.epilog = details
    parser.formatter_class = argparse.RawDescriptionHelpFormatter

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode events``."""

from __future__ import annotations

import argparse

DETAILS = """show    the events that are pending for this node, whether it is drained for
        them, and what happened lately; changes nothing, and waits a second
        at most
once    ask and act once: drain, resume, or leave the node
follow  the same, again and again; gpu-node-cloud_events.service runs it

examples:
  gpunode events                what is pending
  gpunode events --json         the same, for programs
  gpunode events once           act on it now, as where no service runs

exit status: 0 asked and answered, or nobody is to be asked; 1 no answer, or a
file of this node that cannot be read
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show what the cloud has announced for this machine, or act on it."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", nargs="?", choices=["show", "once", "follow"], default="show")
    parser.add_argument("--node", metavar="NAME", default="", help="name of this node in slurm.conf")
    parser.set_defaults(function="events.run")

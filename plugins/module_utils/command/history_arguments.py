# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode history``."""

from __future__ import annotations

import argparse

DETAILS = """What it owes before it takes jobs again, when it was drained and resumed for
its health, which remedies were tried, and the faults of each GPU, disk, port
and service, across reboots. It reads files of this node alone and changes
nothing; 'gpunode health' looks at the node as it is now.

examples:
  gpunode history                all that this node remembers
  gpunode history --brief        one line, for many nodes side by side
  gpunode history --json         the same for programs

exit status:
  0  told, also where nothing has happened yet
  1  a file could not be read; what the others say is told all the same
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show what happened to this node and its parts, and what it owes."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--brief", action="store_true", help="one line")
    what = "NodeName of this node; found by slurmd's own rules without it"
    parser.add_argument("--node", metavar="NAME", default="", help=what)
    parser.set_defaults(function="history.run")

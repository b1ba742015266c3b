# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode remedy``."""

from __future__ import annotations

import argparse
from typing import Optional

DETAILS = """Off by default: what may be tried is declared by health_gate_remedies of the
role trainyard.gpu_node.health_gate. Nothing is tried but on a node that the
gate drained for its health and that has no job. The node is not resumed here.

examples:
  gpunode remedy --check         which remedy would be tried, and all its steps
  gpunode remedy                 try it; gpu-node-remedy.service runs this
  gpunode remedy status          what was tried, and whether the breaker is
                                 latched
  gpunode remedy release --by anna
                                 let remedies be tried again, from the first

exit status:
  0  done, or nothing is tried; release: also where nothing was latched, and
     it says so
  1  a step failed, or the breaker was latched; status: it is
  2  wrong usage
  75 another remedy runs on this node
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "What this node tries by itself on a part that failed."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--check", action="store_true", help="tell what would be done; change nothing")
    _node(parser, None)
    parser.set_defaults(function="remedy.run")
    commands = parser.add_subparsers(dest="what", metavar="status|release")
    status = commands.add_parser("status", help="what was tried, and the breaker", description="Tell what was tried.")
    _node(status)
    status.set_defaults(function="remedy.status")
    release = commands.add_parser("release", help="release the breaker", description="Release the breaker.")
    release.add_argument("--by", metavar="NAME", required=True, help="who has looked and answers for it")
    _node(release)
    release.set_defaults(function="remedy.release")


def _node(parser: argparse.ArgumentParser, default: Optional[str] = argparse.SUPPRESS) -> None:
    """Suppressed: an inner parser's own default would undo "remedy --node NAME status"."""
    what = "NodeName of this node; found by slurmd's own rules without it"
    parser.add_argument("--node", metavar="NAME", help=what, default=default)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode undo``: remove what converges made of this node."""

from __future__ import annotations

import argparse
import os

from ..core.host import Host
from ..core.resource import Misuse, NodeError
from ..node import reset
from ..node.converge import Request
from .converge import add_common, carry_out, request_of

DETAILS = """All data on the scratch are lost. The resources that the declaration names go,
in the opposite order of converge, then the declaration and the node command.

examples:
  gpunode undo --check           what would be taken away
  gpunode undo --yes             remove all of it
  gpunode undo --only nccl --yes
                                 remove one resource

It is refused while a job runs on the node, a process computes on a GPU, or a
process has a file open on the scratch. 'gpunode reset' drains the node first.

exit status: 0 all is gone, 1 something is left, 2 wrong use, 75 a converge runs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Take away what converges made of this node."
    parser.epilog = DETAILS
    add_common(parser)
    parser.add_argument("--yes", action="store_true", help="confirm that the scratch is lost; required without --check")


def run(host: Host, arguments: argparse.Namespace) -> int:
    request = request_of(host, arguments, undo=True)
    _confirm(host, arguments, request)
    return carry_out(host, arguments, request)


def _confirm(host: Host, arguments: argparse.Namespace, request: Request) -> None:
    """
    :raises Misuse: it was not confirmed.
    :raises NodeError: the node is in use.
    """
    if arguments.check:
        return
    if not arguments.yes:
        remedy = "run 'gpunode undo --check' first, then repeat the command with --yes"
        raise Misuse("gpunode undo", "it removes what converges made, and all data on the scratch are lost", remedy)
    if os.geteuid() != 0:
        raise NodeError("gpunode undo", "only root may do that", "run it as root")
    reset.refuse_in_use(host, request)

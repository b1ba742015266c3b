# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode boot``: the converge of each boot, for people and for slurmd; and how to disable it."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
from typing import Any, Dict

from ..core.converge_record import Standing
from ..core.host import Host
from ..core.resource import NodeError
from ..node import own
from .exit_status import BUSY, DONE, NOT_DONE
from .output import print_json

DETAILS = """status   how the last converge ended, and when
disable  converge at no boot any more, and let slurmd start without it; what
         was made of the node stays
admit    what slurmd asks before it starts: status 0 lets it

To converge at each boot: gpunode converge --install

exit status: 0 ready, 1 not ready, 75 a converge runs; for disable 0 done, 1 not
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "See or end the converge of each boot."
    parser.epilog = DETAILS
    parser.add_argument("what", choices=["status", "disable", "admit"])


def run(host: Host, arguments: argparse.Namespace) -> int:
    if arguments.what == "disable":
        if os.geteuid() != 0 and host.root == "/":
            raise NodeError("gpunode boot disable", "only root may do that", "run it as root")
        own.remove(host)
        text = "removed: the boot unit and its record. Applied configuration stays; 'gpunode undo --yes' removes it."
        return _answer(arguments, {"removed": True}, text)
    admitted = own.admitted(host)
    if arguments.what == "admit" and admitted:
        return _answer(arguments, {"admitted": True}, "")
    standing, text = own.status(host)
    status = {Standing.READY: DONE, Standing.RUNNING: BUSY}.get(standing, NOT_DONE)
    return _answer(arguments, {"admitted": admitted, "status": standing.value, "message": text}, text, status)


def _answer(arguments: argparse.Namespace, content: Dict[str, Any], text: str, status: int = DONE) -> int:
    if arguments.json:
        print_json(content)
    elif text:
        print(text)
    return status

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode metrics``: what the GPUs do, as a file for the textfile collector of Prometheus' node exporter."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import sys

from ..core import declaration, managed_files
from ..core.frozen import replaced
from ..core.host import Host
from ..core.options import of_section
from ..core.resource import NodeError
from ..facts.nvml.status import Status
from ..metrics import look, render
from ..metrics.settings import ACTIVITY_RANGE, NVML, SECTION, Settings
from ..metrics.types import Seen
from .arguments import within
from .exit_status import DONE, NOT_DONE
from .output import print_json

_ANSWERS = (Status.OK.value, Status.PARTIAL.value, Status.NO_GPU.value)
DETAILS = """show   what Prometheus' node exporter would be given, on standard output;
       changes nothing
write  the same into the declared file; gpu-node-gpu_metrics.timer runs it

Where dcgm-exporter tells of the GPUs, nothing is written: its metrics are at
its own port. docs/metrics.md has every metric with unit and labels.

examples:
  gpunode metrics                     the metrics of all GPUs
  gpunode metrics --activity 5        count activity for 5 seconds
  gpunode metrics | grep tensor       what tensor cores do now

exit status: 0 told or written, also with GPUs that are lost, which is told by
gpu_node_gpu_up; 1 not written, or NVML does not answer
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tell what the GPUs do, as metrics for Prometheus."
    parser.epilog = DETAILS
    parser.add_argument("what", nargs="?", choices=["show", "write"], default="show")
    parser.add_argument(
        "--activity",
        type=float,
        metavar="SECONDS",
        help="how long activity is counted, from 0.1 to 10 (Hopper and newer); as declared, or 1",
    )


def run(host: Host, arguments: argparse.Namespace) -> int:
    settings = of_section(Settings, declaration.read(host).get(SECTION))
    if arguments.activity is not None:
        within("--activity", arguments.activity, ACTIVITY_RANGE, "seconds")
        settings = replaced(settings, activity_seconds=arguments.activity)
    if arguments.what == "write":
        return _write(host, settings)
    seen = look.look(host, settings.activity_seconds)
    if arguments.json:
        print_json(render.document(seen))
    else:
        print(render.render(seen), end="")
    return _status(seen)


def _write(host: Host, settings: Settings) -> int:
    if os.geteuid() != 0:
        raise NodeError("gpunode metrics write", "only root may run it", "run it as root")
    if settings.source != NVML or not settings.textfile:
        raise NodeError(
            "gpunode metrics write",
            "no file of metrics is declared for this node",
            "converge it with gpu_metrics (source nvml), or run 'gpunode metrics' to see them",
        )
    # Two looks at once would count each other's activity, and the second has nothing new to tell.
    with host.lock(SECTION, 5.0):
        seen = replaced(look.look(host, settings.activity_seconds), interval_seconds=settings.interval_seconds)
        note = managed_files.write_beside(host, settings.textfile, render.render(seen))
    if note is not None:
        print("gpunode: {0}".format(note), file=sys.stderr)
        return NOT_DONE
    return _status(seen)


def _status(seen: Seen) -> int:
    """Where NVML does not answer there are metrics that say so, and a sentence."""
    for note in seen.notes:
        print("gpunode: {0}".format(note), file=sys.stderr)
    return DONE if seen.status in _ANSWERS else NOT_DONE

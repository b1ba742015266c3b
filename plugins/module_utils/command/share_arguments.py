# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode share``."""

from __future__ import annotations

import argparse

from . import gpu_argument
from .watch_argument import seconds_from

DETAILS = """For each GPU, from what was measured while it worked:
  dedicated        what runs fills it, or leaves too little for a second one
  time-slice x N   N such workloads can take turns (Kubernetes: replicas;
                   Slurm: shards), for a loss, and nothing keeps them apart
  mig N x PROFILE  N such workloads can have an instance each (MIG)
  not enough seen  it was idle, is divided already, or the look was too short

What was not running was not seen. Nothing is changed. ^C ends the look, and
what was seen until then counts.

exit status: 0 looked at, 1 a GPU or the driver does not answer, 2 wrong use

examples:
  gpunode share advise                 all GPUs, for a minute
  gpunode share advise --seconds 3600 --interval 5
                                       an hour of a notebook user
  gpunode share advise 0 1 --json      two of them, for programs
"""
# A look of a day, every half a minute.
MOST_SECONDS, MOST_INTERVAL, MOST_SAMPLES = 86400, 60, 3600
# NVML's counters of activity should be read more than 0.1 seconds apart.
LEAST_INTERVAL = 0.2


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "How the GPUs of this node can be shared."
    what = parser.add_subparsers(metavar="advise", required=True)
    told = "advise on each GPU: dedicated, time-slicing or shards, or MIG"
    one = what.add_parser(
        "advise",
        help=told,
        description="Look at the GPUs for a while, and advise on each how to share it.",
        epilog=DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("gpus", nargs="*", metavar="GPU", help="only these, as with --gpu")
    gpu_argument.add(one)
    one.add_argument(
        "--seconds",
        type=seconds_from(1, MOST_SECONDS),
        default=60.0,
        metavar="SECONDS",
        help="how long to look (default: 60)",
    )
    one.add_argument(
        "--interval",
        type=seconds_from(LEAST_INTERVAL, MOST_INTERVAL),
        default=1.0,
        metavar="SECONDS",
        help="from one sample to the next (default: 1)",
    )
    one.set_defaults(function="share.run")

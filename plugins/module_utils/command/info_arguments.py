# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode info``."""

from __future__ import annotations

import argparse

from . import gpu_argument, watch_argument

DETAILS = """Columns: temperature (Celsius), power and its limit, clocks (graphics + memory),
memory used and total, utilisation (MIG: a partitioned GPU has none as a
whole), persistence mode. Below them, the processes on the GPUs, with the Slurm
job or the container that they belong to.

examples:
  gpunode info                    all GPUs, once
  gpunode info --watch            again every 2 seconds, until ^C
  gpunode info --watch 10 --json  a line of JSON every 10 seconds, for programs
  gpunode info --gpu 0,1          two of them
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the GPUs of this node, and what runs on them."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    gpu_argument.add(parser)
    watch_argument.add(parser, 2)
    parser.set_defaults(function="show_gpus.run")

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode metrics``."""

from __future__ import annotations

import argparse

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


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tell what the GPUs do, as metrics for Prometheus."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", nargs="?", choices=["show", "write"], default="show")
    parser.add_argument(
        "--activity",
        type=float,
        metavar="SECONDS",
        help="how long activity is counted, from 0.1 to 10 (Hopper and newer); as declared, or 1",
    )
    parser.set_defaults(function="metrics.run")

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode timeline``."""

from __future__ import annotations

import argparse

GIBIBYTES, MOST_GIBIBYTES = 4.0, 1024.0
DETAILS = """Horovod writes the file on rank 0 when HOROVOD_TIMELINE names it. It may be of a
job that runs or was killed. Each tensor counts with the time it spent in each
phase; tensors that are fused go through a phase together. So shares say what
tensors wait for, and not how long the job took.

  negotiation       until all ranks are ready for the tensor: slow ranks, data
  waiting for data  until the GPU has computed it, or others of its batch
  queued            until the operation before it has ended
  copies            into and out of the fusion buffer
  NCCL, MPI, ...    the operation itself

exit status: 0 read, 1 it cannot be read or has no phase, 2 wrong use

examples:
  gpunode timeline timeline.json
  gpunode timeline timeline.json --json | jq .groups
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Where the time of a Horovod job went, from its timeline."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", metavar="FILE", help="what HOROVOD_TIMELINE named")
    parser.add_argument(
        "--most", type=float, default=GIBIBYTES, metavar="GIB", help="read so much of it at most (default: 4)"
    )
    parser.set_defaults(function="timeline.run")

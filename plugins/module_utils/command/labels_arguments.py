# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode labels``."""

from __future__ import annotations

import argparse

from ..metrics.labels.settings import INTERVAL_SECONDS, MIG_NONE, STRATEGIES

DETAILS = """One label a line, as Node Feature Discovery reads them from a file in
/etc/kubernetes/node-feature-discovery/features.d. What cannot be read has no
label, and why is told on standard error.

  trainyard.io/numa-nodes            NUMA nodes with processors
  trainyard.io/scratch-ready         the declared scratch is mounted, writable
  trainyard.io/scratch-gib           its size
  trainyard.io/infiniband-ports      InfiniBand ports that are active
  trainyard.io/infiniband-rate-gbps  the rate of the slowest of these
  trainyard.io/mig-layout            how the GPUs are divided: 1g.10gb-x7

examples:
  gpunode labels                           what the labels would be
  gpunode labels --gfd                     those of NVIDIA's GPU feature
                                           discovery, too
  gpunode labels --gfd --mig-strategy mixed --sharing time-slicing=4
                                           as its device plugin is configured
  gpunode labels -o FILE --valid 600       into a file; gone after 10 minutes

exit status: 0 told or written; 1 not written, or without the labels of the
GPUs: NVML does not answer, or GPU feature discovery has its own file there; 2
wrong use
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tell what this node has, as labels of a Kubernetes node."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--gfd", action="store_true", help="add the labels nvidia.com/*, for a cluster without GPU feature discovery"
    )
    parser.add_argument(
        "--mig-strategy",
        choices=STRATEGIES,
        default=MIG_NONE,
        help="of the device plugin, for --gfd: none (its own default), single or mixed",
    )
    parser.add_argument(
        "--sharing",
        action="append",
        default=[],
        metavar="WAY[:RESOURCE]=N",
        help="how the device plugin shares, for --gfd: time-slicing=4, mps=2, time-slicing:nvidia.com/mig-1g.10gb=2; "
        "again for each resource",
    )
    parser.add_argument("--renamed", action="store_true", help="it offers what is shared as RESOURCE.shared")
    parser.add_argument("-o", "--output", metavar="FILE", help="write them into this file, in one step")
    parser.add_argument(
        "--valid",
        type=float,
        metavar="SECONDS",
        help="how long they hold, from 60 to 604800; 2.5 times {0} if not given".format(INTERVAL_SECONDS),
    )
    parser.set_defaults(function="labels.run")

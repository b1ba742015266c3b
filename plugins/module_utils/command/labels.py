# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode labels``: what this node has, as labels of a Kubernetes node."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Dict

from ..core.host import Host
from ..core.resource import Misuse, sentence
from ..metrics.labels import file, own, rules
from ..metrics.labels.look import look
from ..metrics.labels.settings import INTERVAL_SECONDS, MIG_NONE, STRATEGIES, VALID_RANGE
from .arguments import as_typed, within
from .exit_status import DONE, NOT_DONE
from .output import print_json

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tell what this node has, as labels of a Kubernetes node."
    parser.epilog = DETAILS
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


def run(host: Host, arguments: argparse.Namespace) -> int:
    valid = INTERVAL_SECONDS * rules.VALID_INTERVALS if arguments.valid is None else arguments.valid
    within("--valid", valid, VALID_RANGE, "seconds")
    if not arguments.gfd and (arguments.sharing or arguments.renamed):
        given = "--sharing" if arguments.sharing else "--renamed"
        raise Misuse("option " + given, "it only counts for the labels of --gfd", "give --gfd, or leave it out")
    path = None if arguments.output is None else os.path.abspath(arguments.output)
    before = "" if path is None else file.before(host, path)
    taken = file.of_others(host, path) if arguments.gfd and path is not None else ""
    facts = look(host, arguments.gfd)
    notes, now = list(facts.notes), time.time()
    found: Dict[str, str] = own.labels(facts)
    if taken:
        reason = "GPU feature discovery has its file there, so its labels nvidia.com/* are not written a second time"
        notes.append(sentence(taken, reason, "leave out --gfd, or remove GPU feature discovery and its file"))
    elif arguments.gfd:
        from ..metrics.labels import gfd, sharing  # seldom wanted

        words = [word for one in arguments.sharing for word in ("--sharing", one)]
        with as_typed(*words, *(["--renamed"] if arguments.renamed else [])):
            shared = sharing.of_words(arguments)
        of_gpus, why = gfd.labels(facts, arguments.mig_strategy, shared, now)
        found.update(of_gpus)
        notes += why
    good, wrong = file.checked(found)
    good = file.steady(good, before)
    notes += wrong
    text = rules.render(good, now + valid)
    if path is not None:
        file.write(host, path, text)
    if arguments.json:
        print_json({"labels": good, "notes": notes, "expires": int(now + valid), "file": path})
    else:
        for note in notes:
            print("gpunode: {0}".format(note), file=sys.stderr)
        if path is None:
            print(text, end="")
    return DONE if facts.answers and not taken else NOT_DONE

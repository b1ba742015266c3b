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
from ..metrics.labels.settings import INTERVAL_SECONDS, VALID_RANGE
from .status import DONE, NOT_DONE
from .table import print_json
from .typed import as_typed, within


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

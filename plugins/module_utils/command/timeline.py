# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode timeline``: where the time of a Horovod job went."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
from typing import Any, Dict, List

from ..core.frozen import plain
from ..core.host import Host
from ..core.resource import Misuse, NodeError, printable
from ..core.units import size
from ..gpus.sharing.timeline import read, sums
from .exit_status import DONE
from .output import print_json, table, wrapped

HEAD = ("PHASE", "SHARE", "TIME", "COUNT", "MEAN", "LONGEST")
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Where the time of a Horovod job went, from its timeline."
    parser.epilog = DETAILS
    parser.add_argument("file", metavar="FILE", help="what HOROVOD_TIMELINE named")
    parser.add_argument(
        "--most", type=float, default=GIBIBYTES, metavar="GIB", help="read so much of it at most (default: 4)"
    )


def run(dummy: Host, arguments: argparse.Namespace) -> int:
    """:raises NodeError: it cannot be read, or there is no phase in it."""
    if not 0 < arguments.most <= MOST_GIBIBYTES:
        reason = "{0:g} GiB cannot be read".format(arguments.most)
        raise Misuse("option --most", reason, "give more than 0, and {0:g} at most".format(MOST_GIBIBYTES))
    damage, total = read.Damage(), sums.Sums()
    for event in read.events(os.path.abspath(arguments.file), int(arguments.most * 2**30), damage):
        total.add(event)
    found = total.summary()
    if not found.phases:
        reason = "it has {0} events, and no phase of Horovod that ended".format(found.events)
        raise NodeError(arguments.file, reason, "name the file that HOROVOD_TIMELINE named, of a job that has trained")
    notes = [*found.notes, *_damage(damage, total)]
    if arguments.json:
        print_json(_document(found, notes))
    else:
        print("\n".join(_lines(arguments.file, found, notes)))
    return DONE


def _damage(damage: read.Damage, total: sums.Sums) -> List[str]:
    told = []
    if damage.truncated:
        told.append("the file ends in the middle of an event: the job was killed, or still writes")
        damage.objects -= 1
    if damage.objects + total.odd:
        told.append("{0} events could not be read and count for nothing".format(damage.objects + total.odd))
    if total.left_open:
        told.append("{0} phases had not ended and count for nothing".format(total.left_open))
    if total.beyond:
        told.append("there are too many tensors; {0} events count for nothing".format(total.beyond))
    if damage.unread:
        told.append("{0} of it were not read; give a larger --most".format(size(damage.unread)))
    return told


def _lines(path: str, found: sums.Summary, notes: List[str]) -> List[str]:
    head = "{0}: {1} events of {2} tensors in {3}".format(path, found.events, found.tensors, _time(found.seconds))
    rows: List[List[object]] = []
    for name in sums.GROUPS:
        phases = [one for one in found.phases if one.group == name]
        if phases:
            rows.append([name, _percent(found.share_of(name)), _time(found.seconds_of(name)), *[None] * 3])
        for one in phases:
            mean = one.seconds / one.count
            row = ["  " + one.name, _percent(one.share), _time(one.seconds), one.count, _time(mean), _time(one.longest)]
            rows.append(row)
    return [wrapped(printable(head)), *table(HEAD, rows)] + [wrapped(printable("note: " + one)) for one in notes]


def _percent(share: float) -> str:
    return "{0:.1f}%".format(100 * share)


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return "{0:.{1}f} {2}".format(seconds * factor, 1 if seconds * factor < 1000 else 0, unit)
    return "{0:.0f} us".format(seconds * 1e6)


def _document(found: sums.Summary, notes: List[str]) -> Dict[str, Any]:
    return dict(
        plain(found),
        notes=notes,
        groups={
            name: {"seconds": found.seconds_of(name), "share": found.share_of(name)}
            for name in sums.GROUPS
            if any(one.group == name for one in found.phases)
        },
        nccl=any(one.group == sums.NCCL for one in found.phases),
    )

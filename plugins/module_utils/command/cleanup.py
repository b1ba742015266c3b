# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode cleanup``: what was left on this node, and its removal."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..core import declaration
from ..core.frozen import replaced
from ..core.host import Host
from ..core.options import of_section
from ..core.resource import NodeError
from ..jobs.leftovers.judge import judge, removed
from ..jobs.leftovers.look import look
from ..jobs.leftovers.remove import remove
from ..jobs.leftovers.types import KEEP, KINDS, LIST, REMOVE, SECTION, Judged, Leftover, Settings
from .exit_status import DONE, NOT_DONE
from .output import print_json, size, table, wrapped

# So many of a kind are told one by one; --json has all.
_MOST_LINES = 20
DETAILS = """kinds:
  job_folders         folders of jobs on the scratch whose job is over
  containers          folders of enroot of users without a job here
  environments        former builds of environments on the scratch, unused
  core_dumps          core dumps in folders of root's
  tmp_files           files in /tmp and /dev/shm of users without a process here
  clocks              clocks that are held on a GPU that no job has
  gpu_processes       processes on GPUs that are of no job: told, never touched
  stopped_containers  containers of docker and podman: told, never touched

Removed is only what the records of this node, Slurm or the kernel prove free.
While a job runs, nothing that it could need goes. How old things have to be is
declared by the resource cleanup (docs/cleanup.md).

examples:
  gpunode cleanup --check               what would go, and why the rest stays
  gpunode cleanup                       remove it
  gpunode cleanup --kind tmp_files      only this; may be repeated

exit status: 0 done; 1 something could not be looked at or removed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Remove what jobs and users left on this node, where it is proven free."
    parser.epilog = DETAILS
    parser.add_argument("--check", action="store_true", help="tell what would be done; change nothing")
    parser.add_argument("--kind", action="append", default=[], choices=KINDS, metavar="KIND", help="only this kind")


def run(host: Host, arguments: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise NodeError("gpunode cleanup", "only root sees whose files are free", "run it as root")
    settings = of_section(Settings, declaration.read(host).get(SECTION))
    if arguments.kind:
        settings = replaced(settings, kinds=tuple(one for one in KINDS if one in arguments.kind))
    seen = look(host, settings)
    found = judge(seen, settings)
    done = () if arguments.check else remove(host, removed(found))
    stayed: Mapping[Leftover, str] = {one.leftover: one.why for one in done if one.why}
    found = tuple(Judged(one.leftover, KEEP, stayed[one.leftover]) if one.leftover in stayed else one for one in found)
    if arguments.json:
        print_json(_plain(found, seen.notes, arguments.check))
    else:
        print("\n".join(_lines(found, arguments.check)))
        for note in seen.notes:
            print(wrapped("not known: " + note), file=sys.stderr)
    return NOT_DONE if seen.notes or any(one.failed for one in done) else DONE


def _sum(some: Sequence[Judged]) -> int:
    return sum(one.leftover.size_bytes or 0 for one in some)


def _by_kind(found: Sequence[Judged]) -> List[Tuple[str, List[Judged], List[Judged]]]:
    """(kind, what goes, what stays)"""
    kinds = [kind for kind in KINDS if any(one.leftover.kind == kind for one in found)]
    of = {kind: [one for one in found if one.leftover.kind == kind] for kind in kinds}
    return [
        (kind, [one for one in some if one.outcome == REMOVE], [one for one in some if one.outcome != REMOVE])
        for kind, some in of.items()
    ]


def _lines(found: Sequence[Judged], check: bool) -> List[str]:
    if not found:
        return ["nothing was left here"]
    rows = [(kind, len(free), size(_sum(free)), len(kept), size(_sum(kept))) for kind, free, kept in _by_kind(found)]
    lines = table(("KIND", "FREE", "SIZE", "KEPT", "SIZE"), rows)
    words = {REMOVE: "would go" if check else "removed", KEEP: "stays", LIST: "left alone"}
    for _kind, free, kept in _by_kind(found):
        for some in (free, kept):
            for one in some[:_MOST_LINES]:
                lines.append(wrapped("{0}: {1}; {2}".format(words[one.outcome], one.leftover.what, one.why)))
            if len(some) > _MOST_LINES:
                lines.append("and {0} more".format(len(some) - _MOST_LINES))
    return lines


def _plain(found: Sequence[Judged], notes: Sequence[str], check: bool) -> Dict[str, Any]:
    items = [
        {
            "kind": one.leftover.kind,
            "what": one.leftover.what,
            "outcome": one.outcome,
            "why": one.why,
            "size_bytes": one.leftover.size_bytes,
            "idle_seconds": round(one.leftover.idle_seconds),
        }
        for one in found
    ]
    kinds = {kind: {"free_bytes": _sum(free), "kept_bytes": _sum(kept)} for kind, free, kept in _by_kind(found)}
    return {"check": check, "kinds": kinds, "leftovers": items, "notes": list(notes)}

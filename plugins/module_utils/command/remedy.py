# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode remedy``: which remedy would be tried, trying it, what was tried, and the release of the breaker."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import syslog
from typing import Any, Callable, Dict, Optional

from ..core.frozen import plain
from ..core.host import Host
from ..core.resource import Misuse, NodeError, printable
from ..health.attempts import RELEASE, Attempt, Record
from ..health.events.types import utc
from ..health.gate.settings import Settings
from ..health.remedies import run as remedies
from ..slurm import this_node
from .exit_status import DONE, NOT_DONE
from .output import print_json

_NAME_LETTERS = 64
DETAILS = """Off by default: what may be tried is declared by health_gate_remedies of the
role trainyard.gpu_node.health_gate. Nothing is tried but on a node that the
gate drained for its health and that has no job. The node is not resumed here.

examples:
  gpunode remedy --check         which remedy would be tried, and all its steps
  gpunode remedy                 try it; gpu-node-remedy.service runs this
  gpunode remedy status          what was tried, and whether the breaker is
                                 latched
  gpunode remedy release --by anna
                                 let remedies be tried again, from the first

exit status:
  0  done, or nothing is tried; release: also where nothing was latched, and
     it says so
  1  a step failed, or the breaker was latched; status: it is
  2  wrong usage
  75 another remedy runs on this node
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "What this node tries by itself on a part that failed."
    parser.epilog = DETAILS
    parser.add_argument("--check", action="store_true", help="tell what would be done; change nothing")
    _add_node(parser, None)
    commands = parser.add_subparsers(dest="what", metavar="status|release")
    status = commands.add_parser("status", help="what was tried, and the breaker", description="Tell what was tried.")
    _add_node(status)
    release = commands.add_parser("release", help="release the breaker", description="Release the breaker.")
    release.add_argument("--by", metavar="NAME", required=True, help="who has looked and answers for it")
    _add_node(release)


def _add_node(parser: argparse.ArgumentParser, default: Optional[str] = argparse.SUPPRESS) -> None:
    """Suppressed: an inner parser's own default would undo "remedy --node NAME status"."""
    what = "NodeName of this node; found by slurmd's own rules without it"
    parser.add_argument("--node", metavar="NAME", help=what, default=default)


def run(host: Host, arguments: argparse.Namespace) -> int:
    return {"status": _status, "release": _release}.get(arguments.what, _try)(host, arguments)


def _try(host: Host, arguments: argparse.Namespace) -> int:
    _root()
    report = remedies.run(host, node_name(host, arguments), _tell(), arguments.check)
    planned = report.planned
    failed = report.failed or bool(planned.latch)
    if arguments.json:
        print_json(report.to_dict())
    elif not planned.remedy:
        print("no remedy: {0}".format(printable(planned.why)))
    elif arguments.check:
        print("would try {0} of {1}: {2}".format(planned.remedy, planned.part, printable(planned.finding)))
        for step in (*planned.steps, *planned.after):
            print("  " + printable(step.describe()))
    else:
        print("{0} of {1}: {2}".format(planned.remedy, planned.part, printable(report.outcome)))
    return NOT_DONE if failed else DONE


def _status(host: Host, arguments: argparse.Namespace) -> int:
    _root()
    record, settings, others = remedies.seen(host, node_name(host, arguments))
    if arguments.json:
        print_json(_document(record, settings, others))
    else:
        print("remedies that are on: {0}".format(", ".join(settings.remedies) or "none"))
        print("breaker: {0}".format("latched, {0}; {1}".format(record.held, RELEASE) if record.held else "not latched"))
        if record.released:
            print("released last by: {0}".format(printable(record.released)))
        print("other nodes: {0}".format(printable(others)))
        for one in record.attempts:
            print(printable(told(one)))
    return NOT_DONE if record.held else DONE


def _release(host: Host, arguments: argparse.Namespace) -> int:
    _root()
    by = arguments.by.strip()
    if not by or not by.isprintable() or len(by) > _NAME_LETTERS:
        remedy = "give the name of who has looked, of at most {0} printable letters".format(_NAME_LETTERS)
        raise Misuse("--by", "{0!r} is no name".format(arguments.by), remedy)
    done = remedies.release(host, node_name(host, arguments), by, _tell())
    who = done.record.released or None
    if arguments.json:
        told: Dict[str, Any] = {"released": who if done.changed else None, "latched": done.was or None}
        print_json(dict(told, changed=done.changed))
    elif not done.changed:
        print("the breaker is not latched and no attempt counts, so nothing was released")
    elif not done.was:
        print("the breaker was not latched; attempts start anew, by {0}".format(printable(who or by)))
    else:
        print("released by {0}; attempts start anew".format(printable(who or by)))
    return DONE


def _root() -> None:
    if os.geteuid() != 0:
        raise NodeError("gpunode remedy", "only root may run it", "run it as root")


def node_name(host: Host, arguments: argparse.Namespace) -> str:
    return arguments.node or this_node.here(host).node_name


def _tell() -> Callable[[str], None]:
    """Into the journal, by syslog as the hooks do."""
    syslog.openlog("gpu_node", syslog.LOG_PID, syslog.LOG_DAEMON)

    def tell(text: str) -> None:
        syslog.syslog(syslog.LOG_WARNING, printable("remedy: " + text))

    return tell


def _document(record: Record, settings: Settings, others: str) -> Dict[str, Any]:
    return {
        "on": list(settings.remedies),
        "latched": bool(record.held),
        "why": record.held or None,
        "released": record.released or None,
        "others": others,
        "attempts": plain(record.attempts),
    }


def told(one: Attempt) -> str:
    ended = one.outcome if one.ended is not None else "it has not ended"
    counts = "" if one.counts else " (counts no more)"
    return "{0}  {1} of {2}: {3}: {4}{5}".format(utc(one.time), one.remedy, one.part, one.finding, ended, counts)

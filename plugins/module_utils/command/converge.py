# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode converge``: bring the node to its declaration; and what ``gpunode undo`` shares with it."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, Dict, List, Optional

from ..core import trust
from ..core.host import Host
from ..core.resource import Misuse, NodeError
from ..facts.nvml.binding import RUNTIME as INSTALLED
from ..node import journal, own, wish
from ..node.converge import RUNTIME, Report, Request
from ..node.summary import lines
from . import declaration
from .exit_status import DONE, NOT_DONE
from .version import VERSION

DETAILS = """A section of the declaration is what is wanted of one resource; what has none is
left as it is. The node keeps the declaration in /etc/gpu_node/declaration.json.

examples:
  gpunode converge --declaration node.json --check --diff
                                 what would be done; nothing is changed
  gpunode converge --declaration node.json
                                 do it, and keep the declaration
  gpunode converge               once more, by the declaration that was kept
  gpunode converge --only rdma   one resource of it
  gpunode converge --install     now, and at each boot before slurmd starts

exit status:
  0   ready; with --check, --only and --without: nothing failed
  1   not ready: the last line says why
  2   wrong usage: an option or a resource that there is not
  75  another converge of this node runs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Bring this node to its declaration, and say whether it is ready for jobs."
    parser.epilog = DETAILS
    add_common(parser)
    parser.add_argument("--install", action="store_true", help="and at each boot from now on, before slurmd starts")
    # What the unit says to itself: services that wait for it are not asked for.
    parser.add_argument("--boot", action="store_true", help=argparse.SUPPRESS)


def add_common(parser: argparse.ArgumentParser) -> None:
    """The arguments of converge and undo."""
    parser.add_argument("--check", action="store_true", help="tell what would be done; change nothing")
    parser.add_argument("--diff", action="store_true", help="show files and settings before and after")
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="this resource; may be repeated")
    parser.add_argument("--without", metavar="NAME", action="append", default=[], help="not this resource")
    told = "a declaration (JSON; - for standard input) in place of the one of this node"
    parser.add_argument("--declaration", metavar="FILE", default="", help=told)


def run(host: Host, arguments: argparse.Namespace) -> int:
    try:
        request = request_of(host, arguments, boot=arguments.boot)
    except NodeError as error:
        if arguments.boot:
            own.refused(host, VERSION, error)
        raise
    if arguments.install and (not request.whole or request.check_mode):
        raise Misuse("--install", "each boot converges the whole node", "leave out --only, --without and --check")
    return carry_out(host, arguments, request, arguments.install)


def carry_out(host: Host, arguments: argparse.Namespace, request: Request, install: bool = False) -> int:
    say = journal.Output(journal=not (arguments.check or arguments.json)).say
    report = own.run(host, request, VERSION, install)
    reason = own.reason(report, request)
    status = NOT_DONE if reason else DONE
    if arguments.json:
        # The parts in the order of the run.
        told = dict(report.to_dict(), ready=not reason, reason=reason, summary=lines(report))
        print(json.dumps(told, indent=2))
        return status
    for line in [*(_diffs(report) if arguments.diff else ()), *lines(report)]:
        say(line.rstrip("\n"))
    if request.whole and not request.undo and not arguments.check:
        say("not ready: {0}.".format(reason.rstrip(".")) if reason else "ready")
    return status


def request_of(host: Host, arguments: argparse.Namespace, undo: bool = False, boot: bool = False) -> Request:
    sections = declaration.read(host, arguments.declaration, undo=undo)
    if not undo:  # what a node does by itself ends with a verdict
        sections = dict(sections, **{wish.HEALTH: sections.get(wish.HEALTH, {})})
    only, without = tuple(arguments.only), tuple(arguments.without)
    command = running_zipapp()
    if command is not None and os.geteuid() == 0:
        trust.of_root(command)  # it may be about to be installed
    request = Request(sections, only, without, arguments.check, undo, command, boot)
    for name in only:
        if name not in (RUNTIME, *sections):
            remedy = "add one, or leave out --only " + name
            raise Misuse("--only " + name, "the declaration has no section {0}".format(name), remedy)
    return request


def running_zipapp() -> Optional[str]:
    """The zipapp that runs, where it is not the installed one."""
    path = os.path.realpath(sys.argv[0])
    if path == INSTALLED:
        return None
    import zipfile  # as a rule it is the installed one

    return path if zipfile.is_zipfile(path) else None


def _diffs(report: Report) -> List[str]:
    import difflib

    found: List[str] = []
    for part in report.parts.values():
        diff: Dict[str, Any] = part.get("diff") or {}
        before, after = (str(diff.get(which) or "").splitlines(keepends=True) for which in ("before", "after"))
        names = (diff.get("before_header", ""), diff.get("after_header", ""))
        found += difflib.unified_diff(before, after, *names)
    return found

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode converge``, ``gpunode undo`` and ``gpunode declaration``: the whole node by its declaration."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, Dict, List, Optional

from ..core import trust
from ..core.converge_record import Standing
from ..core.host import Host
from ..core.resource import Misuse, NodeError
from ..facts.nvml.binding import RUNTIME as INSTALLED
from ..node import journal, own, wish
from ..node.converge import RUNTIME, Report, Request
from ..node.summary import lines
from .status import BUSY, DONE, NOT_DONE
from .table import print_json
from .version import VERSION


def run(host: Host, arguments: argparse.Namespace) -> int:
    undo = arguments.command == "undo"
    try:
        request = _request(host, arguments, undo)
    except NodeError as error:
        if arguments.boot:
            own.refused(host, VERSION, error)
        raise
    if undo:
        _confirm_undo(host, arguments, request)
    if arguments.install and (not request.whole or request.check_mode):
        raise Misuse("--install", "each boot converges the whole node", "leave out --only, --without and --check")
    say = journal.Output(journal=not (arguments.check or arguments.json)).say
    report = own.run(host, request, VERSION, arguments.install)
    reason = own.reason(report, request)
    status = NOT_DONE if reason else DONE
    if arguments.json:
        # The parts in the order of the run.
        told = dict(report.to_dict(), ready=not reason, reason=reason, summary=lines(report))
        print(json.dumps(told, indent=2))
        return status
    for line in [*(_diffs(report) if arguments.diff else ()), *lines(report)]:
        say(line.rstrip("\n"))
    if request.whole and not undo and not arguments.check:
        say("not ready: {0}.".format(reason.rstrip(".")) if reason else "ready")
    return status


def _confirm_undo(host: Host, arguments: argparse.Namespace, request: Request) -> None:
    """
    :raises Misuse: it was not confirmed.
    :raises NodeError: the node is in use.
    """
    if arguments.check:
        return
    if not arguments.yes:
        remedy = "run 'gpunode undo --check' first, then repeat the command with --yes"
        raise Misuse("gpunode undo", "it removes what converges made, and all data on the scratch are lost", remedy)
    if os.geteuid() != 0:
        raise NodeError("gpunode undo", "only root may do that", "run it as root")
    from ..node import reset  # a converge does not need it

    reset.refuse_in_use(host, request)


def _request(host: Host, arguments: argparse.Namespace, undo: bool) -> Request:
    sections = _sections(host, arguments.declaration, undo=undo)
    if not undo:  # what a node does by itself ends with a verdict
        sections = dict(sections, **{wish.HEALTH: sections.get(wish.HEALTH, {})})
    only, without = tuple(arguments.only), tuple(arguments.without)
    command = running_zipapp()
    if command is not None and os.geteuid() == 0:
        trust.of_root(command)  # it may be about to be installed
    request = Request(sections, only, without, arguments.check, undo, command, arguments.boot)
    for name in only:
        if name not in (RUNTIME, *sections):
            remedy = "add one, or leave out --only " + name
            raise Misuse("--only " + name, "the declaration has no section {0}".format(name), remedy)
    return request


def boot(host: Host, arguments: argparse.Namespace) -> int:
    """``gpunode boot``: what is known of the converge of each boot, for people and for slurmd; and the end of it."""
    if arguments.what == "disable":
        if os.geteuid() != 0 and host.root == "/":
            raise NodeError("gpunode boot disable", "only root may do that", "run it as root")
        own.remove(host)
        text = "removed: the boot unit and its record. Applied configuration stays; 'gpunode undo --yes' removes it."
        return _answer(arguments, {"removed": True}, text)
    admitted = own.admitted(host)
    if arguments.what == "admit" and admitted:
        return _answer(arguments, {"admitted": True}, "")
    standing, text = own.status(host)
    status = {Standing.READY: DONE, Standing.RUNNING: BUSY}.get(standing, NOT_DONE)
    return _answer(arguments, {"admitted": admitted, "status": standing.value, "message": text}, text, status)


def _answer(arguments: argparse.Namespace, content: Dict[str, Any], text: str, status: int = DONE) -> int:
    if arguments.json:
        print_json(content)
    elif text:
        print(text)
    return status


def running_zipapp() -> Optional[str]:
    """The zipapp that runs, where it is not the installed one."""
    path = os.path.realpath(sys.argv[0])
    if path == INSTALLED:
        return None
    import zipfile  # as a rule it is the installed one

    return path if zipfile.is_zipfile(path) else None


def declaration(host: Host, arguments: argparse.Namespace) -> int:
    """Show what is declared, or check a declaration without looking at anything."""
    sections = _sections(host, arguments.file, "gpunode declaration {0} FILE".format(arguments.what))
    wish.desired(sections, {})
    if arguments.what == "show":
        print(wish.text(sections), end="")
        return DONE
    names = [name for name in sections if name not in wish.TEXTS]
    text = "{0} section(s), nothing wrong".format(len(names))
    return _answer(arguments, {"valid": True, "sections": names}, text)


def _sections(host: Host, path: str, give: str = "--declaration FILE", undo: bool = False) -> wish.Sections:
    """``give``: how a caller names a file in place of the node's own."""
    if path == "-":
        return wish.parse(sys.stdin.read(), "standard input")
    if path:
        try:
            # A link could be led elsewhere between the check and this.
            return wish.parse(_text(trust.of_root(path) if os.geteuid() == 0 else path), path)
        except (OSError, UnicodeDecodeError) as error:
            raise NodeError(
                path, "it cannot be read ({0})".format(error), "name another file, or make it readable"
            ) from error
    if os.geteuid() == 0 and host.root == "/" and host.exists(wish.PATH):
        trust.of_root(wish.PATH)
    found = wish.read(host)
    if found is None and host.exists(wish.PATH):
        if os.geteuid() != 0:
            raise NodeError(wish.PATH, "only root can read it", "run it as root")
        raise NodeError(wish.PATH, "it is there and cannot be read", "look at that file and into the kernel log")
    if found is None and undo:
        remedy = "give it with {0}, or run 'gpunode reset --yes', which removes all resources".format(give)
        raise NodeError(wish.PATH, "this node has no declaration, so it is unknown what to remove", remedy)
    if found is None:
        remedy = "give one with {0}; docs/declaration.md of trainyard.gpu_node shows one".format(give)
        raise NodeError(wish.PATH, "this node has no declaration", remedy)
    return found


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def _diffs(report: Report) -> List[str]:
    import difflib

    found: List[str] = []
    for part in report.parts.values():
        diff: Dict[str, Any] = part.get("diff") or {}
        before, after = (str(diff.get(which) or "").splitlines(keepends=True) for which in ("before", "after"))
        names = (diff.get("before_header", ""), diff.get("after_header", ""))
        found += difflib.unified_diff(before, after, *names)
    return found

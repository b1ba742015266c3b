# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode converge``, ``gpunode undo`` and ``gpunode declaration``: the whole node by its declaration."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import zipfile
from typing import Any, Dict, List, Optional

from ..core.host import Host
from ..core.resource import Misuse, NodeError
from ..facts.nvml.binding import RUNTIME as INSTALLED
from ..node import registry, wish
from ..node.converge import RUNTIME, Report, Request, converge
from ..node.summary import lines
from .status import DONE, NOT_DONE


def run(host: Host, arguments: argparse.Namespace) -> int:
    sections = _sections(host, arguments.declaration)
    names = (RUNTIME, *registry.NAMES, wish.HEALTH)
    for name in (*arguments.only, *arguments.without):
        if name not in names:
            raise Misuse(name, "there is no such resource", "use some of " + ", ".join(names))
    undo = arguments.command == "undo"
    request = Request(
        sections, tuple(arguments.only), tuple(arguments.without), arguments.check, undo, running_zipapp()
    )
    report = converge(host, request)
    if arguments.json:
        # The parts in the order of the run.
        print(json.dumps(dict(report.to_dict(), summary=lines(report)), indent=2))
    else:
        if arguments.diff:
            print("".join(_diffs(report)), end="")
        print("\n".join(lines(report)))
    return NOT_DONE if report.failures else DONE


def running_zipapp() -> Optional[str]:
    """The zipapp that runs, where it is not the installed one."""
    path = os.path.realpath(sys.argv[0])
    return path if path != INSTALLED and zipfile.is_zipfile(path) else None


def declaration(host: Host, arguments: argparse.Namespace) -> int:
    """Show what is declared, or check a declaration without looking at anything."""
    sections = _sections(host, arguments.file)
    wish.desired(sections, {})
    if arguments.what == "show":
        print(wish.text(sections), end="")
    else:
        print("{0} section(s), nothing wrong".format(len(sections)))
    return DONE


def _sections(host: Host, path: str) -> wish.Sections:
    if path:
        try:
            text = sys.stdin.read() if path == "-" else _text(path)
        except (OSError, UnicodeDecodeError) as error:
            raise NodeError(path, "it cannot be read ({0})".format(error), "give a file that can") from error
        return wish.parse(text, "standard input" if path == "-" else path)
    found = wish.read(host)
    if found is None:
        raise NodeError(wish.PATH, "this node has no declaration", "write one, or give one with --declaration FILE")
    return found


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def _diffs(report: Report) -> List[str]:
    found: List[str] = []
    for part in report.parts.values():
        diff: Dict[str, Any] = part.get("diff") or {}
        before, after = (str(diff.get(which) or "").splitlines(keepends=True) for which in ("before", "after"))
        names = (diff.get("before_header", ""), diff.get("after_header", ""))
        found += difflib.unified_diff(before, after, *names)
    return found

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode declaration``: show what is declared for this node, or check a declaration."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import sys

from ..core import trust
from ..core.host import Host
from ..core.resource import NodeError
from ..node import wish
from .exit_status import DONE
from .output import print_json

DETAILS = """show   print it, as the node keeps it
check  look for mistakes in it; nothing of the node is looked at

examples:
  gpunode declaration show              that of this node
  gpunode declaration check node.json   a file; - for standard input

exit status: 0 nothing wrong, 1 not: all mistakes are told
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show or check what is wanted of a node."
    parser.epilog = DETAILS
    parser.add_argument("what", choices=["show", "check"])
    told = "a declaration; by default that of this node"
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help=told)


def run(host: Host, arguments: argparse.Namespace) -> int:
    """Show what is declared, or check a declaration without looking at anything."""
    sections = read(host, arguments.file, "gpunode declaration {0} FILE".format(arguments.what))
    wish.desired(sections, {})
    if arguments.what == "show":
        print(wish.text(sections), end="")
        return DONE
    names = [name for name in sections if name not in wish.TEXTS]
    if arguments.json:
        print_json({"valid": True, "sections": names})
    else:
        print("{0} section(s), nothing wrong".format(len(names)))
    return DONE


def read(host: Host, path: str, give: str = "--declaration FILE", undo: bool = False) -> wish.Sections:
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

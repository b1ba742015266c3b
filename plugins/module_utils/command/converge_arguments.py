# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode converge``, ``undo``, ``boot``, ``declaration`` and ``module``."""

from __future__ import annotations

import argparse

CONVERGE = """A section of the declaration is what is wanted of one resource; what has none is
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

UNDO = """All data on the scratch are lost. The resources that the declaration names go,
in the opposite order of converge, then the declaration and the node command.

examples:
  gpunode undo --check           what would be taken away
  gpunode undo --yes             remove all of it
  gpunode undo --only nccl --yes
                                 remove one resource

It is refused while a job runs on the node, a process computes on a GPU, or a
process has a file open on the scratch. 'gpunode reset' drains the node first.

exit status: 0 all is gone, 1 something is left, 2 wrong use, 75 a converge runs
"""

BOOT = """status   how the last converge ended, and when
disable  converge at no boot any more, and let slurmd start without it; what
         was made of the node stays
admit    what slurmd asks before it starts: status 0 lets it

To converge at each boot: gpunode converge --install

exit status: 0 ready, 1 not ready, 75 a converge runs; for disable 0 done, 1 not
"""

DECLARATION = """show   print it, as the node keeps it
check  look for mistakes in it; nothing of the node is looked at

examples:
  gpunode declaration show              that of this node
  gpunode declaration check node.json   a file; - for standard input

exit status: 0 nothing wrong, 1 not: all mistakes are told
"""


def converge(parser: argparse.ArgumentParser) -> None:
    _whole(parser, "Bring this node to its declaration, and say whether it is ready for jobs.", CONVERGE)
    parser.add_argument("--install", action="store_true", help="and at each boot from now on, before slurmd starts")
    # What the unit says to itself: services that wait for it are not asked for.
    parser.add_argument("--boot", action="store_true", help=argparse.SUPPRESS)


def undo(parser: argparse.ArgumentParser) -> None:
    _whole(parser, "Take away what converges made of this node.", UNDO)
    parser.add_argument("--yes", action="store_true", help="confirm that the scratch is lost; required without --check")
    parser.set_defaults(boot=False, install=False)


def _whole(parser: argparse.ArgumentParser, description: str, details: str) -> None:
    _say(parser, description, details)
    parser.add_argument("--check", action="store_true", help="tell what would be done; change nothing")
    parser.add_argument("--diff", action="store_true", help="show files and settings before and after")
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="this resource; may be repeated")
    parser.add_argument("--without", metavar="NAME", action="append", default=[], help="not this resource")
    told = "a declaration (JSON; - for standard input) in place of the one of this node"
    parser.add_argument("--declaration", metavar="FILE", default="", help=told)
    parser.set_defaults(function="converge.run")


def boot(parser: argparse.ArgumentParser) -> None:
    _say(parser, "See or end the converge of each boot.", BOOT)
    parser.add_argument("what", choices=["status", "disable", "admit"])
    parser.set_defaults(function="converge.boot")


def declaration(parser: argparse.ArgumentParser) -> None:
    _say(parser, "Show or check what is wanted of a node.", DECLARATION)
    parser.add_argument("what", choices=["show", "check"])
    told = "a declaration; by default that of this node"
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help=told)
    parser.set_defaults(function="converge.declaration")


def module(parser: argparse.ArgumentParser) -> None:
    parser.description = "Do the work of one of Ansible's modules; the modules run this."
    parser.add_argument("name", metavar="NAME", help="the module; its arguments come on standard input, as JSON")
    parser.set_defaults(function="module.run")


def _say(parser: argparse.ArgumentParser, description: str, details: str) -> None:
    parser.description = description
    parser.epilog = details
    parser.formatter_class = argparse.RawDescriptionHelpFormatter

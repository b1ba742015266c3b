# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode image``: the software of an image, and whether its parts fit each other."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import json
import os
import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..core import given_file
from ..core.frozen import plain
from ..core.host import Host
from ..core.resource import Misuse, NodeError, printable
from ..facts.image import answer, software
from ..facts.image.problem import FAIL, Problem
from ..health.fleet import odd_versions
from .arguments import as_typed
from .exit_status import DONE, NOT_DONE, WARNINGS
from .output import print_json, wrapped

_REQUIRED = re.compile(r"([a-z_]+)\s*([<>=!].*)")
DETAILS = """Versions are read from files; no program is run, and nothing is asked over a
network. So it also looks at an image that is mounted, and at one that another
machine runs.

examples:
  gpunode image                        what is there, and what does not fit
  gpunode image --root /mnt/image      the same of an image that is mounted
  gpunode image --require 'driver>=535,<600' --require 'cuda>=12'
                                       as a last step of Packer: 1 unless it is
  gpunode image --save golden.json     keep the versions as a baseline
  gpunode image --compare golden.json  what is otherwise than in the baseline
  gpunode image --odd a.json b.json c.json
                                       which of these, each saved on a node,
                                       is otherwise than most

exit status: 0 all fits; 1 something does not fit, is not as required, or
differs from the baseline or from most nodes; 2 wrong use; 3 warnings only
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tell the software of this image, and whether its parts fit each other."
    parser.epilog = DETAILS
    parser.add_argument("--root", metavar="DIR", default="/", help="look at the image that is mounted there")
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="NAME>=VERSION",
        help="a component, and what its version must be: >=, <=, ==, !=, > or <, several with commas; again for each",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--save", metavar="FILE", help="write the versions into this file, as a baseline")
    how.add_argument("--compare", metavar="FILE", help="compare with the baseline in this file")
    how.add_argument(
        "--odd", nargs="+", metavar="FILE", help="look at no image, but compare the versions in these files of nodes"
    )


def run(host: Host, arguments: argparse.Namespace) -> int:
    if arguments.odd is not None:
        if arguments.require or arguments.root != "/":
            what = "--require" if arguments.require else "--root"
            raise Misuse("gpunode image --odd", "it looks at no image, so it does not go with " + what, "leave one out")
        return _odd(host, arguments.odd, arguments.json)
    wanted = required(arguments.require)
    before = None if arguments.compare is None else baseline(host, arguments.compare)
    path = None if arguments.save is None else host.path(os.path.abspath(arguments.save))
    if path is not None:
        given_file.check(path)
    if not arguments.root:  # the variable of a script that is not set
        raise Misuse("option --root", "it is empty, and would be this folder", "give the top of an image")
    root = os.path.abspath(arguments.root)
    if not os.path.isdir(host.path(root)):
        raise NodeError("root {0}".format(root), "there is no such folder", "give the top of an image")
    found = answer.look(host if root == "/" else Host(host.path(root)))
    versions = answer.versions(found)
    problems = (*answer.judge(found), *software.unmet(versions, wanted, "option --require"))
    changes = () if before is None else software.changes(before, versions)
    if path is not None:
        content = {"schema": answer.SCHEMA, "versions": versions}
        given_file.write(path, json.dumps(content, indent=2, sort_keys=True) + "\n")
    if arguments.json:
        told: Dict[str, Any] = answer.to_dict(found, problems)
        if before is not None:
            told["differences"] = plain(changes)
        print_json(told)
    else:
        print("\n".join(_lines(versions, problems, found.notes)))
        if before is not None:
            print("\n".join(_changed(changes, arguments.compare)))
    if changes or any(one.outcome == FAIL for one in problems):
        return NOT_DONE
    return WARNINGS if problems else DONE


def _lines(versions: Mapping[str, str], problems: Sequence[Problem], notes: Sequence[str]) -> List[str]:
    rows = [(name, printable(text)) for name, text in versions.items()]
    width = max((len(name) for name, dummy in rows), default=0)
    lines = [
        "{0}  {1}".format("SOFTWARE".ljust(width), "VERSION") if rows else "Nothing that is known here is installed."
    ]
    for name, text in rows:
        lines += wrapped("{0}  {1}".format(name.ljust(width), text), indent=" " * (width + 2)).splitlines()
    lines += [line for one in notes for line in wrapped("note: " + one).splitlines()]
    if rows or problems:
        lines.append("")
    if rows and not problems:
        lines.append("All parts fit each other.")
    for one in problems:
        lines += wrapped("{0}  {1}".format(one.outcome, one), indent=" " * 6).splitlines()
    return lines


def _changed(changes: Sequence[software.Change], path: str) -> List[str]:
    if not changes:
        return [wrapped("The versions are those of {0}.".format(path))]
    return [line for one in changes for line in wrapped("differs  {0}".format(one), indent=" " * 9).splitlines()]


def required(words: Sequence[str]) -> Tuple[software.Requirement, ...]:
    """:raises Misuse: a word is no component with a requirement."""
    found: Dict[str, str] = {}
    for word in words:
        one = _REQUIRED.fullmatch(word.strip())
        if one is None:
            raise Misuse(
                "option --require " + word, "it is no requirement", "write it as 'driver>=535,<600', in quotes"
            )
        name, text = one.groups()
        with as_typed("--require", word):
            software.of_mapping({name: text}, "")
        found[name] = ",".join(filter(None, (found.get(name), text)))
    return software.of_mapping(found, "option --require")


def baseline(host: Host, path: str) -> Dict[str, str]:
    """The versions that ``--save`` or ``--json`` wrote into a file.

    :raises NodeError: there are none.
    """
    text = host.read_or_fail(os.path.abspath(path))
    if text is None:
        raise NodeError(path, "there is no such file", "write one with 'gpunode image --save FILE'")
    try:
        content = json.loads(text)
        versions = content["versions"] if content["schema"] == answer.SCHEMA else None
    except (ValueError, KeyError, TypeError, RecursionError):
        versions = None
    if not isinstance(versions, dict) or not all(isinstance(one, str) for one in versions.values()):
        raise NodeError(path, "it holds no versions of an image", "write it anew with 'gpunode image --save FILE'")
    return versions


def _odd(host: Host, paths: Sequence[str], as_json: bool) -> int:
    nodes: Dict[str, Mapping[str, str]] = {}
    for path in paths:
        name = re.sub(r"\.json$", "", os.path.basename(path))
        if name in nodes:
            raise Misuse("gpunode image --odd", "two files are of node {0}".format(name), "name each after its node")
        nodes[name] = baseline(host, path)
    if len(nodes) < odd_versions.NODES_MIN:
        reason = "of fewer than {0} nodes nobody is the odd one".format(odd_versions.NODES_MIN)
        raise Misuse("gpunode image --odd", reason, "name more files")
    found: Tuple[odd_versions.Odd, ...] = odd_versions.odd(nodes)
    if as_json:
        print_json(
            {"schema": answer.SCHEMA, "nodes": len(nodes), "odd": [dict(vars(one), reason=one.reason) for one in found]}
        )
    elif found:
        for one in found:
            print(wrapped("{0}: {1}".format(printable(one.node), printable(one.reason))))
    else:
        print("No node is otherwise than most of the {0}.".format(len(nodes)))
    return NOT_DONE if found else DONE

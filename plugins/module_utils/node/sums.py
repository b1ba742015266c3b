# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``SHA256SUMS`` of a tree, as sha256sum writes it: every file but itself, and nothing else may lie there."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import Dict, List, Mapping, Tuple

from ..core.resource import NodeError

NAME = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\0/\n][^\0\n]*)")
_BLOCK = 1024 * 1024


def parse(text: str) -> Dict[str, str]:
    """Path to digest.

    :raises NodeError: a line is none, or a path leads out of the tree.
    """
    found: Dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None or ".." in match.group(2).split("/") or match.group(2) in found:
            raise NodeError(NAME, "its line {0!r} is damaged".format(line[:80]), "copy the bundle here again")
        found[match.group(2)] = match.group(1)
    return found


def of_file(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:  # pylint: disable=ansible-bad-function  # the library has no AnsibleModule
        for block in iter(lambda: stream.read(_BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def files(folder: str) -> List[str]:
    """The paths of all that is no folder, sorted."""
    found = []
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        found += [os.path.relpath(os.path.join(parent, name), folder) for name in names + links]
    return sorted(found)


def text(folder: str) -> str:
    """What ``SHA256SUMS`` of this tree has to say."""
    names = [name for name in files(folder) if name != NAME]
    return "".join("{0}  {1}\n".format(of_file(os.path.join(folder, name)), name) for name in names)


def problems(folder: str, wanted: Mapping[str, str]) -> Tuple[str, ...]:
    """Each file that is damaged, missing or too many, in a few words. Empty: the tree is what it was."""
    found = [name for name in files(folder) if name != NAME]
    answer = ["{0} is missing".format(name) for name in sorted(set(wanted) - set(found))]
    for name in found:
        path = os.path.join(folder, name)
        if name not in wanted:
            answer.append("{0} does not belong to it".format(name))
        elif not stat.S_ISREG(os.lstat(path).st_mode) or of_file(path) != wanted[name]:
            answer.append("{0} is damaged".format(name))
    return tuple(answer)

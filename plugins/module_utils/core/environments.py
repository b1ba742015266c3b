# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python environments of ours: their names, and the mark inside each finished one."""

from __future__ import annotations

import functools
import re
from typing import Optional

from .frozen import frozen
from .host import Host
from .state_file import StateFile, document

SECTION = "python_env"
#: Inside a tree, written last: what has it is whole.
MARK_NAME = ".gpu_node.json"
#: Inside a tree: what was installed, to be given as a lock.
LOCK_NAME = "gpu_node.lock"
#: Below the scratch, where no folder is given.
SCRATCH_FOLDER = "envs"
DIGITS = 12
#: The name of a tree.
TREE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*-[0-9a-f]{%d}" % DIGITS)


def tree_name(name: str, digest: str) -> str:
    return "{0}-{1}".format(name, digest[:DIGITS])


@frozen
class Tree:
    """A whole environment of ours; ``built`` in seconds since 1970, ``machine`` and ``spec`` as its mark has them."""

    path: str
    name: str
    digest: str
    built: int = 0
    machine: str = ""
    spec: str = ""


@frozen
class Mark:
    """What a tree says of itself. ``path``: a copy runs from where it came from."""

    path: str
    name: str
    digest: str
    built: int
    machine: str
    spec: str


#: The directory may be on a file server where root is another user.
MARK = StateFile("python_env", "{0}/" + MARK_NAME, functools.partial(document, Mark), mode=0o644, private=False)


def read_mark(host: Host, path: str) -> Optional[Tree]:
    """None where there is no mark of ours, or it was written for another path."""
    mark = MARK.read(host, path)[0]
    if mark is None or mark.path != path or path.rsplit("/", 1)[1] != tree_name(mark.name, mark.digest):
        return None
    return Tree(path, mark.name, mark.digest, mark.built, mark.machine, mark.spec)

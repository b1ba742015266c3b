# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of HPC-X on a node, and the steps to what is wanted."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.resource import Action
from ...core.trees import Link

SECTION = "hpcx"
LINK = "current"
# Inside a tree of ours, written last before the tree gets its name: who put it there, and from which file.
MARK_NAME = ".gpu_node.json"


@frozen
class Tree:
    """A whole HPC-X. ``sha256`` and ``installed`` (seconds since 1970) are those of our mark; None: it is not ours."""

    path: str
    version: Optional[str]
    sha256: Optional[str] = None
    installed: int = 0


@frozen
class State:
    """``trees`` are ours, ``found`` those of others. ``links``: the one that is wanted, and that of the declaration.

    ``prefix``: missing, folder, hpcx (a tree of another owner) or other. ``occupied``: the wanted tree's path has
    something that is not ours. ``systems``: (kind, folder) of the module systems. ``busy``: who runs from which tree.
    ``shared``: folders of trees on a network file system, where other nodes run from them, too.
    """

    files: Files = Files()
    declared: Mapping[str, Any] = {}
    trees: Tuple[Tree, ...] = ()
    found: Tuple[Tree, ...] = ()
    links: Tuple[Link, ...] = ()
    prefix: str = "missing"
    occupied: bool = False
    leftovers: Tuple[str, ...] = ()
    systems: Tuple[Tuple[str, str], ...] = ()
    busy: Tuple[Tuple[str, str], ...] = ()
    shared: Tuple[str, ...] = ()

    def of_others_too(self, path: str) -> bool:
        return path.rsplit("/", 1)[0] in self.shared

    def link(self, path: str) -> Link:
        return next((one for one in self.links if one.path == path), Link(path))


@frozen
class InstallTree(Action):
    """``source`` as messages show it; the step itself takes that of the wanted state, which may hold an access key."""

    path: str
    version: str
    source: str
    sha256: str

    def describe(self) -> str:
        return "install HPC-X {0} as {1} from {2}".format(self.version, self.path, self.source)


@frozen
class RemoveTree(Action):
    path: str
    version: str

    def describe(self) -> str:
        return "remove HPC-X {0} in {1}".format(self.version, self.path)

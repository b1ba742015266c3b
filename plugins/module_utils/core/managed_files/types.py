# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A managed file as it is wanted and as it is found, and the steps between."""

from __future__ import annotations

from typing import Tuple

from ..frozen import frozen
from ..resource import Action

MARK = "Managed by trainyard.gpu_node."
# The first line of a file whose comments begin with a hash.
MARKER = "# " + MARK
# A script has its interpreter before the mark, an XML file its declaration.
_MARKED_LINES = 3


@frozen
class Wanted:
    """The whole content of a file; one of its first three lines must hold :data:`MARK`, in a comment."""

    path: str
    text: str
    mode: int = 0o644

    def __post_init__(self) -> None:
        if not marked(self.text):
            raise ValueError("{0} has no mark in its first lines".format(self.path))


def marked(text: str) -> bool:
    return any(MARK in line for line in text.splitlines()[:_MARKED_LINES])


@frozen
class Seen:
    """A path as it was found. ``kind``: missing, file, link or other; the text of a link is that of its target."""

    kind: str = "missing"
    text: str = ""
    mode: int = 0

    @property
    def ours(self) -> bool:
        return self.kind == "file" and marked(self.text)

    @property
    def foreign(self) -> bool:
        return self.kind != "missing" and not self.ours


@frozen
class Files:
    """What was found of the files of one resource.

    ``shared`` are those on a network file system, where that was asked: other nodes work with them, so no node alone
    takes them away.
    ``missing_folders``, outer ones first, have to be made for them. ``former`` and ``made_folders`` are what an
    earlier run wrote and made, by the declaration.
    """

    found: Tuple[Tuple[str, Seen], ...] = ()
    missing_folders: Tuple[str, ...] = ()
    former: Tuple[str, ...] = ()
    made_folders: Tuple[str, ...] = ()
    shared: Tuple[str, ...] = ()

    def seen(self, path: str) -> Seen:
        return dict(self.found).get(path, Seen())


@frozen
class MakeFolder(Action):
    path: str

    def describe(self) -> str:
        return "make the folder {0}".format(self.path)


@frozen
class WriteFile(Action):
    path: str
    text: str
    mode: int

    def describe(self) -> str:
        return "write {0}".format(self.path)


@frozen
class RemoveFile(Action):
    path: str

    def describe(self) -> str:
        return "remove {0}".format(self.path)


@frozen
class RemoveFolder(Action):
    """Only an empty one; what others put there keeps it."""

    path: str

    def describe(self) -> str:
        return "remove the folder {0}, if it is empty".format(self.path)

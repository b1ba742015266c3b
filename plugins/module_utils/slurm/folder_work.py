# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the folders of one user before a job, and remove them after the last one; for the hooks of Slurm, as root.

A scratch may be open for all (1777), so the folders above a user's own are root's by :mod:`..root_folders`. The caller
sets the time limit.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import FrozenSet, Iterator, Tuple, Union

from ..core import mounts, root_folders
from ..core.host import Host
from ..core.resource import NodeError
from .user_folders import Template, UserFolder

_REMEDY = "look at that folder as root, then start the job again"


def make(host: Host, folders: Tuple[UserFolder, ...], uid: int, gid: int) -> None:
    """:raises NodeError: when one cannot be made; those before it are there then."""
    for folder in folders:
        top, names = above(folder)
        with _said(folder.path, "made"), root_folders.opened(host, top, names, make=True) as parent:
            if parent is not None:  # not with make
                root_folders.given(host, parent, os.path.basename(folder.path), uid, gid)


def remove(host: Host, folders: Tuple[UserFolder, ...]) -> None:
    """Those that are not kept; they may be gone. They are out of the way at once, and removed in the background.

    :raises NodeError: when one cannot be removed.
    """
    for folder in folders:
        if not folder.remove or not os.path.lexists(host.path(folder.path)) or shared(host, folder):
            continue
        top, names = above(folder)
        with _said(folder.path, "removed"), root_folders.opened(host, top, names, make=False) as parent:
            if parent is None:
                raise OSError(0, "a folder above it is not root's")
            root_folders.discard(host, parent, os.path.basename(folder.path))
            root_folders.empty_trash(parent)


def sweep(host: Host, templates: Tuple[Template, ...], before: float, users: FrozenSet[int]) -> None:
    """Remove those that are not kept, have not changed since ``before``, and are of none of these users.

    :raises NodeError: when one cannot be removed.
    """
    for one in templates:
        name = re.compile(re.escape(os.path.basename(one.path)).replace(re.escape("{uid}"), "([0-9]{1,10})"))

        def dead(found: str, name: "re.Pattern[str]" = name) -> bool:
            match = name.fullmatch(found)
            return match is not None and int(match.group(1)) not in users

        top, names = above(one)
        if one.remove and os.path.isdir(host.path(one.parent)) and not shared(host, one):
            with _said(one.parent, "swept"), root_folders.opened(host, top, names, make=False) as parent:
                if parent is not None:
                    root_folders.discard_old(host, parent, before, dead)


def shared(host: Host, folder: Union[Template, UserFolder]) -> bool:
    """Whether it is on a network file system: its user may have a job on another node, which this node cannot see."""
    return bool(mounts.on_network(host, [folder.parent]))


def above(folder: Union[Template, UserFolder]) -> Tuple[str, Tuple[str, ...]]:
    """(what is trusted, the names of the folders below it that are root's, down to that of the user's)."""
    above, first = os.path.split(folder.top)
    return above, (first, *(one for one in folder.parent[len(folder.top) :].split("/") if one))


@contextlib.contextmanager
def _said(path: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NodeError(path, "it could not be {0} ({1})".format(what, error.strerror or error), _REMEDY) from error

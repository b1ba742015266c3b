# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps on managed files."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator, Mapping, Optional

from .. import safe_files
from ..host import Host, not_written
from ..resource import Action, NodeError, Step
from .observe import look
from .types import MakeFolder, RemoveFile, RemoveFolder, Seen, WriteFile


def make_folder(host: Host, action: MakeFolder, dummy: object = None) -> None:
    """:raises NodeError: the file system says no, as in the other steps."""
    with _said(action.path, "made"):
        os.makedirs(host.path(action.path), mode=0o755, exist_ok=True)


def write_file(host: Host, action: WriteFile, dummy: object = None) -> None:
    if look(host, action.path) == Seen("file", action.text, action.mode):
        return  # by now another node has written it, and somebody may be reading
    try:
        os.makedirs(host.path(os.path.dirname(action.path)), exist_ok=True)
        safe_files.replace(host.path(action.path), action.text, action.mode)
    except OSError as error:
        raise not_written(action.path, error) from error


def write_beside(host: Host, path: str, text: str) -> Optional[str]:
    """Into a folder of another program, which makes it: one of ours there would only hide that it is missing. Returns
    why it was not written."""
    folder = os.path.dirname(path)
    if not host.exists(folder):
        return "{0}: there is no such folder, so {1} was not written".format(folder, os.path.basename(path))
    if look(host, path).foreign:
        return "{0}: it is there and is not ours, so it is left as it is".format(path)
    try:
        safe_files.replace(host.path(path), text, 0o644)
    except OSError as error:
        return str(not_written(path, error))
    return None


def remove_file(host: Host, action: RemoveFile, dummy: object = None) -> None:
    host.remove(action.path)


def remove_folder(host: Host, action: RemoveFolder, dummy: object = None) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(host.path(action.path))


#: For the table of a resource that has such files.
STEPS: Mapping[type, Step] = {
    MakeFolder: make_folder,
    WriteFile: write_file,
    RemoveFile: remove_file,
    RemoveFolder: remove_folder,
}


def apply(host: Host, action: Action) -> bool:
    """Whether this was a step of ours, so that a resource can go through its kinds of steps one after the other."""
    if type(action) not in STEPS:
        return False
    STEPS[type(action)](host, action, None)
    return True


@contextlib.contextmanager
def _said(path: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NodeError(path, "it could not be {0} ({1})".format(what, error.strerror), "run it as root") from error

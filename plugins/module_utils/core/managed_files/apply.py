# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on a managed file."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

from ..host import Host
from ..resource import Action, NodeError
from .types import MakeFolder, RemoveFile, RemoveFolder, WriteFile


def apply(host: Host, action: Action) -> bool:
    """Whether this was a step of ours, so that a resource can go through its kinds of steps one after the other.

    :raises NodeError: when the file system says no.
    """
    if isinstance(action, MakeFolder):
        with _said(action.path, "made"):
            os.makedirs(host.path(action.path), mode=0o755, exist_ok=True)
    elif isinstance(action, WriteFile):
        host.write(action.path, action.text, action.mode)
        with _said(action.path, "given its mode"):
            os.chmod(host.path(action.path), action.mode)
    elif isinstance(action, RemoveFile):
        host.remove(action.path)
    elif isinstance(action, RemoveFolder):
        with contextlib.suppress(OSError):
            os.rmdir(host.path(action.path))
    else:
        return False
    return True


@contextlib.contextmanager
def _said(path: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NodeError(path, "it could not be {0} ({1})".format(what, error.strerror), "run it as root") from error

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on Slurm's files."""

from __future__ import annotations

import contextlib
import os

from .. import declaration
from ..host import Host
from ..resource import Action, NodeError
from .types import MakeFolder, RemoveFile, RemoveFolder, WriteFile


def apply(host: Host, action: Action) -> None:
    if isinstance(action, declaration.Declare):
        declaration.apply(host, action)
    elif isinstance(action, MakeFolder):
        try:
            os.makedirs(host.path(action.path), mode=0o755, exist_ok=True)
        except OSError as error:
            raise NodeError(
                action.path, "it could not be made ({0})".format(error.strerror), "run it as root"
            ) from error
    elif isinstance(action, WriteFile):
        host.write(action.path, action.text, action.mode)
        try:
            os.chmod(host.path(action.path), action.mode)
        except OSError as error:
            raise NodeError(
                action.path, "its mode could not be set ({0})".format(error.strerror), "run it as root"
            ) from error
    elif isinstance(action, RemoveFile):
        host.remove(action.path)
    elif isinstance(action, RemoveFolder):
        with contextlib.suppress(OSError):
            os.rmdir(host.path(action.path))

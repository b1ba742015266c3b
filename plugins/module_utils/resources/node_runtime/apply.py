# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on the node command."""

from __future__ import annotations

import contextlib
import os
import zipfile
from typing import Optional

from ...core.host import Host
from ...core.resource import Action, NodeError
from ...facts.nvml.binding import RUNTIME
from .bytecode import identity, with_bytecode
from .launcher import interpreter
from .observe import fault, observe, pages, untrusted
from .plan import MODE
from .types import COMMAND, FISH, InstallZipapp, LinkCommand, RemoveCommand, RemovePages, RemoveZipapp, WritePages


def apply(host: Host, action: Action, source: Optional[str]) -> None:
    try:
        if isinstance(action, InstallZipapp):
            _install(host, action, source)
        elif isinstance(action, LinkCommand):
            os.makedirs(os.path.dirname(host.path(COMMAND)), exist_ok=True)
            os.symlink(RUNTIME, host.path(COMMAND))
        elif isinstance(action, WritePages):
            for path in observe(host).stale_pages:
                host.write(path, pages(host)[path])
        elif isinstance(action, RemovePages):
            for path in action.paths:
                host.remove(path, folder_too=True)
            with contextlib.suppress(OSError):
                os.rmdir(host.path(FISH))
        elif isinstance(action, RemoveCommand):
            host.remove(COMMAND)
        elif isinstance(action, RemoveZipapp):
            host.remove(RUNTIME, folder_too=True)
    except OSError as error:
        raise NodeError(
            "{0}".format(error.filename or RUNTIME),
            "cannot {0} ({1})".format(action.describe(), error.strerror),
            "run it as root on a writable file system with free space",
        ) from error


def _install(host: Host, action: InstallZipapp, source: Optional[str]) -> None:
    """Without a ``source`` the installed file is rebuilt for the Python that runs this."""
    try:
        with open(source or host.path(RUNTIME), "rb") as stream:
            content = stream.read()
    except FileNotFoundError:
        content = b""
    if identity(content) != action.sha256:
        if source is None:
            raise NodeError(RUNTIME, "its new content was not sent", "run the role trainyard.gpu_node.node_runtime")
        raise NodeError(source, "it was damaged on the way (its sha256 is not the expected one)", "run it again")
    python = interpreter()
    reason = untrusted(python)
    if reason:
        remedy = "choose a Python that belongs to root (ansible_python_interpreter), then run it again"
        raise NodeError(RUNTIME, "root does not run it with {0}: {1}".format(python, reason), remedy)
    try:
        content = with_bytecode(content, python)
    except (zipfile.BadZipFile, SyntaxError, ValueError) as error:
        raise NodeError(
            "the node command", "this Python cannot use it ({0})".format(error), "have Python 3.8 or newer run it"
        ) from error
    target = host.path(RUNTIME)
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    temporary = target + ".new"
    try:
        with open(temporary, "wb") as stream:
            stream.write(content)
            os.fchmod(stream.fileno(), MODE)
            stream.flush()
            os.fsync(stream.fileno())
        # A command that does not start never replaces one that does.
        reason = fault(host, RUNTIME + ".new")
        if reason:
            raise NodeError(
                RUNTIME,
                "{0}, which installs it, cannot start it in an empty environment ({1})".format(python, reason),
                "correct that, or choose another Python (ansible_python_interpreter), then run it again",
            )
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)

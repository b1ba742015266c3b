# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the node command as it lies on the node."""

from __future__ import annotations

import os
import stat
import zipfile
from typing import Dict, Optional, Tuple

from ...core import trust
from ...core.host import Host
from ...core.resource import NodeError
from ...facts.nvml.binding import RUNTIME
from .bytecode import interpreter_of, source_sha256
from .types import COMMAND, FOLDER, PAGE_MARKER, PAGES, State

# As little as a systemd unit or a Slurm hook has.
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_SECONDS = 60.0
# Debian lets the group staff write to /usr/local.
_SYSTEM_GROUPS = range(1000)


def fault(host: Host, path: str = RUNTIME) -> str:
    """Start the installed command as systemd and Slurm do. Why it does not start; empty: it does.

    One whose interpreter other users can change is not started: root would run their code.
    """
    reason = untrusted(_content(host.path(path))[2])
    if reason:
        return reason
    try:
        host.run([host.path(path), "--version"], _SECONDS, environment=_ENVIRONMENT)
    except NodeError as error:
        return error.reason
    except OSError as error:  # no program of this kernel, or a file system that is mounted noexec
        return error.strerror or str(error)
    return ""


def untrusted(python: str) -> str:
    """Why root must not run this interpreter; empty: it may."""
    if not python or os.geteuid() != 0 or not os.path.exists(python):
        return ""
    try:
        trust.of_root(python, sudo=False, groups=_SYSTEM_GROUPS)
    except NodeError as error:
        return "other users can change its interpreter: {0}: {1}".format(error.thing, error.reason)
    return ""


def _content(path: str) -> Tuple[Optional[str], Optional[int], str]:
    try:
        with open(path, "rb") as stream:
            content = stream.read()
            return source_sha256(content), stat.S_IMODE(os.fstat(stream.fileno()).st_mode), interpreter_of(content)
    except OSError:
        return None, None, ""


def observe(host: Host) -> State:
    sha256, mode, interpreter = _content(host.path(RUNTIME))
    command_path = host.path(COMMAND)
    command = None
    if os.path.islink(command_path):
        command = os.readlink(command_path)
    elif os.path.lexists(command_path):
        command = "file"
    names = host.names(FOLDER)
    wanted = pages(host) if sha256 is not None else {}
    found = {path: host.read(path) for dummy, path in PAGES}
    ours = tuple(path for path, text in found.items() if text is not None and PAGE_MARKER in text)
    return State(
        folder_exists=host.exists(FOLDER),
        folder_empty_otherwise=not [name for name in names if name != os.path.basename(RUNTIME)],
        sha256=sha256,
        mode=mode,
        command=command,
        stale_pages=tuple(
            path for path, text in wanted.items() if found[path] != text and (found[path] is None or path in ours)
        ),
        our_pages=ours,
        interpreter=interpreter,
        fault=fault(host) if sha256 is not None else "",
    )


def pages(host: Host) -> Dict[str, str]:
    """The text of each page in the installed file, by the path where it belongs."""
    with zipfile.ZipFile(host.path(RUNTIME)) as archive:
        names = set(archive.namelist())
        return {path: archive.read(name).decode("utf-8") for name, path in PAGES if name in names}

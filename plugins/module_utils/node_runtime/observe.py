# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the node command as it lies on the node."""

from __future__ import annotations

import os
import stat
from typing import Optional, Tuple

from ..host import Host
from ..nvml.binding import RUNTIME
from .bytecode import source_sha256
from .types import COMMAND, FOLDER, State


def _content(path: str) -> Tuple[Optional[str], Optional[int]]:
    try:
        with open(path, "rb") as stream:
            return source_sha256(stream.read()), stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
    except OSError:
        return None, None


def observe(host: Host) -> State:
    sha256, mode = _content(host.path(RUNTIME))
    command_path = host.path(COMMAND)
    command = None
    if os.path.islink(command_path):
        command = os.readlink(command_path)
    elif os.path.lexists(command_path):
        command = "file"
    names = host.names(FOLDER)
    return State(
        folder_exists=host.exists(FOLDER),
        folder_empty_otherwise=not [name for name in names if name != os.path.basename(RUNTIME)],
        sha256=sha256,
        mode=mode,
        command=command,
    )

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is saved before a remedy: it may be the last that is known of a fault."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import Callable, List, Tuple

from ...core.frozen import plain
from ...core.host import Host, be_root
from ...core.resource import NodeError
from .observe import World
from .types import LOGS

# Of each file. Of the kernel log the end is kept.
_MOST_BYTES = 4 << 20
_MOST_LINES = "20000"
_FOLDERS = 10
_SECONDS = 60.0


def save(host: Host, world: World, remedy: str, commands: bool = True) -> str:
    """Into a new folder of root's, which is returned. What a tool does not tell is told in its file.

    :raises NodeError: it cannot be written.
    """
    folder = "{0}/{1}-{2}".format(LOGS, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(world.state.now)), remedy)
    try:
        for path in (LOGS, folder):
            os.makedirs(host.path(path), mode=0o700, exist_ok=True)
            os.chmod(host.path(path), 0o700)
        _forget(host)
    except OSError as error:
        raise NodeError(folder, "it could not be made ({0})".format(error.strerror), be_root()) from error
    for name, tell in _files(host, world):
        try:
            text = tell()
        except NodeError as error:
            text = str(error) + "\n"
        host.write(os.path.join(folder, name), text, mode=0o600)
    return folder


def _files(host: Host, world: World) -> Tuple[Tuple[str, Callable[[], str]], ...]:
    return (
        ("kernel.log", lambda: _end(_kernel_log(host))),
        (
            "nvidia-smi.txt",
            lambda: host.run(["nvidia-smi", "-q"], _SECONDS, accept=tuple(range(256))).stdout[:_MOST_BYTES],
        ),
        ("gpu_info.json", lambda: json.dumps(plain(world.gpus), indent=1, sort_keys=True)[:_MOST_BYTES]),
        ("verdict.json", lambda: json.dumps(plain(world.verdict), indent=1, sort_keys=True)[:_MOST_BYTES]),
    )


def _kernel_log(host: Host) -> str:
    try:
        return host.run(["journalctl", "-k", "-b", "--no-pager", "-o", "short-iso", "-n", _MOST_LINES], _SECONDS).stdout
    except NodeError:
        return host.run(["dmesg"], _SECONDS).stdout


def _end(text: str) -> str:
    return text.encode("utf-8", "replace")[-_MOST_BYTES:].decode("utf-8", "replace")


def _forget(host: Host) -> None:
    """The oldest folders go. Their names sort by time."""
    names: List[str] = host.names(LOGS)
    for name in names[:-_FOLDERS]:
        shutil.rmtree(host.path(os.path.join(LOGS, name)), ignore_errors=True)

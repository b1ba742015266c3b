# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run says: for whoever started it, and for the journal. Not twice where the one is the other."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Optional, TextIO

if TYPE_CHECKING:
    from socket import socket as Socket

IDENTIFIER = "gpu-node-converge"
_SOCKET = "/run/systemd/journal/stdout"


class Output:
    """``say`` writes one line to the terminal and to journald, where that runs."""

    def __init__(self, stream: Optional[TextIO] = None, path: str = _SOCKET, journal: bool = True) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._journal = _connect(path) if journal and not _is_journal(self._stream) else None

    def say(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a terminal that is gone does not end a converge
            self._stream.write(line + "\n")
            self._stream.flush()
        if self._journal is not None:
            try:
                self._journal.sendall((line + "\n").encode("utf-8", "replace"))
            except OSError:  # journald was restarted
                self._journal = None


def _is_journal(stream: TextIO) -> bool:
    """systemd tells a service device and inode of what its output goes to: systemd.exec(5), JOURNAL_STREAM."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == "{0}:{1}".format(found.st_dev, found.st_ino)


def _connect(path: str) -> Optional[Socket]:
    """As sd_journal_stream_fd(3) does it: identifier, unit, priority (info), and four switches that are off."""
    import socket  # it has no part in a run without a journal

    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.settimeout(5.0)  # a journald that hangs does not hold up the node
        found.connect(path)
        found.sendall("{0}\n\n6\n0\n0\n0\n0\n".format(IDENTIFIER).encode("ascii"))
        return found
    except OSError:
        found.close()
        return None

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small client of QEMU's machine protocol (QMP)."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from .progress import VirtualNodeError


class Qmp:
    """One connection. The socket is reached through its folder, because a socket's path may have 107 bytes only."""

    def __init__(self, folder: Path, timeout_seconds: float = 20.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.settimeout(timeout_seconds)
        handle = os.open(str(folder), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._socket.connect("/proc/self/fd/{0}/qmp.sock".format(handle))
        except OSError:
            self._socket.close()
            raise
        finally:
            os.close(handle)
        self._stream = self._socket.makefile("rwb")
        self._events: List[Dict[str, Any]] = []
        self._read()
        self.run("qmp_capabilities")

    def __enter__(self) -> Qmp:
        return self

    def __exit__(self, *unused: object) -> None:
        self._stream.close()
        self._socket.close()

    def _read(self) -> Dict[str, Any]:
        line = self._stream.readline()
        if not line:
            raise ConnectionError("QEMU closed the connection")
        message: Dict[str, Any] = json.loads(line)
        return message

    def run(self, command: str, arguments: Optional[Dict[str, Any]] = None) -> Any:
        request: Dict[str, Any] = {"execute": command}
        if arguments:
            request["arguments"] = arguments
        self._stream.write(json.dumps(request).encode() + b"\n")
        self._stream.flush()
        while True:
            message = self._read()
            if "event" in message:
                self._events.append(message)
            elif "error" in message:
                raise VirtualNodeError("QEMU: {0} refused: {1}.".format(command, message["error"]["desc"]))
            else:
                return message["return"]

    def wait_event(self, name: str, limit_seconds: float, device: str = "") -> bool:
        """Wait for an event (of a device, when one is named); false when the time is up."""
        end = time.monotonic() + limit_seconds
        while True:
            for message in self._events:
                if message["event"] == name and (not device or message.get("data", {}).get("device") == device):
                    self._events.remove(message)
                    return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._socket.settimeout(left)
            try:
                self._events.append(self._read())
            except (socket.timeout, OSError):
                return False

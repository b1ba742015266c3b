# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP request to one place, for the metadata services of clouds: no proxy whatever the environment says, no
redirect followed, no answer without bounds, and one time limit for all of it."""

from __future__ import annotations

import io
import re
import socket
import time
from typing import Any, Tuple

# The answers of these services have some KiB; more than this is something else.
MOST_BYTES = 256 * 1024


def ask(
    place: Tuple[str, int], request: bytes, connect_seconds: float, answer_seconds: float, most: int = MOST_BYTES
) -> Tuple[int, bytes]:
    """Status and body of the answer. ``answer_seconds`` is the limit for all of it, also for one that dribbles.

    :raises OSError: nobody is there, or no whole answer within the time.
    :raises http.client.HTTPException: what was received is no HTTP, or more than ``most`` bytes.
    """
    deadline = time.monotonic() + answer_seconds
    connection = socket.create_connection(place, timeout=connect_seconds)
    received = b""
    with connection:
        connection.settimeout(_left(deadline))
        connection.sendall(request)
        while len(received) <= most and not _whole(received):
            connection.settimeout(_left(deadline))
            chunk = connection.recv(65536)
            if not chunk:
                break
            received += chunk
    import http.client  # costs more than the rest of the library, and most runs ask nobody

    if len(received) > most:
        raise http.client.HTTPException("it sent more than {0} KiB".format(most // 1024))
    response = http.client.HTTPResponse(_Received(received))  # type: ignore[arg-type]
    response.begin()
    return response.status, response.read()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    return left


def _whole(received: bytes) -> bool:
    """Whether all is there that was announced. A service may leave the connection open although asked to close it."""
    head, end, body = received.partition(b"\r\n\r\n")
    announced = re.search(rb"(?im)^content-length:[ \t]*(\d{1,9})[ \t]*\r?$", head) if end else None
    return announced is not None and len(body) >= int(announced.group(1))


class _Received:
    """Bytes that were received already, in the shape that HTTPResponse reads from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, *_arguments: Any, **_keywords: Any) -> io.BytesIO:
        return io.BytesIO(self._content)

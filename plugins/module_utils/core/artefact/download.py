# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bytes of a URL, within a time limit that holds for all of it.

A socket's own time limit counts from each byte anew, so a server that sends one now and then would hold a node for
days. Here a timer closes the connection when the time is over, whatever it is doing then.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Iterator, List, Optional

from ..resource import NodeError

# How long a connection may stay silent.
SILENCE_SECONDS = 60.0
CHUNK_BYTES = 1024 * 1024
_MIRROR = "see whether the node reaches that server (a proxy in the environment is used), or name a mirror"


class _Watch:
    """The connections of one download; closes them when the time is over."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self.deadline = time.monotonic() + limit_seconds
        self._sockets: List[socket.socket] = []
        self._timer = threading.Timer(limit_seconds, self._close)
        self._timer.daemon = True

    def add(self, connected: socket.socket) -> None:
        self._sockets.append(connected)
        if self.over:
            self._close()

    def _close(self) -> None:
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                # Not SSLSocket.shutdown, which would change the object under the reader.
                socket.socket.shutdown(each, socket.SHUT_RDWR)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.deadline

    def __enter__(self) -> _Watch:
        self._timer.start()
        return self

    def __exit__(self, *dummy: object) -> None:
        self._timer.cancel()


def _opener(watch: _Watch) -> urllib.request.OpenerDirector:
    class Connection(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            watch.add(self.sock)

    class SecureConnection(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            watch.add(self.sock)

    class Handler(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> Any:
            return self.do_open(Connection, req)

    class SecureHandler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> Any:
            return self.do_open(SecureConnection, req, context=ssl.create_default_context())

    return urllib.request.build_opener(Handler(), SecureHandler())


def chunks(url: str, shown: str, limit_seconds: float, silence_seconds: float = SILENCE_SECONDS) -> Iterator[bytes]:
    """The content piece by piece.

    :raises NodeError: when the server does not give the whole of it in time.
    """
    with _Watch(limit_seconds) as watch, _said(shown, watch):
        request = urllib.request.Request(url, headers={"User-Agent": "trainyard.gpu_node"})  # noqa: S310  (Source lets http and https through)
        with _opener(watch).open(request, timeout=min(silence_seconds, limit_seconds)) as response:
            announced = _length(response.headers.get("Content-Length"))
            came = 0
            while True:
                piece = response.read1(CHUNK_BYTES)
                if watch.over:
                    raise socket.timeout("timed out")
                if not piece:
                    break
                came += len(piece)
                yield piece
            if announced is not None and came < announced:
                raise NodeError(
                    shown,
                    "the connection ended after {0} of {1} bytes".format(came, announced),
                    "run it again, or name a mirror",
                )


def _length(text: Optional[str]) -> Optional[int]:
    return int(text) if text is not None and text.isdigit() else None


@contextlib.contextmanager
def _said(shown: str, watch: _Watch) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise NodeError(
            shown,
            "the server answered {0} {1}".format(error.code, error.reason or "").rstrip(),
            "correct the URL, or name a mirror that has the file",
        ) from error
    except (OSError, http.client.HTTPException) as error:
        # What a closed connection looks like depends on where the reader was.
        if watch.over:
            reason = "it did not come whole within {0:g} s".format(watch.limit_seconds)
        else:
            reason = "it cannot be downloaded ({0})".format(_words(error))
        raise NodeError(shown, reason, _MIRROR) from error


def _words(error: BaseException) -> str:
    cause = getattr(error, "reason", error)
    if isinstance(cause, socket.timeout):
        return "the server went silent"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its certificate is not trusted: {0}".format(cause.verify_message)
    return str(getattr(cause, "strerror", None) or cause) or type(cause).__name__

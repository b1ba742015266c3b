# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the cloud which VM size this is. One request, one time limit for all of it, no proxy, no name lookup needed."""

from __future__ import annotations

import io
import json
import socket
import time
import urllib.parse
from typing import Any, Mapping

from ..resource import NodeError
from .types import Metadata

# Azure's instance metadata service: a fixed link-local address on every Azure VM.
URL = "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01"
TIMEOUT_SECONDS = 0.5
# The chassis asset tag of every Azure VM and of no other machine (cloud-init knows Azure by it as well).
AZURE_CHASSIS_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"

ALWAYS = "always"
NEVER = "never"
# The answer is about 4 KiB; more than this is something else.
_LARGEST_ANSWER = 256 * 1024


def read(mode: str, dmi: Mapping[str, str], url: str = URL, timeout_seconds: float = TIMEOUT_SECONDS) -> Metadata:
    """The VM size. ``mode`` auto asks only on a machine that says it is an Azure VM, so nothing is lost elsewhere.

    :raises NodeError: when the URL is not usable. A cloud that does not answer is no error.
    """
    if mode == NEVER:
        return Metadata(None, "it was not to be asked")
    parts = _usable(url)
    if mode != ALWAYS and dmi.get("chassis_asset_tag") != AZURE_CHASSIS_ASSET_TAG:
        return Metadata(None, "this is no Azure VM by its chassis asset tag")
    import http.client  # costs more than the rest of the library, and most runs ask no cloud

    try:
        status, body = _get(parts, timeout_seconds)
    except (OSError, http.client.HTTPException) as error:
        text = "no answer within {0:g} s".format(timeout_seconds) if isinstance(error, socket.timeout) else str(error)
        return Metadata(None, "{0} did not answer ({1})".format(parts.netloc, text or type(error).__name__))
    if status != 200:
        return Metadata(None, "{0} answered with status {1}".format(parts.netloc, status))
    return _size(body, parts.netloc)


def _usable(url: str) -> urllib.parse.SplitResult:
    remedy = "give one such as " + URL
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise NodeError("metadata_url {0!r}".format(url), "it is no URL ({0})".format(error), remedy) from error
    if parts.scheme != "http" or not parts.hostname or port == 0:
        raise NodeError("metadata_url {0!r}".format(url), "it is no http:// URL with a host", remedy)
    if any(ord(character) <= 32 or ord(character) > 126 for character in url):
        raise NodeError("metadata_url {0!r}".format(url), "it has blanks or other characters no URL has", remedy)
    return parts


def _get(parts: urllib.parse.SplitResult, timeout_seconds: float) -> Any:
    """Status and body. A service that dribbles its answer is cut off at the same limit as one that is silent."""
    deadline = time.monotonic() + timeout_seconds
    target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    request = "GET {0} HTTP/1.1\r\nHost: {1}\r\nMetadata: true\r\nConnection: close\r\n\r\n".format(
        target, parts.netloc
    )
    connection = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=timeout_seconds)
    with connection:
        connection.sendall(request.encode("ascii"))
        received = b""
        while len(received) <= _LARGEST_ANSWER:
            left = deadline - time.monotonic()
            if left <= 0:
                raise socket.timeout("timed out")
            connection.settimeout(left)
            chunk = connection.recv(65536)
            if not chunk:
                break
            received += chunk
    import http.client

    response = http.client.HTTPResponse(_Received(received))  # type: ignore[arg-type]
    response.begin()
    return response.status, response.read()


class _Received:
    """Bytes that were received already, in the shape that HTTPResponse reads from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, *_arguments: Any, **_keywords: Any) -> io.BytesIO:
        return io.BytesIO(self._content)


def _size(body: bytes, place: str) -> Metadata:
    try:
        answer = json.loads(body.decode("utf-8"))
    except ValueError:
        return Metadata(None, "{0} answered with something that is not JSON".format(place))
    # /metadata/instance holds what /metadata/instance/compute holds under "compute".
    compute = answer.get("compute", answer) if isinstance(answer, dict) else None
    size = compute.get("vmSize") if isinstance(compute, dict) else None
    if not isinstance(size, str) or not size.strip():
        return Metadata(None, "{0} told no vmSize".format(place))
    return Metadata(size.strip(), None)

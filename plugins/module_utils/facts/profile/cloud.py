# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VM size this is: from the firmware on AWS, and from the metadata service on Azure, GCP and OCI.

One request to the service of the cloud that the firmware names, one time limit for all of it, no proxy, no name lookup.
"""

from __future__ import annotations

import functools
import json
import re
import socket
import urllib.parse
from typing import Any, Mapping, Optional, Tuple

from ...core import http_once
from ...core.frozen import frozen
from ...core.resource import NodeError
from .types import FIRMWARE, Metadata

TIMEOUT_SECONDS = 0.5
ALWAYS = "always"
NEVER = "never"
_SIZE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@frozen
class Service:
    """The metadata service of a cloud, which its machines show by one DMI field. ``key``: what holds the size in its
    JSON answer; None where the answer is a path that ends in it."""

    field: str
    value: str
    url: str
    header: str
    key: Optional[str]


# How each is recognised: as cloud-init does it (tools/ds-identify). The address is the same fixed link-local one.
AZURE = Service(
    "chassis_asset_tag",
    "7783-7084-3265-9085-8269-3286-77",
    "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01",
    "Metadata: true",
    "vmSize",
)
GOOGLE = Service(
    "product_name",
    "Google Compute Engine",
    "http://169.254.169.254/computeMetadata/v1/instance/machine-type",
    "Metadata-Flavor: Google",
    None,
)
ORACLE = Service(
    "chassis_asset_tag",
    "OracleCloud.com",
    "http://169.254.169.254/opc/v2/instance/",
    "Authorization: Bearer Oracle",
    "shape",
)
SERVICES: Tuple[Service, ...] = (AZURE, GOOGLE, ORACLE)
# The default of the option: stands for the service of the machine's own cloud.
URL = AZURE.url
# On AWS the firmware says which instance type it is, as aws-ofi-nccl reads it.
AMAZON = "Amazon EC2"


def read(mode: str, dmi: Mapping[str, str], url: str = URL, timeout_seconds: float = TIMEOUT_SECONDS) -> Metadata:
    """The VM size. ``mode`` auto asks only on a machine whose firmware names a cloud with such a service, so nothing is
    lost elsewhere.

    :raises NodeError: when the URL is not usable. A cloud that does not answer is no error.
    """
    if dmi.get("sys_vendor") == AMAZON and (mode != ALWAYS or url == URL):
        told = dmi.get("product_name", "")
        if _SIZE.match(told):
            return Metadata(told, None, FIRMWARE)
        return Metadata(None, "the firmware says that this is {0}, and not which instance type".format(AMAZON))
    if mode == NEVER:
        return Metadata(None, "it was not to be asked")
    parts = _usable(url)
    service = next((one for one in SERVICES if dmi.get(one.field) == one.value), None)
    if service is None:
        if mode != ALWAYS:
            return Metadata(None, "this is no VM of Azure, GCP or OCI by its firmware")
        service = AZURE
    return _ask(_usable(service.url) if url == URL else parts, service, timeout_seconds)


@functools.lru_cache(maxsize=None)
def _ask(parts: urllib.parse.SplitResult, service: Service, timeout_seconds: float) -> Metadata:
    """Once in a process: a node that is observed again after a change is still of that size."""
    import http.client  # costs more than the rest of the library, and most runs ask no cloud

    try:
        status, body = _get(parts, service.header, timeout_seconds)
    except (OSError, http.client.HTTPException) as error:
        text = "no answer within {0:g} s".format(timeout_seconds) if isinstance(error, socket.timeout) else str(error)
        return Metadata(None, "{0} did not answer ({1})".format(parts.netloc, text or type(error).__name__))
    if status != 200:
        return Metadata(None, "{0} answered with status {1}".format(parts.netloc, status))
    return _size(body, service.key, parts.netloc)


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


def _get(parts: urllib.parse.SplitResult, header: str, timeout_seconds: float) -> Any:
    """Status and body. A service that dribbles its answer is cut off at the same limit as one that is silent."""
    target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    request = "GET {0} HTTP/1.1\r\nHost: {1}\r\n{2}\r\nConnection: close\r\n\r\n".format(target, parts.netloc, header)
    place = (parts.hostname or "", parts.port or 80)
    return http_once.ask(place, request.encode("ascii"), timeout_seconds, timeout_seconds)


def _size(body: bytes, key: Optional[str], place: str) -> Metadata:
    if key is None:
        last = body.decode("utf-8", "replace").strip().rpartition("/")[2]
        return Metadata(last, None) if _SIZE.match(last) else Metadata(None, "{0} told no machine type".format(place))
    try:
        answer = json.loads(body.decode("utf-8"))
    except ValueError:
        return Metadata(None, "{0} answered with something that is not JSON".format(place))
    # Azure's /metadata/instance holds what /metadata/instance/compute holds under "compute".
    inner = answer.get("compute", answer) if isinstance(answer, dict) else None
    size = inner.get(key) if isinstance(inner, dict) else None
    if not isinstance(size, str) or not _SIZE.match(size.strip()):
        return Metadata(None, "{0} told no {1}".format(place, key))
    return Metadata(size.strip(), None)

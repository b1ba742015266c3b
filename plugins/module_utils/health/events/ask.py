# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the cloud, or the site's program, which events are pending; and tell Azure that one may start.

Azure's service is asked at its one fixed address, without a proxy, a name lookup or a redirect. Where nobody has
that address, asking costs half a second at most. The first request for a machine may take two minutes, as it switches
the service on ("Enabling and disabling Scheduled Events"), so the service waits that long for it.
"""

from __future__ import annotations

import json
import re
import socket
from typing import Mapping, Optional, Sequence, Tuple

from ...core import http_once
from ...core.host import Host
from ...core.resource import NodeError
from ...facts.profile import cloud
from . import read
from .types import Answer

#: The metadata service of Azure, which every machine of it sees there and nobody else does.
AZURE = ("169.254.169.254", 80)
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
COMPUTE = "/metadata/instance/compute?api-version=2021-02-01"
CONNECT_SECONDS = 0.5
#: Of a person who looks, in all.
ANSWER_SECONDS = 0.8
#: Of the service: until it is switched on, and afterwards.
FIRST_SECONDS, LATER_SECONDS = 125.0, 10.0
PROGRAM_SECONDS = 20.0
Place = Tuple[str, int]


def is_azure(dmi: Mapping[str, str]) -> bool:
    """Whether the firmware says that this is a virtual machine of Azure, by the tag that cloud-init goes by too."""
    return dmi.get(cloud.AZURE.field) == cloud.AZURE.value


def azure(place: Place = AZURE, answer_seconds: float = ANSWER_SECONDS) -> Answer:
    """:raises NodeError: nobody is there, or what was answered is no document of events."""
    return read.azure(_exchange(place, "GET", EVENTS, b"", answer_seconds), _name(place))


def machine_name(place: Place = AZURE) -> Optional[str]:
    """What Azure calls this machine, by which an event names it; None: it does not say."""
    try:
        body = _exchange(place, "GET", COMPUTE, b"", ANSWER_SECONDS)
        found = json.loads(body.decode("utf-8"))
        name = found.get("name") if isinstance(found, dict) else None
    except (NodeError, ValueError, RecursionError):
        return None
    usable = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", name)
    return name if usable else None


def approve(ids: Sequence[str], place: Place = AZURE) -> None:
    """Tell Azure that these events may start before their time.

    :raises NodeError: it did not take that.
    """
    body = json.dumps({"StartRequests": [{"EventId": one} for one in ids]}).encode("ascii")
    _exchange(place, "POST", EVENTS, body, LATER_SECONDS)


def program(host: Host, argv: Sequence[str]) -> Answer:
    """:raises NodeError: it fails, takes too long, or prints something else."""
    output = host.run(argv, timeout_seconds=PROGRAM_SECONDS).stdout.encode("utf-8")
    if len(output) > http_once.MOST_BYTES:
        raise NodeError(argv[0], "it printed {0} bytes".format(len(output)), "have it print the pending events only")
    return read.program(output, argv[0])


def _exchange(place: Place, method: str, path: str, body: bytes, answer_seconds: float) -> bytes:
    import http.client

    length = "Content-Type: application/json\r\nContent-Length: {0}\r\n".format(len(body)) if body else ""
    head = "{0} {1} HTTP/1.1\r\nHost: {2}\r\nMetadata: true\r\n{3}Connection: close\r\n\r\n"
    request = head.format(method, path, _name(place), length).encode("ascii") + body
    try:
        status, answer = http_once.ask(place, request, min(CONNECT_SECONDS, answer_seconds), answer_seconds)
    except (OSError, http.client.HTTPException) as error:
        told = "no answer in time" if isinstance(error, socket.timeout) else str(error) or type(error).__name__
        raise NodeError(_name(place), "it did not answer ({0})".format(told), "ask it again") from error
    if status != 200:
        raise NodeError(_name(place), "it answered with status {0}".format(status), "ask it again")
    return answer


def _name(place: Place) -> str:
    return place[0] if place[1] == 80 else "{0}:{1}".format(*place)

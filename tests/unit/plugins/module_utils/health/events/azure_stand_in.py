# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the metadata service of Azure, on the loopback interface of this machine: it answers as documented.

Microsoft Learn, "Azure Metadata Service: Scheduled Events for Linux VMs", api-version 2020-07-01. It is the only one
that a test may ask; see ``nobody_asks_azure`` in the tests.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from email.utils import formatdate

NAME = "scale_set_3"
ID = "602d9444-d2cd-49c7-8624-8643e7171297"
OTHER_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
NOW = 1_800_000_000.0
PATH = "/metadata/scheduledevents?api-version=2020-07-01"


def event(kind, status="Scheduled", seconds=900.0, name=ID, resources=(NAME,), **more):
    """As the service words it: the time is blank once an event has started."""
    told = {
        "EventId": name,
        "EventStatus": status,
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": list(resources),
        "NotBefore": "" if status == "Started" else formatdate(NOW + seconds, usegmt=True),
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    return dict(told, **more)


class Azure:
    """``events`` are pending; ``approved`` were asked to start. ``raw``: bytes to answer with in place of a document.
    ``pause``: seconds before each piece of an answer; ``pieces``: how many there are."""

    def __init__(self):
        self.events, self.incarnation, self.approved, self.requests = [], 1, [], []
        self.raw, self.pause, self.pieces, self.stays_open, self.name = None, 0.0, 1, False, NAME
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=32)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def place(self):
        return self._listener.getsockname()[:2]

    def set(self, *events):
        self.events, self.incarnation = list(events), self.incarnation + 1

    def stop(self):
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self):
        while True:
            try:
                connection, dummy = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    self._one(connection)
                except OSError:
                    pass

    def _one(self, connection):
        received = connection.recv(65536)
        head, dummy, body = received.partition(b"\r\n\r\n")
        self.requests.append(head.decode())
        answer = self.raw if self.raw is not None else self._answer(head.decode().splitlines(), body)
        size = max(1, len(answer) // self.pieces)
        for begin in range(0, len(answer), size):
            if self._ended.wait(self.pause):
                return
            connection.sendall(answer[begin : begin + size])
        if self.stays_open:
            self._ended.wait(10)

    def _answer(self, lines, body):
        method, path, dummy = lines[0].split(" ")
        if "metadata: true" not in [one.lower() for one in lines]:
            return http(b"", "400 Bad Request")
        if path.startswith("/metadata/instance/compute"):
            return http(json.dumps({"name": self.name, "vmSize": "Standard_ND96isr_H100_v5"}).encode())
        if path != PATH:
            return http(b"", "404 Not Found")
        if method == "GET":
            return http(json.dumps({"DocumentIncarnation": self.incarnation, "Events": self.events}).encode())
        asked = [one["EventId"] for one in json.loads(body)["StartRequests"]]
        if not all(one in [each["EventId"] for each in self.events] for one in asked):
            return http(b"", "400 Bad Request")
        self.approved += asked
        return http(b"")


def http(body, status="200 OK"):
    head = "HTTP/1.1 {0}\r\nContent-Type: application/json\r\nContent-Length: {1}\r\n\r\n".format(status, len(body))
    return head.encode() + body


def unused_place():
    """A port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[:2]


def elapsed(act):
    begin = time.monotonic()
    act()
    return time.monotonic() - begin

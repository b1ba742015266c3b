# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking the cloud: a real service on the loopback interface, kind and unkind."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.profile import cloud
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resource import NodeError

AZURE = {"chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}
COMPUTE = {"vmSize": "Standard_ND96asr_v4", "location": "westeurope"}


class Service:
    """Answers each connection with ``pieces``, a pause after each; keeps what it was asked."""

    def __init__(self, pieces, pause=0.0, close=True):
        self.pieces, self.pause, self.close = pieces, pause, close
        self.asked = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return "http://127.0.0.1:{0}/metadata/instance/compute?api-version=2021-02-01".format(
            self.listener.getsockname()[1]
        )

    def serve(self):
        while True:
            try:
                connection, dummy = self.listener.accept()
            except OSError:
                return
            with connection:
                self.asked.append(connection.recv(65536).decode())
                try:
                    for piece in self.pieces:
                        connection.sendall(piece)
                        if self.ended.wait(self.pause):
                            return
                    if not self.close:
                        self.ended.wait(10)
                except OSError:
                    pass

    def stop(self):
        self.ended.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)


@pytest.fixture
def service():
    started = []

    def start(*pieces, **options):
        started.append(Service(pieces, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def answer(content, status="200 OK"):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return "HTTP/1.1 {0}\r\nContent-Length: {1}\r\n\r\n".format(status, len(body)).encode() + body


def test_the_vm_size_is_read_with_the_header_that_azure_wants(service):
    azure = service(answer(COMPUTE))
    found = cloud.read("auto", AZURE, azure.url, 5)
    assert (found.vm_size, found.reason) == ("Standard_ND96asr_v4", None)
    (request,) = azure.asked
    assert request.startswith("GET /metadata/instance/compute?api-version=2021-02-01 HTTP/1.1\r\n")
    assert "\r\nMetadata: true\r\n" in request


def test_the_whole_instance_document_and_chunks_are_understood(service):
    body = json.dumps({"compute": COMPUTE, "network": {}}).encode()
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    assert cloud.read("always", {}, service(chunked).url, 5).vm_size == "Standard_ND96asr_v4"


def test_proxies_are_not_asked(service, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert cloud.read("always", {}, service(answer(COMPUTE)).url, 5).vm_size == "Standard_ND96asr_v4"


def test_only_an_azure_machine_asks_by_itself(service):
    azure = service(answer(COMPUTE))
    for dmi in ({}, {"chassis_asset_tag": "other"}):
        assert "no Azure VM" in cloud.read("auto", dmi, azure.url, 5).reason
    assert cloud.read("never", AZURE, azure.url, 5).vm_size is None
    assert azure.asked == []


@pytest.mark.parametrize(
    "content, words",
    [
        (answer(b"<html>", "200 OK"), "not JSON"),
        (answer({"error": "x"}, "400 Bad Request"), "status 400"),
        (answer({"name": "x"}), "no vmSize"),
        (answer({"vmSize": ""}), "no vmSize"),
        (answer({"vmSize": 5}), "no vmSize"),
        (answer([1]), "no vmSize"),
        (answer(b"\xff\xfe"), "not JSON"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "did not answer"),
        (b"", "did not answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "did not answer"),
    ],
)
def test_an_odd_answer_is_a_reason_and_no_error(service, content, words):
    found = cloud.read("always", {}, service(content).url, 5)
    assert found.vm_size is None and words in found.reason


def test_a_closed_port_is_a_reason():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert "did not answer" in cloud.read("always", {}, "http://127.0.0.1:{0}/".format(port), 5).reason


@pytest.mark.parametrize("pieces", [(), (b"HTTP/1.1 200 OK\r\n",) + (b"X-Slow: 1\r\n",) * 100])
def test_silence_and_dribbling_end_at_the_same_limit(service, pieces):
    slow = service(*pieces, pause=0.1, close=False)
    begin = time.monotonic()
    found = cloud.read("always", {}, slow.url, 0.5)
    assert time.monotonic() - begin < 1.0
    assert found.vm_size is None and "within 0.5 s" in found.reason


@pytest.mark.parametrize(
    "url",
    [
        "",
        "169.254.169.254",
        "https://127.0.0.1/",
        "http://",
        "http://127.0.0.1:port/",
        "http://h/a b",
        "http://h/\r\nX: y",
    ],
)
def test_a_url_that_cannot_be_asked_is_an_error(url):
    with pytest.raises(NodeError) as caught:
        cloud.read("always", {}, url, 0.5)
    assert "metadata_url" in str(caught.value)

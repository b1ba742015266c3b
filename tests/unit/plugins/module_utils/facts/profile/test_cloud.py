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

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile import cloud

GOOGLE = {"sys_vendor": "Google", "product_name": "Google Compute Engine"}
ORACLE = {"chassis_asset_tag": "OracleCloud.com"}
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


def test_only_a_machine_of_a_cloud_asks_by_itself(service):
    azure = service(answer(COMPUTE))
    for dmi in ({}, {"chassis_asset_tag": "other"}, {"sys_vendor": "Google"}, {"product_name": "OracleCloud.com"}):
        assert "no VM of Azure, GCP or OCI" in cloud.read("auto", dmi, azure.url, 5).reason
    for dmi in (AZURE, GOOGLE, ORACLE):
        assert cloud.read("never", dmi, azure.url, 5).vm_size is None
    assert azure.asked == []


@pytest.mark.parametrize(
    "dmi, content, header, size",
    [
        (GOOGLE, b"projects/1234/machineTypes/a3-megagpu-8g", "Metadata-Flavor: Google", "a3-megagpu-8g"),
        (ORACLE, {"shape": "BM.GPU.H100.8", "region": "iad"}, "Authorization: Bearer Oracle", "BM.GPU.H100.8"),
        (AZURE, COMPUTE, "Metadata: true", "Standard_ND96asr_v4"),
    ],
)
def test_each_cloud_is_asked_in_its_own_way(service, dmi, content, header, size):
    one = service(answer(content))
    assert cloud.read("auto", dmi, one.url, 5) == cloud.Metadata(size, None)
    (request,) = one.asked
    assert request.count(header) == 1 and "\r\n" + header + "\r\n" in request


@pytest.mark.parametrize("dmi, path", [(GOOGLE, "/computeMetadata/v1/"), (ORACLE, "/opc/v2/"), (AZURE, "/metadata/")])
def test_the_default_address_is_that_of_the_machines_own_cloud(monkeypatch, dmi, path):
    asked = []

    def get(parts, header, timeout):
        asked.append(parts)
        raise OSError("nobody is asked in a test")

    monkeypatch.setattr(cloud, "_get", get)
    assert cloud.read("auto", dmi).vm_size is None
    assert [one.hostname for one in asked] == ["169.254.169.254"] and asked[0].path.startswith(path)


@pytest.mark.parametrize("dmi, content", [(GOOGLE, b""), (GOOGLE, b"<html>\n</html>"), (ORACLE, {"shape": "a b\nc"})])
def test_an_answer_that_is_no_size_is_a_reason(service, dmi, content):
    found = cloud.read("auto", dmi, service(answer(content)).url, 5)
    assert found.vm_size is None and "told no" in found.reason


@pytest.mark.parametrize("mode", ["auto", "never"])
def test_on_aws_the_firmware_tells_and_nobody_is_asked(service, mode):
    one = service(answer(COMPUTE))
    dmi = {"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"}
    assert cloud.read(mode, dmi, one.url, 5) == cloud.Metadata("p5.48xlarge", None, "firmware")
    for odd in ({"sys_vendor": "Amazon EC2"}, {"sys_vendor": "Amazon EC2", "product_name": "a b"}):
        assert "not which instance type" in cloud.read(mode, odd, one.url, 5).reason
    # Whoever writes this product name himself is not taken for Amazon.
    assert cloud.read("never", {"sys_vendor": "QEMU", "product_name": "p5.48xlarge"}, one.url, 5).vm_size is None
    assert one.asked == []


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

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Artefacts from a real server that breaks off, stalls, lies and redirects; after each failure nothing is left."""

from __future__ import annotations

import hashlib
import http.server
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import artefact
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.artefact import download
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError

CONTENT = bytes(range(256)) * 12000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FOLDER = "/var/lib/gpu_node/downloads"


class Handler(http.server.BaseHTTPRequestHandler):
    """What a path does is its name; ``ended`` lets those that wait go."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *dummy):
        pass

    def do_GET(self):  # pylint: disable=invalid-name
        self.server.asked.append((self.path, self.headers["Host"]))
        self.close_connection = True
        name = self.path.split("?")[0].strip("/").rsplit("/", 1)[-1].split(".")[0]
        try:
            getattr(self, name, self.missing)()
        except OSError:
            pass  # the other side hung up, as it should

    def head(self, length, status=200, **headers):
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()

    def good(self):
        self.head(len(CONTENT))
        self.wfile.write(CONTENT)

    def without_length(self):
        self.head(None, Connection="close")
        self.wfile.write(CONTENT)

    def broken_without_length(self):
        self.head(None, Connection="close")
        self.wfile.write(CONTENT[:1000])

    def broken(self):
        self.head(len(CONTENT))
        self.wfile.write(CONTENT[: len(CONTENT) // 2])

    def too_long(self):
        self.head(len(CONTENT) + 5)
        self.wfile.write(CONTENT + b"extra")

    def length_too_small(self):
        self.head(1000)
        self.wfile.write(CONTENT)

    def silent(self):
        self.head(len(CONTENT))
        self.wfile.write(CONTENT[:5000])
        self.server.ended.wait(30)

    def no_answer(self):
        self.server.ended.wait(30)

    def trickle(self):
        self.head(len(CONTENT))
        while not self.server.ended.wait(0.05):
            self.wfile.write(b"x")

    def trickled_head(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not self.server.ended.wait(0.05):
            self.wfile.write(b"x")

    def moved(self):
        self.head(0, 302, Location="/other/good.tar.gz")

    def circle(self):
        self.head(0, 302, Location=self.path)

    def to_file(self):
        self.head(0, 302, Location="file:///etc/passwd")

    def refused(self):
        self.head(0, 503)

    def missing(self):
        self.head(0, 404)


@pytest.fixture(name="server", scope="module")
def _server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.ended, server.asked = threading.Event(), []
        server.url = "http://127.0.0.1:{0}/mirror/".format(server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.ended.set()
        server.shutdown()


@pytest.fixture(name="host")
def _host(tmp_path, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "node"
    (root / "var/lib").mkdir(parents=True)
    return Host(str(root))


def left(host):
    """Everything below the root but the lock."""
    found = [os.path.join(at, name) for at, folders, files in os.walk(host.root) for name in folders + files]
    return sorted(one[len(host.root) :] for one in found if not one.startswith(host.root + "/run"))


def test_a_good_file_comes_whole_and_is_used_again(server, host):
    source = artefact.Source(server.url + "good.tar.gz", SHA256.upper())
    path = artefact.fetch(host, source, FOLDER)
    assert path == "{0}/{1}.tar.gz".format(FOLDER, SHA256)
    with open(host.path(path), "rb") as stream:
        assert stream.read() == CONTENT
    assert os.stat(host.path(FOLDER)).st_mode & 0o777 == 0o700 and os.stat(host.path(path)).st_mode & 0o777 == 0o600
    asked = len(server.asked)
    assert artefact.fetch(host, source, FOLDER) == path and len(server.asked) == asked
    with open(host.path(path), "r+b") as stream:
        stream.write(b"damaged")
    assert artefact.fetch(host, source, FOLDER) == path and len(server.asked) == asked + 1
    artefact.discard(host, source, FOLDER)
    assert left(host) == ["/var", "/var/lib", "/var/lib/gpu_node"]


@pytest.mark.parametrize("name", ["without_length", "moved.tbz", "good?sig=secret"])
def test_other_ways_to_a_good_file(server, host, name):
    path = artefact.fetch(host, artefact.Source(server.url + name, SHA256), FOLDER)
    assert os.path.getsize(host.path(path)) == len(CONTENT)


@pytest.mark.parametrize(
    "name, told",
    [
        ("missing", "the server answered 404 Not Found; correct the URL"),
        ("refused", "the server answered 503"),
        ("broken", "the connection ended after"),
        ("broken_without_length", "its sha256 is"),
        ("too_long", "its sha256 is"),
        ("length_too_small", "its sha256 is"),
        ("circle", "the server answered 302"),
        ("to_file", "the server answered 302"),
    ],
)
def test_of_a_file_that_is_not_right_nothing_is_left(server, host, name, told):
    before = left(host)
    with pytest.raises(NodeError) as error:
        artefact.fetch(host, artefact.Source(server.url + name + ".tbz?sig=secret", SHA256), FOLDER)
    assert told in str(error.value) and server.url + name + ".tbz" in str(error.value)
    assert "secret" not in str(error.value)
    assert left(host) == before


@pytest.mark.parametrize("name", ["silent", "no_answer", "trickle", "trickled_head"])
def test_a_server_that_stalls_is_given_up_in_time(server, host, name):
    before, started = left(host), time.monotonic()
    with pytest.raises(NodeError) as error:
        artefact.fetch(host, artefact.Source(server.url + name, SHA256), FOLDER, limit_seconds=0.7)
    assert "it did not come whole within 0.7 s" in str(error.value)
    assert time.monotonic() - started < 5 and left(host) == before


def test_silence_is_given_up_before_the_whole_time_is_over(server):
    with pytest.raises(NodeError) as error:
        list(download.chunks(server.url + "silent", "it", limit_seconds=20, silence_seconds=0.3))
    assert "the server went silent" in str(error.value)


def test_nobody_listens(host):
    with pytest.raises(NodeError) as error:
        artefact.fetch(host, artefact.Source("http://127.0.0.1:9/x.tar.gz", SHA256), FOLDER)
    assert "Connection refused" in str(error.value) and left(host) == ["/var", "/var/lib"]


def test_the_proxy_of_the_environment_is_asked(server, host, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    artefact.fetch(host, artefact.Source("http://hpc.invalid/good.tar.gz", SHA256), FOLDER)
    assert server.asked[-1] == ("http://hpc.invalid/good.tar.gz", "hpc.invalid")


@pytest.mark.parametrize("form", ["{0}", "file://{0}", "file://localhost{0}"])
def test_a_file_on_the_node(host, form):
    with open(host.path("/var/a file.tar.xz"), "wb") as stream:
        stream.write(CONTENT)
    given_path = "/var/a file.tar.xz" if form == "{0}" else "/var/a%20file.tar.xz"
    path = artefact.fetch(host, artefact.Source(form.format(given_path), SHA256), FOLDER)
    assert path.endswith(SHA256 + ".tar.xz") and os.path.exists(host.path("/var/a file.tar.xz"))


def test_a_file_on_the_node_that_is_missing_or_none(host):
    os.mkfifo(host.path("/var/pipe"))
    for name in ("/var/gone", "/var", "/var/pipe"):
        with pytest.raises(NodeError) as error:
            artefact.fetch(host, artefact.Source(name, SHA256), FOLDER)
        assert str(error.value).startswith(name + ": it cannot be read")
    assert left(host) == ["/var", "/var/lib", "/var/pipe"]


def test_what_a_power_cut_left_is_written_over_and_a_link_is_not_followed(server, host):
    os.makedirs(host.path(FOLDER))
    source = artefact.Source(server.url + "good", SHA256)
    with open(host.path("/var/victim"), "wb") as stream:
        stream.write(b"precious")
    os.symlink(host.path("/var/victim"), host.path("{0}/.{1}.partial".format(FOLDER, SHA256)))
    os.symlink(host.path("/var/victim"), host.path("{0}/{1}".format(FOLDER, SHA256)))
    path = artefact.fetch(host, source, FOLDER)
    assert not os.path.islink(host.path(path)) and os.listdir(host.path(FOLDER)) == [SHA256]
    with open(host.path("/var/victim"), "rb") as stream:
        assert stream.read() == b"precious"


def test_a_folder_of_somebody_elses_is_refused(server, host):
    os.makedirs(host.path("/var/lib/gpu_node"))
    os.symlink("/var", host.path(FOLDER))
    with pytest.raises(NodeError) as error:
        artefact.fetch(host, artefact.Source(server.url + "good", SHA256), FOLDER)
    assert "it is not a folder of this user's own" in str(error.value)


def test_a_folder_that_another_user_made_is_refused(server, host, monkeypatch):
    """He could put another file in the place of the verified one."""
    os.makedirs(host.path(FOLDER), mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: os.lstat(host.path(FOLDER)).st_uid + 1)
    with pytest.raises(NodeError, match="it is not a folder of this user's own; move it away, then run it again"):
        artefact.fetch(host, artefact.Source(server.url + "good", SHA256), FOLDER)
    assert os.listdir(host.path(FOLDER)) == []


ON_A_SMALL_DISK = """
import os, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import artefact
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
try:
    artefact.fetch(Host(sys.argv[1]), artefact.Source(sys.argv[2], sys.argv[3]), "/small/folder")
except Exception as error:
    print(type(error).__name__, error)
print(os.listdir(sys.argv[1] + "/small"))
"""


def test_a_full_disk_is_told_and_left_empty(server, host):
    if shutil.which("unshare") is None:
        pytest.skip("a small disk is made with unshare: install util-linux")
    os.mkdir(host.path("/small"))
    mount = 'mount -t tmpfs -o size=256k none "$1/small" || exit 77; shift; exec "$@"'
    arguments = [sys.executable, "-c", ON_A_SMALL_DISK, host.root, server.url + "good", SHA256]
    done = subprocess.run(
        ["unshare", "-r", "-m", "sh", "-c", mount, "sh", host.root, *arguments],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("a small disk needs user namespaces or root: {0}".format(done.stderr.strip()))
    assert "No space left on device); free some space on that file system" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "source, told",
    [
        ("", "no URL"),
        ("hpcx.tbz", "no URL"),
        ("ftp://mirror/hpcx.tbz", "no URL"),
        ("http:///hpcx.tbz", "no URL"),
        ("http://mirror:port/x", "no URL"),
        ("http://mirror/a b", "no URL"),
        ("http://[::1/x", "no URL"),
        ("https://mirror/\nHost: other", "no URL"),
        ("https://someone:word@mirror/x", "user name"),
        ("file://server/x.tbz", "names no file"),
        ("file:", "names no file"),
        ("/var/", "names no file"),
        ("/a\0b", "names no file"),
    ],
)
def test_a_source_that_cannot_be_is_one_sentence(source, told):
    with pytest.raises(NodeError) as error:
        artefact.Source(source, SHA256)
    assert told in str(error.value)
    assert "word" not in str(error.value)


@pytest.mark.parametrize("sha256", ["", "sha256:" + SHA256, SHA256[1:], SHA256 + "0", "g" * 64])
def test_a_sum_that_cannot_be(sha256):
    with pytest.raises(NodeError) as error:
        artefact.Source("/x", sha256)
    assert "64 hexadecimal digits" in str(error.value)


@pytest.mark.parametrize(
    "source, suffix",
    [
        ("/a/hpcx-v2.24.1-gcc-doca_ofed-ubuntu22.04-cuda12-x86_64.tbz", ".tbz"),
        ("https://m/x.tar.gz?sig=a.b", ".tar.gz"),
        ("https://m/enroot_3.5.0-1_amd64.deb", ".deb"),
        ("https://m/x.tar.xz#top", ".tar.xz"),
        ("https://m/download", ""),
        ("https://m/a.b/c", ""),
        ("https://host.com", ".com"),
    ],
)
def test_the_name_of_the_file(source, suffix):
    assert artefact.Source(source, SHA256).file_name == SHA256 + suffix


@given(st.text(max_size=40) | st.text(max_size=30).map(lambda text: "http://" + text))
def test_every_text_is_a_source_or_one_sentence(text):
    try:
        source = artefact.Source(text, SHA256)
    except NodeError as error:
        assert "\n" not in str(error)
    else:
        assert "/" not in source.file_name and (source.path is None or source.path.startswith("/"))

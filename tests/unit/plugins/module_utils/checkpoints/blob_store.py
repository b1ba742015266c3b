# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A store of blobs on the loopback: Azurite, a proxy before it that counts and can be busy, and signatures for it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import http.server
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on
from ansible_collections.trainyard.gpu_node.tools.setup import store

ACCOUNT = "devstoreaccount1"
# Of the emulator's documentation, the same everywhere.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
API = "2021-10-04"
BUSY = (
    b'<?xml version="1.0"?><Error><Code>ServerBusy</Code><Message>Ingress is over the account limit.</Message></Error>'
)


def signature(rights="rwdlac", begins="", ends="2036-01-01T00:00:00Z", key=KEY):
    """A shared access signature of the account."""
    text = "\n".join([ACCOUNT, rights, "b", "sco", begins, ends, "", "https,http", API, "", ""])
    digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    fields = {"sv": API, "ss": "b", "srt": "sco", "sp": rights, "st": begins, "se": ends, "spr": "https,http"}
    fields["sig"] = base64.b64encode(digest).decode()
    return urllib.parse.urlencode({name: value for name, value in fields.items() if value})


class Azurite:
    """The emulator, with one container; ``url`` leads through the proxy."""

    def __init__(self, folder, environment):
        self.environment = dict(os.environ, **environment)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = ["node", str(store.folder() / store.AZURITE), "--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        command += ["--location", str(folder), "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        self.log = open(str(folder) + ".log", "wb")
        self.process = subprocess.Popen(command, env=self.environment, stdout=self.log, stderr=self.log)
        self._wait()
        status = self.request("PUT", "/ckpt?restype=container")[0]
        assert status == 201, status
        self.proxy = Proxy(self.port)
        self.url = "http://127.0.0.1:{0}/{1}/ckpt".format(self.proxy.port, ACCOUNT)

    def _wait(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.poll() is None, open(self.log.name).read()
            time.sleep(0.2)
        raise AssertionError("Azurite does not listen")

    def request(self, method, path, body=b""):
        """(status, headers, content) of a blob or of the container, past the proxy."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        glue = "&" if "?" in path else "?"
        headers = {"x-ms-version": API, "x-ms-blob-type": "BlockBlob", "Content-Length": str(len(body))}
        connection.request(method, "/" + ACCOUNT + path + glue + signature(), body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), content

    def names(self, prefix):
        content = self.request("GET", "/ckpt?restype=container&comp=list&prefix=" + prefix)[2].decode()
        return sorted(part.split("</Name>")[0] for part in content.split("<Name>")[1:])

    def md5(self, name):
        return base64.b64decode(self.request("HEAD", "/ckpt/" + name)[1]["content-md5"]).hex()

    def stop(self):
        self.proxy.stop()
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


def started(folder):
    """The emulator, where npm can install it; else the test is skipped."""
    try:
        store.unpack()
    except store.StoreError as error:
        pytest.skip(str(error))
    environment = store.environment()
    if environment is None:
        pytest.skip("node is not installed here")
    return Azurite(folder, environment)


class Proxy:
    """Passes on to the emulator. ``busy``: how many of the next uploads are answered with 503. ``seen``: (when, bytes)
    of each piece of data that came; ``urls``: what was asked for. ``before(command, path)`` runs first."""

    def __init__(self, port):
        self.busy, self.seen, self.urls, self.refused = 0, [], [], 0
        self.before = lambda command, path: None
        proxy, lock = self, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *dummy):
                pass

            def handle_one(self):
                left, body = int(self.headers.get("Content-Length") or 0), b""
                while left:
                    piece = self.rfile.read(min(left, 65536))
                    if not piece:
                        return
                    left -= len(piece)
                    body += piece
                    proxy.seen.append((time.monotonic(), len(piece)))
                proxy.urls.append(self.path)
                proxy.before(self.command, urllib.parse.unquote(self.path))
                with lock:
                    refused = self.command == "PUT" and proxy.busy > 0
                    proxy.busy -= refused
                    proxy.refused += refused
                if refused:
                    status, headers, content = 503, {"x-ms-error-code": "ServerBusy"}, BUSY
                else:
                    status, headers, content = self._passed_on(body)
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length", "keep-alive", "date"):
                        self.send_header(name, value)
                length = headers.get("content-length", headers.get("Content-Length"))
                self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def _passed_on(self, body):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                return answer.status, dict(answer.getheaders()), content

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_one

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # a client that was killed

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def rate(self):
        """Megabits per second between the first and the last piece of data."""
        times = [when for when, dummy in self.seen]
        return sum(size for dummy, size in self.seen) * 8 / 1e6 / (max(times) - min(times))

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Gpunode:
    """``gpunode checkpoint`` on this machine, against the emulator, with its files in a folder of the test."""

    def __init__(self, azurite, folder):
        self.azurite, self.folder = azurite, folder
        self.home = folder / "home"
        self.home.mkdir()
        self.secret = signature()
        self.sas = folder / "sas"
        self.write_secret(self.secret)
        self.work = folder / "work"
        self.work.mkdir()
        self.environment = dict(azurite.environment, HOME=str(self.home))
        self.environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self.environment.pop("SLURM_JOB_ID", None)

    def write_secret(self, text, mode=0o600):
        self.sas.write_text(text + "\n")
        self.sas.chmod(mode)

    def words(self, what, *words):
        # A folder of each test in the container.
        url = "{0}/{1}".format(self.azurite.url, self.folder.name)
        given = [] if what == "plan" else ["--to", url, "--sas-file", str(self.sas), "--work", str(self.work)]
        return [sys.executable, gpunode_on.__file__, "/", "--", "checkpoint", what, *words, *given]

    def start(self, what, *words):
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.words(what, *words), env=self.environment, stdout=pipe, stderr=pipe, text=True, cwd=str(self.folder)
        )

    def run(self, what, *words, status=0):
        """(standard output, standard error)."""
        done = forked.run(
            self.words(what, *words),
            env=self.environment,
            cwd=str(self.folder),
            timeout=150,
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return done.stdout, done.stderr

    def file(self, name, size):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
        return path

    def names(self, name=""):
        top = self.folder.name + "/"
        return [one[len(top) :] for one in self.azurite.names(top + name)]

    def everything_kept(self):
        """All that lies in the folders of work and of the user, as bytes."""
        found = b""
        for top in (self.work, self.home):
            for path in top.rglob("*"):
                found += path.read_bytes() if path.is_file() else b""
        return found

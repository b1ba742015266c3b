# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real API server with etcd on loopback, and clients for it.

The cluster is an API server and nothing else: no controller manager, no scheduler and no kubelet. So pods stay where a
test creates them, a test sets the status of nodes and of PodDisruptionBudgets, and no ServiceAccount is created for a
namespace (hence the admission plugin ServiceAccount is off). Everything else is the default of Kubernetes, with RBAC.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from programs import Programs

Object = Dict[str, Any]
MERGE = "application/merge-patch+json"
ADMIN = "admin-of-this-test"
ACCOUNTS = "accounts"
# Which rights the accounts of the tests use.
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}
_READY_SECONDS = 60.0


class Refused(AssertionError):
    """The server did not accept a request that a test needs."""


@dataclasses.dataclass
class Client:
    """HTTP to an API as one account. ``certificate``: a file; None: the API is the stand-in, which has no TLS."""

    port: int
    token: str
    certificate: Optional[Path] = None

    def __post_init__(self) -> None:
        self._kept: Optional[http.client.HTTPConnection] = None

    def _connection(self) -> http.client.HTTPConnection:
        if self._kept is None:
            if self.certificate is None:
                self._kept = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            else:
                context = ssl.create_default_context(cafile=str(self.certificate))
                self._kept = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
        return self._kept

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Tuple[int, Object]:
        """(status, answer)."""
        headers = {"Authorization": "Bearer " + self.token, "Accept": "application/json", "Content-Type": kind}
        connection = self._connection()
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException):
            connection.close()
            self._kept = None
            raise
        try:
            found = json.loads(text)
        except ValueError:
            found = {"text": text}
        return answer.status, found if isinstance(found, dict) else {"value": found}

    def must(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Object:
        status, answer = self.ask(method, path, body, kind)
        if status >= 300:
            raise Refused("{0} {1}: {2} {3}".format(method, path, status, answer.get("message", answer)))
        return answer


@dataclasses.dataclass
class Cluster:
    """``used``: the resident memory of both programs in MB, at the end of a test."""

    programs: Programs
    folder: Path
    port: int
    ready_seconds: float
    processes: Sequence["subprocess.Popen[bytes]"]

    def __post_init__(self) -> None:
        self.admin = self.client(ADMIN)

    @property
    def certificate(self) -> Path:
        return self.folder / "certificates/apiserver.crt"

    def client(self, token: str) -> Client:
        return Client(self.port, token, self.certificate)

    def kubeconfig(self, path: Path, token: str) -> str:
        """Write one with the context "test"."""
        server = {"server": "https://127.0.0.1:{0}".format(self.port), "certificate-authority": str(self.certificate)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(content), encoding="utf-8")
        path.chmod(0o600)
        return str(path)

    def account(self, name: str, rules: Sequence[Object], namespace: str = "", inside: Sequence[Object] = ()) -> str:
        """A new ServiceAccount with these rules in the whole cluster, and ``inside`` those of one namespace; returns
        its token."""
        group, kind = "rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1"
        subject = {"kind": "ServiceAccount", "name": name, "namespace": ACCOUNTS}
        self.namespace(ACCOUNTS)
        accounts = "/api/v1/namespaces/{0}/serviceaccounts".format(ACCOUNTS)
        self.admin.must("POST", accounts, {"metadata": {"name": name}})
        metadata = {"metadata": {"name": name}}
        for one, place, given in (("ClusterRole", kind, rules), ("Role", kind + "/namespaces/" + namespace, inside)):
            if given:
                reference = {"apiGroup": group, "kind": one, "name": name}
                self.admin.must("POST", "{0}/{1}s".format(place, one.lower()), {**metadata, "rules": list(given)})
                binding = {**metadata, "roleRef": reference, "subjects": [subject]}
                self.admin.must("POST", "{0}/{1}bindings".format(place, one.lower()), binding)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        made = self.admin.must("POST", "{0}/{1}/token".format(accounts, name), asked)
        return str(made["status"]["token"])

    def namespace(self, name: str) -> None:
        status, answer = self.admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        if status not in (201, 409):
            raise Refused(answer.get("message"))

    def used(self, name: str) -> Set[Tuple[str, str]]:
        """(verb, resource) of all requests of an account that its rights allowed."""
        found = set()
        with (self.folder / "audit.log").open(encoding="utf-8") as stream:
            for line in stream:
                one = json.loads(line)
                allowed = one.get("annotations", {}).get("authorization.k8s.io/decision") == "allow"
                if allowed and one["user"]["username"].endswith(":" + name) and "objectRef" in one:
                    parts = [one["objectRef"].get(key) for key in ("resource", "subresource")]
                    found.add((one["verb"], "/".join(part for part in parts if part)))
        return found

    def megabytes(self) -> Dict[str, int]:
        """Resident memory by program."""
        found = {}
        for one in self.processes:
            status = Path("/proc/{0}/status".format(one.pid)).read_text()
            kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
            found[Path(str(one.args[0])).name] = int(kilobytes) // 1024  # type: ignore[index]
        return found


@contextlib.contextmanager
def started(programs: Programs, *options: str) -> Iterator[Cluster]:
    """``options``: more of the API server. The programs end with the context.

    Their data are in memory where there is room: etcd flushes each write.
    """
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="real-kubernetes-", dir=str(memory) if memory.is_dir() else None))
    running: List["subprocess.Popen[bytes]"] = []
    try:
        yield _start(programs, folder, running, options)
    finally:
        for one in reversed(running):
            one.kill()
            one.wait()
        shutil.rmtree(str(folder), ignore_errors=True)


def _start(
    programs: Programs, folder: Path, running: List["subprocess.Popen[bytes]"], options: Sequence[str]
) -> Cluster:
    began = time.monotonic()
    clients, peers, port = _free(3)
    _key(folder / "accounts.key")
    (folder / "tokens.csv").write_text('{0},admin,1,"system:masters"\n'.format(ADMIN))
    (folder / "tokens.csv").chmod(0o600)
    (folder / "audit.json").write_text(json.dumps(_AUDIT))
    store = "http://127.0.0.1:{0}".format(clients)
    peer = "http://127.0.0.1:{0}".format(peers)
    commands = [
        [str(programs.etcd), "--data-dir", str(folder / "etcd"), "--name", "one", "--listen-client-urls", store]
        + ["--advertise-client-urls", store, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        + ["--initial-cluster", "one=" + peer],
        [str(programs.apiserver), "--etcd-servers", store, "--bind-address", "127.0.0.1", "--secure-port", str(port)]
        + ["--cert-dir", str(folder / "certificates"), "--token-auth-file", str(folder / "tokens.csv")]
        + ["--advertise-address", "127.0.0.1", "--service-cluster-ip-range", "10.0.0.0/24"]
        + ["--authorization-mode", "RBAC", "--anonymous-auth=false", "--allow-privileged=true"]
        + ["--service-account-issuer", "https://kubernetes.default.svc", "--endpoint-reconciler-type", "none"]
        + ["--service-account-key-file", str(folder / "accounts.key")]
        + ["--service-account-signing-key-file", str(folder / "accounts.key")]
        + ["--disable-admission-plugins", "ServiceAccount"]
        + ["--audit-policy-file", str(folder / "audit.json"), "--audit-log-path", str(folder / "audit.log")]
        + ["--audit-log-mode", "blocking", *options],
    ]
    for command in commands:
        with (folder / (Path(command[0]).name + ".log")).open("wb") as log:
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=str(folder)))
    _wait(folder, port, running)
    return Cluster(programs, folder, port, time.monotonic() - began, tuple(running))


def _wait(folder: Path, port: int, running: Sequence["subprocess.Popen[bytes]"]) -> None:
    certificate = folder / "certificates/apiserver.crt"
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        ended = [one for one in running if one.poll() is not None]
        if ended or time.monotonic() > deadline:
            logs = [path.read_text(errors="replace")[-1500:] for path in sorted(folder.glob("*.log"))]
            raise AssertionError("the API server is not ready\n" + "\n".join(logs))
        with contextlib.suppress(OSError, ssl.SSLError, http.client.HTTPException):
            if certificate.exists() and Client(port, ADMIN, certificate).ask("GET", "/readyz")[0] == 200:
                return
        time.sleep(0.1)


def _key(path: Path) -> None:
    """With it the server signs the tokens of ServiceAccounts."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    path.write_bytes(made.private_bytes(*form))
    path.chmod(0o600)


def _free(number: int) -> List[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for dummy in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def query(**words: Any) -> str:
    """As the end of a path."""
    return "?" + urllib.parse.urlencode({key: str(value) for key, value in words.items()})


def named(answer: Mapping[str, Any]) -> List[str]:
    return [one["metadata"]["name"] for one in answer["items"]]

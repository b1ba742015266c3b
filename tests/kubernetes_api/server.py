# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the API of a Kubernetes cluster, on loopback: what the real kubectl needs of one, and state.

It is: discovery, and get, list (:mod:`.choose`), create, replace, patch and delete of the kinds in :data:`KINDS`;
resource versions, with the conflict that a stale one gets; JSON merge patches; dry runs; the Status object of each
error. What it answers is what servers answered of which recorded.json has parts, each with its source: test_recorded.py
compares. tests/real_kubernetes sends the same requests to a real API server, and has a table of what differs. A
:class:`Fault` makes a request fail or hang, or lets somebody else act just before it.

It is not: a cluster. Nothing runs, no controller acts, nothing is validated or defaulted, a strategic merge patch
merges mappings and replaces lists, there is no watch and no access control but faults. That the device plugin does what
its configs say is not shown here.
"""

from __future__ import annotations

import copy
import http.server
import json
import re
import threading
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from . import choose

Object = Dict[str, Any]
#: (group, kind, whether it lies in a namespace) by the plural name.
KINDS = {
    "nodes": ("", "Node", False),
    "namespaces": ("", "Namespace", False),
    "configmaps": ("", "ConfigMap", True),
    "pods": ("", "Pod", True),
    "daemonsets": ("apps", "DaemonSet", True),
    "clusterpolicies": ("nvidia.com", "ClusterPolicy", False),
    # Served as v1alpha1 by the operator's CRD; kubectl asks discovery for the version.
    "gpuclusters": ("nvidia.com", "GPUCluster", False),
}
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[a-z.]+))/v1(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?"
)
_RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))
_FIELDS = {one["name"]: one["answer"] for one in _RECORDED["objects"]}
_VERBS = ["create", "delete", "get", "list", "patch", "update"]
_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict"}
_REASONS.update({410: "Expired", 415: "UnsupportedMediaType", 422: "Invalid"})
_INTERNAL = "Internal error occurred: "


@dataclass
class Fault:
    """What happens to requests whose method and path match ``request`` (``PUT .*/configmaps/.*``).

    ``status`` with ``message`` is answered. 500 has a reason with the words of one alone, as from Kubernetes:
    "Internal error occurred: ...", and 422 is of one field (``metadata.name: Invalid value: "x"``). ``hang``: nothing
    is answered, until the end. ``first``: called before the request is served, by somebody else who acts at the same
    time. ``times``: so often, then no more.
    """

    request: str
    status: int = 0
    message: str = ""
    hang: bool = False
    first: Optional[Callable[[], None]] = None
    times: int = 1 << 30


class Refused(Exception):
    """A request that ends in an error. ``details``: of its Status."""

    def __init__(
        self, status: int, message: str, reason: str = "", details: Optional[Mapping[str, Any]] = None
    ) -> None:
        super().__init__(message)
        self.answer: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        if status == 500 and message.startswith(_INTERNAL):
            reason, details = "InternalError", {"causes": [{"message": message[len(_INTERNAL) :]}]}
        reason = reason or _REASONS.get(status, "")
        self.answer.update({"message": message, **({"reason": reason} if reason else {})})
        self.answer.update({} if details is None else {"details": dict(details)}, code=status)


class Api:
    """``with Api() as api: api.add("nodes", {...})``; :meth:`kubeconfig` leads kubectl here."""

    def __init__(self) -> None:
        self.faults: List[Fault] = []
        #: "METHOD path" of each request, without its parameters.
        self.requests: List[str] = []
        #: Who writes, of each request that changes something, as its parameter fieldManager says.
        self.managers: List[str] = []
        self._objects: Dict[Tuple[str, str, str], Object] = {}
        self._version = 100
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    def __enter__(self) -> "Api":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *dummy: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return "http://127.0.0.1:{0}".format(self._server.server_address[1])

    def kubeconfig(self, path: Path, token: str = "a-token-of-a-test") -> str:
        """Write one, with the context "test", and give its path."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    # What tests do and see -------------------------------------------------------------------------------

    def add(self, plural: str, made: Mapping[str, Any]) -> None:
        """Somebody makes an object, or changes it. It has no field that no server has."""
        if plural in _FIELDS:
            _fits(dict(made), _FIELDS[plural], plural)
        with self._lock:
            self._store(plural, copy.deepcopy(dict(made)))

    def get(self, plural: str, name: str, namespace: str = "") -> Optional[Object]:
        with self._lock:
            return copy.deepcopy(self._objects.get((plural, namespace, name)))

    def remove(self, plural: str, name: str, namespace: str = "") -> None:
        with self._lock:
            del self._objects[plural, namespace, name]

    def written(self) -> List[str]:
        """The requests that change something."""
        return [one for one in self.requests if not one.startswith("GET ")]

    # What requests do ------------------------------------------------------------------------------------

    def _store(self, plural: str, made: Object) -> Object:
        group, kind, namespaced = KINDS[plural]
        self._version += 1
        made.update(apiVersion=group + "/v1" if group else "v1", kind=kind)
        made["metadata"] = dict(made.get("metadata") or {}, resourceVersion=str(self._version))
        made["metadata"].setdefault("uid", "uid-{0}".format(self._version))
        made["metadata"].setdefault("creationTimestamp", "2026-01-31T12:00:00Z")
        namespace = made["metadata"].get("namespace", "default") if namespaced else ""
        self._objects[plural, namespace, made["metadata"]["name"]] = made
        return made

    def answer(self, method: str, path: str, query: Mapping[str, List[str]], kind: str, body: bytes) -> Object:
        """:raises Refused: with what is answered then."""
        self.requests.append("{0} {1}".format(method, path))
        self.managers += [] if method == "GET" else query.get("fieldManager", [""])
        for fault in tuple(self.faults):
            if fault.times and re.fullmatch(fault.request, "{0} {1}".format(method, path)):
                fault.times -= 1
                if fault.first is not None:
                    fault.first()
                if fault.hang:
                    self._ended.wait()
                if fault.status:
                    found = _PATH.match(path)
                    if fault.status == 422 and found is not None:
                        raise _invalid(found.group("plural"), found.group("name"), fault.message)
                    named = fault.status in (403, 404, 409) and found is not None
                    details = _details(found.group("plural"), found.group("name")) if named and found else None
                    raise Refused(fault.status, fault.message, details=details)
        with self._lock:
            known = self._discovered(path)
            return known if known is not None else self._of_objects(method, path, query, kind, body)

    def _discovered(self, path: str) -> Optional[Object]:
        return _discovery(path)

    def _of_objects(
        self, method: str, path: str, query: Mapping[str, List[str]], content_type: str, body: bytes
    ) -> Object:
        match = _PATH.fullmatch(path)
        plural = match.group("plural") if match else ""
        if match is None or KINDS.get(plural, ("?",))[0] != (match.group("group") or ""):
            raise Refused(404, "the server could not find the requested resource", details={})
        namespace, name = match.group("namespace") or "", match.group("name")
        if method == "GET" and name is None:
            return self._list(plural, namespace, query)
        given = json.loads(body) if body else {}
        dry = query.get("dryRun") == ["All"]
        if method == "POST" and name is None:
            return self._create(plural, namespace, given, dry)
        found = self._objects.get((plural, namespace, name or ""))
        details, told = _details(plural, name), _told(plural, name)
        if found is None:
            raise Refused(404, told + " not found", details=details)
        if method == "GET":
            return found
        if method == "DELETE":
            if not dry:
                del self._objects[plural, namespace, name or ""]
            # A pod that is deleted is answered, of other kinds that it was done.
            gone = {**details, "uid": found["metadata"]["uid"]}
            success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": gone}
            return found if plural == "pods" else success
        if method == "PATCH":
            if content_type not in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
                raise Refused(415, "415: Unsupported Media Type")
            given = merged(found, given)
        version = (given.get("metadata") or {}).get("resourceVersion")
        if version and version != found["metadata"]["resourceVersion"]:
            reason = "Operation cannot be fulfilled on {0}: the object has been modified".format(told)
            reason += "; please apply your changes to the latest version and try again"
            raise Refused(409, reason, details=details)
        # What changes nothing is no new version.
        return dict(found, **given) if dry or given == found else self._store(plural, given)

    def _list(self, plural: str, namespace: str, query: Mapping[str, List[str]]) -> Object:
        group, kind, dummy = KINDS[plural]
        # An item of a kind of Kubernetes itself says not again what it is.
        known = () if group == "nvidia.com" else ("kind", "apiVersion")
        items = [
            {key: value for key, value in one.items() if key not in known}
            for (other, where, dummy2), one in sorted(self._objects.items())
            if other == plural and namespace in ("", where)
        ]
        try:
            items, more = choose.page(choose.chosen(items, plural, query), query)
        except choose.Wrong as error:
            raise Refused(400, str(error)) from None
        return {
            "kind": kind + "List",
            "apiVersion": group + "/v1" if group else "v1",
            "metadata": {"resourceVersion": str(self._version), **more},
            "items": items,
        }

    def _create(self, plural: str, namespace: str, given: Object, dry: bool) -> Object:
        name = (given.get("metadata") or {}).get("name")
        if not name:
            needs = "name or generateName is required"
            raise _required(KINDS[plural][1], "metadata.name", needs)
        if KINDS[plural][2] and ("namespaces", "", namespace) not in self._objects:
            raise Refused(404, _told("namespaces", namespace) + " not found", details=_details("namespaces", namespace))
        if (plural, namespace, name) in self._objects:
            told, details = _told(plural, name) + " already exists", _details(plural, name)
            raise Refused(409, told, "AlreadyExists", details)
        if not dry:
            return self._store(plural, given)
        group, kind, dummy = KINDS[plural]
        return {"kind": kind, "apiVersion": group + "/v1" if group else "v1", **given}


def _fits(made: Any, known: Any, place: str) -> None:
    """Whether names and types are those of a recorded object. A key of a map is any text."""
    assert isinstance(made, type(known)), "{0} is no {1}".format(place, type(known).__name__)
    if isinstance(made, dict):
        free = known.get(place.rpartition(".")[2] + "Key")
        for key, value in made.items():
            assert key in known or free is not None, "{0}.{1} is in no recorded object".format(place, key)
            _fits(value, known.get(key, free), "{0}.{1}".format(place, key))
    elif isinstance(made, list):
        for one in made:
            _fits(one, known[0], place)


def _told(plural: str, name: Optional[str]) -> str:
    group = KINDS[plural][0]
    return '{0} "{1}"'.format(plural + ("." + group if group else ""), name)


def _details(plural: str, name: Optional[str]) -> Object:
    group = KINDS.get(plural, ("",))[0]
    return {**({"name": name} if name else {}), **({"group": group} if group else {}), "kind": plural}


def merged(found: Any, change: Any) -> Any:
    """JSON merge patch, RFC 7386."""
    if not isinstance(change, dict):
        return change
    made = dict(found) if isinstance(found, dict) else {}
    for key, value in change.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), value)
    return made


def _required(kind: str, field: str, needs: str) -> Refused:
    told = "Required value: " + needs
    causes = [{"reason": "FieldValueRequired", "message": told, "field": field}]
    message = '{0} "" is invalid: {1}: {2}'.format(kind, field, told)
    return Refused(422, message, details={"kind": kind, "causes": causes})


def _invalid(plural: str, name: Optional[str], told: str) -> Refused:
    """``told``: the field, a colon, and what is wrong with it."""
    group, kind, dummy = KINDS[plural]
    field, dummy2, message = told.partition(": ")
    causes = [{"reason": "FieldValueInvalid", "message": message, "field": field}]
    details = {**_details(plural, name), "kind": kind, "causes": causes}
    whole = '{0} "{1}" is invalid: {2}'.format(kind + ("." + group if group else ""), name, told)
    return Refused(422, whole, details=details)


def _discovery(path: str) -> Optional[Object]:
    if path == "/version":
        built = {"gitCommit": "0" * 40, "gitTreeState": "clean", "buildDate": "2024-12-11T18:00:00Z"}
        built.update(goVersion="go1.23.3", compiler="gc", platform="linux/amd64")
        return {"major": "1", "minor": "32", "gitVersion": "v1.32.0", **built}
    if path == "/api":
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}
    names = sorted({group for group, dummy, dummy2 in KINDS.values() if group})
    if path == "/apis":
        versions = [{"groupVersion": name + "/v1", "version": "v1"} for name in names]
        groups = [{"name": one["groupVersion"][:-3], "versions": [one], "preferredVersion": one} for one in versions]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if path not in ("/api/v1", *("/apis/{0}/v1".format(name) for name in names)):
        return None
    group_name = "" if path == "/api/v1" else path.split("/")[2]
    resources = [
        {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": _VERBS}
        for plural, (group, kind, namespaced) in KINDS.items()
        if group == group_name
    ]
    version = group_name + "/v1" if group_name else "v1"
    made = {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
    return dict(made, apiVersion="v1") if group_name else made


def _handler(api: Api) -> Any:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else the body of each answer waits 40 ms, until its header is acknowledged.
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            body = self._chunks() if self.headers.get("Transfer-Encoding") == "chunked" else self._counted()
            url = urllib.parse.urlsplit(self.path)
            kind = (self.headers.get("Content-Type") or "").split(";")[0]
            status = 201 if self.command == "POST" else 200
            try:
                answer = api.answer(self.command, url.path, urllib.parse.parse_qs(url.query), kind, body)
            except Refused as error:
                answer, status = error.answer, int(error.answer["code"])
            content = json.dumps(answer).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # who asked has gone
                self.close_connection = True

        def _counted(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _chunks(self) -> bytes:
            """As kubectl sends what it reads from a file as it is (--raw)."""
            body = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    return body

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def log_message(self, *dummy: Any) -> None:
            """Nothing on standard error."""

    return Handler

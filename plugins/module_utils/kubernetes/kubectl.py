# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one client of Kubernetes: kubectl, whose kubeconfig, plugins for credentials and proxies are those of its user.

Each call has a time limit, no terminal, and ends in an object or in one sentence. What a kubeconfig keeps secret is in
no sentence, whatever a server or a plugin writes.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import urllib.parse
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar

from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from ..core.secrets import hide

#: Who made an object: of this label with this value are those that may be changed and removed here.
MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = "trainyard.gpu_node"
#: The name of our writes in metadata.managedFields. Without it they are of "kubectl-patch", as each person's are.
FIELD_MANAGER = "trainyard-gpu-node"
#: So many objects are in one answer of the API, and so many kubectl run at the same time.
PAGE = 500
AT_ONCE = 8
#: A name of most kinds of objects (DNS subdomain), and the value of a label that is not empty.
NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
#: Kinds of errors of an API that may answer in a moment.
AWAY = ("Timeout", "Unreachable", "InternalError", "ServiceUnavailable", "TooManyRequests", "ServerTimeout")

_SERVER = re.compile(r"Error from server(?: \((\w+)\))?: (.*)")
_LOG = re.compile(r"[EIWF]\d{4} ")
# What kubectl says where no server has answered, none that it was sent to, or one without a reason.
_WORDS = (
    ("Unauthorized", re.compile(r"\(Unauthorized\)|must be logged in")),
    (
        "Config",
        re.compile(
            r"(?i)error in configuration|error loading config|: stat \S+: no such file|context \S+ does not exist"
        ),
    ),
    ("Timeout", re.compile(r"(?i)deadline exceeded|Client\.Timeout|timed out|i/o timeout|handshake timeout")),
    # An error of etcd reaches us as 500 without a reason.
    ("InternalError", re.compile(r"^etcdserver: |^rpc error: code = Unavailable")),
    # kubectl prints these two without "Error from server" (checkErr of its pkg/cmd/util).
    ("Invalid", re.compile(r"^The (?:request|\S+ \"[^\"]*\") is invalid\b")),
    ("NoKind", re.compile(r"the server doesn't have a resource type")),
    ("Unreachable", re.compile(r"(?i)unable to connect|connection refused|was refused|no such host|no route to host")),
)
_REMEDIES = {
    "Forbidden": "give the account of the kubeconfig the rights that {0} lists",
    "Unauthorized": "renew the credentials of the kubeconfig, or give another one",
    "Conflict": "run it again",
    "AlreadyExists": "run it again",
    "Expired": "run it again",
    "Invalid": "correct the value that it names",
    "NotFound": "run it again; it was there a moment ago, or the cluster is another one than was meant",
    "Unreachable": "check kubeconfig and context, and whether the API server can be reached from here",
    "Timeout": "run it again when the API server answers, or give it more time",
    "Config": "check kubeconfig and context; 'kubectl config get-contexts' lists what there is",
}
_OTHERWISE = "run kubectl by hand to see its whole output, and the log of the API server"
_SECRET = re.compile(
    r"(?<![\w-])[\"']?(?:token|password|client-key-data|id-token|refresh-token|access-token|client-secret)[\"']?"
    r"\s*:\s*[\"']?([^\s\"',}]+)"
)
# What a plugin for credentials gets in its environment and in its arguments: '--client-secret=x', or x as the next.
_SECRET_ENV = re.compile(
    r"(?i)\bname[\"']?\s*:\s*[\"']?\w*(?:token|secret|passw|key)\w*[\"']?\s*,?\s*"
    r"[\"']?value[\"']?\s*:\s*[\"']?([^\s\"',}]+)"
)
_SECRET_ARGUMENT = re.compile(
    r"(?i)--[\w-]*(?:token|secret|password)(?:=|[\"']?\s*,?\s+(?:-\s+)?[\"']?(?!-))([^\s\"',\]}]+)"
)
_MANAGER = "--field-manager=" + FIELD_MANAGER
_MOST = 300
_Item = TypeVar("_Item")


class KubectlError(NodeError):
    """``kind``: the reason as the API names it (Forbidden, NotFound, Conflict ...), or one of those above, or ""."""

    def __init__(self, thing: str, reason: str, remedy: str, kind: str = "") -> None:
        super().__init__(thing, reason, remedy)
        self.kind = kind


@frozen
class Kubectl:
    """``seconds`` is the time limit of one call. Without ``kubeconfig`` and ``context`` they are those that kubectl
    takes by itself. ``rights``: the page of the documentation that lists what the account may have to do."""

    host: Host
    program: str = "kubectl"
    kubeconfig: str = ""
    context: str = ""
    seconds: float = 60.0
    rights: str = "the documentation"

    @property
    def cluster(self) -> str:
        """The cluster in words."""
        return "context {0}".format(self.context) if self.context else "the current context of kubectl"

    def find(self, kind: str, name: str, namespace: str = "") -> Optional[Dict[str, Any]]:
        """One object, or None.

        :raises KubectlError: as all of these.
        """
        text = self._run("get", kind, name, *_in(namespace), "--ignore-not-found", "-o", "json")
        return self._parsed(text) if text.strip() else None

    def list(self, kind: str, namespace: str = "") -> List[Dict[str, Any]]:
        """All objects of a kind of which a cluster has few. kubectl holds them all in memory, several times."""
        return _items(self._parsed(self._run("get", kind, *_in(namespace), "-o", "json")))

    def pages(self, path: str, *fields: str) -> Iterator[Dict[str, Any]]:
        """The objects at a path of the API, a page at a time; ``fields`` choose among them."""
        query: Dict[str, Any] = {"limit": PAGE, **({"fieldSelector": ",".join(fields)} if fields else {})}
        while True:
            try:
                found = self.raw("{0}?{1}".format(path, urllib.parse.urlencode(query)))
            except KubectlError as error:
                if error.thing == self.program:
                    raise
                thing = "kubectl get " + path.rpartition("/")[2]
                raise KubectlError(thing, error.reason, error.remedy, error.kind) from None
            yield from _items(found)
            metadata = found.get("metadata")
            query["continue"] = metadata.get("continue") if isinstance(metadata, dict) else None
            if not query["continue"]:
                return

    def nodes(self) -> Iterator[Dict[str, Any]]:
        """All nodes of the cluster."""
        return self.pages("/api/v1/nodes")

    def pods(self, *fields: str) -> Iterator[Dict[str, Any]]:
        """Those of all namespaces that have not ended; ``fields`` choose among them."""
        return self.pages("/api/v1/pods", *fields, "status.phase!=Succeeded", "status.phase!=Failed")

    def pods_in(self, namespace: str) -> Iterator[Dict[str, Any]]:
        """All pods of a namespace."""
        return self.pages("/api/v1/namespaces/{0}/pods".format(namespace))

    def create(self, manifest: Mapping[str, Any]) -> None:
        """It fails where there is one."""
        self._send("create", manifest, _MANAGER)

    def replace(self, manifest: Mapping[str, Any]) -> None:
        """It fails where there is another one than that of the ``resourceVersion`` in it."""
        self._send("replace", manifest, _MANAGER)

    def patch(self, kind: str, name: str, change: Mapping[str, Any]) -> None:
        """A JSON merge patch. With a ``resourceVersion`` in it, it fails (Conflict) where the object is another one."""
        text = json.dumps(change, sort_keys=True)
        self._run("patch", kind, name, "--type=merge", _MANAGER, "--patch", text)

    def raw(self, path: str) -> Dict[str, Any]:
        """What the API answers to a GET of this path."""
        return self._parsed(self._run("get", "--raw=" + path))

    def post(self, path: str, body: Mapping[str, Any]) -> None:
        """To a path that is no object, such as the eviction of a pod."""
        self._send("create", body, "--raw=" + path)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        self._run("delete", kind, name, *_in(namespace), "--ignore-not-found", "--wait=false")

    def _send(self, verb: str, manifest: Mapping[str, Any], *words: str) -> None:
        with tempfile.TemporaryDirectory(prefix="gpu_node.") as folder:
            path = os.path.join(folder, "manifest.json")
            with open(path, "w", encoding="utf-8") as stream:
                json.dump(manifest, stream)
            # The server checks it; here the description of the whole API would be fetched for that.
            self._run(verb, *words, "-f", path, "--validate=false")

    def _run(self, *words: str) -> str:
        chosen = [("--kubeconfig", self.kubeconfig), ("--context", self.context)]
        argv = [self.program, *("{0}={1}".format(option, value) for option, value in chosen if value)]
        thing = "kubectl " + " ".join(words[:2])
        if self.host.which(self.program) is None:
            remedy = "install kubectl (on Debian the package kubernetes-client), or name another host or program"
            raise KubectlError(self.program, "this program is not installed", remedy)
        try:
            done = self.host.run([*argv, *words], self.seconds, accept=tuple(range(256)))
        except NodeError as error:
            reason = "it did not end within {0:g} s, with {1}".format(self.seconds, self.cluster)
            raise KubectlError(thing, reason, _REMEDIES["Timeout"], "Timeout") from error
        if done.returncode != 0:
            raise self._told(thing, done.stderr or done.stdout)
        return done.stdout

    def _told(self, thing: str, text: str) -> KubectlError:
        kind, reason = _judged(without_secrets(self.host, self.kubeconfig, text))
        if kind == "Forbidden":
            reason = "this account may not do it ({0})".format(reason)
        elif kind in ("Conflict", "AlreadyExists"):
            reason = "somebody else changed it at the same time ({0})".format(reason)
        elif kind in ("Unreachable", "Timeout", "Unauthorized", "Config"):
            reason = "{0} cannot be asked ({1})".format(self.cluster, reason)
        return KubectlError(thing, reason, _REMEDIES.get(kind, _OTHERWISE).format(self.rights), kind)

    def _parsed(self, text: str) -> Dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise KubectlError("kubectl get", "it did not print an object as JSON", _OTHERWISE)
        return found


def without_secrets(host: Host, kubeconfig: str, text: str) -> str:
    """Without secrets, and without what the kubeconfig in use keeps secret."""
    names = kubeconfig or os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    kept = [host.read(name) or "" for name in names.split(os.pathsep)]
    patterns = (_SECRET, _SECRET_ENV, _SECRET_ARGUMENT)
    found = {word for one in kept for pattern in patterns for word in pattern.findall(one) if len(word) > 5}
    return hide(text, found)


def at_once(work: Callable[[_Item], None], items: Sequence[_Item]) -> List[NodeError]:
    """Do it for each item, some of them at the same time. Where it fails for some, the others are done all the same;
    the errors are in the order of the items."""
    from concurrent.futures import ThreadPoolExecutor  # not wanted by who only reads

    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = [pool.submit(work, one) for one in items]
        try:
            errors = [one.exception() for one in done]
        except BaseException:  # interrupted: what has not begun does not begin
            for one in done:
                one.cancel()
            raise
    for error in errors:
        if error is not None and not isinstance(error, NodeError):
            raise error
    return [error for error in errors if isinstance(error, NodeError)]


def _items(found: Mapping[str, Any]) -> List[Dict[str, Any]]:
    items = found.get("items")
    return [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []


def _in(namespace: str) -> Tuple[str, ...]:
    return ("--namespace=" + namespace,) if namespace else ()


def _judged(text: str) -> Tuple[str, str]:
    """Pure. (kind, reason) of what kubectl wrote, without the lines of its own log."""
    told = " ".join(line.strip() for line in text.splitlines() if not _LOG.match(line)).strip()
    found = _SERVER.search(told)
    if found is not None and found.group(1):
        return found.group(1), found.group(2)[:_MOST]
    reason = found.group(2) if found is not None else told or "it wrote nothing"
    return next((name for name, words in _WORDS if words.search(reason)), ""), reason[:_MOST]

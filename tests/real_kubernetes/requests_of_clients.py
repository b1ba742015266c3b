# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same requests for the real API server and for the stand-in, and what of an answer is compared.

Each request starts from the state that the ones before it left, so their order matters. Both servers have the nodes
n1 (cordoned) and n2, the pods a (on n1), b and c, a config map, and budgets that choose b, and c twice.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from cluster import MERGE, Client

STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
JSON = "application/json"
NODES, N1 = "/api/v1/nodes", "/api/v1/nodes/n1"
MAPS, PODS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"
_MOST = 130
# The Status says when it was made or for what, in words that differ from server to server.
_VARIABLE = ("uid", "resourceVersion", "creationTimestamp", "retryAfterSeconds")


@dataclasses.dataclass(frozen=True)
class Request:
    """``account``: "admin", "nobody" (has no rights) or "unknown". ``body`` may depend on the answers before it."""

    name: str
    method: str
    path: str
    body: Any = None
    kind: str = JSON
    account: str = "admin"


def eviction(name: str, uid: Optional[str] = None, version: str = "policy/v1beta1") -> Dict[str, Any]:
    body = {"apiVersion": version, "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    return {**body, **({"deleteOptions": {"preconditions": {"uid": uid}}} if uid else {})}


def label(**more: Any) -> Dict[str, Any]:
    return {"metadata": {"labels": {"nvidia.com/device-plugin.config": "slice-4"}, **more}}


def conf(name: str, **more: Any) -> Dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}, "data": {"a": "b"}}


REQUESTS: Tuple[Request, ...] = (
    Request("get a node", "GET", N1),
    Request("get a node that does not exist", "GET", NODES + "/none"),
    Request("list nodes", "GET", NODES),
    Request("list nodes, first page", "GET", NODES + "?limit=1"),
    Request("list nodes, next page", "GET", NODES + "?limit=1&continue={continue}"),
    Request("list with a token that is not one", "GET", NODES + "?limit=1&continue=x"),
    Request("list by the name", "GET", NODES + "?fieldSelector=metadata.name%3Dn1"),
    Request("list by cordon", "GET", NODES + "?fieldSelector=spec.unschedulable%3Dtrue"),
    Request("list by a field that is not indexed", "GET", NODES + "?fieldSelector=status.phase%3Dx"),
    Request("list by a label", "GET", NODES + "?labelSelector=role%3Dgpu"),
    Request("list by a label that none has", "GET", NODES + "?labelSelector=role%3Dother"),
    Request("list by the presence of a label", "GET", NODES + "?labelSelector=role"),
    Request("list with an invalid selector", "GET", NODES + "?labelSelector=a%3D%3D%3Db"),
    Request("pods of a node", "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1%2Cstatus.phase%21%3DFailed"),
    Request("pods of all namespaces", "GET", "/api/v1/pods"),
    Request("pods of a namespace that does not exist", "GET", "/api/v1/namespaces/none/pods"),
    Request("a resource that the group does not have", "GET", "/api/v1/things"),
    Request("an API group that is not served", "GET", "/apis/nvidia.com/v1/clusterpolicies"),
    Request("without credentials that are known", "GET", NODES, account="unknown"),
    Request("list nodes without the right", "GET", NODES, account="nobody"),
    Request("get a node without the right", "GET", N1, account="nobody"),
    Request("patch a node without the right", "PATCH", N1, label(), MERGE, "nobody"),
    Request("list config maps without the right", "GET", MAPS, account="nobody"),
    Request("evict without the right", "POST", PODS + "/a/eviction", eviction("a"), account="nobody"),
    Request("merge patch", "PATCH", N1, label(), MERGE),
    Request("merge patch that changes nothing", "PATCH", N1, label(), MERGE),
    Request("merge patch that removes", "PATCH", N1, {"metadata": {"labels": {"role": None}}}, MERGE),
    Request("merge patch of an old version", "PATCH", N1, label(resourceVersion="1"), MERGE),
    Request("merge patch of the current version", "PATCH", N1,
            label(resourceVersion="{version}", annotations={"a": "b"}), MERGE),
    Request("merge patch of a node that does not exist", "PATCH", NODES + "/none", label(), MERGE),
    Request("merge patch, dry run", "PATCH", N1 + "?dryRun=All", {"metadata": {"labels": {"dry": "run"}}}, MERGE),
    Request("strategic merge patch of taints", "PATCH", N1,
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, STRATEGIC),
    Request("strategic merge patch of another taint", "PATCH", N1,
            {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}, STRATEGIC),
    Request("JSON patch", "PATCH", N1, [{"op": "add", "path": "/metadata/labels/json", "value": "patch"}], JSON_PATCH),
    Request("JSON patch with a test that fails", "PATCH", N1,
            [{"op": "test", "path": "/metadata/labels/json", "value": "no"}], JSON_PATCH),
    Request("server-side apply", "PATCH", N1 + "?fieldManager=test",
            {"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {"applied": "yes"}}}, APPLY),
    Request("patch of another media type", "PATCH", N1, {}, "text/plain"),
    Request("patch of the status", "PATCH", N1 + "/status",
            {"status": {"conditions": [{"type": "GpuNodeUnhealthy", "status": "True"}]}}, STRATEGIC),
    Request("invalid label", "PATCH", N1, {"metadata": {"labels": {"a": "no value"}}}, MERGE),
    Request("invalid taint", "PATCH", N1, {"spec": {"taints": [{"key": "a", "effect": "Never"}]}}, MERGE),
    Request("field that does not exist", "PATCH", N1, {"spec": {"unschedulabel": True}}, MERGE),
    Request("field of another type", "PATCH", N1, {"spec": {"unschedulable": "yes"}}, MERGE),
    Request("create", "POST", MAPS, conf("made")),
    Request("create what exists", "POST", MAPS, conf("conf")),
    Request("create, dry run", "POST", MAPS + "?dryRun=All", conf("dry")),
    Request("create in a namespace that does not exist", "POST", MAPS.replace("default", "none"), conf("made")),
    Request("create with an invalid name", "POST", MAPS, conf("Not_A_Name")),
    Request("create without a name", "POST", MAPS, {"data": {"a": "b"}}),
    Request("replace", "PUT", MAPS + "/conf", conf("conf", labels={"a": "b"})),
    Request("replace an old version", "PUT", MAPS + "/conf", conf("conf", resourceVersion="1")),
    Request("replace what does not exist", "PUT", MAPS + "/none", conf("none")),
    Request("delete", "DELETE", MAPS + "/made"),
    Request("delete what does not exist", "DELETE", MAPS + "/made"),
    Request("evict with another uid", "POST", PODS + "/a/eviction", eviction("a", "old")),
    Request("evict against the budget", "POST", PODS + "/b/eviction", eviction("b")),
    Request("evict with two budgets", "POST", PODS + "/c/eviction", eviction("c")),
    Request("evict what does not exist", "POST", PODS + "/none/eviction", eviction("none")),
    Request("evict by an older version", "POST", PODS + "/a/eviction", eviction("a", version="policy/v1alpha1")),
    Request("evict", "POST", PODS + "/a/eviction", eviction("a")),
    Request("delete a pod", "DELETE", PODS + "/b"),
    Request("delete a node", "DELETE", NODES + "/n2"),
)  # fmt: skip


def outcomes(
    clients: Mapping[str, Client], first: Callable[[Request], None] = lambda one: None
) -> Iterator[Tuple[Request, int, Mapping[str, Any], str]]:
    """What each request got: status, answer, and words that are the same for answers of the same form. ``first`` is
    called before the request."""
    kept: Dict[str, str] = {}
    for one in REQUESTS:
        path = one.path.replace("{continue}", kept.get("continue", ""))
        body = one.body
        if "{version}" in json.dumps(body):
            version = clients["admin"].must("GET", N1)["metadata"]["resourceVersion"]
            body = json.loads(json.dumps(body).replace("{version}", version))
        before = version_of(clients["admin"], one)
        first(one)
        try:
            status, answer = clients[one.account].ask(one.method, path, body, one.kind)
        except (OSError, http.client.HTTPException):
            status, answer = 0, {"text": "no answer"}
        kept["continue"] = str((answer.get("metadata") or {}).get("continue", ""))
        words = said(status, answer)
        if one.method in ("PATCH", "PUT") and status == 200 and before is not None:
            words += "; its version " + ("stays" if version_of(clients["admin"], one) == before else "changes")
        yield one, status, answer, words


def version_of(client: Client, one: Request) -> Optional[str]:
    if one.method not in ("PATCH", "PUT"):
        return None
    path = one.path.partition("?")[0]
    status, answer = client.ask("GET", path[: -len("/status")] if path.endswith("/status") else path)
    return str(answer["metadata"]["resourceVersion"]) if status == 200 else None


def said(status: int, answer: Mapping[str, Any]) -> str:
    words = _said(status, answer)
    return words if status != 422 or len(words) < _MOST else words[:_MOST] + " ..."


def _said(status: int, answer: Mapping[str, Any]) -> str:
    kind = str(answer.get("kind", "text"))
    if kind == "Status" and answer.get("status") == "Failure":
        if status == 422:  # the details repeat the message
            return "{0} {1}: {2}".format(status, answer["reason"], constant(answer["message"]))
        details = {key: value for key, value in (answer.get("details") or {}).items() if key not in _VARIABLE}
        words = "{0} {1}: {2}".format(status, answer.get("reason", "without a reason"), constant(answer["message"]))
        return words + ("; details " + constant(json.dumps(details, sort_keys=True)) if details else "")
    if kind == "Status":
        details = sorted(answer.get("details") or {})
        return "{0} Success".format(status) + ("; details " + ", ".join(details) if details else "")
    if "items" in answer:
        metadata = {key for key, value in answer["metadata"].items() if value and key != "selfLink"}
        return "{0} {1} of {2}; {3}; an item has {4}".format(
            status,
            kind,
            ", ".join(item["metadata"]["name"] for item in answer["items"]) or "nothing",
            ", ".join(sorted(metadata)),
            ", ".join(sorted({key for item in answer["items"] for key in item})) or "-",
        )
    if kind == "text":
        return "{0} text: {1}".format(status, constant(str(answer.get("text")).strip()))
    fields = sorted({*answer} - {"kind", "apiVersion"})
    return "{0} {1} {2} with {3}{4}".format(status, answer["apiVersion"], kind, ", ".join(fields), inner(answer))


def inner(answer: Mapping[str, Any]) -> str:
    """What requests of these tests set."""
    found = [(answer["metadata"].get("labels") or {}).get("nvidia.com/device-plugin.config")]
    labels = sorted(set(answer["metadata"].get("labels") or {}) & {"role", "json", "applied", "dry"})
    taints = ["taint " + one["key"] for one in (answer.get("spec") or {}).get("taints") or ()]
    conditions = [one["type"] for one in (answer.get("status") or {}).get("conditions") or ()]
    odd = [key for key in (answer.get("spec") or {}) if key == "unschedulabel"]
    words = [*(one for one in found if one), *labels, *taints, *conditions, *odd]
    return " ({0})".format(", ".join(words)) if words else ""


def constant(text: str) -> str:
    """Without names of accounts and identifiers."""
    text = re.sub(r"system:serviceaccount:accounts:[\w-]+|a-user", "USER", text)
    text = re.sub(r'"\{\\"apiVersion.*', "(the object)", text)
    return re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|uid-\d+", "UID", text)


Compared = List[Tuple[str, str, str]]


def differences(real: Mapping[str, str], stand_in: Mapping[str, str]) -> Compared:
    return [(name, real[name], stand_in[name]) for name in real if real[name] != stand_in[name]]


def table(rows: Compared, reasons: Callable[[str], str]) -> str:
    lines = ["| request | kube-apiserver 1.20.2 | stand-in | why |", "| --- | --- | --- | --- |"]
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in (*row, reasons(row[0]))]
        lines.append("| {0} |".format(" | ".join(cells)))
    return "\n".join(lines) + "\n"

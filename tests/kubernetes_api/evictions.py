# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evictions of pods, for the stand-in of :mod:`.server`: what 'kubectl drain' and 'kubectl create --raw' need.

The form of the answers is that of Kubernetes (pkg/registry/core/pod/storage/eviction.go): 201 with a Status of
Success; 429 TooManyRequests with the message of checkAndDecrement and the budget as its cause; 500 without a reason
where two budgets choose one pod; 409 for another uid than the precondition has; 400 for a version of Eviction that
the server does not take (from 1.22 on it takes both). Discovery names pods/eviction with policy/v1, or with
policy/v1beta1 as servers before 1.22 do, and the group policy, by which 'kubectl drain' of 1.20 finds out that there
are evictions at all.

A budget is here the labels that it chooses by and how many pods it lets go; nobody makes pods anew. (A real budget
protects only pods that are ready.) A pod that is evicted is deleted at once, or, with ``lasts`` seconds, is seen with a
deletionTimestamp for so long.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional

from .server import Api, Object, Refused

_EVICTION = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<name>[^/]+)/eviction")
_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
_NEEDS = "The disruption budget {0} needs {1} healthy pods and has {1} currently"
_OTHER = (
    'Operation cannot be fulfilled on Pod "{0}": the UID in the precondition ({1}) does not match the UID in record'
    " ({2}). The object might have been deleted and then recreated"
)
_VERSION = (
    'Eviction in version "{0}" cannot be handled as a Eviction: no kind "{2}" is registered for version "{1}" in scheme'
    ' "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'
)
_TWO = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@dataclass
class Budget:
    """``allowed``: so many of its pods may be evicted. ``healthy``: so many it has, and needs."""

    name: str
    chooses: Mapping[str, str]
    allowed: int = 0
    healthy: int = 1


class EvictingApi(Api):
    """An :class:`Api` that evicts pods. ``version``: the newest of an Eviction which it takes. ``clock``: by which pods
    end."""

    def __init__(self, version: str = "v1", clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self.budgets: List[Budget] = []
        self.lasts = 0.0
        #: "namespace/name" of each pod that was evicted.
        self.evicted: List[str] = []
        self._policy = version
        self._ends: Dict[str, float] = {}

    def ends(self, name: str, seconds: float, namespace: str = "default") -> None:
        """The pod ends by itself after so long."""
        self._ends["{0}/{1}".format(namespace, name)] = self._clock() + seconds

    def _of_objects(
        self, method: str, path: str, query: Mapping[str, List[str]], content_type: str, body: bytes
    ) -> Object:
        for label, when in list(self._ends.items()):
            if self._clock() >= when:
                del self._ends[label]
                namespace, dummy, name = label.partition("/")
                self._objects.pop(("pods", namespace, name), None)
        found = _EVICTION.fullmatch(path)
        if method == "POST" and found is not None:
            return self._evict(found.group("namespace"), found.group("name"), json.loads(body))
        return super()._of_objects(method, path, query, content_type, body)

    def _discovered(self, path: str) -> Optional[Object]:
        answer = super()._discovered(path)
        group = {"groupVersion": "policy/" + self._policy, "version": self._policy}
        if path == "/apis" and answer is not None:
            answer["groups"].append({"name": "policy", "versions": [group], "preferredVersion": group})
        elif path == "/api/v1" and answer is not None:
            evictions = {"name": "pods/eviction", "singularName": "", "namespaced": True, "kind": "Eviction"}
            answer["resources"].append(dict(evictions, group="policy", version=self._policy, verbs=["create"]))
        elif path == "/apis/policy/" + self._policy:
            # kubectl keeps no empty list: each call of it would discover everything anew.
            budgets = {"name": "poddisruptionbudgets", "singularName": "poddisruptionbudget", "namespaced": True}
            resources = [dict(budgets, kind="PodDisruptionBudget", verbs=["get", "list"])]
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": path[6:], "resources": resources}
        return answer

    def _evict(self, namespace: str, name: str, given: Any) -> Object:
        kind = (given.get("apiVersion"), given.get("kind"))
        if kind not in {("policy/" + one, "Eviction") for one in (self._policy, "v1beta1")}:
            raise Refused(400, _VERSION.format((kind[0] or "").rpartition("/")[2], *kind))
        pod = self._objects.get(("pods", namespace, name))
        if pod is None:
            raise Refused(404, 'pods "{0}" not found'.format(name), details={"name": name, "kind": "pods"})
        wanted = ((given.get("deleteOptions") or {}).get("preconditions") or {}).get("uid")
        if wanted and wanted != pod["metadata"]["uid"]:
            details = {"name": name, "kind": "Pod"}
            raise Refused(409, _OTHER.format(name, wanted, pod["metadata"]["uid"]), details=details)
        labels = pod["metadata"].get("labels") or {}
        budgets = [one for one in self.budgets if one.chooses.items() <= labels.items()]
        if len(budgets) > 1:
            raise Refused(500, _TWO)
        if budgets and budgets[0].allowed == 0:
            needs = _NEEDS.format(budgets[0].name, budgets[0].healthy)
            causes = [{"reason": "DisruptionBudget", "message": needs}]
            raise Refused(429, _BUDGET, "TooManyRequests", {"causes": causes})
        for budget in budgets:
            budget.allowed -= 1
        self.evicted.append("{0}/{1}".format(namespace, name))
        if self.lasts:
            pod["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
            self._ends["{0}/{1}".format(namespace, name)] = self._clock() + self.lasts
        else:
            del self._objects["pods", namespace, name]
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

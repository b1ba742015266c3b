# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for the API (tests/kubernetes_api) answers as a real API server, except where README.md says why not."""

from __future__ import annotations

import re
from pathlib import Path

import fleet
import pytest
from cluster import Client
from requests_of_clients import differences, outcomes, table

from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Budget, EvictingApi, Fault

README = Path(__file__).with_name("README.md")
_LABELS = {"b": {"app": "b"}, "c": {"app": "c", "part": "c"}}
_CONF = {"metadata": {"name": "conf", "namespace": "default"}, "data": {"a": "b"}}
_HEALTHY = 3


@pytest.fixture
def real(cluster):
    admin = cluster.admin
    fleet.remove_all(admin)
    for name in ("n1", "n2"):
        fleet.node(admin, name)
        change = {"metadata": {"labels": {"role": "gpu"}}, "spec": {"unschedulable": True} if name == "n1" else {}}
        admin.must("PATCH", "/api/v1/nodes/" + name, change, fleet.MERGE)
    for name in ("a", "b", "c"):
        fleet.pod(admin, name, "n1" if name == "a" else "n2", labels=_LABELS.get(name))
    admin.must("POST", "/api/v1/namespaces/default/configmaps", _CONF)
    fleet.budget(admin, "budget-b", {"app": "b"}, 0, _HEALTHY)
    fleet.budget(admin, "budget-c", {"app": "c"}, 0, 1)
    fleet.budget(admin, "budget-part", {"part": "c"}, 0, 1)
    yield {
        "admin": admin,
        "nobody": cluster.client(cluster.account("nobody", ())),
        "unknown": cluster.client("a-token-that-nobody-has"),
    }
    fleet.remove_all(admin)
    for path in ("/api/v1/namespaces/default/pods", "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"):
        admin.must("DELETE", path)


@pytest.fixture
def stand_in():
    with EvictingApi("v1beta1") as api:
        api.add("namespaces", {"metadata": {"name": "default"}})
        for name in ("n1", "n2"):
            spec = {"unschedulable": True} if name == "n1" else {}
            conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
            metadata = {"name": name, "labels": {"role": "gpu"}}
            api.add("nodes", {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}})
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        for name in ("a", "b", "c"):
            metadata = {"name": name, "namespace": "default", "labels": _LABELS.get(name, {})}
            spec = {"nodeName": "n1" if name == "a" else "n2", "containers": [{"name": "main"}]}
            api.add("pods", {"metadata": metadata, "spec": spec, "status": running})
        api.add("configmaps", _CONF)
        api.budgets = [
            Budget("budget-b", {"app": "b"}, healthy=_HEALTHY),
            Budget("budget-c", {"app": "c"}),
            Budget("budget-part", {"part": "c"}),
        ]
        yield api


def test_the_stand_in_answers_as_the_real_server(real, stand_in, report):
    found = list(outcomes(real))
    by_name = {one.name: (status, answer) for one, status, answer, dummy in found}

    def deny(one):
        """The stand-in has no accounts: a test lets it refuse. The form of the answer is its own."""
        if one.account != "admin":
            status, answer = by_name[one.name]
            path = re.escape(one.path.partition("?")[0])
            stand_in.faults[:] = [Fault(one.method + " " + path, status, answer["message"], times=1)]

    client = Client(int(stand_in.url.rpartition(":")[2]), "admin")
    theirs = outcomes({"admin": client, "nobody": client, "unknown": client}, deny)
    rows = differences(
        {one.name: words for one, dummy, dummy2, words in found},
        {one.name: words for one, dummy, dummy2, words in theirs},
    )
    text = README.read_text(encoding="utf-8")
    why = {
        row.split(" | ")[0].strip("| "): row.rstrip(" |").rpartition(" | ")[2]
        for row in text.splitlines()
        if " | " in row
    }
    measured = table(rows, lambda name: why.get(name, "?"))
    report("{0} requests: {1} are answered alike".format(len(found), len(found) - len(rows)))
    assert measured in text and "| ? |" not in measured, "put this table into README.md\n" + measured

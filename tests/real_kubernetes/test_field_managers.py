# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who owns what on a node, and what a server-side apply of others does with our taint and labels: the table of
docs/kubernetes.md, at a real API server."""

from __future__ import annotations

import json

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.kubectl import FIELD_MANAGER, Kubectl

OURS = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
THEIRS = {"key": "a/b", "value": "c", "effect": "NoSchedule"}
NODE = "/api/v1/nodes/gpu001"


@pytest.fixture
def marked(one_node, cluster, kubectl, tmp_path):
    """The node with our taint and a label, and a client of it."""
    path = cluster.kubeconfig(tmp_path / "ours", "admin-of-this-test")
    one = Kubectl(Host(), kubectl, path)
    one.patch("node", "gpu001", {"metadata": {"labels": {"ours": "1"}}, "spec": {"taints": [OURS]}})
    return one_node


def managers(client, path):
    """The names of those that own a field."""
    found = []
    for one in client.must("GET", NODE)["metadata"]["managedFields"]:
        place = one["fieldsV1"]
        for part in path:
            place = place.get("f:" + part, {})
        found += [one["manager"]] if place or _has(one["fieldsV1"], path) else []
    return found


def _has(fields, path):
    for part in path[:-1]:
        fields = fields.get("f:" + part, {})
    return "f:" + path[-1] in fields


@pytest.fixture
def apply(run, tmp_path):
    def go(spec, labels=None, force=False, fails=False):
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu001", "labels": labels or {}}}
        path = tmp_path / "node.json"
        path.write_text(json.dumps({**manifest, "spec": spec}))
        words = ["--server-side", "--field-manager=gitops", *(["--force-conflicts"] if force else [])]
        return run("apply", *words, "-f", str(path), fails=fails)

    return go


def taints(client):
    return client.must("GET", NODE)["spec"].get("taints", [])


def test_our_marks_have_a_manager_of_their_own(marked):
    assert managers(marked, ("spec", "taints")) == [FIELD_MANAGER]
    assert managers(marked, ("metadata", "labels", "ours")) == [FIELD_MANAGER]


def test_an_apply_without_taints_leaves_ours(marked, apply):
    apply({"unschedulable": False}, {"theirs": "1"})
    assert taints(marked) == [OURS] and marked.must("GET", NODE)["metadata"]["labels"]["ours"] == "1"


def test_an_apply_with_taints_is_a_conflict_and_with_force_replaces_ours(marked, apply):
    told = apply({"taints": [THEIRS]}, fails=True)
    assert 'conflict with "{0}"'.format(FIELD_MANAGER) in told and ".spec.taints" in told
    assert taints(marked) == [OURS]
    apply({"taints": [THEIRS]}, force=True)
    assert taints(marked) == [THEIRS] and managers(marked, ("spec", "taints")) == ["gitops"]


def test_who_applies_both_taints_shares_the_list(marked, apply):
    apply({"taints": [OURS]})
    assert sorted(managers(marked, ("spec", "taints"))) == ["gitops", FIELD_MANAGER]
    # Who no longer applies it leaves it to us.
    apply({})
    assert taints(marked) == [OURS] and managers(marked, ("spec", "taints")) == [FIELD_MANAGER]

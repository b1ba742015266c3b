# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rolling.yml over nodes of a real API server. There is no kubelet and no machine behind a node, so converge.yml and
the health check are cut out as in tests/unit/playbooks/test_rolling_kubernetes_play.py. The rest is the play itself."""

from __future__ import annotations

import shutil
import threading
import time

import fleet
import pytest
import rights
from plays import PLAYBOOKS, Play

ANNOTATION = "trainyard.io/gpu-node-drain"
BUDGETS = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
CONVERGE = """---
- name: Converge
  ansible.builtin.shell: |
    set -e
    {kubectl} --kubeconfig={folder}/kubeconfig get node {{{{ inventory_hostname }}}} -o json >{folder}/seen.$$
    grep -q '"unschedulable": true' {folder}/seen.$$
    test ! -e {folder}/breaks.{{{{ inventory_hostname }}}} || {{{{ 'GPU 3 is lost' | quote }}}}
  changed_when: true

- name: Look
  ansible.builtin.set_fact:
    gpu_node_profile: {{roles: []}}
    cacheable: true
"""


@pytest.fixture
def admin(cluster):
    client = cluster.admin
    yield client
    fleet.remove_all(client)
    for path in ("/api/v1/namespaces/default/pods", BUDGETS):
        client.must("DELETE", path)


def test_all_outcomes(admin, cluster, kubectl, tmp_path, request):
    given = rights.of_yaml("rolling.md")
    token = cluster.account("rolling-" + request.node.callspec.id.replace(".", "-"), given.everywhere)
    kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig", token)
    shutil.copytree(str(PLAYBOOKS), str(tmp_path / "playbooks"))
    (tmp_path / "playbooks/tasks/converge.yml").write_text(CONVERGE.format(kubectl=kubectl, folder=tmp_path))
    (tmp_path / "become").write_text('#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n')
    (tmp_path / "become").chmod(0o755)
    (tmp_path / "breaks.n5").touch()
    for name in ("n1", "n2", "n3", "n5", "n6", "n7"):
        fleet.node(admin, name, ready=name != "n6")
    admin.must("PATCH", "/api/v1/nodes/n3", {"spec": {"unschedulable": True}}, fleet.MERGE)
    fleet.pod(admin, "train", "n2", gpus=8)
    fleet.pod(admin, "served", "n7", gpus=1, labels={"app": "served"})
    fleet.budget(admin, "served", {"app": "served"}, 0, 1)
    play = Play(tmp_path, kubectl, kubeconfig)
    hosts = {"n{0}".format(number): {} for number in range(1, 8)}
    variables = {
        "gpu_node_rolling_scheduler": "kubernetes",
        "gpu_node_rolling_batch": "100%",
        "gpu_node_rolling_failures": 9,
        "ansible_become_exe": str(tmp_path / "become"),
    }
    playbook = str(tmp_path / "playbooks/rolling.yml")
    done = play(playbook, hosts, "-f", "8", fails=True, **variables)
    assert "7 of 7 nodes: 1 converged, 2 busy, 3 left, 1 failed" in done.told, done.short
    for words in (
        "n2: pods hold it (default/train)",
        "n3: somebody else cordoned it",
        "n4: it is not registered in the cluster",
        "n6: its kubelet",
    ):
        assert words in done.told, (words, done.short)
    assert seen(admin, "n1") == seen(admin, "n2") == seen(admin, "n7") == (False, None)
    assert seen(admin, "n3") == (True, None)
    assert seen(admin, "n5")[0] and seen(admin, "n5")[1].startswith("gpu_node: rolling: failed: ")

    (tmp_path / "breaks.n5").unlink()
    later = threading.Thread(target=allow, args=(admin, 12.0))
    later.start()
    hosts = {name: {} for name in ("n2", "n5", "n7")}
    done = play(
        playbook, hosts, "-f", "8", gpu_node_rolling_busy="evict", gpu_node_rolling_evict_minutes=2, **variables
    )
    later.join()
    assert "3 of 3 nodes: 3 converged" in done.told, done.short
    assert [seen(admin, name) for name in hosts] == [(False, None)] * 3
    assert not admin.must("GET", "/api/v1/namespaces/default/pods")["items"]


def seen(admin, name):
    """(whether it is cordoned, our annotation)"""
    found = admin.must("GET", "/api/v1/nodes/" + name)
    annotations = found["metadata"].get("annotations") or {}
    return bool(found["spec"].get("unschedulable")), annotations.get(ANNOTATION)


def allow(admin, seconds):
    """The disruption controller counts another healthy pod."""
    time.sleep(seconds)
    client = type(admin)(admin.port, admin.token, admin.certificate)
    found = client.must("GET", BUDGETS + "/served")
    status = {**found["status"], "disruptionsAllowed": 1, "currentHealthy": 2}
    client.must("PUT", BUDGETS + "/served/status", {**found, "status": status})

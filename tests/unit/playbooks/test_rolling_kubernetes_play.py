# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rolling.yml over nodes of Kubernetes, by the real Ansible and kubectl.

What converge.yml does is cut out: a file of the same name looks whether the node is cordoned meanwhile, and says that
its machine is left alone, so that no health is checked of the machine that runs this. The rest of the play is as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ansible_collections.trainyard.gpu_node as collection
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import EvictingApi, Fault

(SOURCE,) = {Path(path) for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
ROOTS = os.pathsep.join(sorted({str(Path(path).parents[2]) for path in collection.__path__}))
ANNOTATION = "trainyard.io/gpu-node-drain"
CONVERGE = """---
- name: Converge
  ansible.builtin.shell: |
    set -e
    node={{{{ kubernetes_gpu_name | default(inventory_hostname) }}}}
    kubectl --kubeconfig={folder}/kubeconfig get node "$node" -o json >{folder}/seen.$$
    grep -q '"unschedulable": true' {folder}/seen.$$
    echo {{{{ inventory_hostname }}}} >>{folder}/converged
    test ! -e {folder}/breaks.{{{{ inventory_hostname }}}} || {{{{ 'GPU 3 is lost' | quote }}}}
  changed_when: true

- name: Look
  ansible.builtin.set_fact:
    gpu_node_profile: {{roles: []}}
    cacheable: true
"""


class Play:
    def __init__(self, api, folder):
        self.api, self.folder = api, folder

    def node(self, name, cordoned=False, annotation=None):
        metadata = {"name": name, "annotations": {ANNOTATION: annotation} if annotation else {}}
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.api.add("nodes", {"metadata": metadata, "spec": {"unschedulable": cordoned}, "status": status})

    def pod(self, name, node):
        owner = {"kind": "Job", "name": "x", "controller": True}
        resources = {"limits": {"nvidia.com/gpu": "8"}}
        spec = {"nodeName": node, "containers": [{"name": "c", "resources": resources}]}
        metadata = {"name": name, "namespace": "default", "ownerReferences": [owner]}
        self.api.add("pods", {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})

    def seen(self, name):
        found = self.api.get("nodes", name)
        return bool(found["spec"].get("unschedulable")), found["metadata"]["annotations"].get(ANNOTATION)

    def __call__(self, hosts, *words, **variables):
        here = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "ansible_become_exe": str(self.folder / "become"),
            "ansible_become_user": "root",
        }
        given = {
            "gpu_node_rolling_scheduler": "kubernetes",
            "gpu_node_kubernetes_kubeconfig": str(self.folder / "kubeconfig"),
            "gpu_node_rolling_batch": "100%",
            "gpu_node_rolling_failures": 9,
            **variables,
        }
        # Only on nodes can it become root.
        become = {"ansible_become": True, "ansible_become_exe": "/nowhere/sudo", "ansible_become_user": "nobody"}
        group = {"hosts": {name: dict(here, **more) for name, more in hosts.items()}, "vars": given}
        (self.folder / "inventory.json").write_text(json.dumps({"all": {"vars": become}, "gpu_nodes": group}))
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "KUBECONFIG"))}
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.playbook", "-v", "-i", str(self.folder / "inventory.json"), *words]
            + [str(self.folder / "playbooks/rolling.yml")],
            env=dict(
                clean,
                ANSIBLE_COLLECTIONS_PATH=ROOTS,
                ANSIBLE_NOCOLOR="1",
                ANSIBLE_FORKS="8",
                ANSIBLE_PIPELINING="1",
                ANSIBLE_LOCAL_TEMP=str(self.folder / "tmp"),
                ANSIBLE_REMOTE_TEMP=str(self.folder / "remote"),
                ANSIBLE_HOME=str(self.folder.parent / "ansible_home"),
                HOME=str(self.folder),
                PWD=str(self.folder),
            ),
            cwd=str(self.folder),
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        done.told = done.stdout + done.stderr
        assert "Traceback" not in done.told and "a-token-of-a-test" not in done.told, done.told
        return done


@pytest.fixture
def play(tmp_path):
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl; on Debian the package kubernetes-client has it")
    shutil.copytree(str(SOURCE / "playbooks"), str(tmp_path / "playbooks"))
    (tmp_path / "playbooks/tasks/converge.yml").write_text(CONVERGE.format(folder=tmp_path))
    (tmp_path / "become").write_text('#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n')
    (tmp_path / "become").chmod(0o755)
    with EvictingApi() as api:
        api.kubeconfig(tmp_path / "kubeconfig")
        yield Play(api, tmp_path)


NOWHERE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


def test_all_outcomes_and_a_second_run(play):
    for name in ("n0", "n1", "n3"):
        play.node(name)
    play.node("n2", True)
    play.node("worker-5")
    play.node("worker-6", True, "gpu_node: rolling: being converged (run 0badcafe)")
    play.pod("train", "n1")
    (play.folder / "breaks.n3").touch()
    hosts = {"n{0}".format(number): {} for number in range(5)}
    # n4 is not registered, n5 has another name in the cluster and cannot be reached.
    hosts.update(n5=dict(NOWHERE, gpu_node_kubernetes_name="worker-5"), n6={"kubernetes_gpu_name": "worker-6"})
    # The first of our requests for n0 comes too late, as its kubelet has just written its status.
    late = Fault("PATCH /api/v1/nodes/n0", first=lambda: play.node("n0"), times=1)
    play.api.faults.append(late)
    done = play(hosts, gpu_node_rolling_not_done="left.txt")
    assert done.returncode == 2 and late.times == 0, done.told
    assert "7 of 7 nodes: 1 converged, 1 busy, 3 left, 1 failed, 1 unreachable" in done.told, done.told
    for words in (
        "n1: pods hold it (default/train)",
        "n2: somebody else cordoned it",
        "n4: it is not registered in the cluster",
        "n6: another run (0badcafe) took it out of service",
        "n3: ",
    ):
        assert words in done.told, (words, done.told)
    assert sorted((play.folder / "converged").read_text().split()) == ["n0", "n3"]
    assert play.seen("n0") == play.seen("n1") == play.seen("worker-5") == (False, None)
    assert play.seen("n2") == (True, None) and "0badcafe" in play.seen("worker-6")[1]
    assert play.seen("n3")[0] and play.seen("n3")[1].startswith("gpu_node: rolling: failed: ")
    assert (play.folder / "left.txt").read_text().split() == ["n1", "n2", "n3", "n4", "n5", "n6"]

    (play.folder / "breaks.n3").unlink()
    (play.folder / "converged").unlink()
    hosts = {name: hosts[name] for name in ("n1", "n2", "n3", "n6")}
    wish = {"gpu_node_rolling_busy": "evict", "gpu_node_rolling_others": True, "gpu_node_rolling_take_over": True}
    written = len(play.api.written())
    checked = play({name: hosts[name] for name in ("n1", "n6")}, "--check", **wish)
    assert checked.returncode == 0 and len(play.api.written()) == written, checked.told
    done = play(hosts, **wish)
    assert done.returncode == 0 and "4 of 4 nodes: 4 converged" in done.told, done.told
    assert play.api.evicted == ["default/train"]
    assert sorted((play.folder / "converged").read_text().split()) == ["n1", "n2", "n3", "n6"]
    assert play.seen("n1") == play.seen("n3") == play.seen("worker-6") == (False, None)
    assert play.seen("n2") == (True, None)  # whose it was before


def test_what_is_wrong_stops_it_before_a_node_is_cordoned(play):
    play.node("n0")
    done = play({"n0": {}}, gpu_node_rolling_scheduler="slurm", gpu_node_rolling_busy="evict")
    assert done.returncode != 0 and "'evict' is for gpu_node_rolling_scheduler=kubernetes" in done.told, done.told
    done = play({"n0": {}}, gpu_node_rolling_scheduler="kubernets", gpu_node_rolling_evict_minutes="long")
    assert done.returncode != 0 and "kubernets" in done.told and "gpu_node_rolling_evict_minutes" in done.told
    assert not play.api.requests and not (play.folder / "converged").exists()


def test_a_node_without_a_working_python_is_not_drained(play):
    play.node("n0")
    play.node("n1")
    broken = play.folder / "broken-python"
    broken.write_text("#!/bin/sh\necho 'error while loading shared libraries' >&2\nexit 127\n")
    broken.chmod(0o755)
    done = play({"n0": {"ansible_python_interpreter": str(broken)}, "n1": {}})
    assert done.returncode == 2, done.told
    assert "2 of 2 nodes: 1 converged, 1 failed" in done.told, done.told
    assert not [path for path in play.api.requests if "PATCH" in str(path) and "n0" in str(path)], play.api.requests
    assert play.seen("n0") == (False, None)
    assert (play.folder / "converged").read_text().split() == ["n1"]

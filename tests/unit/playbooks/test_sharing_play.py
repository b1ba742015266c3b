# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""sharing.yml: what hosts have in the inventory reaches the cluster in one run, by the real Ansible and kubectl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ansible_collections.trainyard.gpu_node as collection
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Api

(SOURCE,) = {Path(path) for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
ROOTS = os.pathsep.join(sorted({str(Path(path).parents[2]) for path in collection.__path__}))
GPU = "nvidia.com/gpu"
LABEL = "nvidia.com/device-plugin.config"
CONFIGS = {"slice-4": {"time_slicing": {GPU: 4}}, "mps-2": {"mps": {GPU: 2}}}


@pytest.fixture
def play(tmp_path):
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl; on Debian the package kubernetes-client has it")
    with Api() as api:
        api.add("namespaces", {"metadata": {"name": "gpu-operator"}})
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")

        def run(hosts, *words, play=None, **variables):
            """``hosts``: variables by the name of a node, which nobody can reach; ``variables``: those of all."""
            nowhere = {"ansible_host": "127.0.0.1", "ansible_port": 1}
            everything = {
                "gpu_node_kubernetes_kubeconfig": kubeconfig,
                "gpu_sharing_configs": CONFIGS,
                **variables,
            }
            group = {"hosts": {name: dict(given, **nowhere) for name, given in hosts.items()}, "vars": everything}
            # As inventories have it that become root on each node; another user, as it may be root who runs this.
            other = {"ansible_become": True, "ansible_become_user": "nobody", "ansible_become_exe": "/nowhere/sudo"}
            (tmp_path / "inventory.json").write_text(json.dumps({"all": {"vars": other}, "gpu_nodes": group}))
            clean = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "KUBECONFIG"))}
            done = subprocess.run(
                [sys.executable, "-m", "ansible.cli.playbook", "-i", str(tmp_path / "inventory.json"), *words]
                + [str(play or SOURCE / "playbooks" / "sharing.yml")],
                env=dict(
                    clean,
                    ANSIBLE_COLLECTIONS_PATH=ROOTS,
                    ANSIBLE_NOCOLOR="1",
                    ANSIBLE_HOME=str(tmp_path.parent / "ansible_home"),
                    ANSIBLE_LOCAL_TEMP=str(tmp_path / "tmp"),
                    ANSIBLE_REMOTE_TEMP=str(tmp_path / "remote"),
                    HOME=str(tmp_path),
                ),
                cwd=str(tmp_path),
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            done.told = done.stdout + done.stderr
            assert "Traceback" not in done.told and "a-token-of-a-test" not in done.told, done.told
            return done

        run.api = api
        yield run


def add(api, *names):
    for name in names:
        labels = {GPU + ".count": "8", GPU + ".replicas": "1"}
        api.add("nodes", {"metadata": {"name": name, "labels": labels}, "status": {"capacity": {GPU: "8"}}})


def labels(api, *names):
    return [api.get("nodes", name)["metadata"]["labels"].get(LABEL) for name in names]


def test_hosts_and_groups_are_labelled_in_one_run(play):
    add(play.api, "gpu01", "gpu02", "worker-3", "gpu04")
    hosts = {
        "gpu01": {"gpu_sharing_config": "slice-4"},
        "gpu02": {"size": 2, "gpu_sharing_config": "{{ 'mps-' ~ size }}"},
        "gpu03": {"gpu_node_kubernetes_name": "worker-3", "gpu_sharing_config": "slice-4"},
        # Of the role alone, over that of all roles.
        "gpu04": {"gpu_sharing_name": "gpu04", "gpu_node_kubernetes_name": "worker-4"},
        "gpu05": {"gpu_sharing_config": "slice-4", "gpu_sharing_gpus": "4"},
    }
    checked = play(hosts, "--check", "--diff")
    assert checked.returncode == 0 and not play.api.written(), checked.told
    assert "+node worker-3: nvidia.com/device-plugin.config=slice-4" in checked.stdout
    done = play(hosts)
    assert done.returncode == 0 and "unreachable=0" in done.stdout, done.told
    assert labels(play.api, "gpu01", "gpu02", "worker-3", "gpu04") == ["slice-4", "mps-2", "slice-4", None]
    assert "gpu01: slice-4, will offer 32 nvidia.com/gpu, offers 8 nvidia.com/gpu now" in done.stdout
    assert "gpu05 is not registered in the cluster yet" in " ".join(done.told.split())
    assert "changed=0" in play(hosts).stdout.split("gpu01  ")[-1].splitlines()[0]
    # A limit leaves the others; then all.
    assert play(hosts, "--limit", "gpu02", "-e", "gpu_sharing_state=absent").returncode == 0
    assert labels(play.api, "gpu01", "gpu02") == ["slice-4", None]
    done = play(hosts, "-e", "gpu_sharing_state=absent")
    assert done.returncode == 0 and labels(play.api, "gpu01", "gpu02", "worker-3", "gpu04") == [None] * 4, done.told
    assert play.api.get("configmaps", "gpu-node-sharing", "gpu-operator") is None


def test_what_is_wrong_is_told_with_the_variable_before_anything_is_done(play):
    add(play.api, "gpu01")
    hosts = {
        "gpu01": {"gpu_sharing_config": "slice-8"},
        "gpu_02": {},
        "gpu03": {"gpu_sharing_gpus": "many"},
        "gpu04": {"gpu_sharing_confg": "slice-4"},
    }
    done = play(hosts)
    told = " ".join(done.told.split())
    assert done.returncode == 2 and not play.api.requests, done.told
    for words in (
        "'slice-8' is no config; did you mean 'slice-4'? use one of mps-2, slice-4, whole, or add it to "
        "gpu_sharing_configs. [gpu01]",
        "gpu_sharing_name: 'gpu_02' is no name of an object in Kubernetes",
        "gpu_sharing_gpus: 'many' is no whole number; give a whole number. [gpu03]",
        "gpu_sharing_confg: nothing reads this variable; did you mean gpu_sharing_config? [gpu04]",
    ):
        assert words in told, (words, done.told)
    done = play({"gpu01": {}}, gpu_sharing_configs={"one": {"time_slicing": {GPU: 1}}})
    assert "gpu_sharing_configs: one: nvidia.com/gpu has 1 replicas, and one replica shares nothing" in done.told


def test_hosts_that_differ_in_what_is_of_the_cluster_are_refused(play):
    add(play.api, "gpu01", "gpu02")
    hosts = {"gpu01": {}, "gpu02": {"gpu_sharing_configs": {"slice-2": {"time_slicing": {GPU: 2}}}}}
    done = play(hosts)
    words = "gpu_sharing_configs: gpu02 has another value than gpu01, and a cluster has one; set it for all of them"
    assert done.returncode != 0 and words in " ".join(done.told.split()) and not play.api.requests, done.told


@pytest.mark.soak
def test_options_of_the_cluster_may_be_given_by_each_host_with_one_value(play):
    add(play.api, "gpu01", "gpu02")
    hosts = {"gpu01": {}, "gpu02": {"gpu_node_kubernetes_context": "other"}}
    words = "gpu_node_kubernetes_context: gpu02 has another value than gpu01, and a cluster has one"
    assert words in " ".join(play(hosts).told.split()) and not play.api.requests
    # What is a default and what is given alike are the same.
    assert play({"gpu01": {}, "gpu02": {"gpu_sharing_namespace": "gpu-operator"}}, "--check").returncode == 0


def test_variables_of_a_play_hold_for_all_its_hosts(play, tmp_path):
    add(play.api, "gpu01", "gpu02")
    role = {"role": "trainyard.gpu_node.gpu_sharing", "gpu_sharing_config": "mps-2"}
    content = [{"hosts": "gpu_nodes", "gather_facts": False, "roles": [role]}]
    (tmp_path / "play.yml").write_text(json.dumps(content))
    done = play({"gpu01": {"gpu_sharing_config": "slice-4"}, "gpu02": {}}, play=tmp_path / "play.yml")
    assert done.returncode == 0 and labels(play.api, "gpu01", "gpu02") == ["mps-2", "mps-2"], done.told

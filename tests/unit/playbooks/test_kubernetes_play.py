# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubernetes.yml: hosts of an inventory are looked at, marked and compared in one run, by the real Ansible and kubectl.
The GPUs are those of a stand-in for the module gpu_info; everything else is the collection's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Api

ROOT = Path(__file__).resolve().parents[3]
GPU = "nvidia.com/gpu"
GPUS = """#!{python}
# WANT_JSON
print('{{"changed": false, "status": "ok", "gpu_count": 8, "driver_version": "570.1", "gpus": [], "pci_gpus": []}}')
"""


@pytest.fixture
def play(tmp_path):
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl; on Debian the package kubernetes-client has it")
    collection = tmp_path / "collections/ansible_collections/trainyard/gpu_node"
    (collection / "plugins/modules").mkdir(parents=True)
    parts = ["roles", "playbooks", "meta", "galaxy.yml"]
    for name in [*parts, *("plugins/" + one for one in ("action", "filter", "lookup", "module_utils", "plugin_utils"))]:
        (collection / name).symlink_to(ROOT / name)
    for module in (ROOT / "plugins" / "modules").glob("*.py"):
        if module.name != "gpu_info.py":
            (collection / "plugins/modules" / module.name).symlink_to(module)
    (collection / "plugins/modules/gpu_info.py").write_text(GPUS.format(python=sys.executable))
    with Api() as api:
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")

        def run(hosts, *words, **variables):
            everything = {"kubernetes_gpu_kubeconfig": kubeconfig, "ansible_connection": "local", **variables}
            everything["ansible_python_interpreter"] = sys.executable
            group = {"hosts": hosts, "vars": everything}
            (tmp_path / "inventory.json").write_text(json.dumps({"all": {"children": {"gpu_nodes": group}}}))
            clean = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "KUBECONFIG"))}
            done = subprocess.run(
                [sys.executable, "-m", "ansible.cli.playbook", "-i", str(tmp_path / "inventory.json"), *words]
                + [str(collection / "playbooks/kubernetes.yml")],
                env=dict(
                    clean,
                    ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"),
                    ANSIBLE_NOCOLOR="1",
                    ANSIBLE_BECOME_ASK_PASS="0",
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
            done.told = " ".join((done.stdout + done.stderr).split())
            assert "Traceback" not in done.told and "a-token-of-a-test" not in done.told, done.stdout + done.stderr
            return done

        run.api, run.folder = api, tmp_path
        yield run


def add(api, *names, offers="8"):
    for name in names:
        status = {"capacity": {GPU: offers}, "allocatable": {GPU: offers}}
        status["conditions"] = [{"type": "Ready", "status": "True"}]
        api.add("nodes", {"metadata": {"name": name, "labels": {}}, "status": status})


def test_hosts_are_looked_at_marked_and_compared(play):
    add(play.api, "gpu01")
    add(play.api, "worker-2", offers="7")
    folder = str(play.folder / "files")
    known = {"kubernetes_gpu_host_toolkit": True, "ansible_become_exe": str(become(play.folder))}
    add(play.api, "worker-4")
    hosts = {"gpu01": {}, "gpu02": {"kubernetes_gpu_name": "worker-2"}, "gpu03": {}}
    # The name in the inventory could be none of a node.
    hosts["GPU_4"] = {"gpu_node_kubernetes_name": "worker-{{ number }}", "number": 4}
    checked = play(hosts, "--check", "--diff", kubernetes_gpu_folder=folder, **known)
    assert checked.returncode == 0 and not play.api.written() and not os.path.exists(folder), checked.told
    done = play(hosts, kubernetes_gpu_folder=folder, **known)
    assert done.returncode == 0, done.stdout + done.stderr
    taint = {"key": GPU, "value": "present", "effect": "NoSchedule"}
    assert [play.api.get("nodes", one)["spec"]["taints"] for one in ("gpu01", "worker-4")] == [[taint], [taint]]
    assert "driver: enabled: false" in " ".join(Path(folder, "gpu-operator-values.yaml").read_text().split())
    for words in (
        "gpu03 is not registered in the cluster yet",
        "worker-2: offers 7 nvidia.com/gpu",
        "the kubelet has 7 nvidia.com/gpu, and NVML sees 8 GPUs",
        "gpu01: offers 8 nvidia.com/gpu, as NVML has it",
        "worker-4: offers 8 nvidia.com/gpu, as NVML has it",
    ):
        assert words in done.told, (words, done.stdout + done.stderr)
    again = play(hosts, kubernetes_gpu_folder=folder, **known)
    recap = again.stdout.split("PLAY RECAP")[1]
    assert "changed=0" in recap and "changed=1" not in recap, again.stdout
    gone = play(hosts, "-e", "kubernetes_gpu_state=absent", kubernetes_gpu_folder=folder, **known)
    assert gone.returncode == 0 and play.api.get("nodes", "gpu01")["spec"]["taints"] == [], gone.told


def become(folder):
    """What becomes root on a node; here it need not."""
    program = folder / "become"
    program.write_text('#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def test_what_is_wrong_is_told_with_the_variable_before_anything_is_done(play):
    hosts = {"gpu01": {"kubernetes_gpu_labels": {"x y": "1"}}, "gpu02": {"kubernetes_gpu_tiant": "x"}}
    done = play(
        hosts, kubernetes_gpu_values={"drivr": {"enabled": False}}, kubernetes_gpu_taint="nvidia.com/gpu=x:NoExecute"
    )
    assert done.returncode == 2 and not play.api.requests, done.told
    for words in (
        "kubernetes_gpu_values: drivr is no key of the GPU operator's chart; did you mean 'driver'?",
        "kubernetes_gpu_taint: 'nvidia.com/gpu=x:NoExecute' is no taint that nodes may have",
        "kubernetes_gpu_labels: 'x y' cannot be the name of a label",
        "kubernetes_gpu_tiant: nothing reads this variable; did you mean kubernetes_gpu_taint?",
    ):
        assert words in done.told, (words, done.stdout)


def test_nodes_that_are_not_looked_at_say_so_themselves(play):
    add(play.api, "gpu01")
    folder = str(play.folder / "files")
    done = play({"gpu01": {}}, "-e", "gpu_node_kubernetes_look=false", kubernetes_gpu_folder=folder)
    assert done.returncode == 2 and not play.api.written(), done.told
    assert "it is not known whether NVIDIA's driver is on gpu01; give host or operator" in done.told
    done = play(
        {"gpu01": {}},
        "-e",
        "gpu_node_kubernetes_look=false",
        kubernetes_gpu_folder=folder,
        kubernetes_gpu_driver="host",
        kubernetes_gpu_toolkit="operator",
    )
    assert done.returncode == 0, done.stdout + done.stderr

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many nodes and many pods of a Kubernetes cluster, with the real kubectl and the stand-in for the API.

    python tests/bench/kubernetes_nodes.py [NODES [PODS]]

Times how long gpu_sharing takes to label all nodes and to remove the labels, and how much memory the module and kubectl
take that read the pods. The stand-in runs in this process and shares its processors with kubectl. A process of its own
reads the pods: Linux counts for kubectl also what its parent had in memory when it started kubectl.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import _measure

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".collections"))

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import gpu_sharing, kubernetes_gpu
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Api

GPU = "nvidia.com/gpu"
CONFIGS = {"slice-4": {"time_slicing": {GPU: 4}}}


def node(name):
    labels = {"kubernetes.io/hostname": name, GPU + ".present": "true", GPU + ".count": "8", GPU + ".replicas": "1"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"capacity": {"cpu": "96", GPU: "8"}}}


def pod(number, on):
    """About 6.6 kB, as a pod of a real cluster with its managed fields."""
    env = [{"name": "SETTING_{0}".format(at), "value": "a-value-{0:040}".format(at)} for at in range(30)]
    container = {"name": "train", "image": "registry.example.com/train:1", "env": env}
    container["resources"] = {"limits": {GPU: "1", "cpu": "8"}}
    fields = {"f:spec": {"f:field-{0}".format(at): {"f:name": {}, "f:value": {}} for at in range(70)}}
    managed = [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}]
    metadata = {"name": "p{0:05}".format(number), "namespace": "users", "managedFields": managed}
    return {
        "metadata": metadata,
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


def sharing(kubeconfig, names, state):
    nodes = [{"name": name, "config": "slice-4"} for name in names]
    asked = {"configs": CONFIGS, "nodes": nodes, "kubeconfig": kubeconfig, "context": "test", "state": state}
    desired = of(gpu_sharing.Desired, dict(asked, seconds=600))
    return run(Host(), gpu_sharing.RESOURCE, desired, False)


def reads_pods(kubeconfig, nodes):
    """Of the process that reads, and of the largest kubectl, in MB."""
    asked = {"nodes": json.loads(nodes), "kubeconfig": kubeconfig, "context": "test", "seconds": 600}
    run(Host(), kubernetes_gpu.RESOURCE, of(kubernetes_gpu.Desired, asked), True)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    module = int(status.partition("VmHWM:")[2].split()[0])
    kubectl = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(
        "| most memory of the module | {0:.0f} MB |\n| of kubectl | {1:.0f} MB |".format(module / 1024, kubectl / 1024)
    )


def labelled(api, names):
    return sum("nvidia.com/device-plugin.config" in api.get("nodes", name)["metadata"]["labels"] for name in names)


def timed(name, work):
    began = time.monotonic()
    work()
    print("| {0} | {1:.1f} s |".format(name, time.monotonic() - began), flush=True)


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    nodes, pods = (*given, *(200, 5000)[len(given) :])
    print("{processor}, {cores} cores\n".format(**_measure.machine()))
    with tempfile.TemporaryDirectory() as folder, Api() as api:
        os.environ["HOME"] = folder
        api.add("namespaces", {"metadata": {"name": "gpu-operator"}})
        names = ["gpu{0:04}".format(number) for number in range(nodes)]
        for name in names:
            api.add("nodes", node(name))
        kubeconfig = api.kubeconfig(Path(folder) / "kubeconfig")
        timed("gpu_sharing labels {0} nodes".format(nodes), lambda: sharing(kubeconfig, names, "present"))
        assert labelled(api, names) == nodes
        timed("gpu_sharing removes the labels", lambda: sharing(kubeconfig, names, "absent"))
        assert labelled(api, names) == 0
        for number in range(pods):
            api._store("pods", pod(number, names[number % nodes]))  # with fields that tests have no use for
        size = len(json.dumps(api.answer("GET", "/api/v1/pods", {}, "", b"")))
        asked = json.dumps([{"name": name, "host_driver": True, "host_toolkit": True} for name in names])
        argv = [sys.executable, __file__, "--read", kubeconfig, asked]
        what = "kubernetes_gpu --check, {0} pods ({1:.0f} MB)".format(pods, size / 1e6)
        timed(what, lambda: subprocess.run(argv, check=True))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        reads_pods(*sys.argv[2:])
    else:
        main()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""deploy/kubernetes/monitoring: its rules in promtool, its scrape settings in a real Prometheus with two exporters."""

from __future__ import annotations

import http.server
import json
import pathlib
import re
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest
import yaml

from tools.monitoring import kubernetes, rules

ROOT = pathlib.Path(__file__).resolve().parents[4]
FOLDER = ROOT / "deploy/kubernetes/monitoring"
MONITORS = {one["metadata"]["name"]: one for one in yaml.safe_load_all((FOLDER / "service_monitor.yaml").read_text())}
#: The fields of the operator's API that are used, with their types; an unknown field is dropped without a message.
RELABELING = {
    "sourceLabels": list,
    "separator": str,
    "regex": str,
    "targetLabel": str,
    "replacement": str,
    "action": str,
}
ENDPOINT = {"port": str, "interval": str, "honorLabels": bool, "relabelings": list, "metricRelabelings": list}
SPEC = {"namespaceSelector": dict, "selector": dict, "attachMetadata": dict, "endpoints": list}
RULE = {"record": str, "alert": str, "expr": str, "for": str, "labels": dict, "annotations": dict}


def of_types(found, types):
    assert set(found) <= set(types), found
    assert all(isinstance(value, types[name]) for name, value in found.items()), found


@pytest.mark.parametrize("name", sorted(MONITORS))
def test_a_service_monitor_has_only_fields_of_its_kind(name):
    one = MONITORS[name]
    assert (one["apiVersion"], one["kind"]) == ("monitoring.coreos.com/v1", "ServiceMonitor")
    of_types(one["spec"], SPEC)
    for endpoint in one["spec"]["endpoints"]:
        of_types(endpoint, ENDPOINT)
        for relabeling in endpoint["relabelings"] + endpoint["metricRelabelings"]:
            of_types(relabeling, RELABELING)


def test_the_prometheus_rule_is_generated_and_has_the_rules_and_alerts_of_the_role(tmp_path):
    ((path, text),) = kubernetes.generate(ROOT).items()
    assert path.read_text() == text
    one = yaml.safe_load(text)
    assert (one["apiVersion"], one["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    files = [
        yaml.safe_load((ROOT / "roles/monitoring/files" / name).read_text())
        for name in ("gpu_node.rules.yml", "gpu_node.alerts.yml")
    ]
    assert one["spec"] == {"groups": [group for file in files for group in file["groups"]]}
    for group in one["spec"]["groups"]:
        of_types(group, {"name": str, "interval": str, "rules": list})
        for rule in group["rules"]:
            of_types(rule, RULE)
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(one["spec"]))
    done = subprocess.run(
        ["promtool", "check", "rules", "rules.yml"], cwd=str(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


# A real Prometheus ------------------------------------------------------------------------------------

SERIES = '{0}{{gpu="{1}",UUID="GPU-{2}-{1}",modelName="NVIDIA H100 80GB HBM3",{3}}} {4}\n'


def page(node, name_label, pods):
    """What an exporter on ``node`` reports. ``pods``: of each GPU, the namespace and pod that has it, or None."""
    text = ""
    for gpu, pod in enumerate(pods):
        labels = name_label
        if pod:
            labels += ',container="main",namespace="{0}",pod="{1}"'.format(*pod)
        for field, value in (
            ("DCGM_FI_DEV_SM_CLOCK", 1980),
            ("DCGM_FI_DEV_FB_USED", 100),
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.9 if pod else 0),
        ):
            text += SERIES.format(field, gpu, node, labels, value)
    return text


PAGES = {
    # Exporters before May 2026: their own pod is the host name.
    "/n1": page("n1", 'Hostname="nvidia-dcgm-exporter-aaaaa"', [("team", "train-0"), None]),
    "/n2": page("n2", 'hostname="nvidia-dcgm-exporter-bbbbb"', [("team", "train-1"), ("other", "train-0")]),
    "/node": 'gpu_node_health_outcome{outcome="fail"} 1\nnode_cpu_seconds_total{cpu="0",mode="idle"} 5\n',
}


class Page(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words):
        pass

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAGES[self.path].encode())


def snake(name):
    return re.sub("[A-Z]", lambda match: "_" + match[0].lower(), name)


def scrape_config(monitor, targets):
    """As the operator writes it: the labels of the target first, then the relabelings of the endpoint."""
    (endpoint,) = monitor["spec"]["endpoints"]
    own = [
        {"source_labels": ["__meta_kubernetes_" + meta], "target_label": label}
        for meta, label in (
            ("namespace", "namespace"),
            ("service_name", "service"),
            ("pod_name", "pod"),
            ("pod_container_name", "container"),
        )
    ]
    own.append({"target_label": "job", "replacement": "the-service"})
    of_endpoint, of_metrics = (
        [{snake(key): value for key, value in one.items()} for one in endpoint[name]]
        for name in ("relabelings", "metricRelabelings")
    )
    return {
        "job_name": monitor["metadata"]["name"],
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "honor_labels": endpoint["honorLabels"],
        "static_configs": targets,
        "relabel_configs": own + of_endpoint,
        "metric_relabel_configs": of_metrics,
    }


def target(address, path, node, pod, **more):
    labels = {
        "namespace": "gpu-operator",
        "service_name": "the-service",
        "pod_name": pod,
        "pod_container_name": "exporter",
    }
    labels.update({"pod_node_name": node, "node_label_trainyard_io_gpu_node_profile": "ndv5"}, **more)
    found = {"__meta_kubernetes_" + name: value for name, value in labels.items()}
    return {"targets": [address], "labels": dict(found, __metrics_path__=path)}


def free():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


#: The groups of rules are evaluated one after the other, at times that Prometheus chooses.
READY = (
    "sum(gpu_node:fleet_gpus) == 4",
    "count(gpu_node:job_gpus) == 3",
    "count(gpu_node:job_owner) == 3",
    "count(gpu_node:node_gpus) == 2",
    "count(gpu_node:node_sick) == 1",
)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    exporter = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    address, port = "127.0.0.1:{0}".format(exporter.server_address[1]), free()
    (folder / "rules.yml").write_text(re.sub("interval: [0-9]+s", "interval: 1s", rules.text()))
    present = {"node_label_nvidia_com_gpu_present": "true"}
    content = {
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            scrape_config(
                MONITORS["gpu-node-dcgm"],
                [
                    target(address, "/n1", "n1", "nvidia-dcgm-exporter-aaaaa"),
                    target(address, "/n2", "n2", "nvidia-dcgm-exporter-bbbbb"),
                ],
            ),
            scrape_config(
                MONITORS["gpu-node"],
                [
                    target(address, "/node", "n1", "node-exporter-aaaaa", **present),
                    target(address, "/node", "without-gpus", "node-exporter-ccccc"),
                ],
            ),
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(content))
    words = [
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        "--web.listen-address=127.0.0.1:{0}".format(port),
    ]
    started = subprocess.Popen(
        ["prometheus", *words], cwd=str(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def query(expr):
        url = "http://127.0.0.1:{0}/api/v1/query?{1}".format(port, urllib.parse.urlencode({"query": expr}))
        with urllib.request.urlopen(url, timeout=10) as answer:
            return [(one["metric"], float(one["value"][1])) for one in json.load(answer)["data"]["result"]]

    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                if all(query(one) for one in READY):
                    break
            except OSError:
                pass
            assert time.monotonic() < deadline and started.poll() is None
            time.sleep(0.3)
        yield query
    finally:
        started.terminate()
        started.wait(20)
        exporter.shutdown()


def test_nodes_have_the_name_and_profile_of_the_cluster_with_old_and_new_exporters(ask):
    node = {"__name__": "gpu_node:node_gpus", "cluster": "gpu", "profile": "ndv5"}
    found = ask("gpu_node:node_gpus")
    assert sorted(found, key=str) == [(dict(node, hostname=name), 2) for name in ("n1", "n2")]


def test_gpus_of_pods_are_allocated_and_a_pod_is_a_job(ask):
    jobs = {one["hpc_job"]: value for one, value in ask("gpu_node:job_gpus")}
    assert jobs == {"team/train-0": 1, "team/train-1": 1, "other/train-0": 1}
    assert {one["state"]: value for one, value in ask("gpu_node:fleet_gpus")} == {"busy": 3, "unallocated": 1}
    owners = {(one["hpc_job"], one["namespace"]) for one, _value in ask("gpu_node:job_owner")}
    assert owners == {(job, job.partition("/")[0]) for job in jobs}


def test_the_jobs_and_labels_of_the_targets_are_those_of_the_role(ask):
    up = {(one["job"], one["hostname"], one["cluster"]) for one, _value in ask("up == 1")}
    assert up == {("gpu_node_dcgm", "n1", "gpu"), ("gpu_node_dcgm", "n2", "gpu"), ("gpu_node", "n1", "gpu")}
    ((sick, value),) = ask("gpu_node:node_sick")
    assert (sick["hostname"], sick["profile"], value) == ("n1", "ndv5", 1)
    assert ask("node_cpu_seconds_total") == []
    labels = {name for one, _value in ask('{__name__=~"DCGM_.*"}') for name in one}
    assert labels == {
        "__name__", "UUID", "cluster", "gpu", "hostname", "hpc_job", "instance", "job", "modelName", "profile"
    }  # fmt: skip

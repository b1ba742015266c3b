# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role monitoring on a folder, and a real Prometheus with what it wrote: five simulated nodes behind real node
exporters on loopback, one of them with dcgm-exporter too (tests/packages/dcgm stands in for it)."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[4]
METRICS = """
import os, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
main.Host = lambda: Host(sys.argv[1])
sys.exit(main.main(sys.argv[2:]))
"""
NODES = ["gpu{0:02}".format(number) for number in range(1, 6)]
pytestmark = pytest.mark.usefixtures("kept_bytecode")
PACKAGE = "# The configuration of a site.\nglobal:\n  scrape_interval: 15s\n"


class Server:
    """A monitoring server in a folder, and the inventory of its nodes."""

    def __init__(self, folder):
        self.folder, self.etc = folder, folder / "etc"
        self.etc.mkdir(parents=True)
        self.hosts = {}
        self.environment = {}
        self.variables = {
            "monitoring_folder": str(self.etc),
            "monitoring_install": False,
            "monitoring_scrape_seconds": 10,
        }

    def node(self, name, **variables):
        self.hosts[name] = dict({"ansible_host": "127.0.0.1"}, **variables)

    def run(self, check=False, **variables):
        inventory = {
            "all": {
                "children": {"gpu_nodes": {"hosts": self.hosts}},
                "hosts": {"server": {"ansible_connection": "local", "ansible_become": False}},
                "vars": {"ansible_python_interpreter": sys.executable},
            }
        }
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
        play = [{"hosts": "server", "gather_facts": False, "roles": ["trainyard.gpu_node.monitoring"]}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(play))
        given = json.dumps(dict(self.variables, **variables))
        words = ["-i", str(self.folder / "hosts.yml"), str(self.folder / "play.yml"), "-e", given]
        return subprocess.run(
            [str(pathlib.Path(sys.executable).parent / "ansible-playbook"), *words, *(["--check"] if check else [])],
            env=dict(
                os.environ,
                ANSIBLE_NOCOLOR="1",
                ANSIBLE_LOCALHOST_WARNING="0",
                ANSIBLE_HOME=str(self.folder / "home"),
                **self.environment,
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def files(self):
        return {str(one.relative_to(self.etc)): one.read_text() for one in sorted(self.etc.rglob("*")) if one.is_file()}


def changed(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return "changed=0 " not in done.stdout


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path / "server")
    made.node("gpu01", rack="r1", node_profile_name="ndv5", slurm_node_partitions=["gpu", "all"])
    made.node("gpu02", ansible_host="fe80::1", monitoring_exporters=["dcgm"])
    return made


def test_check_real_check_real_and_absent_leaves_what_it_found(server):
    grafana = {
        "monitoring_grafana": True,
        "monitoring_grafana_folder": str(server.etc / "grafana"),
        "monitoring_boards_folder": str(server.etc / "boards"),
    }
    planned = server.run(check=True)
    assert planned.returncode == 0, planned.stdout
    assert server.files() == {}
    assert changed(server.run(**grafana))
    made = server.files()
    of_grafana = {name for name in made if name.startswith(("boards/", "grafana/"))}
    assert set(made) - of_grafana == {"prometheus.yml"} | {
        "gpu_node/" + one
        for one in ("gpu_node.alerts.yml", "gpu_node.rules.yml", "targets/dcgm.json", "targets/node.json")
    }
    assert json.loads(made["gpu_node/targets/node.json"]) == [
        {
            "targets": ["127.0.0.1:9100"],
            "labels": {"cluster": "gpu", "hostname": "gpu01", "partition": "gpu", "profile": "ndv5", "rack": "r1"},
        }
    ]
    assert json.loads(made["gpu_node/targets/dcgm.json"])[0]["targets"] == ["[fe80::1]:9400"]
    # Grafana is given its boards.
    assert {name for name in made if name.startswith("boards/")} == {
        "boards/{0}.json".format(name)
        for name in ("fleet", "health", "node", "job", "capacity", "usage", "fabric", "mig")
    }
    (provider,) = yaml.safe_load(made["grafana/provisioning/dashboards/gpu_node.yaml"])["providers"]
    assert provider["options"]["path"] == str(server.etc / "boards")
    (source,) = yaml.safe_load(made["grafana/provisioning/datasources/gpu_node.yaml"])["datasources"]
    assert source["type"] == "prometheus" and source["url"] == "http://localhost:9090"
    assert not changed(server.run(**grafana))
    assert server.files() == made
    assert changed(server.run(monitoring_state="absent", **grafana))
    assert set(server.files()) == {"prometheus.yml"}  # there was none before: a server without one does not start


def test_a_configuration_of_the_site_is_left_alone_and_alerts_are_left_out_by_name(server):
    (server.etc / "prometheus.yml").write_text(PACKAGE)
    done = server.run(monitoring_alerts_without=["GpuNodeTensorCoresUnused"])
    assert changed(done) and (server.etc / "prometheus.yml").read_text() == PACKAGE
    assert "prometheus.yml is yours" in done.stdout and "gpu_node/targets/node.json" in done.stdout
    text = server.files()["gpu_node/gpu_node.alerts.yml"]
    assert "GpuNodeTensorCoresUnused" not in text and "GpuNodeXid" in text and "{{ $labels.hostname }}" in text
    server.run(monitoring_state="absent")
    assert server.files() == {"prometheus.yml": PACKAGE}


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"monitoring_group": "nobody"}, "the inventory has no host in nobody"),
        ({"monitoring_exporters": ["cadvisor"]}, "monitoring_exporters"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(server, variables, sentence):
    done = server.run(**variables)
    assert done.returncode != 0 and sentence in done.stdout and server.files() == {}


def test_thresholds_of_the_site_are_in_the_alerts_and_the_others_keep_their_defaults(server):
    assert changed(server.run())
    with_defaults = yaml.safe_load(server.files()["gpu_node/gpu_node.alerts.yml"])
    assert with_defaults == yaml.safe_load((ROOT / "roles/monitoring/files/gpu_node.alerts.yml").read_text())
    assert changed(server.run(monitoring_alert_thresholds={"job_seconds": 7200, "job_idle_ratio": "0.5"}))
    rules = yaml.safe_load(server.files()["gpu_node/gpu_node.alerts.yml"])["groups"][0]["rules"]
    (alert,) = (one for one in rules if one["alert"] == "GpuNodeAllocatedAndIdle")
    assert alert["for"] == "7200s" and alert["expr"] == "gpu_node:job_busy:ratio < 0.5"
    assert "less than 50 %" in alert["annotations"]["description"]


def test_a_wrong_value_does_not_hide_another_one(server):
    server.node("odd", ansible_host="gpu 1;x", monitoring_node_port="http")
    thresholds = {"job_second": 60, "job_seconds": "60.5"}
    done = server.run(
        monitoring_alerts_without=["GpuNodeXyz"], monitoring_scrape_seconds=1, monitoring_alert_thresholds=thresholds
    )
    assert done.returncode != 0 and server.files() == {}
    for sentence in (
        "Address gpu 1;x: Prometheus cannot scrape it",
        "Port http: it is not a port number",
        "there is no alert GpuNodeXyz; use some of GpuNodeXid",
        "is not within 10 and 300 seconds",
        "there is no threshold job_second; did you mean 'job_seconds'? use some of",
        "job_seconds is 60.5; give a whole number from 60 to 604800",
    ):
        assert sentence in done.stdout, (sentence, done.stdout)


def with_facts(server, **facts):
    """Facts of gpu01 from an earlier play, where Ansible turns facts into variables."""
    cache = server.folder / "cache"
    cache.mkdir()
    (cache / "s1_gpu01").write_text(json.dumps({"__payload__": json.dumps(facts)}))
    server.environment = {
        "ANSIBLE_CACHE_PLUGIN": "jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(cache),
        "ANSIBLE_INJECT_FACT_VARS": "True",
    }


def test_facts_of_a_node_set_no_target(server):
    facts = {"monitoring_node_port": "80@10.6.6.6:9100/x?", "slurm_node_partitions": [["gpu"]]}
    facts.update(monitoring_exporters=[], monitoring_cluster={"x": 1})
    with_facts(server, **facts)
    done = server.run()
    assert done.returncode != 0 and server.files() == {}
    for name in facts:
        assert name in done.stdout
    assert "it is a fact of this host" in done.stdout and "gpu01" in done.stdout


def test_facts_with_other_names_stop_no_target_and_each_label_is_a_string(server):
    """A site may set its own variables, such as the rack, by facts."""
    with_facts(
        server, rack={"x": 1}, node_profile_name=["ndv5"], ansible_host="10.6.6.6", site_monitoring="x", gpu_count=8
    )
    server.node("gpu03", rack=7, monitoring_node_port="9101")
    server.node("gpu04", rack=None, node_profile_name=None)
    assert changed(server.run(monitoring_cluster=7))
    found = {one["labels"]["hostname"]: one for one in json.loads(server.files()["gpu_node/targets/node.json"])}
    assert [one["targets"] for one in found.values()] == [["127.0.0.1:9100"], ["127.0.0.1:9101"], ["127.0.0.1:9100"]]
    for one in found.values():
        assert all(isinstance(value, str) for value in one["labels"].values()), one
    assert found["gpu03"]["labels"] == {"cluster": "7", "hostname": "gpu03", "rack": "7"}
    assert set(found["gpu04"]["labels"]) == {"cluster", "hostname"}


# A real server ----------------------------------------------------------------------------------------


def free():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def ask(port, path, **query):
    url = "http://127.0.0.1:{0}{1}?{2}".format(port, path, urllib.parse.urlencode(query))
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


@pytest.fixture(scope="module")
def prometheus(nvml_simulator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    server, started = Server(folder / "server"), []

    def start(*words, **more):
        started.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more))

    try:
        for number, name in enumerate(NODES):
            machine = nvml_simulator("nd96isr_h100_v5")
            root, told = folder / name, folder / name / "textfile"
            told.mkdir(parents=True)
            if name == "gpu03":
                machine.control("fault", "gpu", "5", "lost")
            jobs = root / "run/gpu_node/gpu_jobs"
            jobs.mkdir(parents=True)
            for gpu in range(8 if number < 4 else 0):
                (jobs / str(gpu)).write_text("4711\n")
                machine.control("set", "gpu.{0}.gpm.tensor_percent".format(gpu), "40")
            for words, file in (
                (["metrics", "--activity", "0.1"], "gpus"),
                (["health", "--quick", "--format", "prometheus"], "health"),
            ):
                done = subprocess.run(
                    [sys.executable, "-c", METRICS, str(root), *words],
                    env=machine.environment(),
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                assert "Traceback" not in done.stderr and done.stdout, done.stderr
                (told / (file + ".prom")).write_text(done.stdout)
            port, more = free(), {}
            start(
                "prometheus-node-exporter",
                "--collector.disable-defaults",
                "--collector.textfile",
                "--collector.textfile.directory=" + str(told),
                "--web.listen-address=127.0.0.1:{0}".format(port),
            )
            if name == NODES[-1]:
                more = {"monitoring_exporters": ["node", "dcgm"], "monitoring_dcgm_port": free()}
                fields = folder / "fields.csv"
                fields.write_text("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, x\nDCGM_FI_DEV_GPU_TEMP, gauge, x\n")
                link = folder / "dcgm-exporter"
                link.symlink_to(ROOT / "tests/packages/dcgm/dcgm")
                address = "127.0.0.1:{0}".format(more["monitoring_dcgm_port"])
                start(sys.executable, str(link), "-f", str(fields), "-a", address)
            server.node(name, monitoring_node_port=port, rack="r{0}".format(number // 4), **more)
        assert changed(server.run())
        for path in (server.etc / "prometheus.yml", server.etc / "gpu_node/gpu_node.rules.yml"):
            # A server waits half a minute and more for each group of rules.
            path.write_text(re.sub(r"(?m)^( *(?:scrape_|evaluation_)?interval): .*", r"\1: 3s", path.read_text()))
        port = free()
        start(
            "prometheus",
            "--config.file=" + str(server.etc / "prometheus.yml"),
            "--storage.tsdb.path=" + str(folder / "data"),
            "--web.listen-address=127.0.0.1:{0}".format(port),
        )
        # Each node was scraped, and the rules were evaluated after that: those of jobs read those of GPUs.
        ready = (
            "(gpu_node:job_gpus == 32) and on () (count(count by (hostname) (gpu_node:gpu_tensor_active:ratio)) == 5)"
        )
        ready += " and on () (sum(gpu_node:job_tensor_active:ratio) >= 0)"
        ready += ' and on () (count(up{job=~"gpu_node.*"} == 1) == 6)'
        deadline = time.monotonic() + 240
        while True:
            try:
                if ask(port, "/api/v1/query", query=ready)["result"]:
                    break
            except OSError:
                pass
            assert time.monotonic() < deadline, [one.poll() for one in started]
            time.sleep(2)
        yield lambda expr: ask(port, "/api/v1/query", query=expr)["result"]
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait(20)
        shutil.rmtree(str(folder / "data"), ignore_errors=True)


@pytest.mark.soak
def test_every_target_answers_and_has_the_name_of_the_inventory(prometheus):
    up = {(one["metric"]["job"], one["metric"]["hostname"]) for one in prometheus('up{job=~"gpu_node.*"} == 1')}
    assert up == {("gpu_node", name) for name in NODES} | {("gpu_node_dcgm", "gpu05")}


def test_each_gpu_is_there_once_whoever_tells_of_it(prometheus):
    assert len(prometheus("gpu_node:gpu_tensor_active:ratio")) == 39  # the lost one tells nothing
    assert prometheus("count(count by (hostname, gpu) (gpu_node:gpu_tensor_active:ratio) > 1)") == []
    (one,) = prometheus('gpu_node:gpu_tensor_active:ratio{hostname="gpu05",gpu="3"}')
    assert one["value"][1] == "1"  # as the stand-in for DCGM tells it
    assert {"rack", "cluster", "UUID", "modelName"} <= set(one["metric"])


def test_a_job_over_four_nodes_is_one_line(prometheus):
    (gpus,) = prometheus("gpu_node:job_gpus")
    assert gpus["metric"] == {"__name__": "gpu_node:job_gpus", "cluster": "gpu", "hpc_job": "4711"}
    assert gpus["value"][1] == "32"
    (tensor,) = prometheus("gpu_node:job_tensor_active:ratio")
    assert float(tensor["value"][1]) == pytest.approx(0.4, abs=0.01)


def test_each_alert_can_be_asked_and_a_lost_gpu_is_one(prometheus):
    """Asked as Prometheus asks them each half a minute; how long each waits is for promtool to show."""
    alerts = yaml.safe_load((ROOT / "roles/monitoring/files/gpu_node.alerts.yml").read_text())["groups"][0]["rules"]
    found = {one["alert"]: prometheus(one["expr"]) for one in alerts}
    lost = [(one["metric"]["hostname"], one["metric"]["gpu"]) for one in found["GpuNodeGpuLost"]]
    assert lost == [("gpu03", "5")]
    told = {name for name, series in found.items() if series}
    # The stand-in for DCGM on gpu05 reports no activity, and no check can read a kernel log in the simulation.
    expected = {"GpuNodeGpuLost", "GpuNodeSick", "GpuNodeMetricsMissing", "GpuNodeAllocatedAndIdle"}
    assert told <= expected | {"GpuNodeVerdictUnknown"}, told


def test_the_verdict_of_each_node_is_there(prometheus):
    """gpu03 has lost a GPU. The others are not known to be well: their kernel log is in no file of the simulation."""
    found = {one["metric"]["hostname"]: one["metric"]["outcome"] for one in prometheus("gpu_node_health_outcome == 1")}
    assert set(found) == set(NODES) and found["gpu03"] == "fail", found
    assert set(found[name] for name in NODES if name != "gpu03") <= {"pass", "warn", "unknown"}
    lost = prometheus('gpu_node_health_finding{check="gpu_lost",outcome="fail"}')
    assert [one["metric"]["hostname"] for one in lost] == ["gpu03"]

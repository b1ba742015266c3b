# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Prometheus with the role's rules and a thousand nodes of eight GPUs: what it holds, and what rules and boards cost.

Each node is a target of its own; one process answers for all of them with what the node command reports of a simulated
node, in which jobs run. Prometheus is the real one, on loopback:

    python tests/bench/monitoring.py [--nodes 1000] [--seconds 300] [--before RULES] [--shards 10] [--dcgm]

``--before``: another file of rules, which the same Prometheus evaluates first; the CPU time without rules is measured,
too. ``--shards``: a second Prometheus federates the results for the fleet from that many copies of the first one.
``--dcgm``: the nodes report through DCGM's exporter instead of our own file.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Sequence

import yaml
from _measure import machine

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.monitoring import rules  # noqa: E402

ROLE = ROOT / "roles/monitoring"
GPUS = 8
FIELD = re.compile(r"DCGM_\w+").findall
SHOW = """
import sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
sys.exit(main.main(sys.argv[1:]))
"""
CHOSEN = {"cluster": "bench", "hostname": "gpu0001", "hpc_job": "1"}


def reported() -> str:
    """What one node reports, with placeholders for its own labels."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["make", "-s", "-C", str(ROOT / "tools/nvml_simulator"), "OUT=" + folder], check=True)
        environment = dict(
            os.environ,
            LD_LIBRARY_PATH=folder,
            NVML_SIMULATOR_STATE=folder + "/state",
            PYTHONPATH=str(ROOT / ".collections"),
        )
        os.mkdir(folder + "/state")
        subprocess.run([folder + "/nvml-simulator", "init", "nd96isr_h100_v5"], env=environment, check=True)
        texts = []
        for words in (["metrics", "--activity", "0.1"], ["health", "--quick", "--format", "prometheus"]):
            command = [sys.executable, "-c", SHOW, *words]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
            texts.append(re.sub(r"^#.*\n", "", done.stdout, flags=re.MULTILINE))
    return re.sub(r'UUID="GPU-([0-9a-f]{8})[0-9a-f-]*"', r'UUID="GPU-@NODE@-\1"', "".join(texts))


def of_dcgm(text: str) -> str:
    """The verdict of ``text``, and what DCGM's exporter reports with our fields, with the jobs as a label."""
    fields = {field for _name, dcgm, _ours in (*rules.PARTS, *rules.WHOLES) for one in dcgm for field in FIELD(one)}
    lines = [line for line in text.splitlines() if not line.startswith("gpu_node_gpu")]
    for field in sorted(fields):
        labels = '{0}{{gpu="{1}",UUID="GPU-@NODE@-{1}",modelName="NVIDIA H100 80GB HBM3",hpc_job="@JOB@"}} 0.5'
        lines += [labels.format(field, gpu) for gpu in range(GPUS)]
    return "\n".join(lines) + "\n"


class Nodes(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, text: str) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.text, self.jobs = text, True


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words: object) -> None:
        pass

    def do_GET(self) -> None:
        number = int(urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)["node"][0])
        body = self.server.text.replace("@NODE@", str(number))  # type: ignore[attr-defined]
        body = body.replace("@JOB@", str(number // 8) if self.server.jobs else "")  # type: ignore[attr-defined]
        if self.server.jobs and "hpc_job=" not in body:  # type: ignore[attr-defined]
            line = 'gpu_node_gpu_job{{gpu="{0}",UUID="GPU-{1}-{0}",hpc_job="{2}"}} 1\n'
            body += "".join(line.format(gpu, number, number // 8) for gpu in range(GPUS))
        sent = body.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


def configuration(folder: Path, port: int, nodes: int, own: str, rule_files: Sequence[Path]) -> None:
    targets = [
        {
            "targets": ["127.0.0.1:{0}".format(port)],
            "labels": {
                "cluster": "bench",
                "hostname": "gpu{0:04}".format(number),
                "profile": "ndv5",
                "rack": "r{0}".format(number // 8),
                "__param_node": str(number),
            },
        }
        for number in range(nodes)
    ]
    (folder / "targets.json").write_text(json.dumps(targets))
    content = {
        "global": {"scrape_interval": "30s", "evaluation_interval": "30s"},
        "rule_files": [str(one.resolve()) for one in rule_files],
        "scrape_configs": [
            {
                "job_name": "gpu_node",
                "file_sd_configs": [{"files": [str(folder / "targets.json")]}],
                "relabel_configs": [{"source_labels": ["hostname"], "target_label": "instance"}],
            },
            {"job_name": "prometheus", "static_configs": [{"targets": [own]}]},
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(content))


def global_configuration(folder: Path, shard: str, shards: int) -> None:
    """The example of the role, with copies of one shard, each of which is a cluster of its own."""
    content = yaml.safe_load((ROLE / "files/prometheus_global.example.yml").read_text())
    (job,) = content["scrape_configs"]
    content["scrape_configs"] = [
        dict(
            job,
            job_name="shard{0}".format(number),
            static_configs=[{"targets": [shard], "labels": {"shard": str(number)}}],
            metric_relabel_configs=[{"target_label": "cluster", "replacement": "bench{0}".format(number)}],
        )
        for number in range(shards)
    ]
    (folder / "global.yml").write_text(yaml.safe_dump(content))


def free_address() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return "127.0.0.1:{0}".format(one.getsockname()[1])


def start(folder: str, name: str, address: str) -> subprocess.Popen:
    words = ["--config.file={0}.yml".format(name), "--storage.tsdb.path=" + name, "--web.listen-address=" + address]
    path = os.pathsep.join([os.environ["PATH"], str(ROOT / ".venv/debian/usr/bin")])
    return subprocess.Popen(
        ["prometheus", "--web.enable-lifecycle", *words],
        cwd=folder,
        env=dict(os.environ, PATH=path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--dcgm", action="store_true")
    given = parser.parse_args()
    text = reported()
    server = Nodes(of_dcgm(text) if given.dcgm else text)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own, alerts = ROLE / "files/gpu_node.rules.yml", ROLE / "files/gpu_node.alerts.yml"
    with tempfile.TemporaryDirectory() as name:
        folder, address = Path(name), free_address()

        def load(*rule_files: Path) -> None:
            configuration(folder, server.server_address[1], given.nodes, address, rule_files)
            if started:
                urllib.request.urlopen(urllib.request.Request("http://" + address + "/-/reload", method="POST"))
            time.sleep(given.seconds)

        started: list[subprocess.Popen] = []
        configuration(folder, server.server_address[1], given.nodes, address, [] if given.before else [own, alerts])
        started.append(start(name, "prometheus", address))
        try:
            time.sleep(given.seconds)
            if given.before:
                without = cpu_seconds(started[0].pid)
                print("| CPU seconds in each 30 s without rules | {0:.2f} |".format(without))
                load(given.before)
                more = cpu_seconds(started[0].pid) - without
                print("| CPU seconds of the rules of {0} in each 30 s | {1:.2f} |".format(given.before.name, more))
                heat_map(address, "gpu_node:gpu_busy:ratio")
                load(own)
                more = cpu_seconds(started[0].pid) - without
                print("| CPU seconds of the rules in each 30 s | {0:.2f} |".format(more))
                load(own, alerts)
            measure(address, started[0].pid, given.nodes)
            heat_map(address, "sum by (le) (gpu_node:fleet_busy_gpus:bucket)")
            if given.shards:
                whole = free_address()
                global_configuration(folder, address, given.shards)
                started.append(start(name, "global", whole))
                time.sleep(150)
                measure_global(whole, started[1].pid, given.shards)
            server.jobs = False
            time.sleep(90)
            left = value(address, "count(gpu_node:gpu_job)")
            print("series of jobs 90 s after all of them ended: {0:.0f}".format(left))
        finally:
            for one in started:
                one.terminate()
                one.wait(60)


def heat_map(address: str, expr: str) -> None:
    """As many points as six hours have at a step of 30 s."""
    end = time.time()
    query = {"query": expr, "start": end - 72, "end": end, "step": 0.1}
    url = "http://{0}/api/v1/query_range?{1}".format(address, urllib.parse.urlencode(query))
    begin = time.monotonic()
    with urllib.request.urlopen(url, timeout=120) as answer:
        size = len(answer.read())
    print("| heat map of six hours: {0} | {1:.3g} MB, {2:.2f} s |".format(expr, size / 1e6, time.monotonic() - begin))


def cpu_seconds(pid: int, seconds: int = 120) -> float:
    """Of a process in each 30 s, over one evaluation of the rarest rules. Other programs change it little."""

    def used() -> float:
        fields = Path("/proc/{0}/stat".format(pid)).read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before, begin = used(), time.monotonic()
    time.sleep(seconds)
    return (used() - before) * 30 / (time.monotonic() - begin)


def memory(pid: int) -> int:
    """In MiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/{0}/status".format(pid)).read_text())
    assert found is not None
    return int(found[1]) // 1024


def measure_global(address: str, pid: int, shards: int) -> None:
    print("{0} shards, federated".format(shards))
    for what, expr in (
        ("series", "prometheus_tsdb_head_series"),
        ("samples of a scrape of a shard", "avg(scrape_samples_scraped)"),
        ("seconds that a scrape of a shard takes", "avg(scrape_duration_seconds)"),
        ("GPUs", "sum(gpu_node:fleet_gpus)"),
    ):
        print("| {0} | {1:.4g} |".format(what, value(address, expr)))
    print("| memory, MiB | {0} |".format(memory(pid)))
    heat_map(address, "sum by (le) (gpu_node:fleet_busy_gpus:bucket)")


def cost(groups: str) -> str:
    """The least of the last evaluations: other programs on the machine make them longer."""
    name = "prometheus_rule_group_{0}_seconds{{rule_group" + groups + "}}"
    return "sum(min_over_time({0}[150s]) * 30 / {1})".format(name.format("last_duration"), name.format("interval"))


def slowest_rules(address: str, count: int = 8) -> None:
    with urllib.request.urlopen("http://{0}/api/v1/rules".format(address), timeout=60) as answer:
        found = json.load(answer)["data"]["groups"]
    for group in found:
        print(
            "| group {0} of {1} rules, s | {2:.2f} |".format(
                group["name"], len(group["rules"]), group["evaluationTime"]
            )
        )
    every = sorted(((rule["evaluationTime"], rule["name"]) for group in found for rule in group["rules"]), reverse=True)
    for seconds, rule in every[:count]:
        print("| rule {0}, s | {1:.3f} |".format(rule, seconds))


def measure(address: str, pid: int, nodes: int) -> None:
    print("{0} nodes of {1} GPUs ({processor}, {cores} cores)".format(nodes, GPUS, **machine()))
    for what, expr in (
        ("targets up", 'sum(up{job="gpu_node"})'),
        ("series", "prometheus_tsdb_head_series"),
        ("samples a scrape of a node", "avg(scrape_samples_scraped)"),
        ("seconds a scrape takes", "avg(scrape_duration_seconds)"),
        ("series of recording rules", 'count({__name__=~"gpu_node:.*"})'),
        ("seconds of recording rules in each 30 s", cost('!~".*alerts"')),
        ("seconds of alerts in each 30 s", cost('=~".*alerts"')),
        ("CPU seconds of Prometheus in each 30 s", "avg(rate(process_cpu_seconds_total[90s])) * 30"),
    ):
        print("| {0} | {1:.4g} |".format(what, value(address, expr)))
    print("| memory of Prometheus, MiB | {0} |".format(memory(pid)))
    slowest_rules(address)
    for file in sorted((ROLE / "files/boards").glob("*.json")):
        seconds = []
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets") or []:
                expr = re.sub(r'=~"\$(\w+)"', '=~".*"', re.sub(r"\$\{?__range\}?", "4m", target["expr"]))
                expr = re.sub(r'="\$(\w+)"', lambda match: '="{0}"'.format(CHOSEN[match.group(1)]), expr)
                begin = time.monotonic()
                if target.get("instant"):
                    ask(address, "query", query=expr)
                else:
                    end = time.time()
                    ask(address, "query_range", query=expr, start=end - 240, end=end, step=30)
                seconds.append(time.monotonic() - begin)
        told_of = "| board {0}: queries, median and slowest, s | {1}, {2:.3f}, {3:.2f} |"
        print(told_of.format(file.stem, len(seconds), statistics.median(seconds), max(seconds)))


def ask(address: str, what: str, **query: object) -> list:
    url = "http://{0}/api/v1/{1}?{2}".format(address, what, urllib.parse.urlencode(query))
    with urllib.request.urlopen(url, timeout=120) as answer:
        return json.load(answer)["data"]["result"]


def value(address: str, expr: str) -> float:
    found = ask(address, "query", query=expr)
    return float(found[0]["value"][1]) if found else 0.0


if __name__ == "__main__":
    main()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Prometheus with the role's rules and a thousand nodes of eight GPUs: what it holds, and what the boards cost it.

Each node is a target of its own; one process answers for all of them with what the node command tells of a simulated
node, in which jobs run. Prometheus is the real one, on loopback:

    python tests/bench/monitoring.py [--nodes 1000] [--seconds 300]
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

import yaml
from _measure import machine

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "roles/monitoring"
GPUS = 8
SHOW = """
import sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
sys.exit(main.main(sys.argv[1:]))
"""
CHOSEN = {"cluster": "bench", "hostname": "gpu0001", "hpc_job": "1"}


def told() -> str:
    """What one node tells, with words that stand for its own."""
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
        if self.server.jobs:  # type: ignore[attr-defined]
            line = 'gpu_node_gpu_job{{gpu="{0}",UUID="GPU-{1}-{0}",hpc_job="{2}"}} 1\n'
            body += "".join(line.format(gpu, number, number // 8) for gpu in range(GPUS))
        sent = body.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


def configuration(folder: Path, port: int, nodes: int, own: str) -> None:
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
        "rule_files": [str(ROLE / "files/gpu_node.rules.yml"), str(ROLE / "files/gpu_node.alerts.yml")],
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=300)
    given = parser.parse_args()
    server = Nodes(told())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            address = "127.0.0.1:{0}".format(one.getsockname()[1])
        configuration(folder, server.server_address[1], given.nodes, address)
        words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=" + address]
        path = os.pathsep.join([os.environ["PATH"], str(ROOT / ".venv/debian/usr/bin")])
        started = subprocess.Popen(
            ["prometheus", *words],
            cwd=name,
            env=dict(os.environ, PATH=path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(given.seconds)
            measure(address, started.pid, given.nodes)
            server.jobs = False
            time.sleep(90)
            left = value(address, "count(gpu_node_gpu_job)")
            print("series of jobs 90 s after all of them ended: {0:.0f}".format(left))
        finally:
            started.terminate()
            started.wait(60)


def measure(address: str, pid: int, nodes: int) -> None:
    print("{0} nodes of {1} GPUs ({processor}, {cores} cores)".format(nodes, GPUS, **machine()))
    for what, expr in (
        ("targets up", 'sum(up{job="gpu_node"})'),
        ("series", "prometheus_tsdb_head_series"),
        ("samples a scrape of a node", "avg(scrape_samples_scraped)"),
        ("seconds a scrape takes", "avg(scrape_duration_seconds)"),
        ("series of recording rules", 'count({__name__=~"gpu_node:.*"})'),
        ("seconds of one evaluation of all rules", "sum(prometheus_rule_group_last_duration_seconds)"),
    ):
        print("| {0} | {1:.4g} |".format(what, value(address, expr)))
    status = Path("/proc/{0}/status".format(pid)).read_text()
    print("| memory of Prometheus, MiB | {0} |".format(int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) // 1024))
    for file in sorted((ROLE / "files/boards").glob("*.json")):
        seconds = []
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets") or []:
                expr = re.sub(r'=~"\$(\w+)"', '=~".*"', target["expr"])
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

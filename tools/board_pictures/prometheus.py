# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Prometheus over samples of the past, with the recording rules evaluated over their whole range."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Dict, Iterator, List

import yaml

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / ".venv/debian/usr/bin"
RULES = ROOT / "roles/monitoring/files/gpu_node.rules.yml"
#: Seconds between two samples, and for how long a sample holds.
INTERVAL, LOOKBACK = 60, 90
_RECORDED = re.compile(r"gpu_node:[a-z0-9_:]+")


class PrometheusError(Exception):
    """What failed, and the remedy."""


def program(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), str(UNPACKED)]))
    if found is None:
        raise PrometheusError("{0} is neither installed nor in {1}; run make setup".format(name, UNPACKED))
    return found


def levels(groups: List[Dict[str, Any]]) -> List[List[Dict[str, Any]]]:
    """The rules in groups of which each reads only what the ones before it wrote."""
    expr = {rule["record"]: str(rule["expr"]) for group in groups for rule in group["rules"]}
    depth: Dict[str, int] = {}

    def of(record: str) -> int:
        if record not in depth:
            depth[record] = 0  # a rule that reads itself
            read = [one for one in _RECORDED.findall(expr[record]) if one in expr and one != record]
            depth[record] = 1 + max((of(one) for one in read), default=-1)
        return depth[record]

    found: List[List[Dict[str, Any]]] = [[] for _level in range(1 + max(map(of, expr)))] if expr else []
    for group in groups:
        for level, of_level in enumerate(found):
            rules = [rule for rule in group["rules"] if depth[rule["record"]] == level]
            if rules:
                interval = "{0}s".format(min(INTERVAL, int(str(group["interval"]).rstrip("s"))))
                of_level.append(dict(group, rules=rules, interval=interval))
    return found


def _promtool(*words: str) -> None:
    done = subprocess.run(
        [program("promtool"), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PrometheusError(
            "promtool {0}: {1}".format(" ".join(words[:3]), (done.stderr or done.stdout).strip()[-500:])
        )


@contextlib.contextmanager
def serve(data: Path) -> Iterator[str]:
    """The address of a Prometheus with these blocks, which scrapes nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{0}".format(free.getsockname()[1])
    (data.parent / "prometheus.yml").write_text("global: {}\n", encoding="utf-8")
    log = data.parent / "prometheus.log"
    words = [program("prometheus"), "--config.file=" + str(data.parent / "prometheus.yml"), "--log.level=warn"]
    words += [
        "--storage.tsdb.path=" + str(data),
        "--storage.tsdb.retention.time=100y",
        "--web.listen-address=" + address,
    ]
    # Blocks of the past have no marks where a series ends, so a value holds for little more than the time between two.
    words += ["--query.lookback-delta={0}s".format(LOOKBACK)]
    with log.open("ab") as stream:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
    try:
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen("http://{0}/-/ready".format(address), timeout=5).close()  # noqa: S310
                break
            if process.poll() is not None or time.monotonic() > end:
                raise PrometheusError("Prometheus did not start: " + log.read_text(encoding="utf-8")[-500:])
            time.sleep(0.1)
        yield "http://" + address
    finally:
        process.terminate()
        process.wait(30)


def clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def fill(data: Path, samples: Path, start: int, end: int, rules: Path = RULES) -> None:
    """Write blocks of the samples (OpenMetrics with times), and of what the rules record of them."""
    _promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", str(samples), str(data))
    for level in levels(yaml.safe_load(rules.read_text(encoding="utf-8"))["groups"]):
        with tempfile.TemporaryDirectory() as work, serve(data) as address:
            part = Path(work) / "rules.yml"
            part.write_text(yaml.safe_dump({"groups": level}), encoding="utf-8")
            made = Path(work) / "blocks"
            words = ["--start", str(start), "--end", str(end), "--url", address, "--output-dir", str(made)]
            _promtool("tsdb", "create-blocks-from", "rules", *words, str(part))
            blocks = list(made.iterdir()) if made.is_dir() else []
            for block in blocks:
                shutil.move(str(block), str(data / block.name))


def label_values(address: str, query: str, start: int, end: int) -> List[str]:
    """What Grafana has for a variable: ``label_values(SELECTOR, LABEL)``."""
    told = re.fullmatch(r"label_values\((.*), *(\w+)\)", query)
    if told is None:
        raise PrometheusError("{0}: not a query of label values".format(query))
    words = urllib.parse.urlencode({"match[]": told.group(1), "start": start, "end": end})
    url = "{0}/api/v1/label/{1}/values?{2}".format(address, told.group(2), words)
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310
        return list(json.load(answer)["data"])

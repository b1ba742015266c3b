# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All files that a node writes for the textfile collector, in one directory of a real node exporter.

Node exporter drops a metric, or a whole file, if a second file has the same name with another HELP, type or labels.
"""

from __future__ import annotations

import ast
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints import measured
from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints.put import Done
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.exposition import PREFIX
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events import metrics as events
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events.memory import Memory
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.formats import prometheus
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics import owners, render
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics.types import Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.jobs import Running

ROOT = pathlib.Path(__file__).resolve().parents[4]
LIBRARY = ROOT / "plugins/module_utils"
NODE = """
import sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
main.Host = lambda: Host(sys.argv[1])
sys.exit(main.main(sys.argv[2:]))
"""
#: Each module that writes such a file, and how its names begin; None: they are listed in the code.
WRITERS = {
    "checkpoints/measured.py": "checkpoint_",
    "health/events/metrics.py": "cloud_event",
    "health/formats/prometheus.py": "health",
    "metrics/owners.py": "job_info",
    "metrics/render.py": None,
}


def modules_that_write():
    """Modules that create an Exposition."""
    for path in sorted(LIBRARY.rglob("*.py")):
        text = path.read_text()
        if "Exposition(" in text and path.name != "exposition.py":
            yield str(path.relative_to(LIBRARY)), ast.parse(text)


def test_no_metric_name_has_two_writers():
    """The names of each writer begin alike, and those of no other writer begin so."""
    assert {name for name, dummy in modules_that_write()} == set(WRITERS)
    own = [name for name, *dummy in render.metrics(Seen("ok", None))]
    assert len(own) > 30
    starts = [one for one in WRITERS.values() if one is not None]
    assert [name for name in own if name.startswith(tuple(starts))] == []
    assert [(one, two) for one in starts for two in starts if one != two and one.startswith(two)] == []
    for path, tree in modules_that_write():
        start = WRITERS[path]
        for call in ast.walk(tree):
            if not (isinstance(call, ast.Call) and getattr(call.func, "attr", getattr(call.func, "id", "")) == "add"):
                continue
            name = call.args[0] if call.args and start is not None else None
            if isinstance(name, ast.Constant):
                assert name.value.startswith(start), (path, name.value)
    assert prometheus.FIGURE.startswith("health_")


def samples(text):
    """Each sample without its value and its empty labels."""
    found = set()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, labels = re.fullmatch(r"([a-z_:A-Z0-9]+)(?:\{(.*)\})? \S+", line).groups()
            pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)+)"', labels or "")
            found.add((name, frozenset(pairs)))
    return found


@pytest.fixture(scope="module")
def files(nvml_simulator, tmp_path_factory):
    """What the writers write on a simulated node, by the name of the file."""
    root, machine = tmp_path_factory.mktemp("node"), nvml_simulator("nd96isr_h100_v5")
    found = {}
    for name, words in (
        ("gpus", ["metrics", "--activity", "0.1"]),
        ("health", ["health", "--format", "prometheus"]),
    ):
        done = subprocess.run(
            [sys.executable, "-c", NODE, str(root), *words],
            env=machine.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout and "Traceback" not in done.stderr, done.stderr
        found[name] = done.stdout
    found["events"] = events.render(Memory(), True, False, time.time())
    found["jobs"] = owners.render({(0, None): ("7",)}, (Running(7, 2000, user="anna", account="physics"),))
    found["checkpoint"] = measured.text("", "put", Done(1, 1, 1, 1, 1.0, 0.0), time.time())
    return found


def test_promtool_finds_nothing_to_correct(files):
    for name, text in files.items():
        # NVIDIA's exporter has this label, and queries join by it.
        text = text.replace("modelName=", "model_name=")
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), name


PORT = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "counters/symbol_error": "2",
    "counters/link_error_recovery": "3",
    "counters/link_downed": "1",
    "counters/port_rcv_errors": "4",
    "counters/local_link_integrity_errors": "5",
    "counters/excessive_buffer_overrun_errors": "6",
    "counters/port_xmit_data": "1000",
    "counters/port_rcv_data": "2000",
}


@pytest.fixture(scope="module")
def scraped(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exporter")
    port = folder / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    for name in ("board_id", "fw_ver", "hca_type"):
        (port.parent.parent / name).write_text("1.0\n")
    for name, value in PORT.items():
        (port / name).parent.mkdir(parents=True, exist_ok=True)
        (port / name).write_text(value + "\n")
    (folder / "textfile").mkdir()
    for name, text in files.items():
        (folder / "textfile" / "gpu_node_{0}.prom".format(name)).write_text(text)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{0}".format(one.getsockname()[1])
    words = ["--collector.disable-defaults", "--collector.textfile", "--collector.infiniband"]
    words += ["--collector.textfile.directory=" + str(folder / "textfile"), "--path.sysfs=" + str(folder / "sys")]
    words += ["--web.listen-address=" + address]
    with open(folder / "log", "wb") as log:
        exporter = subprocess.Popen(["prometheus-node-exporter", *words], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen("http://{0}/metrics".format(address), timeout=10) as answer:
                    return answer.read().decode()
            except OSError:
                assert time.monotonic() < deadline and exporter.poll() is None, (folder / "log").read_text()
                time.sleep(0.1)
    finally:
        exporter.terminate()
        exporter.wait(20)


def test_node_exporter_takes_all_files_together(files, scraped):
    assert re.search(r"^node_textfile_scrape_error 0$", scraped, re.MULTILINE)
    wanted = {one for text in files.values() for one in samples(text)}
    assert len(wanted) > 400
    assert wanted - samples("\n".join(line for line in scraped.splitlines() if line.startswith(PREFIX))) == set()


def test_the_rules_read_the_names_of_the_infiniband_collector(scraped):
    text = (ROOT / "roles/monitoring/files/gpu_node.rules.yml").read_text()
    read = set(re.findall(r"node_infiniband_\w+", text))
    for group in re.findall(r"node_infiniband_\(([\w|\s]+)\)_total", text):
        read |= {"node_infiniband_{0}_total".format(one) for one in re.sub(r"\s", "", group).split("|")}
    read = {name for name in read if not name.endswith("_")}
    assert len(read) >= 9
    assert {name for name in read if not re.search("^" + name + "{", scraped, re.MULTILINE)} == set()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode metrics`` on simulated machines: what is told, and what is told when something is not well."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.exposition import PREFIX
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics import families
from ansible_collections.trainyard.gpu_node.tests.unit import forked

COMMAND = """
import os, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
os.geteuid = lambda: 0
main.Host = lambda: Host(sys.argv[1])
sys.exit(main.main(sys.argv[2:]))
"""
_SAMPLE = re.compile(
    r'([a-z][a-z0-9_]*)(?:\{((?:[A-Za-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (NaN|[+-]?(?:Inf|[0-9.e+-]+))'
)
_LABEL = re.compile(r'([A-Za-z_]+)="((?:[^"\\]|\\.)*)"')
# Of Pascal and older, and where a reason or an error is there.
SELDOM = {"gpu_retired_pages"}


class Told:
    """A file of metrics, read as strictly as Prometheus does: each metric once, with its kind before its samples."""

    def __init__(self, text):
        self.text, self.samples, kinds = text, {}, {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                name, kind = line.split()[2:]
                assert name not in kinds, line
                kinds[name] = kind
            if line.startswith("#") or not line:
                continue
            match = _SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value = match.groups()
            assert name in kinds and name == list(kinds)[-1], line
            assert (kinds[name] == "counter") == name.endswith("_total"), line
            key = frozenset(_LABEL.findall(labels or ""))
            assert key not in self.samples.setdefault(name, {}), line
            self.samples[name][key] = float(value)

    def of(self, name, **labels):
        """The values of a metric where these labels are."""
        wanted = set(labels.items())
        return [value for key, value in self.samples.get(PREFIX + name, {}).items() if wanted <= key]


class Node:
    def __init__(self, simulator, root):
        self.simulator, self.root, self.control = simulator, root, simulator.control
        root.mkdir()

    def run(self, *words):
        words = ["-c", COMMAND, str(self.root), "metrics", *words]
        return forked.run(
            [sys.executable, *words], env=self.simulator.environment(), timeout=120, capture_output=True, text=True
        )

    def told(self, *words, status=0):
        done = self.run("--activity", "0.2", *words)
        assert done.returncode == status and "Traceback" not in done.stderr, done.stderr
        return Told(done.stdout)

    def write(self, path, text):
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


@pytest.fixture
def node(nvml_simulator, tmp_path):
    return lambda machine, *options: Node(nvml_simulator(machine, *options), tmp_path / "node")


def test_a_gpu_tells_what_it_does(node):
    h100 = node("nd96isr_h100_v5")
    h100.control("set", "gpu.2.gpm.tensor_percent", "37.5")
    h100.control("set", "gpu.2.utilization.gpu_percent", "80")
    h100.control("set", "gpu.2.gpm.nvlink_sent_mib", "1024")
    h100.write("run/gpu_node/gpu_jobs/2", "4711\n")
    told = h100.told()
    assert told.of("gpus") == [8] and told.of("gpu_up") == [1] * 8
    assert told.of("gpu_tensor_active_ratio", gpu="2") == [pytest.approx(0.375)]
    assert told.of("gpu_busy_ratio", gpu="2") == [0.8]
    assert told.of("gpu_nvlink_sent_bytes_per_second", gpu="2") == [pytest.approx(1024**3)]
    assert told.of("gpu_job", gpu="2", hpc_job="4711") == [1] and len(told.of("gpu_job")) == 1
    # As DCGM has them, so that one query finds both.
    (labels,) = [dict(key) for key in told.samples["gpu_node_gpu_temperature_celsius"] if ("gpu", "2") in key]
    assert set(labels) == {"gpu", "UUID", "pci_bus_id", "modelName"} and labels["UUID"].startswith("GPU-")
    assert re.fullmatch(r"[0-9A-F]{8}:[0-9A-F]{2}:00\.0", labels["pci_bus_id"])
    # Every metric of the page is told by some machine.
    known = {family.name for family in families.GPU} | {family.name for family in families.PARTS}
    assert {name for name in known - SELDOM if not told.of(name)} <= {"gpu_slowed", "gpu_slowdown_seconds_total"}


def test_gpus_before_hopper_tell_no_activity_and_pascal_s_pages_are_told(node):
    told = node("nd40rs_v2").told()
    assert told.of("gpu_tensor_active_ratio") == [] and len(told.of("gpu_busy_ratio")) == 8
    assert len(told.of("gpu_retired_pages")) == 16


def test_a_lost_gpu_is_told_and_the_others_are_told_with_it(node):
    machine = node("nd96isr_h100_v5", "gpu.count=4")
    machine.control("fault", "gpu", "1", "lost")
    told = machine.told()
    assert told.of("gpu_up", gpu="1") == [0] and sum(told.of("gpu_up")) == 3 and told.of("gpus") == [3]
    assert len(told.of("gpu_temperature_celsius")) == 3 and told.of("gpu_temperature_celsius", gpu="1") == []
    assert told.of("metrics_nvml", status="partial") == [1]


def test_a_gpu_that_is_lost_in_the_middle_is_told(node):
    """After its memory was read: it is lost from the first question for its load on."""
    machine = node("nd96isr_h100_v5", "gpu.count=2")
    machine.control("fault", "call", "nvmlDeviceGetUtilizationRates", "gpu", "0", "return", "GPU_IS_LOST")
    told = machine.told()
    assert told.of("gpu_up", gpu="0") == [0] and told.of("gpu_up", gpu="1") == [1]
    assert told.of("gpu_power_limit_watts", gpu="0") and not told.of("gpu_tensor_active_ratio", gpu="0")
    assert told.of("gpu_tensor_active_ratio", gpu="1")


def test_a_value_that_cannot_be_is_not_told(node):
    machine = node("nd96isr_h100_v5", "gpu.count=2")
    machine.control("set", "gpu.0.gpm.tensor_percent", "9223372036854775794")
    told = machine.told()
    assert told.of("gpu_tensor_active_ratio", gpu="0") == [] and len(told.of("gpu_tensor_active_ratio")) == 1


@pytest.mark.parametrize(
    ("option", "fault", "status", "word"),
    [
        ("gpu.count=8", ["driver", "version-mismatch"], 1, "driver_mismatch"),
        ("gpu.count=0", [], 0, "no_gpu"),
    ],
)
def test_a_machine_without_driver_or_gpus_tells_that(node, option, fault, status, word):
    machine = node("nd96isr_h100_v5", option)
    if fault:
        machine.control("fault", *fault)
    told = machine.told(status=status)
    assert told.of("gpus") == [0] and told.of("metrics_nvml", status=word) == [1], told.text
    assert abs(told.of("metrics_timestamp_seconds")[0] - time.time()) < 120


def test_while_a_job_profiles_nothing_is_counted(node):
    machine = node("nd96isr_h100_v5", "gpu.count=1")
    machine.write("run/gpu_node/profiling/42", "")
    told = machine.told()
    assert told.of("gpu_tensor_active_ratio") == [] and told.of("metrics_profiled_jobs") == [1]
    assert told.of("gpu_busy_ratio") != []


def test_names_of_others_cannot_write_metrics(node):
    machine = node("nd96isr_h100_v5", "gpu.count=1")
    machine.control("set", "gpu.0.name", 'H100"} 1 \\ x')
    told = machine.told()
    assert told.of("gpu_up") == [1] and 'modelName="H100\\"} 1 \\\\ x"' in told.text


def test_for_programs_it_is_json(node):
    done = node("nd96isr_h100_v5", "gpu.count=1").run("--json", "--activity", "0.1")
    found = {one["name"]: one for one in json.loads(done.stdout)["metrics"]}
    assert found["gpu_node_gpu_up"]["samples"][0]["value"] == 1.0 and found["gpu_node_gpu_up"]["type"] == "gauge"


# The file ---------------------------------------------------------------------------------------------


@pytest.fixture
def declared(node):
    machine = node("nd96isr_h100_v5", "gpu.count=1")
    section = {"source": "nvml", "textfile": "/srv/gpus.prom", "activity_seconds": 0.1, "interval_seconds": 600}
    machine.write("etc/gpu_node/node.json", json.dumps({"gpu_metrics": section}))
    return machine


def test_the_file_is_whole_and_is_written_anew(declared):
    file = declared.write("srv/gpus.prom", "")
    file.unlink()
    assert declared.run("write").returncode == 0
    first = Told(file.read_text())
    assert first.of("metrics_interval_seconds") == [600]
    assert first.of("gpu_up") == [1] and file.stat().st_mode & 0o777 == 0o644
    assert declared.run("write").returncode == 0
    assert [one.name for one in file.parent.iterdir()] == ["gpus.prom"]
    assert Told(file.read_text()).of("metrics_timestamp_seconds") > first.of("metrics_timestamp_seconds")


def test_a_folder_that_is_missing_and_a_file_of_others_are_told(declared):
    done = declared.run("write")
    assert done.returncode == 1 and "there is no such folder" in done.stderr and not (declared.root / "srv").exists()
    file = declared.write("srv/gpus.prom", "theirs 1\n")
    done = declared.run("write")
    assert done.returncode == 1 and "is not ours" in done.stderr and file.read_text() == "theirs 1\n"


def test_a_file_system_that_is_full_leaves_the_old_file(declared):
    """A limit of the size of files ends a write as a full file system does."""
    file = declared.write("srv/gpus.prom", "")
    file.unlink()
    assert declared.run("write").returncode == 0
    before = file.read_text()
    limited = subprocess.run(
        ["bash", "-c", 'ulimit -f 1; trap "" XFSZ; exec "$@"', "-", sys.executable, "-c", COMMAND, str(declared.root)]
        + ["metrics", "write"],
        env=declared.simulator.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert limited.returncode == 1 and "File too large" in limited.stderr and "Traceback" not in limited.stderr
    assert file.read_text() == before and [one.name for one in file.parent.iterdir()] == ["gpus.prom"]


def test_without_a_declaration_there_is_nothing_to_write(node):
    done = node("nd96isr_h100_v5", "gpu.count=1").run("write")
    assert done.returncode == 1 and "no file of metrics is declared" in done.stderr


@pytest.mark.parametrize("seconds", ["0", "-1", "100", "nan"])
def test_a_time_that_cannot_be_is_refused(node, seconds):
    done = node("nd96isr_h100_v5", "gpu.count=1").run("--activity", seconds)
    assert done.returncode == 2 and "give 0.1 to 10 seconds" in done.stderr

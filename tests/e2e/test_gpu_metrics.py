# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_metrics on a whole node: a timer that writes for node exporter, and the exporter of DCGM as it is configured.

DCGM cannot be had here: tests/packages/dcgm stands in for it, with its names, options and files.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

# test_bundle.py has the timer and what it writes in each test run.
pytestmark = pytest.mark.soak
FOLDER = "/var/lib/prometheus/node-exporter"
PROM = FOLDER + "/gpu_node_gpus.prom"
TIMER = "gpu-node-gpu_metrics.timer"
EXPORTER = "nvidia-dcgm-exporter.service"
STAND_IN = Path(__file__).resolve().parents[1] / "packages/dcgm/dcgm"
UNIT = """[Unit]
Description={0}
[Service]
ExecStart=/usr/bin/{0}{1}
Restart=on-abort
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture(scope="module", autouse=True)
def runtime(shared_node):
    assert not shared_node.module("node_runtime")["failed"]


@pytest.fixture(autouse=True)
def bare(node, request):
    node.ssh("nvml-simulator clear; mkdir -p " + FOLDER)
    yield
    if "dcgm" not in request.fixturenames:  # that one has taken it back already
        assert not node.module("gpu_metrics", state="absent")["failed"]
    node.ssh("nvml-simulator clear; rm -rf {0} /etc/dcgm-left-out /run/gpu_node/gpu_jobs".format(FOLDER))


def until(node, command, seconds=60):
    deadline = time.monotonic() + seconds
    while node.ssh(command, check=False).returncode != 0:
        assert time.monotonic() < deadline, node.ssh("journalctl -n 40 --no-pager").stdout
        time.sleep(1)


def test_a_timer_writes_for_node_exporter_and_nothing_stays(node):
    made = node.module("gpu_metrics", interval_seconds=10, activity_seconds=0.2)
    assert made["changed"] and made["source"] == "nvml" and made["textfile"] == PROM, made
    until(node, "grep -q '^gpu_node_gpus 8$' " + PROM, 90)
    assert node.ssh("systemctl is-active " + TIMER).stdout.strip() == "active"
    node.ssh("nvml-simulator fault gpu 3 lost")
    until(node, "grep -q '^gpu_node_gpus 7$' " + PROM, 90)
    assert 'gpu_node_gpu_up{gpu="3"' in node.ssh("grep ' 0$' " + PROM).stdout
    # Between two looks nothing of it runs, and its log has no line for a look that is well.
    assert node.ssh("pgrep -fc 'gpunode.*metrics write'", check=False).stdout.strip() in ("0", "1")
    assert node.module("gpu_metrics", state="absent")["changed"]
    node.ssh("test ! -e {0}; ! systemctl is-active -q {1}".format(PROM, TIMER))
    assert node.ssh("systemctl list-units --all --no-legend 'gpu-node-gpu_metrics*'").stdout.strip() == ""


@pytest.fixture
def dcgm(node):
    node.write("/usr/lib/gpu_node_test/dcgm", "#!/usr/bin/python3\n" + STAND_IN.read_text(), "0755")
    node.write("/etc/dcgm-version", "4.5.3\n")
    node.write("/etc/dcgm-exporter/default-counters.csv", "DCGM_FI_DEV_SM_CLOCK, gauge, SM clock frequency (in MHz).\n")
    for name, unit, words in (
        ("nv-hostengine", "nvidia-dcgm.service", ""),
        ("dcgm-exporter", EXPORTER, " -f /etc/dcgm-exporter/default-counters.csv"),
    ):
        node.write("/usr/lib/systemd/system/" + unit, UNIT.format(name, words))
    node.ssh("for one in dcgm-exporter nv-hostengine dcgmi; do ln -sf /usr/lib/gpu_node_test/dcgm /usr/bin/$one; done")
    node.ssh("systemctl daemon-reload; systemctl start nvidia-dcgm")
    yield
    assert not node.module("gpu_metrics", state="absent")["failed"]
    node.ssh(
        "systemctl disable --now -q {0} nvidia-dcgm; rm -rf /usr/lib/systemd/system/{0} /etc/dcgm-exporter "
        "/usr/lib/systemd/system/nvidia-dcgm.service /usr/bin/dcgm-exporter /usr/bin/nv-hostengine /usr/bin/dcgmi "
        "/usr/lib/gpu_node_test /etc/dcgm-version; systemctl daemon-reload; systemctl reset-failed".format(EXPORTER)
    )


ASK = "python3 -c \"import urllib.request as r; print(r.urlopen('http://127.0.0.1:9400/metrics').read().decode())\""


def test_dcgm_s_exporter_tells_our_fields_and_the_jobs(node, dcgm):
    made = node.module("gpu_metrics")
    assert made["changed"] and made["source"] == "dcgm" and made["missing_fields"] == [], made
    told = node.ssh(ASK).stdout
    assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{" in told and "hpc_job" not in told
    assert not node.module("gpu_metrics")["changed"]
    assert node.ssh("systemctl is-enabled " + EXPORTER).stdout.strip() == "enabled"
    node.ssh("printf '4711\\n' > /run/gpu_node/gpu_jobs/2")
    assert 'hpc_job="4711"' in node.ssh(ASK).stdout
    # What it leaves out in silence is told by the next run.
    node.write("/etc/dcgm-left-out", "DCGM_FI_DEV_MEMORY_TEMP\n")
    found = node.module("gpu_metrics")
    assert found["missing_fields"] == ["DCGM_FI_DEV_MEMORY_TEMP"] and "DCGM_FI_DEV_MEMORY_TEMP" in found["notes"][0]
    node.write("/etc/dcgm-version", "4.2.0\n")
    assert any("made with DCGM 4.5.3" in note for note in node.module("gpu_metrics")["notes"])
    # As its package has it.
    assert node.module("gpu_metrics", state="absent")["changed"]
    until(node, "systemctl is-active -q " + EXPORTER)
    until(node, ASK + " | grep -q SM_CLOCK")
    assert "PROF" not in node.ssh(ASK).stdout


def test_an_exporter_that_cannot_start_is_told_with_its_own_words(node, dcgm):
    failed = node.module("gpu_metrics", fields=["DCGM_FI_DEV_NO_SUCH_FIELD"])
    assert failed["failed"] and "could not find DCGM field" in failed["msg"], failed["msg"]
    # Nothing is half done in silence: the next run tries it again, and a right wish ends it.
    assert node.module("gpu_metrics", fields=["DCGM_FI_DEV_NO_SUCH_FIELD"])["failed"]
    assert not node.module("gpu_metrics")["failed"]
    node.ssh("systemctl stop nvidia-dcgm " + EXPORTER)
    failed = node.module("gpu_metrics")
    assert failed["failed"] and "failed to connect to remote hostengine" in failed["msg"], failed["msg"]
    assert not node.module("gpu_metrics", host_engine="")["failed"]


def test_a_port_that_is_taken_is_refused_before_anything_changes(node, dcgm):
    node.ssh("systemd-run --quiet --unit=taken python3 -m http.server 9400 --bind 127.0.0.1")
    until(node, ASK + " >/dev/null 2>&1; ss -ltn | grep -q :9400")
    before = node.files()
    failed = node.module("gpu_metrics")
    assert failed["failed"] and "another program listens there" in failed["msg"] and node.files() == before
    assert not node.module("gpu_metrics", listen="127.0.0.1:9401")["failed"]
    node.ssh("systemctl stop taken")


def test_the_section_of_a_declaration_converges_it(node):
    declaration = {"node_profile": {"name": "virtual"}, "gpu_metrics": {"interval_seconds": 20}}
    node.write("/root/declaration.json", json.dumps(declaration))
    command = "gpunode converge --json --only gpu_metrics --declaration /root/declaration.json"
    done = json.loads(node.ssh(command).stdout)
    assert done["resources"]["gpu_metrics"]["source"] == "nvml", done
    until(node, "grep -q '^gpu_node_gpus 8$' " + PROM, 90)
    assert not json.loads(node.ssh(command).stdout)["changed"]

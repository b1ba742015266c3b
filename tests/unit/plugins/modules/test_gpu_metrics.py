# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_metrics as Ansible runs it; the node is a folder, without systemd."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

FOLDER = "var/lib/prometheus/node-exporter"
SERVICE = "etc/systemd/system/gpu-node-gpu_metrics.service"
TIMER = "etc/systemd/system/gpu-node-gpu_metrics.timer"
TMPFILES = "etc/tmpfiles.d/gpu_node_jobs.conf"
OWNERS = FOLDER + "/gpu_node_jobs.prom"
DROP_IN = "etc/systemd/system/nvidia-dcgm-exporter.service.d/50-gpu_node.conf"
# As NVIDIA's package has it.
UNIT = """[Unit]
Description=NVIDIA DCGM Exporter service
Wants=nvidia-dcgm.service
After=nvidia-dcgm.service

[Service]
User=root
ExecStart=/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/default-counters.csv
Restart=on-abort

[Install]
WantedBy=multi-user.target
"""


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "root"
    (root / FOLDER).mkdir(parents=True)

    def call(check=False, **arguments):
        return run_module("gpu_metrics", arguments, root, check)

    call.root = root
    return call


def tree(root):
    return {
        os.path.relpath(os.path.join(folder, name), str(root))
        for folder, dummy, names in os.walk(str(root))
        for name in names
        if "/run/" not in folder + "/"
    }


def section(run):
    return json.loads((run.root / "etc/gpu_node/node.json").read_text()).get("gpu_metrics")


def test_check_real_check_real_and_absent_leaves_what_it_found(run):
    before = tree(run.root)
    planned = run(check=True, interval_seconds=60)
    assert planned["changed"] and tree(run.root) == before
    made = run(interval_seconds=60)
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["diff"] == planned["diff"] and "gpunode.pyz metrics write" in made["diff"]["after"]
    assert (made["source"], made["textfile"]) == ("nvml", "/" + FOLDER + "/gpu_node_gpus.prom")
    assert "OnUnitInactiveSec=60" in (run.root / TIMER).read_text()
    assert not run(check=True, interval_seconds=60)["changed"] and not run(interval_seconds=60)["changed"]
    assert tree(run.root) - before == {
        "etc/gpu_node/node.json",
        SERVICE,
        TIMER,
        "etc/systemd/system/timers.target.wants/gpu-node-gpu_metrics.timer",
        TMPFILES,
    }
    assert made["owners_textfile"] == section(run)["owners_textfile"] == "/" + OWNERS
    # What the timer wrote goes with it; a file of others stays.
    (run.root / FOLDER / "gpu_node_gpus.prom").write_text("# Managed by trainyard.gpu_node. x\ngpu_node_gpus 8\n")
    (run.root / FOLDER / "other.prom").write_text("other 1\n")
    assert run(check=True, state="absent")["changed"]
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert tree(run.root) == before | {FOLDER + "/other.prom"}


def test_an_exporter_of_dcgm_is_given_our_fields_and_then_its_own(run):
    unit = run.root / "usr/lib/systemd/system/nvidia-dcgm-exporter.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(UNIT)
    before = tree(run.root)
    made = run(fields=["DCGM_FI_DEV_FAN_SPEED", "-DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"])
    assert (made["source"], made["exporter"]) == ("dcgm", "nvidia-dcgm-exporter.service")
    assert made["missing_fields"] == [] and made["textfile"] is None
    text = (run.root / "etc/dcgm-exporter/gpu_node.csv").read_text()
    assert "DCGM_FI_DEV_FAN_SPEED, gauge, " in text and "ECC_SBE" not in text and "PROF_PIPE_TENSOR_ACTIVE" in text
    assert (
        "ExecStart=/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/gpu_node.csv -a :9400"
        in (run.root / DROP_IN).read_text()
    )
    assert section(run)["source"] == "dcgm"
    assert made["owners_textfile"] == section(run)["owners_textfile"] == "/" + OWNERS
    (run.root / OWNERS).write_text("# Managed by trainyard.gpu_node. x\n")  # as prolog does
    assert not run(fields=["DCGM_FI_DEV_FAN_SPEED", "-DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"])["changed"]
    assert run(state="absent")["changed"] and tree(run.root) == before


def test_nothing_is_done_where_nobody_reads(run):
    (run.root / FOLDER).rmdir()
    result = run()
    assert not result["changed"] and "nobody would read the metrics" in result["skipped_reason"]
    assert result["source"] is None
    given = run(textfile="/srv/metrics/gpus.prom")
    assert given["changed"] and "there is no folder /srv/metrics" in given["notes"][0]


def test_what_cannot_be_is_one_sentence(run):
    failed = run(source="dcgm")
    assert failed["failed"] and "dcgm-exporter: it is not installed" in failed["msg"]
    failed = run(interval_seconds=10, activity_seconds=8.0)
    assert failed["failed"] and "more than half of interval_seconds" in failed["msg"]


def test_who_does_not_want_the_owners_has_no_file_of_them(run):
    assert run()["owners_textfile"] == "/" + OWNERS
    (run.root / OWNERS).write_text("# Managed by trainyard.gpu_node. x\n")
    off = run(owners=False)
    assert off["changed"] and off["owners_textfile"] is None and section(run)["owners_textfile"] == ""
    assert not {OWNERS, TMPFILES} & tree(run.root) and not run(owners=False)["changed"]
    assert run(jobs=False)["owners_textfile"] is None
    elsewhere = run.root / "srv/metrics"
    elsewhere.mkdir(parents=True)
    moved = run(owners_textfile="/srv/metrics/owners.prom")
    assert moved["owners_textfile"] == "/srv/metrics/owners.prom" and not moved["notes"]
    assert "r! /srv/metrics/owners.prom" in (run.root / TMPFILES).read_text()
    (elsewhere / "owners.prom").write_text("# Managed by trainyard.gpu_node. x\n")
    assert run(state="absent")["changed"] and not (elsewhere / "owners.prom").exists()

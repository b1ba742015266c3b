# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node_labels as Ansible runs it; the node is a folder, without systemd."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

FOLDER = "etc/kubernetes/node-feature-discovery/features.d"
FILE = FOLDER + "/trainyard"
SERVICE = "etc/systemd/system/gpu-node-node_labels.service"
TIMER = "etc/systemd/system/gpu-node-node_labels.timer"
OURS = "# Managed by trainyard.gpu_node. x\ntrainyard.io/numa-nodes=2\n"


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "root"
    (root / FOLDER).mkdir(parents=True)

    def call(check=False, **arguments):
        return run_module("node_labels", arguments, root, check)

    call.root = root
    return call


def tree(root):
    return {
        os.path.relpath(os.path.join(folder, name), str(root))
        for folder, dummy, names in os.walk(str(root))
        for name in names
        if "/run/" not in folder + "/"
    }


def test_check_real_check_real_and_absent_leaves_what_it_found(run):
    (run.root / FOLDER / "other").write_text("a.io/x=1\n")
    before = tree(run.root)
    planned = run(check=True, interval_seconds=60)
    assert planned["changed"] and tree(run.root) == before
    made = run(interval_seconds=60)
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["diff"] == planned["diff"] and "labels -o /{0} --valid 150".format(FILE) in made["diff"]["after"]
    assert made["file"] == "/" + FILE and "OnUnitInactiveSec=60" in (run.root / TIMER).read_text()
    assert not run(check=True, interval_seconds=60)["changed"] and not run(interval_seconds=60)["changed"]
    assert tree(run.root) - before == {
        "etc/gpu_node/node.json",
        SERVICE,
        TIMER,
        "etc/systemd/system/timers.target.wants/gpu-node-node_labels.timer",
    }
    # What the timer wrote goes with it, and a file of others stays.
    (run.root / FILE).write_text(OURS)
    assert run(check=True, state="absent")["changed"] and (run.root / FILE).exists()
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert tree(run.root) == before


def test_nothing_is_done_where_node_feature_discovery_is_not(run):
    (run.root / FOLDER).rmdir()
    result = run()
    assert not result["changed"] and "nobody would read the labels" in result["skipped_reason"]
    assert result["file"] is None
    given = run(file="/srv/features/trainyard")
    assert given["changed"] and "there is no folder /srv/features" in given["notes"][0]


def test_the_file_of_the_gate_is_neither_taken_nor_removed(run):
    sections = {"health_gate": {"labels_file": "/" + FILE}}
    (run.root / "etc/gpu_node").mkdir(parents=True)
    (run.root / "etc/gpu_node/node.json").write_text(json.dumps(sections))
    (run.root / FILE).write_text(OURS)
    failed = run()
    assert failed["failed"] and "the labels of the health gate go there" in failed["msg"]
    assert not run(state="absent")["changed"] and (run.root / FILE).read_text() == OURS
    beside = run(file="/" + FOLDER + "/other")
    assert beside["changed"] and beside["file"] == "/" + FOLDER + "/other" and (run.root / FILE).exists()


def test_the_labels_of_gpus_are_left_to_gpu_feature_discovery_where_it_is(run):
    assert run(gfd=True, mig_strategy="mixed", sharing={"time_slicing": {"nvidia.com/gpu": 4}})["changed"]
    words = "--gfd --mig-strategy mixed --sharing time-slicing:nvidia.com/gpu=4"
    assert words in (run.root / SERVICE).read_text()
    (run.root / FOLDER / "gfd").write_text("nvidia.com/gpu.count=8\n")
    failed = run(gfd=True)
    assert failed["failed"] and "GPU feature discovery has its file there" in failed["msg"]
    assert run()["changed"] and not run()["changed"]
    assert "--gfd" not in (run.root / SERVICE).read_text()


def test_what_cannot_be_is_one_sentence(run):
    failed = run(valid_seconds=100)
    assert failed["failed"] and "the labels would come and go" in failed["msg"]
    failed = run(sharing={"mps": {"nvidia.com/gpu": 2}})
    assert failed["failed"] and "set gfd to true" in failed["msg"]

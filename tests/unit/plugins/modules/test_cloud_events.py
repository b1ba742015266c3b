# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module cloud_events as Ansible runs it; the node is a folder, without systemd."""

from __future__ import annotations

import json
import os

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import cloud_events as module
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

UNIT = "etc/systemd/system/gpu-node-cloud_events.service"


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "root"
    (root / "sys/class/dmi/id").mkdir(parents=True)
    (root / "sys/class/dmi/id/chassis_asset_tag").write_text("7783-7084-3265-9085-8269-3286-77\n")

    def call(check=False, **arguments):
        return run_module("cloud_events", arguments, root, check)

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
    before = tree(run.root)
    planned = run(check=True, lead_minutes=60)
    assert planned["changed"] and tree(run.root) == before
    made = run(lead_minutes=60)
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["diff"] == planned["diff"] and "gpunode.pyz events follow" in made["diff"]["after"]
    assert made["provider"] == "azure" and made["drained_for"] == [] and made["notes"] == []
    assert not run(check=True, lead_minutes=60)["changed"] and not run(lead_minutes=60)["changed"]
    assert tree(run.root) - before == {
        "etc/gpu_node/node.json",
        UNIT,
        "etc/systemd/system/multi-user.target.wants/gpu-node-cloud_events.service",
    }
    section = json.loads((run.root / "etc/gpu_node/node.json").read_text())["cloud_events"]
    assert section["provider"] == "azure" and section["lead_minutes"] == 60 and section["approve"] is False
    assert run(check=True, state="absent")["changed"]
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert tree(run.root) == before


def test_elsewhere_it_is_skipped(run):
    (run.root / "sys/class/dmi/id/chassis_asset_tag").write_text("rack 7\n")
    before = tree(run.root)
    done = run()
    assert not done["changed"] and "no virtual machine of Azure" in done["skipped_reason"] and tree(run.root) == before


def test_a_wrong_value_is_one_sentence(run):
    assert run(provider="command")["msg"].startswith("option command: it is empty; ")


def test_the_documentation_is_yaml():
    for text in (module.DOCUMENTATION, module.EXAMPLES, module.RETURN):
        assert yaml.safe_load(text)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules node_lease and cleanup as Ansible runs them; the node is a folder, without systemd."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

UNTIL = "2090-12-01T18:00Z"
MEMORY = "var/lib/gpu_node/node_lease.json"


@pytest.fixture
def root(tmp_path):
    identity = tmp_path / "root/sys/class/dmi/id"
    identity.mkdir(parents=True)
    (identity / "product_uuid").write_text("6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01\n")
    return tmp_path / "root"


def tree(root):
    return {
        os.path.relpath(os.path.join(folder, name), str(root))
        for folder, _dummy, names in os.walk(str(root))
        for name in names
        if "/run/" not in folder + "/"
    }


@pytest.mark.parametrize("name, options", [("cleanup", {"tmp_days": 2}), ("node_lease", {"until": UNTIL})])
def test_check_real_check_real_and_absent_leaves_what_it_found(root, name, options):
    before = tree(root)
    planned = run_module(name, options, root, True)
    assert planned["changed"] and tree(root) == before
    made = run_module(name, options, root, False)
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["diff"] == planned["diff"]
    assert (
        not run_module(name, options, root, True)["changed"] and not run_module(name, options, root, False)["changed"]
    )
    units = {"etc/systemd/system/gpu-node-{0}.{1}".format(name, one) for one in ("service", "timer")}
    link = "etc/systemd/system/timers.target.wants/gpu-node-{0}.timer".format(name)
    memory = {MEMORY} if name == "node_lease" else set()
    assert tree(root) - before == {"etc/gpu_node/node.json", link} | units | memory
    absent = {"state": "absent"}
    assert run_module(name, absent, root, True)["changed"] and run_module(name, absent, root, False)["changed"]
    assert not run_module(name, absent, root, False)["changed"] and tree(root) == before


def test_a_lease_is_extended_by_another_run_and_one_that_is_over_is_refused(root):
    assert run_module("node_lease", {"until": UNTIL}, root, False)["until"] == "2090-12-01 18:00 UTC"
    assert run_module("node_lease", {"until": "2091-01-01T00:00Z"}, root, False)["changed"]
    assert json.loads((root / MEMORY).read_text())["until"] == 3818448000.0
    failed = run_module("node_lease", {"until": "2020-01-01T00:00Z"}, root, False)
    assert failed["failed"] and "it is over already" in failed["msg"]
    assert json.loads((root / MEMORY).read_text())["until"] == 3818448000.0


def test_an_empty_time_takes_a_lease_away(root):
    assert run_module("node_lease", {}, root, False)["skipped_reason"].startswith("no lease is wanted")
    run_module("node_lease", {"until": UNTIL}, root, False)
    assert run_module("node_lease", {"until": ""}, root, False)["changed"] and not (root / MEMORY).exists()

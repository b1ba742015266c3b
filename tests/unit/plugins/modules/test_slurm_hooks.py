# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module slurm_hooks as Ansible runs it, on a captured machine with simulated GPUs; its files are a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_files.types import EPILOG, PROLOG
from ansible_collections.trainyard.gpu_node.plugins.modules import slurm_hooks as module
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack

RUNNER = """
import json, os, sys
from ansible.module_utils import basic
from ansible_collections.trainyard.gpu_node.plugins.module_utils.host import Host
from ansible_collections.trainyard.gpu_node.plugins.modules import slurm_hooks as module

root, check, arguments = sys.argv[1], sys.argv[2] == "check", json.loads(sys.argv[3])
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": dict(arguments, _ansible_check_mode=check)}).encode()
basic._ANSIBLE_PROFILE = "legacy"
os.geteuid = lambda: 0
module.Host = lambda: Host(root)
module.main()
"""
CONF = "ClusterName=test\nProlog=/etc/slurm/prolog.d/*\nEpilog=/etc/slurm/epilog.d/*\n"


@pytest.fixture
def run(nvml_simulator, tmp_path):
    simulator = nvml_simulator("nd96asr_v4")
    root = tmp_path / "node"
    unpack("ndv4", root)
    (root / "usr/sbin").mkdir(parents=True)
    (root / "usr/sbin/slurmd").write_text("#!/bin/sh\n")
    (root / "usr/sbin/slurmd").chmod(0o755)
    (root / "etc/slurm").mkdir(parents=True)
    (root / "etc/slurm/slurm.conf").write_text(CONF)

    def call(check=False, **arguments):
        done = subprocess.run(
            [sys.executable, "-c", RUNNER, str(root), "check" if check else "real", json.dumps(arguments)],
            env=simulator.environment(),
            capture_output=True,
            timeout=60,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        result = json.loads(done.stdout)
        assert bool(done.returncode) == bool(result.get("failed")), done.stderr
        return result

    call.root, call.simulator = root, simulator
    return call


def tree(root):
    return {
        os.path.relpath(os.path.join(folder, name), str(root))
        for folder, dummy, names in os.walk(str(root / "etc"))
        for name in names
    }


def test_check_real_check_real_and_absent_leaves_what_it_found(run):
    before = tree(run.root)
    planned = run(check=True)
    assert planned["changed"] and tree(run.root) == before
    made = run()
    assert made["changed"]
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["diff"] == planned["diff"] and "==> /etc/slurm/gres.conf <==" in made["diff"]["after"]
    assert not run(check=True)["changed"] and not run()["changed"]
    for name, text in (
        ("prolog.d/00-gpu_node", PROLOG),
        ("prolog.d/zz-gpu_node", PROLOG),
        ("epilog.d/50-gpu_node", EPILOG),
    ):
        path = run.root / "etc/slurm" / name
        assert path.read_text() == text and path.stat().st_mode & 0o777 == 0o755
    assert run(check=True, state="absent")["changed"]
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert tree(run.root) == before
    assert sorted(os.listdir(str(run.root / "etc/slurm"))) == ["slurm.conf"]


def test_gres_conf_has_the_cores_of_this_machine(run):
    result = run(gres_type="auto")
    lines = (run.root / "etc/slurm/gres.conf").read_text().splitlines()
    assert "Name=gpu Type=a100 File=/dev/nvidia0 Cores=24-47" in lines
    assert "Name=gpu Type=a100 File=/dev/nvidia7 Cores=48-71" in lines
    assert result["features"] == ["gpu_node", "numa4", "gpus8", "a100", "a100-sxm4-40gb"]
    assert (run.root / "etc/slurm/gpu_node_features").read_text().splitlines()[1] == ",".join(result["features"])
    assert result["prolog_reached"] and result["epilog_reached"] and result["reconfigure_pending"]
    assert not run(gres_type="auto")["reconfigure_pending"]


def test_a_lost_gpu_leaves_gres_conf_as_it_was(run):
    run()
    before = (run.root / "etc/slurm/gres.conf").read_text()
    run.simulator.control("fault", "gpu", "3", "lost")
    result = run()
    assert not result["changed"] and any("lost" in note for note in result["notes"])
    assert (run.root / "etc/slurm/gres.conf").read_text() == before


def test_what_slurm_conf_lacks_is_told(run):
    (run.root / "etc/slurm/slurm.conf").write_text("Prolog=/etc/slurm/prolog.sh\n")
    result = run()
    assert result["prolog_reached"] is False and result["epilog_reached"] is False
    assert sum("add the line" in note for note in result["notes"]) == 2
    assert (run.root / "etc/slurm/slurm.conf").read_text() == "Prolog=/etc/slurm/prolog.sh\n"


def test_without_slurm_it_is_skipped(run):
    (run.root / "usr/sbin/slurmd").unlink()
    result = run()
    assert not result["changed"] and "slurmd is not installed" in result["skipped_reason"]


def test_a_slurmd_without_configuration_is_skipped_unless_it_is_told_where_that_will_be(run):
    (run.root / "etc/slurm/slurm.conf").unlink()
    result = run()
    assert not result["changed"] and "no slurm.conf" in result["skipped_reason"]
    assert run(slurm_conf="/etc/slurm/slurm.conf")["changed"]


@pytest.mark.parametrize(
    "options, told",
    [
        ({"prolog_dir": "prolog.d"}, "no absolute path"),
        ({"gres_type": "a 100"}, "no name for a type"),
        ({"grace_seconds": 1e9}, "out of range"),
        ({"state": "gone"}, "value of state must be one of"),
    ],
)
def test_a_wrong_option_is_one_sentence(run, options, told):
    before = tree(run.root)
    result = run(**options)
    assert result["failed"] and told in result["msg"]
    assert tree(run.root) == before


def test_everything_that_is_returned_is_documented(run):
    documented = yaml.safe_load(module.RETURN)
    returned = set(run()) - {"changed", "diff", "invocation", "failed", "warnings", "deprecations"}
    assert returned == set(documented)

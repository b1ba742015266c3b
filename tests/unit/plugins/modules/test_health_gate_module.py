# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module health_gate as Ansible runs it; the node is a folder with Slurm's slurmd in it, and without systemd."""

from __future__ import annotations

import json
import os

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils import health
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.modules import health_gate as module
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.healthy_node import (
    HealthyNode,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

SILENCE = {"finding": "gpu_xid/xid_63/*", "until": "2999-12-31", "owner": "anna", "reason": "known"}


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "root"
    (root / "usr/sbin").mkdir(parents=True)
    (root / "usr/sbin/slurmd").write_text("#!/bin/sh\n")
    (root / "usr/sbin/slurmd").chmod(0o755)
    (root / "etc/slurm").mkdir(parents=True)
    (root / "etc/slurm/slurm.conf").write_text("HealthCheckProgram=/etc/slurm/gpu_node_health_check\n")

    def call(check=False, **arguments):
        return run_module("health_gate", arguments, root, check)

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
    planned = run(check=True, silences=[SILENCE])
    assert planned["changed"] and tree(run.root) == before
    made = run(silences=[SILENCE])
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert (
        made["diff"] == planned["diff"] and "ExecStart=/usr/local/bin/gpunode health --record" in made["diff"]["after"]
    )
    assert made["program_reached"] is True and made["notes"] == []
    assert not run(check=True, silences=[SILENCE])["changed"] and not run(silences=[SILENCE])["changed"]
    assert tree(run.root) - before == {
        "etc/gpu_node/node.json",
        "etc/slurm/gpu_node_health_check",
        "etc/systemd/system/gpu-node-health.service",
        "etc/systemd/system/gpu-node-health-proof.service",
        "etc/systemd/system/gpu-node-health.timer",
        "etc/systemd/system/timers.target.wants/gpu-node-health.timer",
    }
    assert (run.root / "etc/slurm/gpu_node_health_check").stat().st_mode & 0o777 == 0o755
    sections = json.loads((run.root / "etc/gpu_node/node.json").read_text())
    assert sections["health"] == {"silences": [dict(SILENCE, nodes=[])]}
    assert sections["health_gate"]["drained_percent"] == 20.0 and sections["health_gate"]["prolog"] is True
    assert run(check=True, state="absent")["changed"]
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert tree(run.root) == before


@pytest.mark.parametrize(
    "options, told",
    [
        ({"silences": [dict(SILENCE, until="soon")]}, "this is no date"),
        ({"silences": [dict(SILENCE, finding="*")]}, "faults of any kind"),
        ({"silences": [dict(SILENCE, owner=" ")]}, "it has no owner"),
        ({"thresholds": {"temperature_celsius": {"better": "lower", "warn": 90, "fail": 80}}}, "before warn"),
        ({"thresholds": {"temperature_celsius": {"warn": 90}}}, "which side is good"),
        ({"thresholds": {"swap_used_byte": {"better": "lower", "warn": 1}}}, "did you mean 'swap_used_bytes'?"),
        ({"thresholds": {"gemm_teraflops_per_second": {"better": "higher", "fail": 600}}}, "use compute_f16_teraflops"),
        ({"textfile": "/var/lib/node.txt"}, "does not end with .prom"),
        ({"labels_file": "labels"}, "no absolute path"),
        ({"redeploy_command": ["az", "vm"]}, "'az' is no absolute path"),
        ({"redeploy_command": ["/usr/bin/az vm redeploy"]}, "give each word by itself, as"),
        ({"without": ["gpu_zzz"]}, "there is none of this name"),
        ({"interval_seconds": 1}, "out of range"),
        ({"drained_percent": 101}, "out of range"),
        ({"kubernetes_node": "Node 1"}, "no name of a node"),
        ({"settings": {"silences": []}}, "Unsupported parameters"),
        ({"settings": {"acknowledged": [{"code": 79}]}}, "missing required arguments: before"),
        ({"settings": {"acknowledged": [{"code": 79, "before": "soon"}]}}, "before 'soon' is no time"),
        ({"settings": {"acknowledged": [{"code": 79, "before": "1", "pci_address": "b"}]}}, "pci_address 'b' is none"),
        ({"settings": {"partition_keys": ["0x8012", "blue"]}}, "is no list of partition keys"),
        ({"settings": {"tools": {"dcgmi": "dcgmi"}}}, "begin it with a slash"),
        ({"settings": {"tools": {"nvidia-smi": "/bin/true"}}}, "Unsupported parameters"),
        ({"settings": {"compute_seconds": 900}}, "give a number from 1 to 150"),
        ({"settings": {"dcgm_level": 4}}, "give a number from 1 to 3"),
        ({"settings": {"hpl_output": "HPL.out"}}, "begin it with a slash"),
        ({"state": "gone"}, "value of state must be one of"),
    ],
)
def test_a_wrong_option_is_one_sentence(run, options, told):
    before = tree(run.root)
    result = run(**options)
    assert result["failed"] and told in result["msg"]
    assert tree(run.root) == before


def test_what_is_set_is_what_the_checks_go_by(run, tmp_path):
    node = HealthyNode(tmp_path)
    node.say("NVRM: Xid (PCI:0001:00:00): 79, GPU has fallen off the bus.")
    for name in ("nr_hugepages", "free_hugepages"):
        node.write("/sys/kernel/mm/hugepages/hugepages-2048kB/" + name, "8")
    subjects = health.Options(only=("gpu_xid", "ib_partition_keys", "memory_huge_pages"))

    def told():
        verdict = health.examine(Host(str(run.root)), "node", subjects)
        return {(check, one.code, one.outcome.value) for check, one in verdict.findings}

    acknowledged = {"code": 79, "before": "2999-12-31", "pci_address": "0001:00:00.0"}
    run()
    assert told() == {("gpu_xid", "xid_79", "fail")}
    run(settings={"acknowledged": [acknowledged], "partition_keys": ["0x8013"]})
    assert told() == {("ib_partition_keys", "missing", "fail")}
    run(settings={"acknowledged": [dict(acknowledged, before="1500000000")], "partition_keys": ["0x8012"]})
    assert told() == {("gpu_xid", "xid_79", "fail")}
    limit = {"huge_pages_idle_percent": {"better": "lower", "warn": 0.01}}
    run(settings={"acknowledged": [acknowledged]}, thresholds=limit)
    assert told() == {("memory_huge_pages", "idle", "warn")}
    run(settings={"acknowledged": [acknowledged], "partition_keys": ["0x8013"]}, without=["ib_*"])
    assert told() == set()


def test_settings_are_declared_as_they_were_given_and_change_nothing_twice(run):
    settings = {
        "acknowledged": [{"code": 79, "before": "2026-11-21T20:00:00Z"}],
        "partition_keys": ["0x8012"],
        "tools": {"dcgmi": "/opt/dcgm/bin/dcgmi", "nvbandwidth": "/opt/tools/nvbandwidth"},
        "compute_seconds": 30.0,
        "dcgm_level": 2,
        "hpl_output": "/shared/HPL.out",
    }
    limits = {"swap_used_bytes": {"better": "lower", "warn": 1, "fail": None}}
    assert run(settings=settings, thresholds=limits)["changed"]
    sections = json.loads((run.root / "etc/gpu_node/node.json").read_text())
    assert sections["health"] == dict(settings, thresholds=limits)
    assert not run(settings=settings, thresholds=limits)["changed"]


def test_everything_that_is_returned_is_documented(run):
    documented = yaml.safe_load(module.RETURN)
    returned = set(run()) - {"changed", "diff", "invocation", "failed", "warnings", "deprecations"}
    assert returned == set(documented)

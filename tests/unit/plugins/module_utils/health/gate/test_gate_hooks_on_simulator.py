# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prolog, epilog and HealthCheckProgram with the gate, as slurmd runs them: simulated GPUs, a script for slurmctld.

The checks are those of GPUs; what a folder cannot show of a machine (memory, services) is left out by the declaration.
"""

from __future__ import annotations

import json
import os
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import history, record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost
from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks import hook_on
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.slurm_stand_in import Cluster

# Those that ask NVML about the GPUs themselves.
KEPT = ("gpu_lost", "gpu_recovery_action")


class Node:
    def __init__(self, simulator, root):
        self.root, self.simulator, self.control = root, simulator, simulator.control
        self.cluster = Cluster(root / "bin", ["gpu{0:02}".format(number) for number in range(1, 11)])
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text("20 1 0:5 / /proc rw - proc proc rw\n")
        self.declare()

    def declare(self, **gate):
        without = sorted({one.id for one in registry.checks(Cost.ACTIVE)} - set(KEPT))
        scontrol = str(self.root / "bin/scontrol")
        sections = {
            "health": {"without": without},
            "health_gate": dict({"prolog": True, "proof": False, "resume_after": 2, "scontrol": scontrol}, **gate),
            "slurm_hooks": {"clocks": False, "job_folder": False, "end_processes": False, "scontrol": scontrol},
        }
        (self.root / "etc/gpu_node").mkdir(parents=True, exist_ok=True)
        (self.root / "etc/gpu_node/node.json").write_text(json.dumps(sections))

    @property
    def slurm(self):
        return self.cluster.node("gpu01")

    def hook(self, event):
        slurmd = {"SLURM_JOB_ID": "42", "SLURM_JOB_UID": str(os.getuid()), "SLURMD_NODENAME": "gpu01"}
        done = forked.run(
            [sys.executable, hook_on.__file__, str(self.root), "hook", event, "--json"],
            env=self.simulator.environment(**slurmd),
            capture_output=True,
            timeout=120,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.fixture
def node(nvml_simulator, tmp_path):
    return Node(nvml_simulator("nd96asr_v4"), tmp_path / "node")


def test_a_healthy_node_takes_the_job_and_slurmctld_is_not_asked(node):
    assert node.hook("prolog")[0] == 0
    assert node.cluster.calls == [] and node.slurm[0] == "IDLE"


def test_a_sick_node_takes_no_job_and_is_drained_and_comes_back_when_it_is_well(node):
    node.control("fault", "gpu", "3", "lost")
    status, report, told = node.hook("prolog")
    assert status == 1 and report["decision"]["action"] == "drain", told
    assert node.slurm[0] == "IDLE+DRAIN" and node.slurm[1].startswith("gpu_node: health: reboot: GPU 3")
    # The job did not start, and the hooks of jobs do not put the node back.
    assert not (node.root / "run/gpu_node/jobs/42.json").exists()
    assert node.hook("resume")[1]["decision"]["action"] == "leave" and node.slurm[0] == "IDLE+DRAIN"
    assert node.hook("health")[0] == 1
    node.control("clear", "gpu", "3")
    first, second = node.hook("health"), node.hook("health")
    assert (first[0], first[1]["decision"]["decision"]["action"]) == (0, "leave")
    assert second[1]["decision"]["decision"]["action"] == "resume" and node.slurm[0] == "IDLE"
    assert record.stored(_host(node))["outcome"] == "pass"
    assert [one.action for one in history.read(_host(node)).entries if one.action] == ["drain", "resume"]
    assert node.hook("prolog")[0] == 0


def _host(node):
    return hook_on.Node(str(node.root))


def test_when_too_many_are_drained_the_job_starts_and_a_person_is_told(node):
    node.control("fault", "gpu", "3", "lost")
    for number in range(2, 11):
        node.cluster.set("gpu{0:02}".format(number), "IDLE+DRAIN", "gpu_node: health: GPU 0: lost")
    status, report, told = node.hook("prolog")
    assert status == 0 and report["decision"]["action"] == "leave"
    assert "a person must decide" in told and "the job starts all the same" in told
    assert node.slurm[0] == "IDLE"


def test_a_sick_node_takes_no_job_also_when_slurmctld_does_not_answer(node):
    node.control("fault", "gpu", "3", "lost")
    node.cluster.down()
    status, dummy, told = node.hook("prolog")
    assert status == 1 and "Unable to contact slurm controller" in told
    assert node.hook("health")[0] == 1


def test_what_is_switched_off_costs_nothing(node):
    node.control("fault", "gpu", "3", "lost")
    node.declare(prolog=False)
    assert node.hook("prolog")[0] == 0 and node.hook("epilog")[0] == 0 and node.cluster.calls == []
    node.declare(drain=False)
    status, dummy, told = node.hook("prolog")
    assert status == 0 and "draining is switched off" in told and node.slurm[0] == "IDLE"


def test_the_epilog_drains_where_that_is_wanted(node):
    node.declare(epilog=True)
    assert node.hook("epilog")[0] == 0 and node.cluster.calls == []
    node.control("fault", "gpu", "3", "lost")
    status, report, told = node.hook("epilog")
    assert status == 0 and report["decision"] is not None, told
    assert report["decision"]["action"] == "drain"
    assert node.slurm[1].startswith("gpu_node: health: reboot: GPU 3")


@pytest.mark.parametrize("text", ["{", '{"health": {"without": ["no_such_check"]}, "health_gate": {"prolog": true}}'])
def test_a_declaration_of_ours_that_is_wrong_never_drains_for_its_health(node, text):
    (node.root / "etc/gpu_node/node.json").write_text(text)
    node.hook("prolog")
    assert node.hook("health")[0] == 4  # unknown; 1 is the verdict fail
    assert "health" not in node.slurm[1]


def test_a_machine_that_was_drained_and_started_anew_takes_no_job_before_it_has_proved_well(node):
    """Slurm forgot its drain when it powered the node down, and a start forgets what was found."""
    boot = node.root / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("0a6a3e1c-0000-4000-8000-000000000001\n")
    node.control("fault", "gpu", "3", "lost")
    assert node.hook("prolog")[0] == 1
    node.control("clear", "gpu", "3")
    node.cluster.set("gpu01", "IDLE+CLOUD")
    boot.write_text("0a6a3e1c-0000-4000-8000-000000000002\n")
    status, report, told = node.hook("prolog")
    assert status == 1 and report["decision"]["action"] == "drain", told
    assert node.slurm[0] == "IDLE+CLOUD+DRAIN" and node.slurm[1].startswith("gpu_node: health: reboot: GPU 3")

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpunode reset: drained and empty first, or not at all; slurmctld is a script, and what undoes is replaced."""

from __future__ import annotations

import json
import os
import types

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import reset as command
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host, LockHeld
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs import out_of_service
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import own, reset, wish
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.converge import Report
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import client, drain, on_node
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import jobs as notes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import Jobs, SlurmNode
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.slurm_stand_in import Cluster

NAME = os.uname().nodename.split(".")[0]


class Node:
    def __init__(self, folder, monkeypatch):
        self.root = folder / "root"
        for one in ("proc", "etc/gpu_node", "run/gpu_node/jobs"):
            (self.root / one).mkdir(parents=True)
        self.slurm = Cluster(folder / "slurm", [NAME])
        section = {"slurm_hooks": {"scontrol": str(self.slurm.folder / "scontrol")}}
        (self.root / "etc/gpu_node/node.json").write_text(json.dumps(section))
        self.host = Host(str(self.root))
        self.told, self.runs, self.parts = [], [], {}
        monkeypatch.setattr(own, "run", self._undo)
        monkeypatch.setattr(client, "SETTLE_SECONDS", 0.0)

    def _undo(self, host, request, version):
        self.runs.append((request, self.slurm.drained))
        return Report(self.parts, {}, request.check_mode)

    def reset(self, **how):
        return reset.run(self.host, "1.0", self.told.append, **how)


@pytest.fixture
def node(tmp_path, monkeypatch):
    return Node(tmp_path, monkeypatch)


def test_it_is_drained_first_and_stays_so_and_everything_goes(node):
    assert node.reset().drained
    ((request, drained),) = node.runs
    assert drained == [NAME] and node.slurm.node(NAME)[1] == "gpu_node: reset: by gpunode reset"
    assert request.undo and request.whole and set(request.sections) == set(registry.NAMES)
    # As reset.yml: what was declared is undone by what it was declared with.
    (node.root / "etc/gpu_node/declaration.json").write_text(json.dumps({"nvme_scratch": {"mount_point": "/x"}}))
    assert reset.sections(node.host)["nvme_scratch"] == {"mount_point": "/x"}


def test_without_slurm_no_part_of_it_waits_for_slurmctld(node, monkeypatch):
    """A resource that takes something from jobs refuses while slurmctld is silent and slurmd runs."""
    (node.root / "proc/55").mkdir()
    (node.root / "proc/55/comm").write_text("slurmd\n")
    node.slurm.down()
    told = []
    monkeypatch.setattr(own, "run", lambda host, *dummy: told.append(on_node.asked(host).told))
    assert not on_node.asked(node.host).told
    node.reset(slurm=False)
    assert told == [True] and not on_node.asked(node.host).told


def test_a_job_that_runs_refuses_it_and_nothing_is_drained(node):
    node.slurm.change(on={NAME: [12]})
    with pytest.raises(NodeError, match="job 12 is on it"):
        node.reset()
    with pytest.raises(NodeError, match="job 12 is on it"):
        node.reset(check_mode=True)
    assert node.runs == [] and node.slurm.drained == []


def test_without_an_answer_of_slurmctld_it_is_refused_and_both_ways_are_named(node):
    node.slurm.down()
    with pytest.raises(NodeError) as refused:
        node.reset()
    assert "run it again when slurmctld answers, or use 'gpunode reset --yes --without-slurm'" in str(refused.value)
    assert node.runs == []
    node.reset(slurm=False)
    assert len(node.runs) == 1


def test_a_job_that_starts_before_the_drain_refuses_it_and_the_drain_is_taken_back(node, monkeypatch):
    real = client.Slurm.drain

    def starts(self, *given):
        node.slurm.change(on={NAME: [12]})
        return real(self, *given)

    monkeypatch.setattr(client.Slurm, "drain", starts)
    with pytest.raises(NodeError, match="job 12 is on it"):
        node.reset()
    assert (
        node.runs == []
        and node.slurm.drained == []
        and node.told == ["drained: no job comes", "our drain is taken back"]
    )


@pytest.mark.parametrize("untold", [False, True])
def test_a_process_that_begins_on_a_gpu_before_the_drain_refuses_it_too(node, monkeypatch, untold):
    def why_not(host, nvml):
        if node.slurm.drained and untold:
            raise NodeError("NVML", "it does not tell who uses the GPUs", "reboot the node")
        return "process 5 (python) of user 1001 is on GPU 0" if node.slurm.drained else ""

    monkeypatch.setattr(out_of_service.gpus_in_use, "why_not", why_not)
    with pytest.raises(NodeError, match="it is not reset: " + ("NVML: it does" if untold else "process 5")):
        node.reset()
    assert node.runs == [] and node.slurm.drained == [] and node.told[-1] == "our drain is taken back"


def test_a_process_on_a_gpu_refuses_it_before_anything_is_drained_and_in_check_mode(node, monkeypatch):
    text = "process 5 (python) of user 1001 is on GPU 0"
    monkeypatch.setattr(out_of_service.gpus_in_use, "why_not", lambda host, nvml: text)
    for check_mode in (True, False):
        with pytest.raises(NodeError, match="it is not reset: process 5"):
            node.reset(check_mode=check_mode)
    assert node.runs == [] and node.told == []  # nothing was drained and taken back
    # Nor is a machine with Slurm's commands that is none of its nodes.
    gone = Cluster(node.root.parent / "other", ["other"])
    slurm = client.Slurm(node.host, NAME, str(gone.folder / "scontrol"))
    assert out_of_service.take_out(node.host, slurm, "reset").why == text and gone.drained == []


def test_a_node_whose_name_slurm_does_not_know_is_not_empty_while_its_slurmd_runs(node):
    gone = Cluster(node.root.parent / "other", ["other"])
    slurm = client.Slurm(node.host, NAME, str(gone.folder / "scontrol"))
    assert out_of_service.take_out(node.host, slurm, "reset").why == ""
    for name, text in (("comm", "slurmd\n"), ("status", "Uid:\t0\t0\t0\t0\n"), ("cmdline", "/usr/sbin/slurmd\0-F\0")):
        (node.root / "proc/77").mkdir(parents=True, exist_ok=True)
        (node.root / "proc/77" / name).write_text(text)
    why = out_of_service.take_out(node.host, slurm, "reset").why
    assert "under another name or in no partition" in why and "stop slurmd" in why and gone.drained == []


def test_a_driver_that_does_not_answer_is_asked_neither_before_nor_after_the_drain(node, monkeypatch):
    asked = []
    monkeypatch.setattr(out_of_service.gpus_in_use, "why_not", lambda host, nvml: asked.append(nvml) or "")
    assert node.reset(nvml=False).drained and asked == [False, False]


def test_a_converge_that_runs_refuses_it_and_the_drain_is_taken_back(node, monkeypatch):
    def busy(*given):
        raise LockHeld("this node", "a converge of it runs", "wait")

    monkeypatch.setattr(own, "run", busy)
    with pytest.raises(LockHeld):
        node.reset()
    assert node.slurm.drained == [] and node.told[-1] == "our drain is taken back"
    node.slurm.set(NAME, "IDLE+DRAIN", "anna: new memory")
    with pytest.raises(LockHeld):
        node.reset()
    assert node.slurm.node(NAME) == ("IDLE+DRAIN", "anna: new memory")


def test_a_drain_of_others_stays_theirs(node):
    node.slurm.set(NAME, "IDLE+DRAIN", "anna: new memory")
    assert not node.reset().drained and node.slurm.node(NAME) == ("IDLE+DRAIN", "anna: new memory") and node.runs


def test_slurm_that_does_not_answer_refuses_it_unless_a_person_says_that_it_is_gone(node):
    node.slurm.down()
    with pytest.raises(NodeError, match="contact"):
        node.reset()
    assert node.runs == []
    notes.begin(node.host, notes.Running(7, 1001))
    with pytest.raises(NodeError, match="job 7 is on it"):
        node.reset(slurm=False)
    notes.undo(node.host, 7)
    assert not node.reset(slurm=False).drained and len(node.runs) == 1


def test_jobs_of_which_nobody_tells_are_jobs():
    assert "does not tell" in out_of_service.busy(Jobs(told=False)) and out_of_service.busy(Jobs()) == ""


def test_check_mode_asks_and_drains_nothing(node):
    node.reset(check_mode=True)
    assert node.runs[0][0].check_mode and node.slurm.drained == []


def test_for_a_lease_all_goes_but_the_lease_then_that(node):
    assert reset.for_lease(node.host, "1.0", True) == "" == reset.for_lease(node.host, "1.0", False)
    first, second = (request for request, drained in node.runs)
    assert first.without == ("node_lease",) and first.undo and not first.whole and second.whole
    node.parts = {"nvme_scratch": {"failed": True, "msg": "it is busy."}}
    assert reset.for_lease(node.host, "1.0", True) == "nvme_scratch: it is busy."
    (node.root / "etc/gpu_node/declaration.json").write_text("{")
    assert "not valid JSON" in reset.for_lease(node.host, "1.0", True)


def test_the_lease_is_taken_away_last(node):
    """What goes on with a hand-back that was cut off has to outlive what it takes away; of an image nothing is made."""
    assert [name for name in registry.NAMES if name not in ("image", "node_profile")][0] == "node_lease"
    assert wish.absent({"node_lease": {"until": "soon"}}) == {"node_lease": {"until": "soon", "state": "absent"}}


def test_without_yes_nothing_is_done(node):
    arguments = types.SimpleNamespace(yes=False, check=False, json=False, without_slurm=False)
    with pytest.raises(Misuse, match="all data on the scratch are lost"):
        command.run(node.host, arguments)
    assert node.runs == []


@pytest.mark.parametrize("kind", [drain.LEASE, drain.RESET])
@pytest.mark.parametrize("finding", [None, "GPU 3 is gone"])
def test_no_hook_ends_or_rewords_a_drain_for_good(kind, finding):
    node = SlurmNode(frozenset(("IDLE", "DRAIN")), drain.PREFIX + kind + "x")
    assert drain.kind(node) == kind and drain.decide(node, finding).action == drain.LEAVE

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The restart of slurmd: what is asked before it, by which name, what keeps it from being done, and what is told."""

from __future__ import annotations

import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gres_conf, slurmd, syntax

HERE = os.uname().nodename.split(".")[0]
GRES = "/etc/slurm/gres.conf"
LINES = "AutoDetect=off\nName=gpu Type=A100 File=/dev/nvidia[0-1]\nName=shard Count=4 File=/dev/nvidia0\n"


class Node:
    """A folder with Slurm in it, of the NodeName gpu07. Its programs write down what they are asked."""

    def __init__(self, root):
        self.root, self.host = root, Host(str(root))
        for folder in ("etc/slurm", "proc/4242", "run/systemd/system", "usr/bin"):
            (root / folder).mkdir(parents=True)
        self.program("scontrol", 'echo "scontrol $*" >> {0}/asked; [ "$3" = gpu07 ] && cat {0}/state')
        self.program("squeue", 'echo "squeue $*" >> {0}/asked; cat {0}/jobs')
        self.program("systemctl", "echo $* >> {0}/restarts; cat {0}/fresh > {0}/proc/4242/stat")
        (root / "proc/4242/comm").write_text("slurmd\n")
        (root / "proc/4242/stat").write_text(self.stat(100))
        (root / "fresh").write_text(self.stat(200))
        (root / "jobs").write_text("")
        self.says()
        self.conf("gpu:2")

    def program(self, name, text):
        (self.root / "usr/bin" / name).write_text("#!/bin/sh\n" + text.format(self.root) + "\n")
        (self.root / "usr/bin" / name).chmod(0o755)

    def stat(self, ticks):
        return "4242 (slurmd) S 1 " + "0 " * 17 + "{0} 0 0\n".format(ticks)

    def says(self, state="IDLE", gres="gpu:2"):
        """What slurmctld does of the node."""
        (self.root / "state").write_text(
            "NodeName=gpu07\n   Gres={0}\n   State={1} ThreadsPerCore=1\n".format(gres, state)
        )

    def conf(self, gres, more=""):
        text = "NodeName=gpu07 NodeHostname={0} Gres={1}\n{2}".format(HERE, gres, more)
        (self.root / "etc/slurm/slurm.conf").write_text(text)

    def gres(self, text=LINES):
        (self.root / "etc/slurm/gres.conf").write_text(text)

    def settle(self, *files, wished=True, **more):
        return slurmd.settle(self.host, files or (GRES,), wished, **more)

    def told(self, name):
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path / "node")


def test_one_restart_serves_all_files_and_the_node_is_asked_for_once_by_its_node_name(node):
    assert node.settle(GRES, "/etc/slurm/plugstack.conf.d/x.conf") is None
    assert node.told("restarts") == ["restart -- slurmd.service"]
    shown, listed = node.told("asked")
    assert shown == "scontrol show node gpu07" and "--nodelist=gpu07" in listed
    assert " --local -a " in listed  # nor is a hidden partition passed over


def test_a_name_that_slurmd_was_given_is_the_one(node):
    (node.root / "proc/4242/cmdline").write_text("slurmd\0-N\0gpu08\0")
    assert "does not tell whether jobs run here" in node.settle() and node.told("restarts") == []
    assert node.told("asked") == ["scontrol show node gpu08"]


@pytest.mark.parametrize("state, jobs, told", [
    ("MIXED", "", "its state is MIXED"),
    ("IDLE+COMPLETING", "", "its state is COMPLETING+IDLE"),
    ("DOWN", "17\n", "job 17 is on it"),
])  # fmt: skip
def test_it_is_not_restarted_while_a_job_is_on_the_node(node, state, jobs, told):
    node.says(state)
    (node.root / "jobs").write_text(jobs)
    why = "slurmd has yet to read a and b, and is not restarted, as {0}: run this again when no job runs here"
    assert node.settle("a", "b") == why.format(told) and node.told("restarts") == []


def test_nor_while_a_step_runs_or_nobody_tells(node):
    (node.root / "proc/77").mkdir()
    (node.root / "proc/77/comm").write_text("slurmstepd\n")
    (node.root / "proc/77/cmdline").write_text("slurmstepd: [17.0]\0")
    assert "a step of a job runs here" in node.settle() and node.told("asked") == []
    (node.root / "proc/77/cmdline").write_text("/usr/sbin/slurmstepd\0infinity\0")
    (node.root / "state").unlink()
    assert "slurmctld does not tell whether jobs run here" in node.settle() and node.told("restarts") == []


def test_nor_against_the_wish_or_without_systemd(node):
    remedy = "run 'systemctl restart slurmd' when no job runs here, then this again"
    assert node.settle(wished=False).endswith("that is left to you: " + remedy)
    (node.root / "run/systemd/system").rmdir()
    assert "this node has no systemd: " in node.settle()


@pytest.mark.parametrize("wished", [True, False])
@pytest.mark.parametrize("jobs", ["", "17\n"])
def test_with_fewer_gpus_than_gres_no_remedy_is_a_restart_alone(node, wished, jobs):
    """Whatever it is to be restarted for; and idle or not: the remedy must be right when the job has ended."""
    node.gres()
    node.conf("gpu:3")
    (node.root / "jobs").write_text(jobs)
    told = node.settle("/opt/plugin.so", wished=wished)
    assert told == (
        "slurmd has yet to read /opt/plugin.so, and is not restarted, as /etc/slurm/slurm.conf has Gres=gpu:3 for "
        "gpu07, and Slurm drains a node that comes with fewer: /etc/slurm/gres.conf has gpu:A100:2,shard:4: correct "
        "Gres= of gpu07 in /etc/slurm/slurm.conf, restart slurmctld, then slurmd, and run this again"
    )
    node.conf("gpu:2")
    node.says(gres="gpu:a100:3(S:0-1)")
    told = node.settle(wished=wished)
    assert "as slurmctld has Gres=gpu:a100:3(S:0-1) for gpu07" in told and node.told("restarts") == []
    assert told.endswith("gpu:A100:2,shard:4: restart slurmctld, then slurmd, and run this again")


def test_what_only_slurmd_can_count_keeps_nothing_back(node):
    node.conf("gpu:3")
    for text in (None, "AutoDetect=nvml\n", "NodeName=other Name=gpu File=/dev/nvidia0\n", "Include missing.conf\n"):
        if text is not None:
            node.gres(text)
        assert node.settle(check_mode=True) is None, text
    node.gres("AutoDetect=off\n")
    assert "/etc/slurm/gres.conf has none: " in node.settle(check_mode=True)
    (node.root / "proc/4242/cmdline").write_text("slurmd\0--conf-server\0ctl\0-N\0gpu07\0")
    (node.root / "run/slurm/conf").mkdir(parents=True)
    for name in ("slurm.conf", "gres.conf"):  # a cache, which it gets anew when it starts
        (node.root / "etc/slurm" / name).rename(node.root / "run/slurm/conf" / name)
    assert node.settle(check_mode=True) is None


def test_check_mode_asks_by_the_files_as_they_will_be_and_restarts_nothing(node):
    node.gres("Name=gpu File=/dev/nvidia0\n")
    assert node.settle(check_mode=True) is not None
    assert node.settle(check_mode=True, planned={GRES: LINES}) is None
    assert node.settle(check_mode=True, planned={GRES: None}) is None
    assert node.told("restarts") == [] and not (node.root / "run/gpu_node").exists()


def test_a_slurmd_that_its_unit_does_not_restart_is_an_error(node):
    (node.root / "fresh").write_text(node.stat(100))
    with pytest.raises(
        NodeError, match="slurmd.service is not the unit that it runs in; restart it by hand when no job"
    ):
        node.settle()


@pytest.mark.parametrize("text, gres", [
    ("Name=gpu Type=a100 File=/dev/nvidia[0-3]\nName=gpu File=/dev/nvidia4", "gpu:a100:4,gpu:1"),
    ("Name=gpu Count=4", "gpu:4"),
    ("Name=gpu Type=1g MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12", "gpu:1g:1"),
    ("AutoDetect=off\nName=gpu File=/dev/nvidia0\nName=shard Count=4 File=/dev/nvidia0", "gpu:1,shard:4"),
    ("AutoDetect=off", ""),
    ("", None),
    ("AutoDetect=nvml", None),
    ("Name=gpu File=/dev/nvidia[x]", None),
    ("Name=gpu File=/dev/nvidia0 Colour=red", None),
])  # fmt: skip
def test_what_a_gres_conf_comes_to(text, gres):
    assert gres_conf.gres_of(gres_conf.gpus(syntax.of(text), "gpu07")) == gres


@pytest.mark.parametrize("has, gres, fewer", [
    ("gpu:8", "gpu:8", False),
    ("gpu:8", "gpu:4", False),
    ("gpu:8", "gpu:9", True),
    ("", "gpu:1", True),
    ("gpu:8", "", False),
    ("gpu:8", "gpu:a100:8", True),
    ("gpu:a100:8", "gpu:8", False),
    ("gpu:a100:4,gpu:h100:4", "gpu:8", False),
    ("gpu:a100:4,gpu:h100:4", "gpu:a100:5", True),
    ("gpu:A100:8", "gpu:a100:8(S:0-1)", False),
    ("gpu:a100:8", "gpu:A100:8", False),
    ("gpu:8", "gpu:8,shard:4", True),
    ("gpu:8,shard:4", "gpu:8,shard:4,mps:100", False),
])  # fmt: skip
def test_fewer_than_gres_type_by_type_or_all_together(has, gres, fewer):
    assert gres_conf.fewer(has, gres) == fewer

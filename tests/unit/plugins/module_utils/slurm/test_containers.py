# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reads the configuration of containers on a node: jobs by their steps, cgroups and notes, and containers."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import containers, on_node

SCOPE = "sys/fs/cgroup/system.slice/slurmstepd.scope"


class Slurm(Host):
    """``told``: the answer of slurmctld for every job; None: it does not answer. ``on``: the answer of squeue.
    ``client``: whether Slurm's commands are installed."""

    def __init__(self, root, told=None, on="", client=True):
        super().__init__(str(root))
        self.told, self.on, self.client = told, on, client

    def which(self, program):
        return program if self.client else None

    def run(self, argv, timeout_seconds=60.0, accept=(0,)):
        if self.told is None or not self.client:
            raise NodeError(argv[0], "did not end within 10 s", "look")
        return Completed(tuple(argv), 0, self.on if "squeue" in argv else self.told.format(argv[-1]), "")


def process(root, pid, name="python", uid=1000, words="", namespace="host", mounts=()):
    folder = root / "proc" / str(pid)
    (folder / "ns").mkdir(parents=True)
    (folder / "comm").write_text(name + "\n")
    (folder / "cmdline").write_text(words)
    if uid:
        (folder / "status").write_text("Uid:\t{0}\t{0}\t{0}\t{0}\n".format(uid))
    (folder / "ns/mnt").symlink_to("mnt:[" + namespace + "]")
    lines = ["36 35 98:0 /srv {0} rw,noatime master:1 - ext4 /dev/root rw".format(one) for one in mounts]
    (folder / "mountinfo").write_text("".join(line + "\n" for line in lines))


@pytest.fixture
def root(tmp_path):
    process(tmp_path, 1, "systemd", 0)
    process(tmp_path, 50, "slurmstepd", 0, "/usr/sbin/slurmstepd\0infinity\0")
    return tmp_path


def note(root, number):
    path = root / "run/gpu_node/jobs/{0}.json".format(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"uid": 1000, "gpus": ["0001:00:00.0"]}))
    return path


def test_a_node_without_jobs_has_no_users(root):
    process(root, 60, "sshd", 0)
    process(root, 61, "dockerd", 0, namespace="7", mounts=("/", "/etc/hosts"))
    (root / SCOPE / "job_4711").mkdir(parents=True)  # left over, and empty
    assert containers.users(Slurm(root, "")) == ()


def slurmd(root):
    process(root, 99, "slurmd", 0, "/usr/sbin/slurmd\0")


@pytest.mark.parametrize("running", [True, False])
def test_a_job_without_a_step_on_a_node_without_hooks_counts(root, running):
    if running:
        slurmd(root)
    assert containers.users(Slurm(root, "", on="17|1000\n18|1001\n")) == ("job 17", "job 18")


def test_any_job_may_run_while_slurmctld_does_not_answer(root):
    slurmd(root)
    (found,) = containers.users(Slurm(root))
    assert "does not answer" in found
    assert containers.users(Slurm(root, "")) == ()


def test_nothing_waits_for_an_answer_that_never_comes(root):
    assert containers.users(Slurm(root)) == ()  # an image: no slurmd runs, so no job starts
    slurmd(root)
    assert containers.users(Slurm(root, client=False)) == ()  # no command of Slurm can ask


def test_a_step_names_its_job_once(root):
    process(root, 42, "slurmstepd", 0, "slurmstepd: [4711.batch]\0")
    process(root, 43, "slurmstepd", 0, "slurmstepd: [4711.0]\0")
    process(root, 44, "slurmstepd", 1000, "slurmstepd: [4712.0]\0")  # a user chose this name
    assert containers.users(Slurm(root)) == ("job 4711",)


@pytest.mark.parametrize("name", ["job_17", "s0ABCDEFGHJKMN"])
def test_a_job_whose_step_daemon_was_killed_still_counts(root, name):
    folder = root / SCOPE / name / "step_0"
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text("60\n")
    assert containers.users(Slurm(root)) == ("job " + name.replace("job_", ""),)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("JobId={0} JobName=x\n   JobState=RUNNING Reason=None\n", ("job 17",)),
        (None, ("job 17",)),
        ("slurm_load_jobs error: Invalid job id specified\n", ()),
        ("JobId={0} JobName=x\n   JobState=COMPLETED Reason=None\n", ()),
    ],
)
def test_a_note_counts_unless_slurmctld_reports_the_end_of_the_job(root, told, found):
    path = note(root, 17)  # an allocation without a step has no process here
    assert containers.users(Slurm(root, told)) == ("job 17",)  # it may have just begun
    os.utime(path, (0, 0))
    assert containers.users(Slurm(root, told)) == found


@pytest.mark.parametrize("name", ["job_17", "s0ABCDEFGHJKMN"])
@pytest.mark.parametrize("runs", [True, False])
def test_an_empty_cgroup_keeps_no_note_of_a_job_that_is_over(root, name, runs):
    """A killed slurmd leaves both behind, and no epilog runs."""
    path = note(root, 17)
    path.write_text(json.dumps({"uid": 1000, "gpus": [], "sluid": "s0ABCDEFGHJKMN"}))
    os.utime(path, (0, 0))
    folder = root / SCOPE / name / "step_0"
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text("60\n" if runs else "")
    over = "JobId={0} JobName=x\n   JobState=COMPLETED Reason=None\n"
    assert containers.users(Slurm(root, over)) == (("job 17",) if runs else ())


def test_a_slurmd_without_a_command_to_ask_with_leaves_it_unknown(root):
    """A reset and the end of a lease refuse such a node; only callers that destroy nothing go on."""
    slurmd(root)
    host = Slurm(root, client=False)
    assert not on_node.look(host, on_node.slurm_of(host, {}), ())[0].told


def test_a_container_outside_a_job_counts(root):
    process(root, 70, namespace="7", mounts=("/", "/etc/hostname", "/.lock"))
    process(root, 71, namespace="7", mounts=("/", "/etc/hostname", "/.lock"))
    process(root, 72, namespace="8", mounts=("/", "/home/user/.lock"))
    assert containers.users(Slurm(root)) == ("process 70 of user 1000, which runs in a container,",)


def test_many_namespaces_of_a_user_cost_a_bounded_time_and_hide_no_container(root, monkeypatch):
    monkeypatch.setattr(containers, "_NAMESPACES", 3)
    looked = []
    look = containers._is_container
    monkeypatch.setattr(containers, "_is_container", lambda host, pid: looked.append(pid) or look(host, pid))
    for number in range(100, 140):
        process(root, number, namespace=str(number), mounts=("/",) * 2000)
    process(root, 200, uid=1001, namespace="200", mounts=("/", "/.lock"))
    assert containers.users(Slurm(root)) == (
        "user 1000, who has more than 3 mount namespaces,",
        "process 200 of user 1001, which runs in a container,",
    )
    assert len(looked) == 5


def test_many_namespaces_of_the_system_are_no_containers_of_users(root, monkeypatch):
    monkeypatch.setattr(containers, "_NAMESPACES", 3)
    for number in range(100, 140):  # pods
        process(root, number, uid=0, namespace=str(number), mounts=("/", "/etc/hosts"))
    assert containers.users(Slurm(root)) == ()
    process(root, 200, uid=0, namespace="200", mounts=("/", "/.lock"))
    assert len(containers.users(Slurm(root))) == 1

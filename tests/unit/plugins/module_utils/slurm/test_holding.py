# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which jobs have which GPUs, by notes, cgroups and what slurmctld tells; what is not certain may be any."""

from __future__ import annotations

import json
import os
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import client, holding
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.holding import Detail, Holding

NODE = os.uname().nodename.split(".")[0]
V2, V1 = "sys/fs/cgroup/system.slice/slurmstepd.scope", "sys/fs/cgroup/devices/slurm/uid_1000"
BEGAN = "2026-01-31T12:00:00"
# The lines of scontrol's info_job.c that count, in their order (24.11; 22.05 writes the same).
ANSWER = """JobId=17 JobName={name}
   UserId=user(1000) GroupId=user(1000) MCS_label=N/A
   JobState={state} Reason=None Dependency=(null)
   StartTime={began} EndTime=Unknown Deadline=N/A
   ReqTRES=cpu=1,mem=1M,node=1,billing=1{tres}
   AllocTRES=cpu=1,mem=1M,node=1,billing=1
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES={total}
     Nodes={node} CPU_IDs=0 Mem=1 GRES={gres}
   MinCPUsNode=1 MinMemoryNode=1M MinTmpDiskNode=0

"""
CAPS = "/dev/nvidia-caps/nvidia-cap{0}"
GRES = (
    "Name=gpu Type=a100_3g.20gb MultipleFiles=/dev/nvidia0,{0},{1}\n"
    "Name=gpu Type=a100_3g.20gb MultipleFiles=/dev/nvidia0,{2},{3}\n"
    "Name=gpu Type=a100 File=/dev/nvidia1\n"
).format(*(CAPS.format(number) for number in (12, 13, 21, 22)))


def answer(gres="", name="x", state="RUNNING", began=BEGAN, tres="", total="", node=NODE):
    return ANSWER.format(gres=gres, name=name, state=state, began=began, tres=tres, total=total, node=node)


class Slurm(Host):
    """A node whose slurmctld gives this answer; None: it does not answer."""

    def __init__(self, root, told=None):
        super().__init__(str(root))
        self.told, self.asked = told, []

    def which(self, program):
        return program

    def run(self, argv, timeout_seconds=60.0, accept=(0,)):
        self.asked.append(" ".join(argv[-4:]))
        if self.told is None:
            raise NodeError("scontrol", "did not end within 10 s", "look")
        return Completed(tuple(argv), 0, self.told, "")


def note(root, number, **more):
    folder = root / "run/gpu_node/jobs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "{0}.json".format(number)).write_text(json.dumps(dict({"uid": 1000, "gpus": []}, **more)))


# Evidence on the node ---------------------------------------------------------------------------------


def test_a_node_without_jobs_has_none(tmp_path):
    assert holding.look(Host(str(tmp_path))) == ()


def test_a_note_tells_its_gpus_or_that_nobody_knows(tmp_path):
    note(tmp_path, 17)
    note(tmp_path, 18, gpus=["0001:00:00.0"])
    assert holding.look(Host(str(tmp_path))) == (Holding("17"), Holding("18", ("0001:00:00.0",)))


@pytest.mark.parametrize("place", [V1, V2])
def test_a_job_without_hooks_has_a_cgroup(tmp_path, place):
    for name in ("job_9", "s0E2ABCDEFGHJK", "system", "step_0", "job_x"):
        (tmp_path / place / name).mkdir(parents=True)
    # Users name cgroups of their own as they like.
    (tmp_path / "sys/fs/cgroup/user.slice/slurmstepd.scope/job_66").mkdir(parents=True)
    assert holding.look(Host(str(tmp_path))) == (Holding("9"), Holding("s0E2ABCDEFGHJK"))
    # One that is noted is one job, by whatever name.
    note(tmp_path, 9)
    note(tmp_path, 10, sluid="s0E2ABCDEFGHJK", gpus=["0001:00:00.0"])
    assert holding.look(Host(str(tmp_path))) == (Holding("10", ("0001:00:00.0",)), Holding("9"))


# What slurmctld says ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told, positions",
    [
        (answer("gpu:a100_3g.20gb:1(IDX:0)"), (0,)),
        (answer("gpu:2(IDX:0-1)"), (0, 1)),
        (answer("gpu:a100:2(IDX:1,3),gpu:a100_1g.5gb:1(IDX:5)"), (1, 3, 5)),
        (answer("gpu:a100:1(IDX:2)", node="other[01-02],{0}".format(NODE)), (2,)),
        (answer(), ()),
        (answer("craynetwork:1"), None),  # not known here
        # It shares GPUs, or has some that slurmctld numbers nowhere.
        (answer("shard:2(0/4,2/4)"), None),
        (answer("gpu:a100:1(IDX:0),shard:2(0/4,2/4)"), None),
        (answer("gpu:a100(CNT:2)"), None),
        (answer("gpu:0(IDX:)"), None),
        (answer(tres=",gres/gpu=1"), None),
        (answer(total="gpu:1"), None),
    ],
)
def test_the_positions_of_a_job_on_this_node(told, positions):
    found = holding.detail(told, 17, NODE)
    assert found is not None and found.positions == positions
    assert found.began == time.mktime(time.strptime(BEGAN, "%Y-%m-%dT%H:%M:%S"))


@pytest.mark.parametrize(
    "told",
    [
        "",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
        answer("gpu:1(IDX:0)", node="other"),
        answer("gpu:1(IDX:0)").replace("JobId=17", "JobId=170"),
        answer("gpu:1(IDX:0)") * 2,
        # Its user has written a line like it into the job's name.
        answer("gpu:1(IDX:0)", name="x\n     Nodes={0} CPU_IDs=0 Mem=1 GRES=".format(NODE)),
    ],
)
def test_what_tells_nothing_of_this_node(told):
    assert holding.detail(told, 17, NODE) is None


def test_a_time_that_is_none_is_not_known():
    assert holding.detail(answer("gpu:1(IDX:0)", began="Unknown"), 17, NODE) == Detail(None, (0,))


# All of it --------------------------------------------------------------------------------------------


def node(root, told, written=-3600, started=-1800, began=-60):
    """Seconds from now: gres.conf was written, slurmd started, the job began."""
    now = time.time()
    folder = root / "etc/slurm"
    folder.mkdir(parents=True)
    (folder / "slurm.conf").write_text("NodeName={0} Gres=gpu:a100_3g.20gb:2,gpu:a100:1\n".format(NODE))
    (folder / "gres.conf").write_text(GRES)
    for name in ("slurm.conf", "gres.conf"):
        os.utime(str(folder / name), (now + written,) * 2)
    process = root / "proc/77"
    process.mkdir(parents=True)
    (process / "comm").write_text("slurmd\n")
    ticks = int((3600 * 24 + started) * os.sysconf("SC_CLK_TCK"))
    (process / "stat").write_text("77 (slurmd) S " + " ".join(["0"] * 18) + " {0} 0\n".format(ticks))
    (root / "proc/stat").write_text("btime {0}\n".format(int(now) - 3600 * 24))
    began = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now + began))
    return Slurm(root, told if told is None else told.replace(BEGAN, began))


def asked(host, *holdings):
    return holding.asked(host, holdings or (Holding("17"),), "scontrol")


def test_positions_become_device_files(tmp_path):
    host = node(tmp_path, answer("gpu:a100_3g.20gb:1(IDX:1),gpu:a100:1(IDX:2)"))
    (found,) = asked(host)
    assert found.files == (("/dev/nvidia0", CAPS.format(21), CAPS.format(22)), ("/dev/nvidia1",))
    assert host.asked == ["show job -d 17"]


@pytest.mark.parametrize(
    "times",
    [
        {"written": -100},  # slurmd may still have the text that was there before
        {"began": -2400},  # it began under another slurmd
    ],
)
def test_positions_in_a_text_that_slurmd_may_not_have_had_tell_nothing(tmp_path, times):
    assert asked(node(tmp_path, answer("gpu:a100:1(IDX:2)"), **times)) == (Holding("17"),)


def test_positions_that_gres_conf_does_not_tell_are_not_known(tmp_path):
    host = node(tmp_path, answer("gpu:a100:1(IDX:7)"))
    assert asked(host) == (Holding("17"),)
    host.told = host.told.replace("IDX:7", "IDX:2")
    assert asked(host) == (Holding("17", files=(("/dev/nvidia1",),)),)
    # What it includes may be newer than itself; and without a slurmd nobody has read it.
    path = tmp_path / "etc/slurm/gres.conf"
    mtime = path.stat().st_mtime
    (tmp_path / "etc/slurm/more.conf").write_text("")
    path.write_text(GRES + "Include more.conf\n")
    os.utime(str(path), (mtime, mtime))
    assert asked(host) == (Holding("17"),)
    path.write_text(GRES)
    os.utime(str(path), (mtime, mtime))
    (tmp_path / "proc/77/comm").write_text("other\n")
    assert asked(host) == (Holding("17"),)


def test_a_job_that_is_over_or_has_no_gpu_is_in_nobodys_way(tmp_path):
    host = node(tmp_path, answer(state="COMPLETED"))
    assert asked(host) == ()
    host.told = "slurm_load_jobs error: Invalid job id specified"
    assert asked(host) == ()
    host.told = answer()
    assert asked(host) == (Holding("17", ()),)


def test_a_silent_slurmctld_is_asked_once_and_what_is_known_not_at_all(tmp_path):
    host = node(tmp_path, None)
    jobs = (Holding("1", ("0001:00:00.0",)), Holding("s0E2ABCDEFGHJK"), Holding("17"), Holding("18"))
    assert asked(host, *jobs) == jobs
    assert host.asked == ["show job -d 17"]


# Jobs that only slurmctld knows ---------------------------------------------------------------------------


def of_slurm(root, told, running=True):
    if running:
        (root / "proc/99").mkdir(parents=True, exist_ok=True)
        (root / "proc/99/comm").write_text("slurmd\n")
    host = Slurm(root, told)
    return holding.of_slurm(host, holding.look(host), client.Slurm(host, NODE, "scontrol"))


def test_a_job_without_a_step_and_a_note_may_have_any_gpu(tmp_path):
    assert of_slurm(tmp_path, "17|1000\n") == (Holding("17"),)
    assert of_slurm(tmp_path, "") == ()


def test_a_slurmctld_that_does_not_answer_rules_no_job_out(tmp_path):
    assert of_slurm(tmp_path, None, running=False) == ()  # at boot: slurmd starts after the layouts
    assert of_slurm(tmp_path, None) == (Holding(holding.UNTOLD),)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hooks decide: draining and resuming, whose process is whose, which GPUs are free. With properties."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of_section
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.processes import parse_environ
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.selectors import slurm_gpus
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.options import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks import clocks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import (
    drain,
    gpu_processes,
    gpus,
    gres_conf,
    jobs,
    leftovers,
    nodes,
    running,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import Job, SlurmNode

STATES = ("IDLE", "MIXED", "ALLOCATED", "DRAIN", "DRAINING", "DOWN", "FAIL", "COMPLETING", "RESERVED", "CLOUD")
FLAGS = st.frozensets(st.sampled_from(STATES), min_size=1, max_size=3)
REASONS = st.none() | st.text(max_size=30) | st.text(max_size=30).map(lambda text: drain.PREFIX + text)
NODES = st.builds(SlurmNode, FLAGS, REASONS)
FINDINGS = st.none() | st.text(min_size=1, max_size=400)
SHOWN = """NodeName=gpu01 Arch=x86_64 CoresPerSocket=2
   CPUAlloc=0 CPUTot=8 CPULoad=0.40
   Gres=gpu:8
   OS=Linux 6.1.0-32-amd64 #1 SMP
   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Reason=gpu_node: scratch /mnt/resource_nvme: it is not mounted [root@2026-01-31T12:00:00]
"""


def shown_node(text):
    return nodes.parse(text, "scontrol show node")[0]


# Draining ---------------------------------------------------------------------------------------------


@given(NODES, FINDINGS)
def test_what_somebody_else_took_out_of_service_is_never_touched(node, finding):
    foreign = node.reason is None or not node.reason.startswith(drain.PREFIX)
    out = node.flags & {"DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING"}
    decision = drain.decide(node, finding)
    if foreign and out:
        assert decision.action == drain.LEAVE
    if decision.action == drain.RESUME:
        assert finding is None and node.reason.startswith(drain.PREFIX) and node.flags & {"DRAIN", "DRAINING"}
    if decision.action == drain.DRAIN:
        assert finding is not None and decision.reason.startswith(drain.PREFIX)


@given(FLAGS, st.text(min_size=1, max_size=400))
def test_drained_once_it_is_left_and_then_resumed_when_the_finding_is_gone(flags, finding):
    node = SlurmNode(flags - {"DRAIN", "DRAINING", "DOWN", "FAIL"} | {"IDLE"})
    decision = drain.decide(node, finding)
    assert decision.action == drain.DRAIN
    drained = SlurmNode(node.flags | {"DRAIN"}, decision.reason)
    assert drain.decide(drained, finding).action == drain.LEAVE
    assert drain.decide(drained, None).action == drain.RESUME


@given(st.text(max_size=600))
def test_a_reason_survives_the_way_through_slurm(finding):
    text = drain.reason_text(finding)
    assert text.startswith("gpu_node: ".rstrip()) and len(text) <= 200
    assert not re.search(r"[\n\"'\[\]\x00]", text)
    shown = SHOWN.replace("gpu_node: scratch /mnt/resource_nvme: it is not mounted", text)
    assert shown_node(shown).reason == text.strip()


def test_the_answer_of_scontrol_is_read():
    node = shown_node(SHOWN)
    reason = "gpu_node: scratch /mnt/resource_nvme: it is not mounted"
    assert (node.flags, node.reason, node.gres) == (frozenset({"IDLE", "DRAIN"}), reason, "gpu:8")
    assert shown_node(SHOWN.replace("gpu:8", "(null)")).gres == ""
    assert drain.is_ours(node)
    head = "NodeName=gpu01\n"
    node = shown_node(head + "   State=DOWN* ThreadsPerCore=1\n   Reason=Not responding [slurm@2026-01-31T12:00:00]\n")
    assert node.flags == {"DOWN", "NOT_RESPONDING"} and node.reason == "Not responding"
    assert shown_node(head + "   State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1\n").flags == {
        "IDLE",
        "CLOUD",
        "POWERED_DOWN",
    }
    with pytest.raises(NodeError):
        shown_node("slurm_load_node error: Invalid node name\n")


@pytest.mark.parametrize("end", ["", "\n   Comment=x", "\n       second line"])
def test_only_the_mark_slurm_gpus_is_taken_off_a_reason(end):
    """A reason of somebody else, which is kept in ours and given back, may have such a mark in its middle."""
    told = "NodeName=g1\n   State=IDLE+DRAIN\n   Reason=ask [a@b.c] first [root@2026-01-31]" + end + "\n"
    assert shown_node(told).reason == "ask [a@b.c] first" + (" second line" if "second" in end else "")


# The job ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ()),
        ("0", ("0",)),
        ("0,1,7", ("0", "1", "7")),
        ("0-2,5", ("0", "1", "2", "5")),
        ("gpu:0,gpu:3", ("0", "3")),
        ("NoDevFiles", ()),
        ("MIG-2a5b,GPU-77", ("MIG-2a5b", "GPU-77")),
        ("3,3,03", ("3",)),
    ],
)
def test_the_gpus_of_a_job_are_read_as_slurm_writes_them(text, expected):
    assert slurm_gpus(text) == expected


def test_the_environment_slurm_gpusd_becomes_a_job():
    environment = {"SLURM_JOB_ID": "42", "SLURM_JOB_UID": "1000", "SLURM_JOB_GPUS": "2,3", "SLURMD_NODENAME": "gpu01"}
    assert Job.from_environment(environment) == Job(42, 1000, None, ("2", "3"), "gpu01")
    newer = dict(
        environment, CUDA_VISIBLE_DEVICES="GPU-a", SLURM_CONF="/c/slurm.conf", SLURM_JOB_SLUID="s0E2ABCDEFGHJK"
    )
    assert Job.from_environment(newer) == Job(
        42, 1000, None, ("2", "3"), "gpu01", ("GPU-a",), "/c/slurm.conf", "s0E2ABCDEFGHJK"
    )
    assert Job.from_environment(dict(newer, SLURM_JOB_SLUID="../../x")).sluid is None
    for name in ("SLURM_JOB_ID", "SLURM_JOB_UID"):
        with pytest.raises(NodeError, match="slurmd did not set it"):
            Job.from_environment(dict(environment, **{name: "../etc"}))


# Processes --------------------------------------------------------------------------------------------

GPU_SETS = st.lists(st.sampled_from("0123"), unique=True, max_size=3).map(tuple)
JOB = jobs.Running(42, 1000, ("0001:00:00.0",), None, "s0E2ABCDEFGHJK")
PROCESSES = st.builds(
    leftovers.Process,
    pid=st.integers(0, 9),
    start=st.just(1),
    uid=st.sampled_from((0, 1000, 1001)),
    command=st.sampled_from(("python", "nvidia-persiste", "nv-hostengine")),
    cgroup=st.sampled_from((None, "42", "s0E2ABCDEFGHJK", "43", "s0E2ABCDEFGHJM")),
    claim=st.sampled_from((None, 42, 43, 44)),
)
OTHERS = st.lists(
    st.builds(jobs.Running, id=st.sampled_from((43, 45)), uid=st.sampled_from((1000, 1001)), gpus=st.just(("0",))),
    max_size=2,
)


@given(PROCESSES, OTHERS)
def test_only_what_is_surely_of_this_job_is_ended(process, others):
    own = process.cgroup in ("42", JOB.sluid) or (process.cgroup is None and process.claim == 42)
    of_nobody = process.cgroup is None and process.claim is None and all(one.uid != JOB.uid for one in others)
    expected = process.uid == JOB.uid and process.pid > 1 and (own or of_nobody)
    assert leftovers.judge(process, JOB, others).end is expected


@pytest.mark.parametrize(
    "process, others, end",
    [
        (leftovers.Process(7, 1, 1000, "python", None, 42), (), True),
        (leftovers.Process(7, 1, 1000, "python", "42", 43), (), True),
        (leftovers.Process(7, 1, 1000, "python", "43", 42), (), False),
        (leftovers.Process(7, 1, 1000, "python"), (), True),
        (leftovers.Process(7, 1, 1000, "python"), (jobs.Running(43, 1001),), True),
        (leftovers.Process(7, 1, 1000, "python"), (jobs.Running(43, 1000),), False),
        (leftovers.Process(7, 1, 1000, "python", None, 43), (), False),
        (leftovers.Process(7, 1, 1001, "python", "42", 42), (), False),
        (leftovers.Process(7, 1, 0, "nv-hostengine", "42", 42), (), False),
        # Anybody may give a process this name; the daemons themselves are root's, or of a user of their own.
        (leftovers.Process(7, 1, 1000, "nvidia-persistenced"[:15], None, 42), (), True),
        (leftovers.Process(7, 1, 1000, "nv-hostengine", None, 42), (), True),
        (leftovers.Process(7, 1, 110, "nvidia-persistenced"[:15], None, 42), (), False),
    ],
)
def test_whose_process_it_is(process, others, end):
    assert leftovers.judge(process, JOB, others).end is end


SCOPE = "0::/system.slice/slurmstepd.scope/"


@pytest.mark.parametrize(
    "cgroup, environ, expected",
    [
        ("4:memory:/slurm/uid_1000/job_42/step_0/task_0\n1:name=systemd:/slurm\n", "SLURM_JOB_ID=43\0", "42"),
        ("12:cpu,cpuacct:/slurm_gpu01/uid_1000/job_42\n", "", "42"),
        (SCOPE + "job_42/step_batch/user/task_0\n", "", "42"),
        ("0::/system.slice/gpu01_slurmstepd.scope/job_42\n", "", "42"),
        ("0::/hpc.slice/hpc-slurm.slice/slurmstepd.scope/job_42/step_0/user\n", "", "42"),
        (SCOPE + "s0E2ABCDEFGHJK/step_0/user/task_0\n", "SLURM_JOB_ID=43\0", "s0E2ABCDEFGHJK"),
        (SCOPE + "s0E2ABCDEFGHJI/step_0/user/task_0\n", "", None),
        (SCOPE + "system\n", "", None),
        # Named by a user, who may do so below his own service.
        ("0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_42/x\n", "", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/job_42\n", "", None),
        ("1:name=systemd:/user.slice/x/slurm/uid_1000/job_42\n", "", None),
        ("0::/user.slice\n", "HOME=/\0SLURM_JOB_ID=42\0", 42),
        ("0::/user.slice\n", "SLURM_JOB_ID=42x\0", None),
        ("0::/user.slice/job_x\n", "", None),
    ],
)
def test_the_job_of_a_process(cgroup, environ, expected):
    assert (leftovers.cgroup_job(cgroup) or leftovers.claimed_job(parse_environ(environ))) == expected


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_JOB_UID"])
@pytest.mark.parametrize("value", ["4294967294", "4294967295", "4294967296", "9999999999"])
def test_a_number_above_the_range_of_jobs_and_users_is_refused(name, value):
    given = {"SLURM_JOB_ID": "42", "SLURM_JOB_UID": "4294967293", "SLURM_JOB_GID": "9999999999"}
    assert Job.from_environment(given).uid == 4294967293 and Job.from_environment(given).gid is None
    with pytest.raises(NodeError, match="is out of range; give a number up to 4294967293"):
        Job.from_environment(dict(given, **{name: value}))


@pytest.mark.parametrize("end", ["\r", "\v", "\x1c", "\u2028"])
def test_no_process_passes_for_one_of_root_or_of_another_job_by_its_name(tmp_path, end):
    folder = tmp_path / "proc" / "11"
    folder.mkdir(parents=True)
    name = "a{0}Uid:\t0\t".format(end)
    forged = "0::/user.slice/x{0}0::/system.slice/slurmstepd.scope/job_77/step_0\n".format(end)
    for file, text in (
        ("stat", "11 ({0}) S {1}\n".format(name, " ".join(["7"] * 30))),
        ("status", "Name:\t{0}\nUid:\t7001\t7001\t7001\t7001\n".format(name)),
        ("cgroup", forged),
    ):
        (folder / file).write_bytes(text.encode())
    found = gpu_processes.described(Host(str(tmp_path)), 11, ("0",))
    assert (found.uid, found.cgroup) == (7001, None)


@given(st.text(max_size=100), st.text(max_size=100))
def test_no_text_of_a_process_crashes_it(cgroup, environ):
    leftovers.cgroup_job(cgroup)
    leftovers.claimed_job(parse_environ(environ))


# Jobs that were noted ---------------------------------------------------------------------------------

ANSWER = """JobId=41 ArrayJobId=40 ArrayTaskId=1 JobName=x
   UserId=anna(1000) JobState=RUNNING Reason=None

JobId=42 ArrayJobId=40 ArrayTaskId=2 JobName=JobState=RUNNING
   UserId=anna(1000)
   JobState={0} Reason=None
"""


@pytest.mark.parametrize(
    "answer, over",
    [
        ("slurm_load_jobs error: Invalid job id specified\n", True),
        ("JobId=42 JobName=Invalid job id specified\n   JobState=RUNNING Reason=None\n", False),
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", False),
        ("", False),
        (ANSWER.format("COMPLETED"), True),
        (ANSWER.format("NODE_FAIL"), True),
        (ANSWER.format("RUNNING"), False),
        (ANSWER.format("COMPLETING"), False),
        (ANSWER.format("PENDING"), True),  # requeued, and finished on each of its nodes
        (ANSWER.format("SUSPENDED"), False),
        (ANSWER.replace("JobId=42", "JobId=421").format("COMPLETED"), False),
    ],
)
def test_a_job_counts_as_over_only_when_slurm_says_so(answer, over):
    assert running.ended(answer, 42) is over


REQUEUED = """JobId=42 JobName={0}
   UserId=anna(1000)
   JobState={1} Reason=None
   ReqNodeList=(null) ExcNodeList=gpu01
   NodeList={2}
   BatchHost=gpu02
"""


@pytest.mark.parametrize(
    "name, state, nodes, over",
    [
        ("x", "RUNNING", "gpu02", True),
        ("x", "COMPLETING", "gpu[02-09],gpu10", True),
        ("x", "SUSPENDED", "gpu02", True),
        ("x", "PENDING", "(null)", True),
        ("x", "RUNNING", "gpu01", False),
        ("x", "COMPLETING", "gpu[01-09]", False),
        ("x", "CONFIGURING", "(null)", False),
        ("x\n   NodeList=gpu02", "RUNNING", "gpu01", False),
        ("x\n   JobState=PENDING", "RUNNING", "gpu01", False),
    ],
)
def test_a_job_that_was_requeued_to_another_node_is_over_here(name, state, nodes, over):
    answer = REQUEUED.format(name, state, nodes)
    assert running.ended(answer, 42, "gpu01") is over
    # Without a certain NodeName, it may be this node.
    assert running.ended(answer, 42) is (state == "PENDING")


@given(st.lists(st.builds(jobs.Running, id=st.integers(1, 9), uid=st.sampled_from((1, 2)), gpus=GPU_SETS)), GPU_SETS)
def test_only_what_stands_in_the_way_is_asked_about(noted, mine):
    over = (jobs.Running(50, 1, mine),)
    found = running.in_the_way(over, tuple(noted))
    for one in noted:
        assert (one in found) == (one.uid == 1 or bool(set(one.gpus) & set(mine)))
    if all(one.uid != 1 for one in noted) and jobs.unshared(mine, tuple(noted)) == mine:
        assert not found


# GPUs and clocks --------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from("01234567"), unique=True),
    st.lists(st.lists(st.sampled_from("01234567"), unique=True).map(tuple), max_size=3),
)
def test_a_gpu_that_another_job_has_is_not_free(mine, others):
    noted = tuple(jobs.Running(number, 1, one) for number, one in enumerate(others))
    free = jobs.unshared(tuple(mine), noted)
    assert set(free) == set(mine) - {gpu for one in others for gpu in one}


# A machine whose device files are numbered in another order than the PCI bus.
CROSSED = (
    Identity(0, "GPU-a", "0001:00:00.0", None, 1),
    Identity(1, "GPU-b", "0002:00:00.0", None, 0),
)


FILES = st.sampled_from(("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia-caps/nvidia-cap3", "x"))
DEVICES = st.builds(
    gres_conf.Devices, st.lists(st.lists(FILES, min_size=1, max_size=2).map(tuple), max_size=4).map(tuple), st.none()
) | st.builds(gres_conf.Devices, reason=st.just("AutoDetect=nvml"))
WORDS = st.lists(st.sampled_from(("0", "1", "2", "3", "GPU-a", "GPU-b", "MIG-a", "x", "-1")), max_size=3).map(tuple)


@example(("0",), ("0", "GPU-a"), gres_conf.Devices((("/dev/nvidia0",),), None), CROSSED, None)
@given(WORDS, WORDS, DEVICES, st.sampled_from((CROSSED, (), CROSSED * 2)), st.none() | st.frozensets(st.integers(0, 2)))
def test_the_gpus_of_a_job_are_certain_or_none(positions, visible, devices, known, allowed):
    found = gpus.resolve(positions, visible, devices, known, allowed)
    assert bool(found.gpus) is (found.reason is None)
    if not found.gpus:
        return
    minors = {one.pci_address: one.minor_number for one in known}
    assert known == CROSSED and not any(word.startswith("MIG-") for word in visible)
    assert allowed is None or {minors[one] for one in found.gpus} <= allowed
    if any(word.startswith("GPU-") for word in visible):
        assert {one.uuid for one in known if one.pci_address in found.gpus} == set(visible)
    else:
        named = [devices.positions[int(word)] for word in positions or visible]
        assert {("/dev/nvidia{0}".format(minors[one]),) for one in found.gpus} == set(named)


def test_a_position_is_neither_the_number_of_the_device_file_nor_nvmls():
    devices = gres_conf.Devices((("/dev/nvidia1",), ("/dev/nvidia0",)))
    assert gpus.resolve(("0",), ("0",), devices, CROSSED) == gpus.Found(("0001:00:00.0",))
    assert gpus.resolve(("1", "0"), (), devices, CROSSED) == gpus.Found(("0002:00:00.0", "0001:00:00.0"))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a *:* rwm\n", None),
        ("c *:* m\nc 195:* rwm\n", None),
        ("c 1:3 rwm\nc 195:0 rwm\nc 195:255 rwm\nb 195:4 rwm\n", {0, 255}),
        ("c 1:3 rwm\n", set()),
        ("", set()),
    ],
)
def test_what_a_device_cgroup_allows(text, expected):
    assert gpus.allowed_by(text) == expected


@pytest.mark.parametrize(
    "section, expected",
    [
        (None, "default"),
        ({"clocks": "max"}, "max"),
        ({"persistence": True}, "default"),
        ({"clocks": "max", "gpus": ["1"]}, "default"),
        ({"clocks": "between_jobs"}, "default"),
        ({"clocks": "max", "gpus": ["0001:00:00.0"]}, "max"),
        ({"clocks": "max", "overrides": [{"gpu": "GPU-a", "clocks": "default"}]}, "default"),
        ({"clocks": "max", "overrides": [{"gpu": "0", "persistence": True}]}, "max"),
        ({"clocks": "fast", "persistence": True}, "default"),
    ],
)
def test_after_a_job_comes_what_was_declared_for_the_gpu(section, expected):
    assert clocks.declared_clocks(of_section(Settings, section), CROSSED[0]) == expected

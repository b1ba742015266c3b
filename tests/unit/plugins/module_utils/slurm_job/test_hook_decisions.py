# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hooks decide: draining and resuming, whose process is whose, which GPUs are free. With properties."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_job import clocks, drain, jobs, leftovers
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_job.types import (
    Job,
    Settings,
    SlurmNode,
    gpu_names,
)

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
    assert drain.parse_node(shown).reason == text.strip()


def test_the_answer_of_scontrol_is_read():
    node = drain.parse_node(SHOWN)
    assert node == SlurmNode(frozenset({"IDLE", "DRAIN"}), "gpu_node: scratch /mnt/resource_nvme: it is not mounted")
    assert drain.is_ours(node)
    assert drain.parse_node(
        "   State=DOWN* ThreadsPerCore=1\n   Reason=Not responding [slurm@2026-01-31T12:00:00]"
    ) == (SlurmNode(frozenset({"DOWN"}), "Not responding"))
    assert drain.parse_node("   State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1").flags == {
        "IDLE",
        "CLOUD",
        "POWERED_DOWN",
    }
    assert drain.parse_node("slurm_load_node error: Invalid node name") is None


@given(st.text(max_size=300))
def test_no_answer_of_scontrol_crashes_it(text):
    drain.parse_node(text)


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
    assert gpu_names(text) == expected


def test_the_environment_of_slurmd_becomes_a_job():
    environment = {"SLURM_JOB_ID": "42", "SLURM_JOB_UID": "1000", "SLURM_JOB_GPUS": "2,3", "SLURMD_NODENAME": "gpu01"}
    assert Job.from_environment(environment) == Job(42, 1000, None, ("2", "3"), "gpu01")
    for name in ("SLURM_JOB_ID", "SLURM_JOB_UID"):
        with pytest.raises(NodeError, match="slurmd did not set it"):
            Job.from_environment(dict(environment, **{name: "../etc"}))


@given(
    st.dictionaries(
        st.sampled_from(("clocks", "grace_seconds", "scontrol", "x")), st.integers() | st.text() | st.booleans()
    )
)
def test_no_declaration_makes_a_hook_fail(section):
    settings = Settings.from_section(section)
    assert isinstance(settings.clocks, bool) and isinstance(settings.grace_seconds, float)


# Processes --------------------------------------------------------------------------------------------

JOB = Job(42, 1000, None, ("0",))
PROCESSES = st.builds(
    leftovers.Process,
    pid=st.integers(0, 9),
    start=st.just(1),
    uid=st.sampled_from((0, 1000, 1001)),
    command=st.sampled_from(("python", "nvidia-persiste", "nv-hostengine")),
    job=st.sampled_from((None, 42, 43, 44)),
)
OTHERS = st.lists(
    st.builds(jobs.Running, id=st.sampled_from((43, 45)), uid=st.sampled_from((1000, 1001)), gpus=st.just(("0",))),
    max_size=2,
)


@given(PROCESSES, OTHERS)
def test_only_what_is_surely_of_this_job_is_ended(process, others):
    if leftovers.judge(process, JOB, others).end:
        assert process.uid == JOB.uid != 0
        assert process.command == "python" and process.pid > 1
        assert process.job == JOB.id or (process.job is None and all(one.uid != JOB.uid for one in others))


@pytest.mark.parametrize(
    "process, others, end",
    [
        (leftovers.Process(7, 1, 1000, "python", 42), (), True),
        (leftovers.Process(7, 1, 1000, "python", None), (), True),
        (leftovers.Process(7, 1, 1000, "python", None), (jobs.Running(43, 1001),), True),
        (leftovers.Process(7, 1, 1000, "python", None), (jobs.Running(43, 1000),), False),
        (leftovers.Process(7, 1, 1000, "python", 43), (), False),
        (leftovers.Process(7, 1, 1001, "python", 42), (), False),
        (leftovers.Process(7, 1, 0, "python", 42), (), False),
        (leftovers.Process(7, 1, 1000, "nvidia-persistenced"[:15], 42), (), False),
    ],
)
def test_whose_process_it_is(process, others, end):
    assert leftovers.judge(process, JOB, others).end is end


@pytest.mark.parametrize(
    "cgroup, environ, expected",
    [
        ("4:memory:/slurm/uid_1000/job_42/step_0/task_0\n1:name=systemd:/slurm\n", "SLURM_JOB_ID=43\0", 42),
        ("0::/system.slice/slurmstepd.scope/job_42/step_batch/user/task_0\n", "", 42),
        ("0::/system.slice/gpu01_slurmstepd.scope/job_42\n", "", 42),
        ("0::/user.slice\n", "HOME=/\0SLURM_JOB_ID=42\0", 42),
        ("0::/user.slice\n", "SLURM_JOB_ID=42x\0", None),
        ("0::/user.slice/job_x\n", "", None),
    ],
)
def test_the_job_of_a_process(cgroup, environ, expected):
    assert leftovers.job_of(cgroup, environ) == expected


# GPUs and clocks --------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from("01234567"), unique=True),
    st.lists(st.lists(st.sampled_from("01234567"), unique=True).map(tuple), max_size=3),
)
def test_a_gpu_that_another_job_has_is_not_free(gpus, others):
    running = tuple(jobs.Running(number, 1, one) for number, one in enumerate(others))
    free = jobs.unshared(tuple(gpus), running)
    assert set(free) == set(gpus) - {gpu for one in others for gpu in one}


# A machine whose device files are numbered in another order than the PCI bus.
CROSSED = (
    Identity(0, "GPU-a", "0001:00:00.0", None, 1),
    Identity(1, "GPU-b", "0002:00:00.0", None, 0),
)


def test_slurms_number_is_that_of_the_device_file():
    assert clocks.selectors(("0", "1"), CROSSED) == (("0002:00:00.0", "0001:00:00.0"), ())
    assert clocks.selectors(("0", "GPU-a"), ()) == (("0", "GPU-a"), ())
    chosen, notes = clocks.selectors(("7", "MIG-1"), CROSSED)
    assert chosen == () and "no /dev/nvidia7" in notes[0] and "whole GPU" in notes[1]


@pytest.mark.parametrize(
    "section, expected",
    [
        (None, "default"),
        ({"clocks": "max"}, "max"),
        ({"persistence": True}, "default"),
        ({"clocks": "max", "gpus": ["1"]}, "default"),
        ({"clocks": "max", "gpus": ["0001:00:00.0"]}, "max"),
        ({"clocks": "max", "overrides": [{"gpu": "GPU-a", "clocks": "default"}]}, "default"),
        ({"clocks": "max", "overrides": [{"gpu": "0", "persistence": True}]}, "max"),
    ],
)
def test_after_a_job_comes_what_was_declared_for_the_gpu(section, expected):
    assert clocks.declared_clocks(section, CROSSED[0]).word == expected

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm has given to jobs is in use, whether they compute or not."""

from __future__ import annotations

import json
import os
import pathlib
import time
from typing import Any, Callable, Optional, Tuple

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig import jobs
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import Compute
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.plan import decide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.types import (
    Client,
    Entry,
    Job,
    Standing,
    State,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.mig_machine import (
    A100,
    H100,
    Machine,
    of,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.test_mig_plan import (
    gpu,
    kinds,
    layout,
    three_g,
    wish,
)

FIRST, SECOND = "0000:00:00.0", "0001:00:00.0"
NODE = os.uname().nodename.split(".")[0]


def two(*running: Job) -> State:
    """Two GPUs with two 3g each."""
    instances = (three_g(0, 1), three_g(4, 2))
    return State(gpus=(gpu(0, instances=instances), gpu(1, instances=instances)), jobs=running)


# Decided ----------------------------------------------------------------------------------------------


def test_a_job_that_may_have_any_gpu_keeps_all_of_them() -> None:
    plan = decide(two(Job("job 17")), wish(layouts=[layout("7g")]))
    assert [str(refusal) for refusal in plan.refusals] == [
        "GPU {0} (000{0}:00:00.0): 3g.20gb at 0 and 3g.20gb at 4 in use would have to go or change for 7g.40gb;"
        " end job 17, or ask for 2 x 3g.20gb.".format(number)
        for number in (0, 1)
    ]
    # What takes nothing away is done all the same.
    empty = State(gpus=(gpu(),), jobs=(Job("job 17"),))
    assert kinds(decide(empty, wish(layouts=[layout("3g")]))) == ["Remember", "MakeInstance", "Remember"]


def test_a_job_keeps_its_own_gpu_and_no_other() -> None:
    state = two(Job("job 17", ((FIRST, None),)))
    plan = decide(state, wish(layouts=[layout("7g")]))
    assert len(plan.refusals) == 1 and str(plan.refusals[0]).startswith("GPU 0 (")
    assert decide(state, wish(layouts=[layout("7g", gpus=["1"])])).actions
    assert decide(two(Job("job 17", ())), wish(layouts=[layout("7g")])).actions


def test_a_job_keeps_its_own_instance_and_the_rest_is_placed_around_it() -> None:
    state = two(Job("job 17", ((FIRST, 2),)), Job("job 18", ((SECOND, 1),)))
    plan = decide(state, wish(layouts=[layout("3g", "1g", "1g")]))
    ended = [(step.gpu, step.start) for step in plan.actions if type(step).__name__ == "EndInstance"]  # type: ignore[attr-defined]
    assert ended == [("GPU 0 (0000:00:00.0)", 0), ("GPU 1 (0001:00:00.0)", 4)]


def test_no_compute_instance_of_it_goes_either() -> None:
    divided = replaced(three_g(4, 1), compute=(Compute(0, 1, None, True), Compute(1, 2)), used=True)
    state = State(gpus=(gpu(instances=(divided,), clients=(Client(4242, 1, 0, "a", "", "job 17"),)),))
    ask = wish(layouts=[{"gpus": ["all"], "instances": [{"profile": "3g", "compute": ["1c", "1c", "1c"]}]}])
    assert kinds(decide(state, ask)) == ["Remember", "EndCompute", "MakeCompute", "Remember"]
    held = decide(replaced(state, jobs=(Job("job 17", ((FIRST, 1),)),)), ask)
    # A process of it says more than the job does.
    assert "end process 4242 (a of job 17), or ask for 3g.20gb" in str(held.refusals[0])


@pytest.mark.parametrize(
    "places, told",
    [
        (((FIRST, None),), "GPU 0 (0000:00:00.0): job 17 uses it; end it to switch MIG on."),
        (None, "GPU 0 (0000:00:00.0): job 17 may use it; end it to switch MIG on."),
    ],
)
def test_a_job_keeps_the_mode(places: Optional[Tuple[Tuple[str, Optional[int]], ...]], told: str) -> None:
    state = State(gpus=(gpu(mode=False),), jobs=(Job("job 17", places),))
    assert [str(one) for one in decide(state, wish(layouts=[layout("3g")])).refusals] == [told]
    # Nothing was asked of this GPU, or it is as it should be.
    assert not decide(state, wish(layouts=[{"gpus": ["all"], "mig": False}])).refusals
    assert decide(replaced(state, jobs=(Job("job 17", ((SECOND, None),)),)), wish(layouts=[layout("3g")])).actions


def test_neither_does_it_go_back_under_a_job() -> None:
    state = replaced(two(Job("job 17")), entries=(("GPU-0", Entry(Standing(False))),))
    assert "job 17 may use it; end it to switch MIG off" in str(decide(state, wish(state="default")).refusals[0])


def test_many_jobs_are_counted() -> None:
    state = State(gpus=(gpu(mode=False),), jobs=tuple(Job("job {0}".format(number)) for number in range(6)))
    told = str(decide(state, wish(layouts=[layout("3g")])).refusals[0])
    assert told.endswith("job 0 and job 1 and job 2 and job 3 and 2 more may use it; end them to switch MIG on.")


# Seen -------------------------------------------------------------------------------------------------


def note(node: Machine, number: int, **more: Any) -> pathlib.Path:
    path = node.root / "run/gpu_node/jobs/{0}.json".format(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dict({"uid": 1000, "gpus": []}, **more)))
    return path


@pytest.mark.parametrize("hooks", [True, False])
def test_a_job_that_has_not_begun_to_compute_keeps_what_it_has(machine: Callable[..., Machine], hooks: bool) -> None:
    node = machine(H100)
    node.run(of("3g", "3g", gpus=["0"]))
    before = node.layout()
    if hooks:
        there = note(node, 17)
    else:
        there = node.root / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_17"
        there.mkdir(parents=True)
    refused = node.run(of("7g", gpus=["0"]))
    assert refused["error"] == (
        "GPU 0 (0001:00:00.0): 3g.40gb at 0 and 3g.40gb at 4 in use would have to go or change for 7g.80gb;"
        " end job 17, or ask for 2 x 3g.40gb."
    )
    assert "job 17 may use it; end it to switch MIG on" in node.run(of("7g", gpus=["1"]))["error"]
    assert node.layout() == before
    if hooks:
        there.unlink()
    else:
        there.rmdir()
    assert "error" not in node.run(of("7g", gpus=["0"]))
    assert [name for name, _start, _compute in node.layout()] == ["7g.80gb"]


@pytest.fixture(name="slurmctld")
def _slurmctld(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pathlib.Path]:
    """A scontrol in the path, which answers so; returns where it notes what it was asked. ``held``: of squeue."""
    folder = tmp_path / "bin"

    def make(text: str, held: str = "") -> pathlib.Path:
        folder.mkdir(exist_ok=True)
        (folder / "answer").write_text(text)
        program = folder / "scontrol"
        program.write_text('#!/bin/sh\necho "$@" >>{0}/asked\ncat {0}/answer\n'.format(folder))
        program.chmod(0o755)
        (folder / "squeue").write_text("#!/bin/sh\ncat {0}/held\n".format(folder))
        (folder / "squeue").chmod(0o755)
        (folder / "held").write_text(held)
        monkeypatch.setenv("PATH", "{0}:{1}".format(folder, os.environ["PATH"]))
        return folder / "asked"

    return make


ANSWER = """JobId={0} JobName=x
   JobState=RUNNING Reason=None
   StartTime={1} EndTime=Unknown
   JOB_GRES={2}
     Nodes={3} CPU_IDs=0 Mem=1 GRES={2}
"""


def test_slurmctld_is_asked_only_for_a_change(
    machine: Callable[..., Machine], slurmctld: Callable[..., pathlib.Path]
) -> None:
    asked = slurmctld("slurm_load_jobs error: Invalid job id specified\n")
    node = machine(H100)
    node.run(of("3g", gpus=["0"]))
    note(node, 17)  # slurmd was down when it ended
    node.run(of("3g", gpus=["0"]))
    assert not asked.exists()
    assert "error" not in node.run(of("7g", gpus=["0"]))
    assert asked.read_text() == "show job -d 17\n"


def test_a_job_without_a_step_on_a_node_without_hooks_keeps_its_gpu(
    machine: Callable[..., Machine], slurmctld: Callable[..., pathlib.Path]
) -> None:
    asked = slurmctld(ANSWER.format(17, "Unknown", "gpu:1(IDX:0)", NODE), held="17|1000\n")
    node = machine(H100)
    assert "job 17 may use it" in node.run(of("7g", gpus=["1"]))["error"]
    (asked.parent / "held").write_text("")
    assert "error" not in node.run(of("7g", gpus=["1"]))


def test_a_job_with_an_instance_leaves_the_others_free(
    machine: Callable[..., Machine], slurmctld: Callable[..., pathlib.Path], tmp_path: pathlib.Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("making device files needs root")
    # The root of the machine is the next folder that is made.
    capabilities = tmp_path / "root0/proc/driver/nvidia/capabilities"
    node = machine(A100, "driver.capabilities={0}".format(capabilities), "gpu.mig_mode=1")
    began = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 60))
    slurmctld(ANSWER.format(17, began, "gpu:3g:1(IDX:1)", NODE))
    slurmd(node.root)
    (node.root / "proc/devices").write_text("240 nvidia-caps\n")
    node.run(of("3g", "3g"))
    note(node, 17)
    # Its own, at 4, is told by the device files: gi2 has 21 and 22.
    refused = node.run(of("7g"))["error"]
    assert "GPU 0 (0001:00:00.0): 3g.20gb at 4 in use would have to go or change for 7g.40gb; end job 17" in refused
    assert "GPU 1" not in refused
    done = node.run(of("3g", "2g"))
    assert "error" not in done, done
    assert sorted((name, start) for name, start, _c in node.layout()) == [("2g.10gb", 0), ("3g.20gb", 4)]


def slurmd(root: pathlib.Path) -> None:
    """It has read a gres.conf of an hour ago."""
    caps = "/dev/nvidia0,/dev/nvidia-caps/nvidia-cap{0},/dev/nvidia-caps/nvidia-cap{1}"
    lines = ["Name=gpu Type=3g MultipleFiles=" + caps.format(*pair) for pair in ((12, 13), (21, 22))]
    folder = root / "etc/slurm"
    folder.mkdir(parents=True)
    (folder / "slurm.conf").write_text("NodeName={0} Gres=gpu:3g:2\n".format(NODE))
    (folder / "gres.conf").write_text("\n".join(lines) + "\n")
    now = time.time()
    for name in ("slurm.conf", "gres.conf"):
        os.utime(str(folder / name), (now - 3600,) * 2)
    process = root / "proc/77"
    process.mkdir(parents=True)
    (process / "comm").write_text("slurmd\n")
    ticks = (3600 * 24 - 1800) * os.sysconf("SC_CLK_TCK")
    (process / "stat").write_text("77 (slurmd) S " + " ".join(["0"] * 18) + " {0} 0\n".format(ticks))
    (root / "proc/stat").write_text("btime {0}\n".format(int(now) - 3600 * 24))


@pytest.mark.parametrize(
    "files, place",
    [
        (("/dev/nvidia0",), (FIRST, None)),
        (("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"), (FIRST, 1)),
        # One of them is not there any more: how the GPU was divided then, nobody knows.
        (("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap14"), (FIRST, None)),
        (("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap99"), (FIRST, None)),
        (("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap21"), (FIRST, None)),
        (("/dev/nvidia7",), None),
        (("/dev/nvidia0", "/dev/nvidia1"), None),
    ],
)
def test_the_place_that_has_these_device_files(tmp_path: pathlib.Path, files: Tuple[str, ...], place: Any) -> None:
    top = tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig"
    for path, minor in (("gi1", 12), ("gi1/ci0", 13), ("gi2", 21), ("gi2/ci0", 22)):
        (top / path).mkdir(parents=True, exist_ok=True)
        (top / path / "access").write_text("DeviceFileMinor: {0}\n".format(minor))
    known = {one.minor: one for one in (gpu(0, minor=0), gpu(1, minor=1))}
    assert jobs.place_of(files, known, Host(str(tmp_path))) == place

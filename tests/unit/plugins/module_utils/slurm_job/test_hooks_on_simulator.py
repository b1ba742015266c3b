# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prolog, epilog and resume as slurmd runs them, on simulated GPUs and a scratch that is a folder.

scontrol is a stand-in that keeps the state of one node in a file; tests/e2e/test_slurm.py has the real one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_job import drain
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.slurm_job import hook_on

SCONTROL = """#!{python}
import os, sys
sys.path[:] = [one for one in sys.path if one]
words, path = sys.argv[1:], os.path.join(os.path.dirname(os.path.abspath(__file__)), "node")
if os.path.exists(path + ".hang"):
    import time
    time.sleep(60)
state, reason = open(path).read().split("\\n", 1)
if words[:2] == ["show", "node"]:
    print("NodeName={{0}} Arch=x86_64\\n   State={{1}} ThreadsPerCore=1".format(words[2], state))
    if reason:
        print("   Reason={{0}} [root@2026-01-31T12:00:00]".format(reason))
else:
    given = dict(word.split("=", 1) for word in words[1:])
    if given["State"] == "RESUME":
        open(path, "w").write("IDLE\\n")
    else:
        open(path, "w").write("IDLE+DRAIN\\n" + given["Reason"])
"""
SCRATCH = "/mnt/resource_nvme"


class Node:
    """A node with eight simulated GPUs, a declaration, and a Slurm that is asked by the stand-in."""

    def __init__(self, simulator, root):
        self.control, self.root, self.simulator = simulator.control, root, simulator
        (root / "bin").mkdir(parents=True)
        (root / "bin/scontrol").write_text(SCONTROL.format(python=sys.executable))
        (root / "bin/scontrol").chmod(0o755)
        (root / "proc").mkdir()
        for gpu in range(8):
            self.control("set", "gpu.{0}.persistence_mode".format(gpu), "1")
        self.slurm("IDLE")
        self.mount()
        (root / SCRATCH[1:]).mkdir(parents=True)
        self.declare()

    def declare(self, scratch=True, **sections):
        if scratch:
            sections["nvme_scratch"] = {"mount_point": SCRATCH, "adopt": False, "state": "present"}
        (self.root / "etc/gpu_node").mkdir(parents=True, exist_ok=True)
        (self.root / "etc/gpu_node/node.json").write_text(json.dumps(sections))

    def mount(self, options="rw,noatime"):
        line = "" if options is None else "/dev/md127 {0} xfs {1} 0 0\n".format(SCRATCH, options)
        (self.root / "proc/mounts").write_text("proc /proc proc rw 0 0\n" + line)

    def slurm(self, state, reason=""):
        (self.root / "bin/node").write_text(state + "\n" + reason)

    @property
    def reason(self):
        return (self.root / "bin/node").read_text().split("\n", 1)[1]

    def hook(self, event, job=42, gpus="", uid=None, **environment):
        slurmd = {
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_UID": str(os.getuid() if uid is None else uid),
            "SLURM_JOB_GPUS": gpus,
            "SLURMD_NODENAME": "gpu01",
            "PATH": "{0}:{1}".format(self.root / "bin", os.environ["PATH"]),
        }
        environment = self.simulator.environment(**dict(slurmd, **environment))
        done = subprocess.run(
            [sys.executable, hook_on.__file__, str(self.root), "hook", event, "--json"],
            env=environment,
            capture_output=True,
            timeout=60,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        report = json.loads(done.stdout) if done.stdout else {}
        return done.returncode, report, done.stderr

    def graphics_clocks(self):
        code = (
            "import json, pynvml as n; n.nvmlInit()\n"
            "print(json.dumps([n.nvmlDeviceGetClockInfo(n.nvmlDeviceGetHandleByIndex(i), 0) for i in range(8)]))"
        )
        return self.simulator.python(code)

    def folder(self, job):
        return self.root / SCRATCH[1:] / "jobs" / str(job)


@pytest.fixture
def node(nvml_simulator, tmp_path):
    simulator = nvml_simulator("nd96asr_v4")
    return Node(simulator, tmp_path / "node")


IDLE, MAXIMUM = 210, 1410  # MHz of a simulated A100: at rest without a lock, and at most


# A job ------------------------------------------------------------------------------------------------


def test_a_job_gets_its_clocks_and_its_folder_and_leaves_nothing(node):
    assert node.hook("prolog", gpus="2,3")[0] == 0
    assert node.graphics_clocks() == [IDLE, IDLE, MAXIMUM, MAXIMUM, IDLE, IDLE, IDLE, IDLE]
    folder = node.folder(42)
    assert folder.is_dir() and folder.stat().st_mode & 0o7777 == 0o700
    assert folder.parent.stat().st_mode & 0o7777 == 0o711
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint/rank0").write_text("data")

    status, report, told = node.hook("epilog", gpus="2,3")
    assert (status, told) == (0, "")
    assert node.graphics_clocks() == [IDLE] * 8
    assert not folder.exists() and folder.parent.is_dir()
    assert not list((node.root / "run/gpu_node/jobs").iterdir())
    assert report["returned"] == ["2", "3"]


def test_both_hooks_may_run_twice(node):
    for event in ("prolog", "prolog"):
        assert node.hook(event, gpus="0")[0] == 0
    (node.folder(42) / "kept").write_text("by the second prolog")
    for event in ("epilog", "epilog"):
        assert node.hook(event, gpus="0")[::2] == (0, "")
    assert node.graphics_clocks() == [IDLE] * 8


def test_a_job_without_gpus_touches_none(node):
    status, report, told = node.hook("prolog")
    assert (status, told, report["raised"]) == (0, "", [])
    assert node.graphics_clocks() == [IDLE] * 8


def test_the_clocks_come_back_to_what_was_declared(node):
    node.declare(gpu_settings={"clocks": {"graphics_mhz": 1095}, "overrides": [{"gpu": 1, "clocks": "default"}]})
    node.hook("prolog", gpus="0,1,2")
    assert node.graphics_clocks()[:3] == [MAXIMUM] * 3
    assert node.hook("epilog", gpus="0,1,2")[::2] == (0, "")
    assert node.graphics_clocks()[:4] == [1095, IDLE, 1095, IDLE]


def test_two_jobs_on_one_gpu_the_last_one_resets_it(node):
    node.hook("prolog", job=1, gpus="0,1")
    node.hook("prolog", job=2, gpus="1,2")
    assert node.hook("epilog", job=1, gpus="0,1")[1]["returned"] == ["0"]
    assert node.graphics_clocks()[:3] == [IDLE, MAXIMUM, MAXIMUM]
    node.hook("epilog", job=2, gpus="1,2")
    assert node.graphics_clocks() == [IDLE] * 8


def test_an_epilog_without_gpus_in_its_environment_knows_them(node):
    node.hook("prolog", gpus="5")
    assert node.hook("epilog")[1]["returned"] == ["5"]
    assert node.graphics_clocks()[5] == IDLE


# Failures that drain ----------------------------------------------------------------------------------


def test_without_its_scratch_the_node_is_drained_with_our_reason(node):
    node.mount(None)
    status, report, told = node.hook("prolog", gpus="0")
    assert status == 1
    assert node.reason == drain.PREFIX + "scratch /mnt/resource_nvme: it is not mounted"
    assert "gpunode scratch status" in told
    assert node.graphics_clocks() == [IDLE] * 8 and not node.folder(42).exists()
    assert not (node.root / "run/gpu_node/jobs").exists()


@pytest.mark.parametrize("make, told", [(lambda node: node.mount("ro,noatime"), "read-only")])
def test_a_scratch_that_cannot_be_written_to_drains(node, make, told):
    make(node)
    assert node.hook("prolog")[0] == 1
    assert node.reason.startswith(drain.PREFIX) and told in node.reason


def test_a_file_in_the_place_of_the_folder_drains(node):
    (node.root / SCRATCH[1:] / "jobs").write_text("somebody's")
    assert node.hook("prolog")[0] == 1
    assert node.reason.startswith(drain.PREFIX + "scratch /mnt/resource_nvme: it cannot be written to")
    assert (node.root / SCRATCH[1:] / "jobs").read_text() == "somebody's"


def test_a_declaration_that_cannot_be_read_drains(node):
    (node.root / "etc/gpu_node/node.json").write_text('{"nvme_scra')
    assert node.hook("prolog")[0] == 1
    assert node.reason.startswith(drain.PREFIX + "/etc/gpu_node/node.json: it is not valid JSON")


def test_somebody_elses_drain_keeps_its_reason(node):
    node.mount(None)
    node.slurm("IDLE+DRAIN", "bad DIMM, ticket 17")
    status, dummy, told = node.hook("prolog")
    assert status == 1 and node.reason == "bad DIMM, ticket 17"
    assert "that reason stays" in told


def test_only_our_own_drain_is_resumed_and_only_when_the_cause_is_gone(node):
    node.mount(None)
    node.hook("prolog")
    assert node.hook("resume")[0] == 1
    assert node.reason.startswith(drain.PREFIX)
    node.mount()
    status, report, dummy = node.hook("resume")
    assert (status, report["decision"]["action"], node.reason) == (0, "resume", "")
    node.slurm("IDLE+DRAIN", "bad DIMM, ticket 17")
    status, report, dummy = node.hook("resume")
    assert (status, report["decision"]["action"], node.reason) == (0, "leave", "bad DIMM, ticket 17")
    assert not list((node.root / SCRATCH[1:] / "jobs").iterdir())


# Failures that do not ---------------------------------------------------------------------------------


def test_no_scratch_declared_none_asked_for(node):
    node.mount(None)
    node.declare(scratch=False)
    assert node.hook("prolog", gpus="0")[::2] == (0, "")


@pytest.mark.parametrize(
    "fault",
    [
        ["driver", "not-loaded"],
        ["gpu", "0", "lost"],
        ["call", "nvmlDeviceSetGpuLockedClocks", "return", "NOT_SUPPORTED"],
        ["call", "nvmlDeviceSetGpuLockedClocks", "return", "UNKNOWN"],
    ],
)
def test_what_goes_wrong_with_clocks_is_told_and_the_job_starts(node, fault):
    node.control("fault", *fault)
    status, dummy, told = node.hook("prolog", gpus="0,1")
    assert status == 0 and node.reason == ""
    assert node.folder(42).is_dir()
    if "NOT_SUPPORTED" not in fault:
        assert told.count("gpunode: prolog of job 42:") >= 1
    assert node.hook("epilog", gpus="0,1")[0] == 0
    assert not node.folder(42).exists()


def test_a_hanging_driver_does_not_hold_the_job(node):
    node.control("fault", "call", "nvmlDeviceSetGpuLockedClocks", "gpu", "1", "hang")
    before = time.monotonic()
    status, dummy, told = node.hook("prolog", gpus="0,1")
    assert status == 0 and time.monotonic() - before < 20
    assert "nvmlDeviceSetGpuLockedClocks" in told
    assert node.graphics_clocks()[0] == MAXIMUM


def test_a_hanging_controller_does_not_hold_the_node(node):
    node.mount(None)
    (node.root / "bin/node.hang").write_text("")
    before = time.monotonic()
    status, dummy, told = node.hook("prolog")
    assert status == 1 and time.monotonic() - before < 30
    assert "did not end within 10 s" in told


def test_a_gpu_that_is_not_there_is_told(node):
    status, dummy, told = node.hook("prolog", gpus="9")
    assert status == 0 and "9" in told


def test_outside_of_slurm_it_says_so(node):
    status, dummy, told = node.hook("prolog", SLURM_JOB_ID="")
    assert status == 1 and "slurmd did not set it" in told and node.reason == ""


def test_by_declaration_parts_of_it_stay_away(node):
    node.declare(slurm_hooks={"clocks": False, "job_folder": False})
    assert node.hook("prolog", gpus="0")[::2] == (0, "")
    assert node.graphics_clocks() == [IDLE] * 8 and not node.folder(42).exists()


# The folder of the job --------------------------------------------------------------------------------


def test_a_link_out_of_the_folder_is_removed_and_its_target_stays(node, tmp_path):
    kept = tmp_path / "home"
    kept.mkdir()
    (kept / "thesis").write_text("kept")
    node.hook("prolog")
    (node.folder(42) / "out").symlink_to(kept)
    (node.folder(7)).mkdir()
    assert node.hook("epilog")[::2] == (0, "")
    assert (kept / "thesis").read_text() == "kept" and not node.folder(42).exists() and node.folder(7).is_dir()


def test_a_link_in_the_place_of_the_folder_is_not_followed(node, tmp_path):
    kept = tmp_path / "home"
    kept.mkdir()
    (kept / "thesis").write_text("kept")
    node.folder(42).parent.mkdir()
    node.folder(42).symlink_to(kept)
    assert node.hook("prolog")[0] == 0
    assert node.folder(42).is_dir() and not node.folder(42).is_symlink()
    node.hook("epilog")
    node.folder(42).symlink_to(kept)
    node.hook("epilog")
    assert (kept / "thesis").read_text() == "kept"


def test_a_link_in_the_place_of_all_folders_drains_and_removes_nothing(node, tmp_path):
    kept = tmp_path / "home"
    (kept / "42").mkdir(parents=True)
    (node.root / SCRATCH[1:] / "jobs").symlink_to(kept)
    assert node.hook("prolog")[0] == 1
    assert node.hook("epilog")[0] == 0
    assert (kept / "42").is_dir()


# Containers -------------------------------------------------------------------------------------------

USER = os.getuid() or 2000
ENROOT = {
    "user_folders": [
        {"purpose": "data", "path": SCRATCH + "/enroot/data/{uid}", "top": SCRATCH + "/enroot", "remove": True},
        {"purpose": "cache", "path": SCRATCH + "/enroot/cache/{uid}", "top": SCRATCH + "/enroot", "remove": False},
    ]
}


def test_the_folders_of_a_users_containers_are_there_from_the_first_job_to_the_last(node):
    node.declare(enroot=ENROOT)
    data, cache = (node.root / SCRATCH[1:] / "enroot" / kind / str(USER) for kind in ("data", "cache"))
    for job in (1, 2):
        assert node.hook("prolog", job=job, uid=USER)[::2] == (0, "")
    found = data.stat()
    assert (found.st_mode & 0o7777, found.st_uid) == (0o700, USER)
    assert data.parent.stat().st_mode & 0o7777 == 0o711
    (data / "container").mkdir()
    assert node.hook("epilog", job=1, uid=USER)[::2] == (0, "")
    assert (data / "container").is_dir()
    assert node.hook("epilog", job=2, uid=USER)[::2] == (0, "")
    assert not data.exists() and cache.is_dir()


def test_a_folder_that_cannot_be_made_is_told_and_the_job_starts(node):
    node.declare(enroot=ENROOT)
    (node.root / SCRATCH[1:] / "enroot").mkdir(mode=0o711)
    (node.root / SCRATCH[1:] / "enroot/data").symlink_to("/tmp")
    status, _report, told = node.hook("prolog", job=1, uid=USER)
    # A link that somebody put there is moved aside, or it is said; never followed.
    assert status == 0 and not os.path.lexists("/tmp/{0}".format(USER))
    made = (node.root / SCRATCH[1:] / "enroot/data" / str(USER)).is_dir()
    assert made or "it could not be made" in told


# Processes on the GPUs --------------------------------------------------------------------------------

USER = 65534 if os.geteuid() == 0 else os.getuid()
needs_a_user = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")


@pytest.fixture
def on_gpu(node):
    """``on_gpu(gpu, uid, code)``: a process of that user that NVML lists on that GPU."""
    started = []

    def start(gpu, uid=USER, job="", ignore=False):
        # It becomes that user by itself: that user need not be able to read this Python.
        code = "import os, signal, time\nos.setuid({0})\n{1}print('up', flush=True)\ntime.sleep(120)".format(
            uid, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if ignore else ""
        )
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", code],
            stdout=subprocess.PIPE,
            env=dict(PATH=os.environ["PATH"], **({"SLURM_JOB_ID": str(job)} if job else {})),
        )
        started.append(process)
        assert process.stdout.readline() == b"up\n"
        node.control("process", "add", str(gpu), str(process.pid), "512")
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def ended(process):
    try:
        process.wait(timeout=1)
        return -process.returncode
    except subprocess.TimeoutExpired:
        return None


@needs_a_user
def test_what_a_job_left_on_its_gpus_is_ended(node, on_gpu):
    node.declare(slurm_hooks={"grace_seconds": 0.5})
    node.hook("prolog", job=42, gpus="0,1", uid=USER)
    mild, stubborn = on_gpu(0, job=42), on_gpu(1, ignore=True)
    roots, strangers, elsewhere = on_gpu(0, uid=0), on_gpu(0, uid=65533), on_gpu(2, job=42)
    others = on_gpu(1, job=43)
    status, report, told = node.hook("epilog", job=42, gpus="0,1", uid=USER)
    assert status == 0, told
    assert (ended(mild), ended(stubborn)) == (signal.SIGTERM, signal.SIGKILL)
    assert [ended(one) for one in (roots, strangers, elsewhere, others)] == [None] * 4
    assert sorted(report["ended"]) == sorted([mild.pid, stubborn.pid])
    assert "process {0} ".format(others.pid) in told and "of job 43" in told


@needs_a_user
def test_the_same_users_other_job_is_left_alone(node, on_gpu):
    node.hook("prolog", job=42, gpus="0", uid=USER)
    node.hook("prolog", job=43, gpus="0", uid=USER)
    nameless = on_gpu(0)
    status, dummy, told = node.hook("epilog", job=42, gpus="0", uid=USER)
    assert status == 0 and ended(nameless) is None and "another job on this node" in told
    node.hook("epilog", job=43, gpus="0", uid=USER)
    assert ended(nameless) == signal.SIGTERM

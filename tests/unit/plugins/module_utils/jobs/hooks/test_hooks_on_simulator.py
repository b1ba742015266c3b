# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prolog, epilog and resume as slurmd runs them, on simulated GPUs and a scratch that is a folder.

Slurm is a stand-in that keeps ten nodes in a file; tests/e2e/test_slurm.py has the real one.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import normalise_pci_address
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import history
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import Debt, Fault, History
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import drain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.prepare import prepare
from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks import hook_on
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.slurm_stand_in import Cluster

SCRATCH = "/mnt/resource_nvme"


class Node:
    """A node with eight simulated GPUs, a declaration, and a Slurm that is asked by the stand-in."""

    def __init__(self, simulator, root):
        self.control, self.root, self.simulator = simulator.control, root, simulator
        self.cluster = Cluster(root / "bin", ["gpu{0:02}".format(number) for number in range(1, 11)])
        (root / "proc").mkdir()
        self.control("set", "gpu.persistence_mode", "1")
        self.slurm("IDLE")
        self.mount()
        (root / SCRATCH[1:]).mkdir(parents=True)
        (root / SCRATCH[1:]).chmod(0o1777)
        self.gres(*("Name=gpu File=/dev/nvidia{0}".format(gpu) for gpu in range(8)))
        self.declare()

    def gres(self, *lines):
        """gres.conf as slurmd has it."""
        (self.root / "etc/slurm").mkdir(parents=True, exist_ok=True)
        (self.root / "etc/slurm/gres.conf").write_text("".join(line + "\n" for line in lines))

    def declare(self, scratch=True, **sections):
        if scratch:
            sections["nvme_scratch"] = {"mount_point": SCRATCH, "adopt": False, "state": "present"}
        (self.root / "etc/gpu_node").mkdir(parents=True, exist_ok=True)
        (self.root / "etc/gpu_node/node.json").write_text(json.dumps(sections))

    def mount(self, options="rw,noatime"):
        line = "" if options is None else "21 1 9:127 / {0} {1} - xfs /dev/md127 {1}\n".format(SCRATCH, options)
        (self.root / "proc/self").mkdir(exist_ok=True)
        (self.root / "proc/self/mountinfo").write_text("20 1 0:5 / /proc rw - proc proc rw\n" + line)

    def slurm(self, state, reason=""):
        self.cluster.set("gpu01", state, reason)

    @property
    def questions(self):
        """What slurmctld was asked."""
        return [one.partition(" ")[2] for one in self.cluster.calls]

    @property
    def reason(self):
        return self.cluster.node("gpu01")[1]

    def _as_slurmd(self, event, job=42, gpus="", uid=None, **environment):
        """The words of the command and its environment."""
        slurmd = {
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_UID": str(os.getuid() if uid is None else uid),
            "SLURM_JOB_GPUS": gpus,
            "SLURMD_NODENAME": "gpu01",
            "SLURM_CONF": "/etc/slurm/slurm.conf",
            "PATH": "{0}:{1}".format(self.root / "bin", os.environ["PATH"]),
        }
        words = [sys.executable, hook_on.__file__, str(self.root), "hook", event, "--json"]
        return words, self.simulator.environment(**dict(slurmd, **environment))

    def start(self, *arguments, **options):
        words, environment = self._as_slurmd(*arguments, **options)
        return subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True
        )

    def hook(self, *arguments, **options):
        words, environment = self._as_slurmd(*arguments, **options)
        done = forked.run(words, env=environment, capture_output=True, start_new_session=True, text=True, timeout=60)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr

    def graphics_clocks(self):
        code = (
            "import json, pynvml as n; n.nvmlInit()\n"
            "print(json.dumps([n.nvmlDeviceGetClockInfo(n.nvmlDeviceGetHandleByIndex(i), 0) for i in range(8)]))"
        )
        return self.simulator.python(code)

    def addresses(self, *gpus):
        code = (
            "import json, pynvml as n; n.nvmlInit()\n"
            "print(json.dumps([n.nvmlDeviceGetPciInfo(n.nvmlDeviceGetHandleByIndex(i)).busId for i in range(8)]))"
        )
        known = self.simulator.python(code)
        return [normalise_pci_address(known[gpu]) for gpu in gpus]

    def jobs(self):
        """The names of what is noted of jobs."""
        folder = self.root / "run/gpu_node/jobs"
        return sorted(one.name for one in folder.iterdir()) if folder.exists() else []

    def trash(self):
        """What waits to be removed, after up to ten seconds in which it may be."""
        folder = self.root / SCRATCH[1:] / "jobs/.trash"
        deadline = time.monotonic() + 10
        while folder.exists() and list(folder.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [one.name for one in folder.iterdir()] if folder.exists() else []

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
    assert report["returned"] == node.addresses(2, 3)


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
    assert node.hook("epilog", job=1, gpus="0,1")[1]["returned"] == node.addresses(0)
    assert node.graphics_clocks()[:3] == [IDLE, MAXIMUM, MAXIMUM]
    node.hook("epilog", job=2, gpus="1,2")
    assert node.graphics_clocks() == [IDLE] * 8


def test_an_epilog_without_gpus_in_its_environment_knows_them(node):
    node.hook("prolog", gpus="5")
    assert node.hook("epilog")[1]["returned"] == node.addresses(5)
    assert node.graphics_clocks()[5] == IDLE


# Which GPUs a job has ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines, positions, raised",
    [
        (["Name=gpu File=/dev/nvidia[4-7]"], "0", [4]),
        (["Name=gpu File=/dev/nvidia[4-7]"], "1-2", [5, 6]),
        (["Name=gpu File=/dev/nvidia{0}".format(gpu) for gpu in (7, 6, 5, 4, 3, 2, 1, 0)], "0,2", [7, 5]),
        (["NodeName=gpu01 Name=gpu File=/dev/nvidia3", "NodeName=gpu02 Name=gpu File=/dev/nvidia2"], "0", [3]),
    ],
)
def test_slurms_number_of_a_gpu_is_its_place_in_gres_conf(node, lines, positions, raised):
    node.gres(*lines)
    assert node.hook("prolog", gpus=positions)[1]["raised"] == node.addresses(*raised)
    assert node.graphics_clocks() == [MAXIMUM if gpu in raised else IDLE for gpu in range(8)]
    assert node.hook("epilog", gpus=positions)[::2] == (0, "")
    assert node.graphics_clocks() == [IDLE] * 8


MIXED = ["Name=gpu Type=v100 File=/dev/nvidia[0-1]", "Name=gpu Type=a100 File=/dev/nvidia[2-7]"]


def test_types_of_gpus_count_in_the_order_of_slurm_conf(node):
    node.gres(*MIXED)
    (node.root / "etc/slurm/slurm.conf").write_text("NodeName=gpu[01-02] Gres=gpu:a100:6,gpu:v100:2 CPUs=8\n")
    assert node.hook("prolog", gpus="0,6")[1]["raised"] == node.addresses(2, 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "lines, environment, reason",
    [
        (None, {}, "/etc/slurm/gres.conf cannot be read"),
        (["AutoDetect=nvml"], {}, "AutoDetect=nvml"),
        (MIXED, {}, "several types"),
        (["Name=gpu File=/dev/nvidia[0-7]"], {"CUDA_VISIBLE_DEVICES": "MIG-4f0a2d0e,MIG-11"}, "MIG instances"),
        (["Name=gpu File=/dev/nvidia[4-7]"], {}, "no GPU at position 5"),
        (["Name=gpu File=/dev/nvidia[4-9,10]"], {}, "the driver has no /dev/nvidia9"),
        (["Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap3"] * 6, {}, "is no whole GPU"),
        (["AutoDetect=nvml"], {"CUDA_VISIBLE_DEVICES": "GPU-0,GPU-1"}, "the driver has no GPU-0"),
    ],
)
def test_gpus_that_are_not_certain_are_not_touched(node, lines, environment, reason):
    if lines is None:
        (node.root / "etc/slurm/gres.conf").unlink()
    else:
        node.gres(*lines)
    for event in ("prolog", "epilog"):
        status, dummy, told = node.hook(event, gpus="0,5", **environment)
        assert status == 0 and told.count("\n") == 1, told
        assert "no GPU is touched for this job: " in told and reason in told
        assert node.graphics_clocks() == [IDLE] * 8


def test_where_slurm_names_the_gpus_by_uuid_these_are_taken(node):
    node.gres("AutoDetect=nvml")
    uuids = node.simulator.python(
        "import json, pynvml as n; n.nvmlInit()\n"
        "print(json.dumps([n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(i)) for i in range(8)]))"
    )
    told = {"CUDA_VISIBLE_DEVICES": "{0},{1}".format(uuids[6], uuids[1])}
    assert node.hook("prolog", gpus="0,1", **told)[1]["raised"] == node.addresses(6, 1)
    assert [gpu for gpu, clock in enumerate(node.graphics_clocks()) if clock == MAXIMUM] == [1, 6]


@pytest.mark.parametrize("allowed, touched", [("c 195:4 rwm", True), ("c 195:0 rwm", False), ("a *:* rwm", True)])
def test_the_device_cgroup_of_the_job_has_to_agree(node, allowed, touched):
    node.gres("Name=gpu File=/dev/nvidia[4-7]")
    cgroup = node.root / "sys/fs/cgroup/devices/slurm/uid_{0}/job_42".format(os.getuid())
    cgroup.mkdir(parents=True)
    (cgroup / "devices.list").write_text("c 1:3 rwm\nc 195:255 rwm\n{0}\n".format(allowed))
    status, report, told = node.hook("prolog", gpus="0")
    assert report["raised"] == (node.addresses(4) if touched else [])
    assert ("device cgroup" in told) is not touched


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


def test_a_declaration_that_cannot_be_read_drains(node):
    (node.root / "etc/gpu_node/node.json").write_text('{"nvme_scra')
    assert node.hook("prolog")[0] == 1
    assert node.reason.startswith(drain.PREFIX + "/etc/gpu_node/node.json: it is not valid JSON")


@pytest.mark.parametrize("wrong", ["scratch", "declaration"])
def test_one_wrong_push_drains_no_more_than_the_share(node, wrong):
    """Two of the ten are drained by us, which is the share: the third stays, and its job starts."""
    for name in ("gpu08", "gpu09"):
        node.cluster.set(name, "IDLE+DRAIN", drain.PREFIX + "scratch /mnt/resource_nvme: it is not mounted")
    if wrong == "scratch":
        node.mount(None)
    else:
        (node.root / "etc/gpu_node/node.json").write_text('{"nvme_scra')
    status, report, told = node.hook("prolog", gpus="3")
    assert (status, node.cluster.node("gpu01")) == (0, ("IDLE", "")), told
    assert report["decision"]["action"] == "leave" and "a person must decide" in told
    assert "the job starts all the same" in told
    # So it is a job like any other: noted, with its GPUs.
    assert node.jobs() == ["42.json"] and node.graphics_clocks()[3] == MAXIMUM
    # One of them is back: now it is this node's turn.
    node.cluster.set("gpu09", "IDLE")
    assert node.hook("prolog")[0] == 1 and node.reason.startswith(drain.PREFIX)


def test_a_healthy_prolog_asks_slurmctld_nothing(node):
    assert node.hook("prolog")[0] == 0 and node.cluster.calls == []


def test_resume_ends_our_drain_and_not_that_the_node_is_down(node):
    node.slurm("DOWN+DRAIN", drain.PREFIX + "scratch /mnt/resource_nvme: it is not mounted")
    status, report, dummy = node.hook("resume")
    assert (status, report["decision"]["action"]) == (0, "resume") and node.cluster.node("gpu01") == ("DOWN", "")


def test_resume_leaves_a_node_whose_health_owes_a_proof_to_the_gate(node):
    node.declare(health_gate={})
    debt = Debt((Fault("gpu_xid", "xid_79", "reboot"),), "GPU 3: it is off the bus")
    history.write(Host(str(node.root)), History(debt=debt))
    node.slurm("IDLE+DRAIN", drain.PREFIX + "scratch /mnt/resource_nvme: it is not mounted")
    status, report, dummy = node.hook("resume")
    assert status == 0 and "its health owes a proof" in report["decision"]["why"]
    assert node.cluster.node("gpu01") == ("IDLE+DRAIN", "gpu_node: health: reboot: GPU 3: it is off the bus")
    # In service it is left there.
    node.slurm("IDLE")
    assert node.hook("resume")[1]["decision"]["action"] == "leave" and node.cluster.node("gpu01") == ("IDLE", "")


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
    assert not list((node.root / SCRATCH[1:]).iterdir())


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
    node.cluster.hang()
    before = time.monotonic()
    status, dummy, told = node.hook("prolog")
    assert status == 1 and time.monotonic() - before < 30
    assert "did not end within 10 s" in told


def test_a_gpu_that_is_not_there_is_told(node):
    status, dummy, told = node.hook("prolog", gpus="9")
    assert status == 0 and "9" in told


def test_outside_of_slurm_it_says_so(node):
    status, answer, dummy = node.hook("prolog", SLURM_JOB_ID="")
    assert status == 1 and "slurmd did not set it" in answer["error"]["reason"] and node.reason == ""


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


@pytest.mark.parametrize("kind", ["folder", "file", "link", "writable", "again"])
def test_what_a_user_prepared_in_the_place_of_all_folders_is_moved_aside(node, tmp_path, kind):
    """The scratch is open for all (1777): whoever comes first has the name."""
    place, kept = node.root / SCRATCH[1:] / "jobs", tmp_path / "home"
    (kept / "42").mkdir(parents=True)
    (kept / "42/rank0").write_text("planted")
    if kind == "link":
        place.symlink_to(kept)
    elif kind == "file":
        place.write_text("planted")
    else:
        kept.rename(place)
        if kind == "writable":
            place.chmod(0o777)
        else:
            os.chown(str(place), 65534, 65534)
        if kind == "again":
            # The name that it would get, if that could be told before.
            taken = place.parent / "jobs.moved-aside-{0}".format(place.stat().st_ino)
            (taken / "full").mkdir(parents=True)
    assert node.hook("prolog")[::2] == (0, ""), node.reason
    found = place.lstat()
    assert (found.st_uid, found.st_mode & 0o7777) == (os.geteuid(), 0o711)
    assert list(node.folder(42).iterdir()) == []
    assert node.hook("epilog")[0] == 0
    aside = [one for one in place.parent.iterdir() if one.name.startswith("jobs.moved-aside-")]
    assert any(
        "planted" in (one.read_text() if one.is_file() else (one / "42/rank0").read_text())
        for one in aside
        if one.is_file() or (one / "42/rank0").exists()
    )
    if kind == "link":
        assert (kept / "42/rank0").read_text() == "planted"


def test_the_folder_of_an_earlier_job_of_that_number_is_not_given_to_another_user(node):
    node.hook("prolog", uid=65533)
    (node.folder(42) / "thesis").write_text("of another user")
    (node.root / "run/gpu_node/jobs/42.json").unlink()
    assert node.hook("prolog", uid=65534)[::2] == (0, "")
    assert list(node.folder(42).iterdir()) == [] and node.folder(42).stat().st_uid == 65534


def test_removing_takes_no_time_of_the_epilog(node):
    """It is renamed; who removes it works on its own, and what it does not get to the next one does."""
    node.hook("prolog")
    (node.folder(42) / "checkpoint").write_text("data")
    node.hook("prolog", job=7)
    trash = node.folder(".trash")
    trash.mkdir(mode=0o700, exist_ok=True)
    busy = os.open(str(trash), os.O_RDONLY)
    fcntl.flock(busy, fcntl.LOCK_EX)
    assert node.hook("epilog")[::2] == (0, "") and not node.folder(42).exists()
    assert [one.name[:3] for one in trash.iterdir()] == ["42-"]
    os.close(busy)
    node.hook("epilog", job=7)
    assert node.trash() == []


# Jobs without an epilog -------------------------------------------------------------------------------


def age(node, job, seconds=3600):
    path = str(node.root / "run/gpu_node/jobs/{0}.json".format(job))
    os.utime(path, (time.time() - seconds,) * 2)


def test_the_next_epilog_ends_the_work_of_one_that_was_killed(node):
    node.declare(enroot=ENROOT)
    node.hook("prolog", job=1, gpus="0,1", uid=USER)
    node.hook("prolog", job=2, gpus="1,2", uid=USER)
    node.control("fault", "call", "nvmlDeviceResetGpuLockedClocks", "hang")
    killed = node.start("epilog", job=1, gpus="0,1", uid=USER)
    deadline = time.monotonic() + 20
    while node.jobs() != ["1.over.json", "2.json"] and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(killed.pid, signal.SIGKILL)  # as slurmd does it
    killed.communicate()
    node.control("clear", "call", "nvmlDeviceResetGpuLockedClocks")
    assert node.folder(1).is_dir() and node.graphics_clocks()[:3] == [MAXIMUM] * 3

    assert node.hook("epilog", job=2, gpus="1,2", uid=USER)[::2] == (0, "")
    assert node.graphics_clocks() == [IDLE] * 8
    assert not node.folder(1).exists() and not node.folder(2).exists() and node.jobs() == []
    assert not (node.root / SCRATCH[1:] / "enroot/data" / str(USER)).exists()
    assert node.questions == []


def test_a_job_that_ended_without_an_epilog_pins_nothing(node):
    """slurmd was down when it ended. Slurm is asked once, and only because its note stands in the way."""
    node.hook("prolog", job=1, gpus="0,1")
    age(node, 1)
    node.hook("prolog", job=2, gpus="1,2")
    status, report, told = node.hook("epilog", job=2, gpus="1,2")
    assert status == 0 and "job 1 ended without an epilog" in told and node.questions == ["show job 1"]
    assert node.graphics_clocks() == [IDLE] * 8 and not node.folder(1).exists() and node.jobs() == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("why", ["young", "cgroup", "sluid", "runs", "silent", "apart"])
def test_a_job_that_runs_keeps_its_clocks_and_its_folder(node, why):
    sluid = {"SLURM_JOB_SLUID": "s0E2ABCDEFGHJK"} if why == "sluid" else {}
    node.hook("prolog", job=1, gpus="0,1", uid=65533, **sluid)
    if why != "young":
        age(node, 1)
    if why in ("cgroup", "sluid"):
        name = "job_1" if why == "cgroup" else sluid["SLURM_JOB_SLUID"]
        (node.root / "sys/fs/cgroup/system.slice/slurmstepd.scope" / name).mkdir(parents=True)
    if why == "runs":
        node.cluster.job(1, "RUNNING")
    if why == "silent":
        node.cluster.hang()
    gpus = "2,3" if why == "apart" else "1,2"
    for job in (2, 3):
        node.hook("prolog", job=job, gpus=gpus)
        assert node.hook("epilog", job=job, gpus=gpus)[0] == 0
        if why == "silent":
            break
    assert node.graphics_clocks()[:4] == [MAXIMUM] * 2 + [IDLE] * 2
    assert node.folder(1).is_dir() and node.jobs() == ["1.json"]
    # The answer that it runs holds for a while.
    assert node.questions == (["show job 1"] if why in ("runs", "silent") else [])


def test_a_job_that_starts_here_again_keeps_its_folder(node):
    """Its first epilog was killed. What that start had goes back, and what this one has stays."""
    node.hook("prolog", job=1, gpus="0,3")
    (node.root / "run/gpu_node/jobs/1.json").rename(node.root / "run/gpu_node/jobs/1.over.json")
    node.hook("prolog", job=1, gpus="0")
    node.hook("prolog", job=2, gpus="0")
    assert node.hook("epilog", job=2, gpus="0")[0] == 0
    assert node.folder(1).is_dir() and node.jobs() == ["1.json"]
    assert [gpu for gpu, clock in enumerate(node.graphics_clocks()) if clock == MAXIMUM] == [0]


@pytest.mark.parametrize("by", ["boot unit", "prolog"])
@pytest.mark.parametrize("booted, left", [(+100, ["5"]), (-100, ["5", "6", "7"])])
def test_at_boot_the_folders_of_jobs_of_earlier_boots_go(node, booted, left, by):
    node.declare(slurm_hooks={}, enroot=ENROOT)
    data = node.root / SCRATCH[1:] / "enroot/data"
    for job in (5, 6, 7):
        node.hook("prolog", job=job, uid=USER + job)
    for job in (6, 7):
        (node.root / "run/gpu_node/jobs/{0}.json".format(job)).unlink()
    (node.folder("kept-by-root")).mkdir()
    (node.folder("8")).mkdir()  # of a site's own prolog
    (node.root / "proc/stat").write_text("cpu 1 2\nbtime {0}\n".format(int(time.time()) + booted))
    if by == "boot unit":
        prepare(hook_on.Node(str(node.root)))
    else:  # the first prolog of a boot
        (node.root / "run/gpu_node/jobs_prepared").unlink()
        node.hook("prolog", job=5, uid=USER + 5)
    assert sorted(one.name for one in data.iterdir() if one.name != ".trash") == [str(USER + int(job)) for job in left]
    assert sorted(one.name for one in node.folder("").iterdir() if one.name != ".trash") == [*left, "8", "kept-by-root"]
    assert node.trash() == []


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
    others = on_gpu(1, uid=65532, job=43)
    (node.root / "run/gpu_node/jobs/43.json").write_text(json.dumps({"uid": 65532}))
    status, report, told = node.hook("epilog", job=42, gpus="0,1", uid=USER)
    assert status == 0, told
    assert (ended(mild), ended(stubborn)) == (signal.SIGTERM, signal.SIGKILL)
    assert [ended(one) for one in (roots, strangers, elsewhere, others)] == [None] * 4
    assert sorted(report["ended"]) == sorted([mild.pid, stubborn.pid])
    assert not any("process {0} ".format(one.pid) in told for one in (strangers, others))


@needs_a_user
def test_the_same_users_other_job_is_left_alone(node, on_gpu):
    node.hook("prolog", job=42, gpus="0", uid=USER)
    node.hook("prolog", job=43, gpus="0", uid=USER)
    nameless = on_gpu(0)
    status, dummy, told = node.hook("epilog", job=42, gpus="0", uid=USER)
    assert status == 0 and ended(nameless) is None and "another job on this node" in told
    node.hook("epilog", job=43, gpus="0", uid=USER)
    assert ended(nameless) == signal.SIGTERM

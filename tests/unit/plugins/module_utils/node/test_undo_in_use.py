# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpunode undo and the module node with state absent: confirmed, and refused while the node is in use."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main as gpunode
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import module
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs import gpus_in_use
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import own, reset
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.converge import Report, Request
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import jobs as notes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.client import Slurm

POINT = "/mnt/resource_nvme"
SECTIONS = {"nvme_scratch": {}, "nccl": {}}


@pytest.fixture
def host(tmp_path, monkeypatch):
    for one in ("proc/self", "etc/gpu_node", "run/gpu_node/jobs"):
        (tmp_path / one).mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("21 1 9:0 / {0} rw - xfs /dev/md0 rw\n".format(POINT))
    # The machine that runs the tests may have Slurm.
    section = {"slurm_hooks": {"scontrol": "/nothing/scontrol"}}
    (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps(section))
    monkeypatch.setattr(gpus_in_use, "why_not", lambda host, nvml=True: "")
    return Host(str(tmp_path))


def opens(host, path, pid=4321):
    folder = host.path("/proc/{0}".format(pid))
    os.makedirs(folder + "/fd")
    os.symlink(path, folder + "/fd/3")
    with open(folder + "/comm", "w") as stream:
        stream.write("python\n")


def undo(host, **more):
    reset.refuse_in_use(host, Request(SECTIONS, undo=True, **more))


def test_an_unused_node_is_not_refused(host):
    opens(host, "/home/user/file")
    undo(host)


def test_a_running_job_refuses_the_undo(host):
    notes.begin(host, notes.Running(12, 1000))
    with pytest.raises(NodeError, match="undo of this node: it is in use: job 12 is on it; drain the node"):
        undo(host)
    with pytest.raises(NodeError, match="job 12"):
        undo(host, only=("nccl",))


@pytest.mark.parametrize("slurmd_runs", [True, False])
def test_a_silent_slurmctld_refuses_the_undo_while_slurmd_runs(host, monkeypatch, slurmd_runs):
    """A job of salloc without a step has neither a process nor a cgroup here; only slurmctld knows it."""
    if slurmd_runs:
        folder = host.path("/proc/55")
        os.makedirs(folder)
        with open(folder + "/comm", "w") as stream:
            stream.write("slurmd\n")
    monkeypatch.setattr(Slurm, "installed", True)

    def silent(self):
        raise NodeError("squeue", "it did not end within 10 s", "look at 'scontrol ping'")

    monkeypatch.setattr(Slurm, "holders", silent)
    monkeypatch.setattr(Slurm, "look", silent)
    if not slurmd_runs:  # and no job can start
        undo(host)
        return
    with pytest.raises(NodeError, match="it is in use: Slurm does not tell which jobs are on it; drain the node"):
        undo(host)


def test_a_process_on_a_gpu_refuses_the_undo_even_without_nvml(host, monkeypatch):
    def why_not(dummy, nvml=True):
        if nvml:
            raise NodeError("NVML", "it does not answer", "reboot")
        return "process 7 (python) of user 1000 has /dev/nvidia-uvm open"

    monkeypatch.setattr(gpus_in_use, "why_not", why_not)
    with pytest.raises(NodeError, match="process 7"):
        undo(host)


def test_an_open_file_on_the_scratch_refuses_the_undo_of_the_scratch_alone(host):
    opens(host, POINT + "/data/file")
    with pytest.raises(NodeError, match=r"process 4321 \(python\) has files on {0} open".format(POINT)):
        undo(host)
    undo(host, only=("nccl",))
    undo(host, without=("nvme_scratch",))


def test_a_declared_mount_point_counts(host):
    opens(host, "/local/file")
    with open(host.path("/proc/self/mountinfo"), "a") as stream:
        stream.write("22 1 9:0 / /local rw - xfs /dev/md0 rw\n")
    undo(host)
    with open(host.path("/etc/gpu_node/node.json"), "w") as stream:
        stream.write(json.dumps({"nvme_scratch": {"mount_point": "/local"}}))
    with pytest.raises(NodeError, match="/local"):
        undo(host)


def test_the_command_requires_a_confirmation(capsys, monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(own, "run", lambda host, request, *more: ran.append(request) or Report({}, {}, True))
    monkeypatch.setattr(reset, "refuse_in_use", lambda host, request: ran.append("looked"))
    path = tmp_path / "declaration.json"
    path.write_text("{}")
    path.chmod(0o644)
    tmp_path.chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import trust

    monkeypatch.setattr(trust, "of_root", lambda path: path)
    for words in (["undo"], ["undo", "--without", "rdma"]):
        assert gpunode.main([*words, "--declaration", str(path)]) == 2
        error = capsys.readouterr().err
        assert "all data on the scratch are lost" in error and "repeat the command with --yes" in error
        assert ran == []
    gpunode.main(["undo", "--check", "--declaration", str(path)])
    assert [one.check_mode for one in ran] == [True]
    gpunode.main(["undo", "--yes", "--declaration", str(path)])
    assert ran[1] == "looked" and ran[2].undo and not ran[2].check_mode


def test_the_module_refuses_a_node_in_use_as_the_command_does(host):
    notes.begin(host, notes.Running(12, 1000))
    given = {"state": "absent", "declaration": SECTIONS, "only": [], "without": []}
    told = module.result(host, "node", given, False)
    assert told["failed"] and "it is in use: job 12 is on it" in told["msg"]

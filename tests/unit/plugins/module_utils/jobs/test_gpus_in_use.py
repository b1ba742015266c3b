# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What computes on GPUs holds up a reset and the end of a lease on a node without Slurm: pods, and programs of people.

``python test_gpus_in_use.py ROOT WHAT`` resets a folder as the node, or ends its lease: run it on a simulator.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from types import SimpleNamespace

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import lease as leases
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import kubelet
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.call import Kind, Reading
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs import gpus_in_use, out_of_service
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.lease.follow import Follower
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import own, reset
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.converge import Report

UNTIL, END = "2040-12-01T18:00Z", 2237997600.0
PID, POD = 4711, "3b1c7a52-8f0e-4d3f-9a55-0c1d2e3f4a5b"


def main(root, what):
    """Prints what the reset was refused for, or why the lease waits; "" where it was done."""
    host, done = Host(root), []
    out_of_service.on_node.has_slurm = lambda *dummy: False
    own.run = lambda host, request, version: done.append(request) or Report({}, {}, request.check_mode)
    if what == "lease":
        # An ended lease stays ended, so each call starts with a lease that is not known yet.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(host.path(leases.MEMORY))
        for now in (END - 3600.0, END + 1.0):
            follower = Follower(
                host,
                lambda text: None,
                lambda dummy: done.append(1) or "",
                lambda now=now: now,
                lambda host: True,
                running=lambda now=now: now - END + 7200.0,
            )
            told = follower.once().memory.why
    else:
        try:
            told = reset.run(host, "1.0", lambda text: None, slurm=False, nvml=what == "reset") and ""
        except NodeError as error:
            told = str(error)
    assert bool(done) == (not told)
    print(json.dumps(told))


class Node:
    def __init__(self, simulator, root):
        self.simulator, self.root = simulator, root
        for one in ("proc", "etc/gpu_node", "sys/module/nvidia", "sys/class/dmi/id", "run/gpu_node/jobs"):
            (root / one).mkdir(parents=True)
        (root / "sys/class/dmi/id/product_uuid").write_text("6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01\n")
        lease = {"until": UNTIL, "reset": True, "on_expiry": []}
        (root / "etc/gpu_node/node.json").write_text(json.dumps({"node_lease": lease}))

    def process(self, pid, command, cgroup="0::/user.slice\n", opened=(), uid=1001):
        folder = self.root / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "stat").write_text("{0} ({1}) S {2}\n".format(pid, command, " ".join(["1"] * 49)))
        (folder / "status").write_text("Uid:\t{0}\t{0}\t{0}\t{0}\n".format(uid))
        (folder / "comm").write_text(command + "\n")
        (folder / "cgroup").write_text(cgroup)
        for number, path in enumerate(opened):
            os.symlink(path, str(folder / "fd" / str(number)))

    def told(self, what):
        code = "import runpy; runpy.run_path({0!r}, run_name='__main__')".format(__file__)
        return self.simulator.python(code, str(self.root), what)


@pytest.fixture(name="node")
def _node(nvml_simulator, tmp_path):
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    return lambda machine="nd96asr_v4", *settings: Node(nvml_simulator(machine, *settings), tmp_path)


@pytest.mark.parametrize("what", ["reset", "lease"])
def test_a_process_on_a_gpu_holds_it_up_and_a_daemon_of_the_node_does_not(node, what):
    node = node()
    node.process(70, "nv-hostengine", uid=117)
    node.simulator.control("process", "add", "1", "70", "100")
    assert node.told(what) == ""
    node.process(PID, "python3")
    for gpu in ("3", "5"):
        node.simulator.control("process", "add", gpu, str(PID), "100")
    text = "process 4711 (python3) of user 1001 is on GPU 3 5"
    refused = "this node: it is not reset: {0}; run it again when it is empty.".format(text)
    assert node.told(what) == (refused if what == "reset" else text)
    node.simulator.control("process", "remove", "3", str(PID))
    node.simulator.control("process", "remove", "5", str(PID))
    assert node.told(what) == ""


def test_a_pod_on_a_mig_instance_is_named(node):
    node = node("nd96asr_v4", "gpu.0.mig_mode=yes")
    node.simulator.control("set", "gpu.0.gi.1", "2 0")
    node.simulator.control("set", "gpu.0.ci.1.0", "2 0")
    node.process(PID, "python3", "0::/kubepods.slice/kubepods-pod{0}.slice/cri-1.scope\n".format(POD.replace("-", "_")))
    node.simulator.control("process", "add", "0", str(PID), "100", "1", "0")
    assert node.told("lease") == "process 4711 (python3) of pod {0} is on GPU 0".format(POD)


def given_out(root, *pods):
    path = root / kubelet.PATH[1:]
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ["ResourceName", "PodUID"]
    data = {"PodDeviceEntries": [dict(zip(names, one)) for one in pods] or None, "RegisteredDevices": {}}
    path.write_text(json.dumps({"Data": data, "Checksum": 1}))


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{0}.slice/cri-1.scope\n".format(
            POD.replace("-", "_")
        ),
        "12:memory:/kubepods/besteffort/pod{0}/1\n".format(POD),
        "0::/kubelet/kubepods/pod{0}\n".format(POD),
    ],
)
def test_a_pod_that_has_a_gpu_and_does_not_compute_yet_holds_it_up(tmp_path, cgroup):
    node = Node(None, tmp_path)
    node.host = Host(str(tmp_path))
    (tmp_path / "sys/module/nvidia").rmdir()  # NVML is not asked
    given_out(tmp_path, ("nvidia.com/mig-1g.10gb", POD))
    assert gpus_in_use.why_not(node.host) == ""  # that pod has ended
    node.process(PID, "pause", cgroup)
    assert gpus_in_use.why_not(node.host) == "pod {0} has nvidia.com/mig-1g.10gb".format(POD)
    given_out(tmp_path, ("nvidia.com/gpu", POD[:-1]), ("rdma/hca", POD))
    assert gpus_in_use.why_not(node.host) == ""
    given_out(tmp_path)
    assert gpus_in_use.why_not(node.host) == ""


@pytest.mark.parametrize("text", ["", "{", '{"Data": {"PodDeviceEntries": [{"PodUID": 1, "ResourceName": "x"}]}}'])
def test_a_checkpoint_of_the_kubelet_that_is_not_understood_is_no_leave(tmp_path, text):
    given_out(tmp_path)
    (tmp_path / kubelet.PATH[1:]).write_text(text)
    with pytest.raises(NodeError, match="look at the kubelet, or move that file away"):
        gpus_in_use.why_not(Host(str(tmp_path)))


def test_a_process_that_cannot_be_seen_counts(node):
    node = node()
    node.simulator.control("process", "add", "0", "99", "100")
    assert "process 99, which has ended or lives where it cannot be seen, is on GPU 0" in node.told("reset")


@pytest.mark.parametrize(
    "fault",
    [
        "fault driver version-mismatch",
        "fault gpu 2 lost",
        "fault call nvmlDeviceGetComputeRunningProcesses return UNKNOWN",
    ],
)
def test_a_driver_that_does_not_tell_is_no_leave_and_a_person_may_go_by_open_files(node, fault):
    node = node()
    for form in ("_v3", "_v2") if "RunningProcesses" in fault else ("",):
        node.simulator.control(*fault.replace("Processes", "Processes" + form).split())
    waits = node.told("lease")
    assert "does not tell who uses the GPUs" in waits and waits.endswith("has /dev/nvidia-uvm open.")
    assert "does not tell" in node.told("reset")
    assert node.told("reset --without-nvml") == ""
    node.process(PID, "python3", opened=["/dev/nvidia0", "/dev/nvidia-uvm"])
    text = "process 4711 (python3) of user 1001 has /dev/nvidia-uvm open"
    assert text in node.told("reset --without-nvml")


@pytest.mark.parametrize(
    "path, uses",
    [
        ("/dev/nvidia-uvm (deleted)", True),
        ("/var/lib/containers/1/rootfs/dev/nvidia-uvm", True),
        ("/dev/nvidia-uvm-tools", False),
        ("/home/me/nvidia-uvm.c", False),
    ],
)
def test_the_file_of_the_driver_is_known_where_it_was_made_anew_or_lies_in_a_container(tmp_path, path, uses):
    node = Node(None, tmp_path)
    node.process(PID, "python3", opened=[path])
    text = "process 4711 (python3) of user 1001 has /dev/nvidia-uvm open"
    assert gpus_in_use.why_not(Host(str(tmp_path)), nvml=False) == (text if uses else "")


@pytest.mark.parametrize("which", ["all", "one"])
def test_a_process_whose_open_files_are_not_told_counts(tmp_path, which):
    node = Node(None, tmp_path)
    node.process(PID, "python3")
    folder = tmp_path / "proc/4711/fd"
    if which == "all":
        folder.rmdir()
    (folder if which == "all" else folder / "3").write_text("")  # even root cannot list it, or follow it
    with pytest.raises(NodeError, match="process 4711: its open files may not be read"):
        gpus_in_use.why_not(Host(str(tmp_path)), nvml=False)


def test_without_the_driver_nobody_computes(node):
    node = node()
    node.simulator.control("fault", "driver", "not-loaded")
    bus = node.root / "sys/bus/pci/devices/0001:00:00.0"
    bus.mkdir(parents=True)
    (bus / "vendor").write_text("0x10de\n")
    (bus / "class").write_text("0x030200\n")
    assert "does not tell" in node.told("lease")
    (node.root / "sys/module/nvidia").rmdir()
    assert node.told("lease") == ""


def test_clients_of_mps_count_and_a_driver_without_that_list_has_none(tmp_path, monkeypatch):
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    lists = {"MPSComputeRunningProcesses_v3": Reading([SimpleNamespace(pid=12)])}

    class Gpu:
        name = "GPU 0"

        @staticmethod
        def first(*calls):
            return lists.get(calls[0][0].replace("nvmlDeviceGet", ""), Reading([]))

    def surveyed(visit, host):
        visits = (SimpleNamespace(parts=tuple(visit(Gpu)), identity=SimpleNamespace(index=0)),)
        return SimpleNamespace(status=gpus_in_use.Status.OK, visits=visits, message="")

    monkeypatch.setattr(gpus_in_use, "survey", surveyed)
    assert "process 12" in gpus_in_use.why_not(Host(str(tmp_path)))
    lists["MPSComputeRunningProcesses_v3"] = Reading(None, "there is no such call", Kind.ABSENT)
    assert gpus_in_use.why_not(Host(str(tmp_path))) == ""
    lists["MPSComputeRunningProcesses_v3"] = Reading(None, "it failed", Kind.FAILED)
    with pytest.raises(NodeError, match="GPU 0: it failed"):
        gpus_in_use.why_not(Host(str(tmp_path)))
    lists.clear()
    lists["ComputeRunningProcesses_v3"] = Reading(None, "there is no such call", Kind.ABSENT)
    with pytest.raises(NodeError, match="GPU 0: there is no such call"):
        gpus_in_use.why_not(Host(str(tmp_path)))


def test_one_that_ends_while_it_is_looked_at_is_nobody(tmp_path, monkeypatch):
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    parts = [(12,), ()]  # NVML lists one that has just ended for a moment

    def surveyed(dummy, host):
        visits = (SimpleNamespace(parts=parts.pop(0), identity=SimpleNamespace(index=0)),)
        return SimpleNamespace(status=gpus_in_use.Status.OK, visits=visits, message="")

    monkeypatch.setattr(gpus_in_use, "survey", surveyed)
    assert gpus_in_use.why_not(Host(str(tmp_path))) == "" and not parts


if __name__ == "__main__":
    main(*sys.argv[1:])

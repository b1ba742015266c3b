# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten nodes of one real slurmctld after a fault of each class: they come back by their proof, and by nothing else.

The simulated GPUs compute, so the active checks are whole. systemd runs what it starts for the guest and not for one
of the nodes, so here a person runs it on each.
"""

from __future__ import annotations

import json
import re
import time

import pytest
import slurm_guest
from slurm_fleet import NODES, Fleet

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import journal
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parts import Part

pytestmark = pytest.mark.soak

GATE = {
    "drained_percent": 50,
    "without": ["profile", "clock_synchronised"],
    "timer": False,
    # The first round of the memory test always completes, also on an emulated processor.
    "settings": {"memory_test_seconds": 1},
}
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - trainyard.gpu_node.node_runtime:
    - trainyard.gpu_node.gpu_settings: {persistenced: false, clocks: default, boot_unit: false}
    - trainyard.gpu_node.slurm_hooks: {clocks: false, job_folder: false}
"""
# What the gate and the hooks have systemd start; see above.
NOT_HERE = """
for unit in gpu-node-health-proof gpu-node-remedy; do
    mkdir -p /run/systemd/system/$unit.service.d
    printf '[Service]\\nExecStart=\\nExecStart=/bin/true\\n' >/run/systemd/system/$unit.service.d/none.conf
done
systemctl daemon-reload
"""
ECC = (
    "env PYTHONPATH=/opt/gpu_node/gpunode.pyz python3 -c 'import pynvml as n; n.nvmlInit();"
    " n.nvmlDeviceSetEccMode(n.nvmlDeviceGetHandleByIndex(1), {0})'"
)
# What breaks it, what mends it, what is in Slurm's reason, and the active checks that it owes.
CLASSES = {
    "GPU": (["nvml-simulator fault gpu 1 lost"], ["nvml-simulator clear gpu 1"], "reboot: GPU 1", ["gpu_memory_test"]),
    "NVLink": (
        ["nvml-simulator nvlink 1 7 down"],
        ["nvml-simulator nvlink 1 7 up"],
        "reset_gpu: GPU 1",
        ["gpu_peer_bandwidth"],
    ),
    "PCIe": (
        ["nvml-simulator set gpu.1.pcie.width 8"],
        ["nvml-simulator unset gpu.1.pcie.width"],
        "replace: GPU 1",
        ["host_device_bandwidth"],
    ),
    "configuration": (
        [ECC.format(0), "nvml-simulator gpu-reset 1"],
        [ECC.format(1), "nvml-simulator gpu-reset 1"],
        "configure: GPU 1",
        [],
    ),
}


class Proved(Fleet):
    """With two GPUs a node, which compute."""

    uuid = ""

    def driver(self):
        """What the kernel module tells of its GPUs."""
        gpus = json.loads(self.ssh("gpunode info --json").stdout)["gpus"]
        self.uuid = gpus[1]["uuid"]
        # A mount, since nobody makes a folder in /proc.
        self.ssh("mount -t tmpfs driver /proc/driver")
        for gpu in gpus:
            folder = "/proc/driver/nvidia/gpus/" + gpu["pci_address"]
            told = "GPU UUID: \t {0}\\nDevice Minor: \t {1}\\n".format(gpu["uuid"], gpu["minor_number"])
            self.ssh("mkdir -p {0}; printf '{1}' >{0}/information".format(folder, told))

    def gate(self, **more):
        self.node.module("health_gate", **dict(GATE, **more))

    def prove(self, name):
        """What the gate's unit runs: what was decided, or why nothing was proved."""
        done = self.on(name, "gpunode hook proof --json --node " + name, False, 900)
        assert done.stdout.startswith("{"), done.stdout + done.stderr
        verdict = json.loads(self.on(name, "cat /var/lib/gpu_node/health/verdict.json").stdout)
        findings = [(one["id"], found["reason"]) for one in verdict["results"] for found in one["findings"]]
        return dict(json.loads(done.stdout), findings=findings)

    def decided(self, name):
        return self.look(name)["decision"]["decision"]["action"]

    def reason(self, name):
        return self.states()[name][1] or ""

    def give(self, name):
        return self.submit("-w {0} --gres=gpu:1 --output=/tmp/out-{0} --wrap 'echo $SLURMD_NODENAME'".format(name))

    def ran(self, name):
        return self.ssh("cat /tmp/out-{0}".format(name), check=False).stdout.strip() == name


@pytest.fixture(scope="module")
def fleet(node_factory, tmp_path_factory):
    folder = tmp_path_factory.mktemp("return")
    node = node_factory("return", cpus=4, nvme_count=0, gpus=2, memory="14G")
    node.ssh(slurm_guest.PREPARE + slurm_guest.DEVICES)
    (folder / "play.yml").write_text(PLAY)
    found = Proved(node, gpus=2)
    found.configure()
    node.ansible(folder / "play.yml")
    found.driver()
    found.gate()
    node.ssh(NOT_HERE)
    found.begin()
    yield found
    node.node.down()


@pytest.fixture(autouse=True)
def as_new(fleet):
    """What one test leaves behind fails no other."""
    yield
    fleet.as_new()


@pytest.mark.parametrize("kind, name", [(kind, NODES[number]) for number, kind in enumerate(CLASSES)])
def test_a_node_comes_back_by_its_proof_alone(fleet, kind, name):
    breaks, mends, reason, proof = CLASSES[kind]
    for command in breaks:
        fleet.on(name, command)
    assert fleet.decided(name) == "drain"
    assert fleet.reason(name).startswith("gpu_node: health: " + reason), fleet.reason(name)
    fleet.give(name)
    for command in mends:
        fleet.on(name, command)
    fleet.boot(name)
    actions = [fleet.decided(name) for _look in range(4 if proof else 3)]
    if proof:
        assert actions == ["leave"] * 4 and fleet.drained() == [name] and not fleet.ran(name)
        if "gpu_memory_test" in proof:
            fleet.on(name, "nvml-simulator fault gpu 1 memory 1048576 stuck 0 1")
            failed = fleet.prove(name)
            fleet.on(name, "nvml-simulator clear gpu 1")
            assert failed["outcome"] == "fail" and "GPU 1" in failed["verdict"], failed
            assert fleet.drained() == [name]
        passed = fleet.prove(name)
        actions = [passed["decision"]["decision"]["action"]]
        # A proof that failed begins the count of clean verdicts anew.
        actions += [fleet.decided(name) for _look in range(2 if "gpu_memory_test" in proof else 0)]
        assert actions == ["leave"] * (len(actions) - 1) + ["resume"], passed
    else:
        assert actions == ["leave", "leave", "resume"]
    assert fleet.drained() == []
    fleet.wait(lambda: fleet.ran(name))


def test_a_repeat_offender_stays_out_though_it_proves_well(fleet):
    """Five bursts of fatal Xids within a day, each of which a reboot had ended; a person answers for its return."""
    name, now = NODES[4], time.time()
    part = Part("gpu", fleet.uuid)
    past = [
        journal.Event(journal.FAULT, part, now - 3600.0 * hours, now - 3600.0 * hours, check="gpu_xid", code="xid_48",
                      action="reset_gpu")
        for hours in range(6, 1, -1)
    ]  # fmt: skip
    path = "/srv/{0}{1}".format(name, journal.PATH)
    fleet.ssh("mkdir -p $(dirname {0})".format(path))
    fleet.node.write(path, journal.FILE.text(journal.Journal(tuple(past))), "0600")
    assert fleet.decided(name) == "drain"
    assert "5 bursts of fatal Xids" in fleet.reason(name), fleet.reason(name)
    passed = fleet.prove(name)
    assert passed["outcome"] == "fail" and fleet.drained() == [name], passed
    assert [fleet.decided(name) for _look in range(3)] == ["leave"] * 3
    fleet.boot(name)
    assert fleet.decided(name) == "leave" and fleet.drained() == [name]
    fleet.ssh("rm /srv/{0}/var/lib/gpu_node/health/*; scontrol update NodeName={0} State=RESUME".format(name))


def test_a_persons_drain_is_never_touched(fleet):
    name = NODES[5]
    fleet.ssh("scontrol update NodeName={0} State=DRAIN Reason='anna: on my bench'".format(name))
    fleet.on(name, "nvml-simulator fault gpu 1 lost")
    assert fleet.decided(name) == "leave"
    fleet.on(name, "nvml-simulator clear gpu 1")
    fleet.boot(name)
    for _look in range(4):
        fleet.look(name)
    refused = fleet.on(name, "gpunode hook proof --node " + name, False)
    assert refused.returncode != 0 and "Traceback" not in refused.stderr, refused
    assert fleet.drained() == [name] and fleet.reason(name) == "anna: on my bench"
    fleet.ssh("scontrol update NodeName={0} State=RESUME".format(name))


def test_the_breaker_of_remedies_latches_until_a_person_releases_it(fleet):
    """One of ten nodes may have a remedy at a time: the second one that wants it latches, the third does nothing."""
    first, second, third = NODES[6:9]
    script = "#!/bin/sh\ncat >>/srv/redeployed\n"
    fleet.node.write("/usr/local/sbin/redeploy", script, "0755")
    fleet.gate(remedies=["redeploy"], redeploy_command=["/usr/local/sbin/redeploy"])
    for name in (first, second, third):
        fleet.on(name, "nvml-simulator set gpu.1.pcie.width 8")
        assert fleet.decided(name) == "drain"
    fleet.on(first, "gpunode remedy --node " + first)
    assert fleet.reason(first).startswith("gpu_node: health: remedy redeploy: "), fleet.reason(first)
    latched = fleet.on(second, "gpunode remedy --node " + second, False)
    assert latched.returncode == 1, latched
    assert fleet.reason(second).startswith("gpu_node: health: remedies latched: "), fleet.reason(second)
    before = fleet.reason(third)
    fleet.on(third, "gpunode remedy --node " + third, False)
    assert fleet.reason(third) == before
    told = fleet.ssh("cat /srv/redeployed").stdout
    assert len(re.findall('"node": "', told)) == 1 and first in told, told
    assert fleet.on(second, "gpunode remedy status --node " + second, False).returncode == 1
    fleet.on(second, "gpunode remedy release --by anna --node " + second)
    assert "latched" not in fleet.reason(second), fleet.reason(second)
    assert fleet.on(second, "gpunode remedy status --node " + second, False).returncode == 0
    for name in (first, second, third):
        fleet.on(name, "nvml-simulator unset gpu.1.pcie.width")
        fleet.prove(name)
        for _look in range(2):
            fleet.look(name)
    assert fleet.drained() == []

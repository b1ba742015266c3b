# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cloud nodes of one real slurmctld that powers idle ones down: what becomes of a drain, and of the machine behind it.

The machine is the guest for each of them: its slurmd starts and stops as Slurm powers the node up and down, and files
in place of the firmware's number and the kernel's make it another machine, or another start of the same one.
"""

from __future__ import annotations

import json
import time
import uuid

import pytest
import slurm_guest

pytestmark = pytest.mark.soak

SLURM_CONF = (
    slurm_guest.SEVERAL_CONF
    + """ReturnToService=2
PrivateData=cloud
{parameters}
SuspendProgram=/etc/slurm/suspend
ResumeProgram=/etc/slurm/resume
SuspendTime=75
SuspendTimeout=5
ResumeTimeout=60
SuspendRate=0
ResumeRate=0
NodeName=DEFAULT CPUs=1 RealMemory=100
NodeName=cloud[1-5] NodeHostname={name} NodeAddr=127.0.0.1 Port=[17001-17005] State=CLOUD
NodeName=rack1 NodeHostname={name} NodeAddr=127.0.0.1 Port=17009
PartitionName=cloud Nodes=cloud[1-5] Default=YES State=UP
PartitionName=all Nodes=ALL State=UP
"""
)
RESUME = """#!/bin/sh
for node in $(scontrol show hostnames "$1"); do
    sudo -n systemd-run --quiet --collect --unit=slurmd-$node --property=Delegate=yes --property=TimeoutStopSec=5 \\
        slurmd -D -b -N $node
done
"""
SUSPEND = """#!/bin/sh
for node in $(scontrol show hostnames "$1"); do sudo -n systemctl stop slurmd-$node; done
"""
# A guest has no number in its firmware, so the kernel shows no file for one.
TOLD = """
set -e
boot=/proc/sys/kernel/random/boot_id dmi=/sys/devices/virtual/dmi/id
mountpoint -q $boot || mount --bind /run/told/boot_id $boot
if ! mountpoint -q $dmi; then
    for file in $dmi/*; do [ ! -f $file ] || cp --no-clobber $file /run/told/dmi/ || true; done
    mount --bind /run/told/dmi $dmi
fi
"""
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - trainyard.gpu_node.node_runtime:
    - trainyard.gpu_node.gpu_settings: {persistenced: false, clocks: default, boot_unit: false}
    - trainyard.gpu_node.health_gate:
        without: [profile, clock_synchronised]
        timer: false
        proof: false  # it is not what this file tests
        drained_percent: 50
"""
REASON = "gpu_node: health: reboot: GPU 3"


class Cloud:
    def __init__(self, node):
        self.node, self.ssh, self.told = node, node.ssh, {}

    def configure(self, parameters=""):
        self.node.write("/etc/slurm/slurm.conf", SLURM_CONF.format(name=self.node.name, parameters=parameters))

    def machine(self, new=False):
        """Another start of the machine, or of a new one: what the kernel and the firmware would tell."""
        self.node.write("/run/told/boot_id", str(uuid.uuid4()) + "\n")
        if new:
            self.node.write("/run/told/dmi/product_uuid", str(uuid.uuid4()) + "\n")
        self.ssh(TOLD)

    def state(self, name):
        words = self.ssh("sinfo -h -N -n {0} -p all -O StateComplete:200,Reason:200".format(name)).stdout
        return set(words[:200].strip().split("+")), words[200:].strip()

    def wait(self, name, condition, seconds=240):
        deadline = time.monotonic() + seconds
        while not condition(*self.state(name)):
            told = "{0}\n{1}".format(self.state(name), self.ssh("tail -n 30 /var/log/slurm/slurmctld.log").stdout)
            assert time.monotonic() < deadline, told
            time.sleep(1)

    def power_up(self, name):
        self.ssh("scontrol update NodeName={0} State=POWER_UP".format(name))
        self.wait(name, lambda flags, dummy: not flags & {"powering_up", "powered_down", "not_responding"})

    def look(self, name):
        """What HealthCheckProgram of that node runs: what was decided, before Slurm finds that the node is idle."""
        told = json.loads(self.ssh("gpunode hook health --node {0} --json".format(name), check=False).stdout)
        assert told["decision"] is not None and "powers it down" not in told["decision"]["decision"]["why"], told
        self.told = told
        return told["decision"]["decision"]["action"]

    def fall_ill(self, name):
        self.ssh("nvml-simulator fault gpu 3 lost")
        assert self.look(name) == "drain" and self.state(name)[1].startswith(REASON)
        self.ssh("nvml-simulator clear")

    def forget(self):
        self.ssh("rm -f /var/lib/gpu_node/health/*; nvml-simulator clear")


@pytest.fixture(scope="module")
def cloud(node_factory, tmp_path_factory):
    node = node_factory("cloud", cpus=2, nvme_count=0)
    node.ssh(slurm_guest.PREPARE + slurm_guest.DEVICES)
    found = Cloud(node)
    # slurmctld runs these as SlurmUser.
    node.write("/etc/sudoers.d/slurm", "slurm ALL=(ALL) NOPASSWD: ALL\n", "0440")
    node.write("/etc/slurm/resume", RESUME, "0755")
    node.write("/etc/slurm/suspend", SUSPEND, "0755")
    found.configure("SlurmctldParameters=idle_on_node_suspend")
    play = tmp_path_factory.mktemp("cloud") / "play.yml"
    play.write_text(PLAY)
    node.ansible(play)
    found.machine(new=True)
    node.ssh("systemctl start slurmctld", timeout=300)
    yield found
    node.node.down()


def test_slurm_forgets_the_drain_of_a_node_that_it_powers_down_and_its_machine_does_not(cloud):
    """As CycleCloud sets Slurm up."""
    cloud.power_up("cloud1")
    cloud.fall_ill("cloud1")
    cloud.wait("cloud1", lambda flags, dummy: "powered_down" in flags and "drain" not in flags)
    cloud.machine()
    cloud.power_up("cloud1")
    assert "drain" not in cloud.state("cloud1")[0]
    assert cloud.look("cloud1") == "drain", cloud.told
    assert cloud.state("cloud1")[1].startswith(REASON)
    assert [cloud.look("cloud1") for dummy in range(2)] == ["leave", "resume"]
    assert "drain" not in cloud.state("cloud1")[0]
    cloud.forget()


def test_another_machine_of_that_name_takes_jobs_at_once(cloud):
    cloud.power_up("cloud2")
    cloud.fall_ill("cloud2")
    cloud.wait("cloud2", lambda flags, dummy: "powered_down" in flags and "drain" not in flags)
    cloud.machine(new=True)
    cloud.power_up("cloud2")
    assert cloud.look("cloud2") == "leave" and "drain" not in cloud.state("cloud2")[0]
    cloud.forget()


def test_a_drained_machine_can_be_kept_powered_on(cloud):
    """SuspendExcNodes can be changed since Slurm 23.02; an older one says so, and the drain stands all the same."""
    version = cloud.ssh("scontrol --version").stdout.split()[1]
    known = tuple(int(one) for one in version.split(".")[:2]) >= (23, 2)
    assert cloud.node.module(
        "health_gate", without=["profile", "clock_synchronised"], timer=False, proof=False, keep_powered=True
    )["changed"]
    cloud.power_up("cloud3")
    cloud.fall_ill("cloud3")
    time.sleep(100)
    flags = cloud.state("cloud3")[0]
    assert ("drain" in flags and "powered_down" not in flags and "powering_down" not in flags) == known, flags
    if known:
        assert [cloud.look("cloud3") for dummy in range(3)] == ["leave", "leave", "resume"]
        cloud.wait("cloud3", lambda flags, dummy: "powered_down" in flags)
    cloud.node.module(
        "health_gate", without=["profile", "clock_synchronised"], timer=False, proof=False, drained_percent=50
    )
    cloud.forget()


def test_a_drain_that_outlives_its_machine_is_swept(cloud):
    """Without idle_on_node_suspend such a node is never started again."""
    cloud.configure()
    cloud.ssh("scontrol reconfigure")
    cloud.power_up("cloud4")
    cloud.fall_ill("cloud4")
    cloud.ssh("scontrol update NodeName=cloud5 State=DRAIN Reason='anna: new memory'")
    cloud.ssh("scontrol update NodeName=rack1 State=DRAIN Reason='gpu_node: scratch: gone'")
    cloud.wait("cloud4", lambda flags, dummy: "powered_down" in flags)
    flags, reason = cloud.state("cloud4")
    assert "drain" in flags and reason.startswith(REASON)
    planned = cloud.node.module("slurm_sweep", check=True)
    assert planned["changed"] and planned["swept"] == ["cloud4"] and "drain" in cloud.state("cloud4")[0]
    assert cloud.node.module("slurm_sweep")["swept"] == ["cloud4"]
    assert not cloud.node.module("slurm_sweep")["changed"]
    assert cloud.state("cloud5")[1] == "anna: new memory" and "drain" in cloud.state("rack1")[0]
    cloud.machine(new=True)
    cloud.ssh("cd /tmp && runuser -u trainee -- sbatch -w cloud4 -o /dev/null --wrap 'echo ran >/tmp/ran'")
    cloud.wait("cloud4", lambda flags, dummy: cloud.ssh("cat /tmp/ran", check=False).returncode == 0, 180)
    assert cloud.look("cloud4") == "leave" and "drain" not in cloud.state("cloud4")[0]

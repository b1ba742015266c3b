# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory slurm_nodes and the play rolling.yml over a real Slurm in all its states.

Five slurmds run in one guest, each with a name and a port of its own; what is converged is the same machine for all of
them, one at a time. One more node was never started, and one is of a cloud and powered down. The tests build on each
other; a failing one ends the rest of them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import slurm_guest
import yaml
from virtual_machine import remote

pytestmark = pytest.mark.soak

NAMES = ["gpu1", "gpu2", "gpu3", "gpu4", "gpu5"]
SLURM_CONF = (
    slurm_guest.SEVERAL_CONF
    + """SlurmdTimeout=3600
ReturnToService=1
PrivateData=cloud
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=86400
NodeName=DEFAULT CPUs=2 RealMemory=200 Feature=ndv4
NodeName=gpu[1-5] NodeHostname={name} NodeAddr=127.0.0.1 Port=[17001-17005] Gres=gpu:a100:8
NodeName=ghost NodeAddr=127.0.0.1 Port=17009
NodeName=cloud1 State=CLOUD Gres=gpu:a100:8
PartitionName=gpu Nodes=gpu[1-5] Default=YES State=UP
PartitionName=all Nodes=ALL State=UP
"""
)
START = r"""
set -e
echo 'Name=gpu Type=a100 File=/dev/nvidia[0-7]' >/etc/slurm/gres.conf
systemctl start slurmctld
for n in 1 2 3 4 5; do
    systemd-run --quiet --unit=slurmd-gpu$n --property=Delegate=yes slurmd -D -N gpu$n
done
"""
STATES = """
set -e
cd /tmp && runuser -u trainee -- sbatch -w gpu2 -o /dev/null --wrap 'sleep 3600'
scontrol update NodeName=gpu3 State=DRAIN Reason="anna: new memory {{ 1 + 1 }}"
scontrol create reservation ReservationName=talk Nodes=gpu4 Users=root StartTime=now Duration=600
scontrol update NodeName=gpu5 State=DOWN Reason="bad DIMM"
"""
VARIABLES = {"node_profile_name": "virtual", "gpu_node_comm": [], "gpu_node_health_fail_on": "fail"}


class Cluster:
    def __init__(self, node, folder: Path):
        self.node, self.ssh, self.folder = node, node.ssh, folder
        self.left = folder / "left.txt"
        self.failed = None
        (folder / "group_vars").mkdir()
        (folder / "group_vars/gpu_nodes.yml").write_text(yaml.safe_dump(node.node.inventory()))
        self.inventory(command=remote.ssh_command(node.folder, node.name, node.node.state.port, []))

    def inventory(self, **options):
        content = dict({"plugin": "trainyard.gpu_node.slurm_nodes", "timeout": 120, "allow_loopback": True}, **options)
        (self.folder / "test.slurm_nodes.yml").write_text(yaml.safe_dump(content))

    def run(self, program, *words, timeout=1500):
        path = str(Path(sys.executable).parent / program)
        return subprocess.run(
            [path, "-i", str(self.folder / "test.slurm_nodes.yml"), *words],
            env=dict(self.node.ansible_environment(), COLUMNS="10000"),
            cwd=str(self.folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def groups(self):
        done = self.run("ansible-inventory", "--list")
        listed = json.loads(done.stdout, object_hook=lambda one: one.get("__ansible_unsafe", one))
        hosts = listed.pop("_meta")["hostvars"]
        return hosts, {name: sorted(group.get("hosts", [])) for name, group in listed.items()}, done.stderr

    def rolling(self, limit="all", **variables):
        given = dict(VARIABLES, gpu_node_rolling_not_done=str(self.left), gpu_node_rolling_batch=1, **variables)
        play = str(Path(__file__).resolve().parents[2] / "playbooks/rolling.yml")
        return self.run("ansible-playbook", play, "--limit", limit, "-e", json.dumps(given))

    def state(self, name):
        text = self.ssh("scontrol show node " + name).stdout
        reason = re.search(r"^\s*Reason=(.*?)(?: \[[^\]]*\])?$", text, re.MULTILINE)
        return re.search(r"State=(\S+)", text).group(1), reason.group(1) if reason else None

    def wait(self, name, wanted, seconds=120):
        deadline = time.monotonic() + seconds
        while self.state(name)[0] not in wanted:
            assert time.monotonic() < deadline, (self.state(name), self.ssh("tail -n 20 /var/log/slurm/*.log").stdout)
            time.sleep(1)


@pytest.fixture(scope="module")
def cluster(node_factory, tmp_path_factory):
    node = node_factory("rolling")
    node.write("/etc/slurm/slurm.conf", SLURM_CONF.format(name=node.name))
    node.ssh(slurm_guest.PREPARE + slurm_guest.DEVICES + START)
    found = Cluster(node, tmp_path_factory.mktemp("rolling"))
    for name in NAMES:
        found.wait(name, ("IDLE",), 300)
    found.ssh(STATES)
    found.wait("gpu2", ("MIXED", "ALLOCATED"))
    found.wait("gpu4", ("IDLE+RESERVED",))
    yield found
    node.node.down()


@pytest.fixture(autouse=True)
def in_order(request, cluster):
    if cluster.failed:
        pytest.fail("an earlier step failed: {0}".format(cluster.failed))
    yield
    report = getattr(request.node, "rep_call", None)
    if report is not None and report.failed:
        cluster.failed = request.node.name


def test_the_inventory_has_every_state(cluster):
    hosts, groups, told = cluster.groups()
    assert "WARNING" not in told, told
    assert sorted(hosts) == ["cloud1", "ghost", *NAMES]
    assert groups["gpu_nodes"] == groups["slurm_partition_gpu"] == NAMES
    # Nothing is behind a node that is powered down, so nothing connects to it.
    assert groups["slurm_gres_gpu_a100"] == ["cloud1", *NAMES]
    assert groups["slurm_state_idle"] == ["gpu1"]
    assert groups.get("slurm_state_mixed", []) + groups.get("slurm_state_allocated", []) == ["gpu2"]
    assert groups["slurm_state_drained"] == ["gpu3"]
    assert groups["slurm_state_reserved"] == ["gpu4"]
    assert groups["slurm_state_down"] == ["gpu5"]
    assert groups["slurm_state_unknown"] == ["ghost"]
    assert groups["slurm_state_powered_down"] == ["cloud1"]
    assert groups["slurm_feature_ndv4"] == sorted([*NAMES, "ghost", "cloud1"])
    assert hosts["gpu3"]["slurm_node_reason"] == "anna: new memory {{ 1 + 1 }}"
    assert (hosts["gpu1"]["slurm_node_gpus"], hosts["gpu1"]["slurm_node_cpus"]) == (8, 2)
    assert hosts["gpu1"]["slurm_node_boot_time"] > 1600000000 and hosts["gpu1"]["slurm_node_version"]


def test_a_saved_answer_gives_the_same(cluster):
    (cluster.folder / "saved").write_text(cluster.ssh("SLURM_TIME_FORMAT=%s scontrol -a -o show node").stdout)
    before = cluster.groups()[:2]
    options = yaml.safe_load((cluster.folder / "test.slurm_nodes.yml").read_text())
    cluster.inventory(file="saved")
    hosts, groups, told = cluster.groups()
    cluster.inventory(command=options["command"])
    assert not told
    assert {name for name in before[0] if hosts.get(name) != before[0][name]} == set(), (before[0], hosts)
    assert (sorted(hosts), groups) == (sorted(before[0]), before[1])


def test_what_is_loopback_behind_ssh_is_refused(cluster):
    options = yaml.safe_load((cluster.folder / "test.slurm_nodes.yml").read_text())
    cluster.inventory(command=options["command"], allow_loopback=False)
    done = cluster.run("ansible-inventory", "--list")
    assert "is not the node but this machine" in done.stderr and "gpu1" not in done.stdout, done.stderr
    cluster.inventory(command=options["command"])


def test_a_controller_that_does_not_answer_ends_the_run_with_a_sentence(cluster):
    cluster.ssh("systemctl stop slurmctld")
    done = cluster.rolling()
    assert done.returncode == 1 and "PLAY" not in done.stdout
    assert "Unable to contact slurm controller" in done.stderr and "scontrol ping" in done.stderr, done.stderr
    cluster.ssh("systemctl start slurmctld; until scontrol ping | grep -q UP; do sleep 1; done", timeout=120)
    cluster.wait("gpu1", ("IDLE",))
    cluster.wait("gpu2", ("MIXED", "ALLOCATED"))


def test_a_rolling_converge_takes_the_idle_and_leaves_the_others(cluster):
    before = {name: cluster.state(name) for name in NAMES}
    done = cluster.rolling()
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert "5 of 5 nodes: 2 converged, 1 busy, 2 left" in done.stdout
    assert "converged: gpu1, gpu4" in done.stdout
    assert re.search(r"busy, left for later: gpu2: jobs run on it", done.stdout)
    assert re.search(r"left alone: gpu3: .*anna: new memory \{\{ 1 \+ 1 \}\}", done.stdout)
    assert re.search(r"left alone: gpu5: .*bad DIMM", done.stdout)
    # A node that is put back has to answer Slurm first.
    for name, (state, reason) in before.items():
        cluster.wait(name, (state,))
        assert cluster.state(name) == (state, reason)
    assert cluster.left.read_text().split() == ["gpu2", "gpu3", "gpu5"]
    log = cluster.ssh("cat /var/log/slurm/slurmctld.log").stdout
    drained = re.findall(r"node (\w+) reason set to: gpu_node: rolling: being converged (\(run [0-9a-f]{8}\))", log)
    assert sorted({name for name, dummy in drained}) == ["gpu1", "gpu4"]
    assert len({run for dummy, run in drained}) == 1
    assert cluster.ssh("findmnt -no FSTYPE /mnt/resource_nvme").stdout.strip() == "xfs"


def test_a_node_that_is_not_well_stays_drained_no_batch_begins_after_it_and_it_comes_back_when_it_is(cluster):
    cluster.ssh("nvml-simulator fault gpu 3 lost")
    done = cluster.rolling("gpu1,gpu4", gpu_node_rolling_failures=0)
    assert done.returncode == 2, done.stdout[-6000:]
    state, reason = cluster.state("gpu1")
    assert state == "IDLE+DRAIN" and reason.startswith("gpu_node: rolling: failed: "), reason
    assert "1 of 2 nodes: 1 failed, 1 not begun" in done.stdout and "not begun: gpu4" in done.stdout
    assert cluster.state("gpu4") == ("IDLE+RESERVED", None)
    assert cluster.left.read_text().split() == ["gpu1", "gpu4"]
    # Neither the hook nor anybody else puts it back.
    cluster.ssh("gpunode hook resume --node gpu1", check=False)
    assert cluster.state("gpu1") == (state, reason)
    cluster.ssh("nvml-simulator clear")
    again = cluster.rolling("@{0}".format(cluster.left))
    assert again.returncode == 0, again.stdout[-6000:]
    cluster.wait("gpu1", ("IDLE",))
    assert cluster.state("gpu1") == ("IDLE", None) and not cluster.left.exists()


def test_jobs_are_waited_for_behind_a_drain(cluster):
    cluster.ssh("(sleep 45; scancel --user=trainee) >/dev/null 2>&1 &")
    done = cluster.rolling("gpu2", gpu_node_rolling_wait_minutes=10)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "1 of 1 nodes: 1 converged" in done.stdout
    cluster.wait("gpu2", ("IDLE",))


def test_a_busy_node_that_stays_drained_waits_for_any_run(cluster):
    cluster.ssh("cd /tmp && runuser -u trainee -- sbatch -w gpu2 -o /dev/null --wrap 'sleep 3600'")
    cluster.wait("gpu2", ("MIXED", "ALLOCATED"))
    done = cluster.rolling("gpu2,gpu4", gpu_node_rolling_busy="drain")
    assert done.returncode == 0, done.stdout[-6000:]
    assert "stopped: 1 nodes are drained and wait (for jobs, a reboot or slurmd)" in done.stdout
    assert "not begun: gpu4" in done.stdout
    assert cluster.state("gpu2")[1] == "gpu_node: rolling: waits for its jobs"
    cluster.ssh("scancel --user=trainee")
    cluster.wait("gpu2", ("IDLE+DRAIN",))
    again = cluster.rolling("gpu2")
    assert again.returncode == 0 and "1 of 1 nodes: 1 converged" in again.stdout, again.stdout[-6000:]
    cluster.wait("gpu2", ("IDLE",))


def test_a_node_of_a_run_that_was_cut_off_is_taken_over_when_that_is_asked(cluster):
    reason = "gpu_node: rolling: being converged (run 0badcafe)"
    cluster.ssh("scontrol update NodeName=gpu1 State=DRAIN Reason='{0}'".format(reason))
    cluster.wait("gpu1", ("IDLE+DRAIN",))
    done = cluster.rolling("gpu1")
    assert done.returncode == 0, done.stdout[-6000:]
    assert "gpu1: another run (0badcafe) took it out of service" in done.stdout
    assert cluster.state("gpu1") == ("IDLE+DRAIN", reason)
    again = cluster.rolling("gpu1", gpu_node_rolling_take_over=True)
    assert again.returncode == 0 and "1 of 1 nodes: 1 converged" in again.stdout, again.stdout[-6000:]
    cluster.wait("gpu1", ("IDLE",))
    assert cluster.state("gpu1") == ("IDLE", None)


def test_what_somebody_drained_is_converged_when_that_is_asked_and_stays_drained(cluster):
    done = cluster.rolling("gpu3,gpu5", gpu_node_rolling_others=True)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "converged: gpu3: stays out of service" in done.stdout
    assert cluster.state("gpu3") == ("IDLE+DRAIN", "anna: new memory {{ 1 + 1 }}")
    # It was held by our drain meanwhile.
    log = cluster.ssh("cat /var/log/slurm/slurmctld.log").stdout
    assert re.search(r"gpu3 reason set to: gpu_node: rolling: .* \(run \w+\); before: anna: new memory", log)
    # This one could return in the middle.
    assert re.search(r"left alone: gpu5: slurmd does not answer, .*bad DIMM", done.stdout)
    assert cluster.state("gpu5") == ("DOWN", "bad DIMM")

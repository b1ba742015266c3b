# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG instances and shards that real Slurm gives to jobs, with its own cgroups: 22.05 on Debian 12, 24.11 on Debian 13.

The driver is simulated, with its folder of capabilities; no kernel module is behind the device files, so that opening
one ends with ENXIO, and with EPERM where Slurm's rules for devices forbid it. That is how a job's instance is told.
The tests build on each other.
"""

from __future__ import annotations

import concurrent.futures
import json
import re
import shlex
import time

import pytest
import slurm_guest

PREFIX = "gpu_node: "
SLURM_CONF = (
    """ClusterName=virtual
SlurmctldHost={name}(127.0.0.1)
"""
    + slurm_guest.DAEMONS
    + """ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
GresTypes={types}
MessageTimeout=100
NodeName={name} NodeAddr=127.0.0.1 CPUs=4 RealMemory=500 Gres={gres}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
)
CGROUP_CONF = "CgroupMountpoint=/sys/fs/cgroup\nIgnoreSystemd=yes\nConstrainDevices=yes\n"
# What NVIDIA's kernel module has in /proc, at each boot, before anything that needs it.
DRIVER = """[Unit]
Before=gpu-node-mig_layout.service slurmd.service
After=virtual-node-gpus.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'mount -t tmpfs tmpfs /proc/driver; mkdir -p /proc/driver/nvidia/capabilities; \\
 { cat /proc/devices; echo "240 nvidia-caps"; } >/run/devices; mount --bind /run/devices /proc/devices; \\
 for n in 0 1; do mknod -m 666 /dev/nvidia$n c 195 $n; done'
[Install]
WantedBy=multi-user.target
"""
# What a job may open, and a sign of life until it may end.
JOB = """#!/bin/sh
for file in /dev/nvidia[0-9] /dev/nvidia-caps/*; do
    python3 -c 'import errno, os, sys
try:
    os.open(sys.argv[1], os.O_RDONLY)
except OSError as error:
    print(sys.argv[1], errno.errorcode[error.errno])' $file
done
echo CUDA $CUDA_VISIBLE_DEVICES
echo ready
while [ ! -e /run/go ]; do sleep 0.5; done
"""
THREES = {"gpus": ["0"], "instances": [{"profile": "3g", "count": 2}]}


class Cluster:
    def __init__(self, node):
        self.node, self.ssh = node, node.ssh
        # An older Slurm cannot have both shards and MIG instances.
        self.newer = int(self.ssh("slurmd -V").stdout.split()[1].split(".")[0]) >= 23
        self.types = "gpu,shard" if self.newer else "gpu"

    def declare(self, layouts, shards=0, state="present"):
        """One converge of layouts and Slurm's files; its result."""
        options = {
            "mig_layout": {"layouts": layouts, "state": state},
            "slurm_hooks": {"shards_per_gpu": shards, "job_folder": False},
        }
        self.node.write("/root/declaration.json", json.dumps(options))
        done = self.ssh(
            "gpunode converge --json --only mig_layout --only slurm_hooks --declaration /root/declaration.json",
            check=False,
        )
        return done

    def write_conf(self, gres, types):
        self.node.write("/etc/slurm/slurm.conf", SLURM_CONF.format(name=self.node.name, gres=gres, types=types))

    def configure(self, gres, types=None):
        self.write_conf(gres, types or self.types)
        self.ssh("systemctl restart slurmctld slurmd", timeout=300)
        self.wait_for("State=IDLE ")

    def show(self):
        return self.ssh("scontrol show node " + self.node.name, check=False).stdout

    def rolling(self, **variables):
        given = {
            "node_profile_name": "virtual",
            "slurm_hooks_job_folder": False,
            "gpu_node_rolling_wait_minutes": 15,
            "gpu_node_health_fail_on": "never",  # of the virtual machine's eight disks this one has none
        }
        words = [
            "playbooks/rolling.yml",
            "--tags",
            "mig_layout,slurm_hooks",
            "-e",
            json.dumps(dict(given, **variables)),
        ]
        return self.node.ansible(words, check=False)

    def wait_for(self, text, play=None, seconds=120):
        deadline = time.monotonic() + seconds
        while text not in self.show():
            if play and play.done():
                pytest.fail(play.result().stdout + play.result().stderr)
            if time.monotonic() > deadline:
                logs = "tail -n 30 /var/log/slurm/*.log; journalctl -b -n 40 -u slurmd -u 'gpu-node*'"
                pytest.fail(self.show() + self.ssh(logs, check=False).stdout)
            time.sleep(1)

    def submit(self, gres):
        done = self.ssh(
            "cd /tmp && runuser -u trainee -- sbatch --parsable -n1 --output=/tmp/out-%j --gres={0} /srv/job.sh".format(
                shlex.quote(gres)
            )
        )
        return done.stdout.strip()

    def output(self, job, seconds=90):
        deadline = time.monotonic() + seconds
        while True:
            text = self.ssh("cat /tmp/out-{0} 2>/dev/null; true".format(job)).stdout
            if "ready" in text:
                return text
            assert time.monotonic() < deadline, self.ssh(
                "squeue; tail -n 20 /var/log/slurm/*.log; cat /tmp/out-{0}".format(job), check=False
            ).stdout
            time.sleep(1)

    def named(self):
        return set(re.findall(r"/dev/[\w/-]+", self.ssh("cat /etc/slurm/gres.conf").stdout))

    def open_to(self, job):
        """Of the files that gres.conf names: those of ended instances stay, and the driver opens none of them."""
        return self.named() & set(re.findall(r"^(\S+) ENXIO$", self.output(job), re.MULTILINE))

    def state_of(self, job):
        return self.ssh("squeue --noheader --format=%T --job={0}".format(job), check=False).stdout.strip()

    def end_jobs(self):
        self.ssh(
            'touch /run/go; for n in $(seq 60); do [ -z "$(squeue --noheader)" ] && break; sleep 1; done; rm /run/go'
        )


@pytest.fixture(scope="module")
def cluster(node_factory):
    node = node_factory("mig", cpus=4, gpus=2, nvme_count=0)
    node.ssh(slurm_guest.PREPARE)
    node.write("/etc/systemd/system/virtual-node-mig.service", DRIVER)
    node.write("/srv/job.sh", JOB, "0755")
    node.write("/etc/slurm/cgroup.conf", CGROUP_CONF)
    node.ssh("systemctl enable --now virtual-node-mig.service")
    node.ssh(
        "nvml-simulator set driver.capabilities /proc/driver/nvidia/capabilities; nvml-simulator set gpu.0.mig_mode 1"
    )
    node.module("node_runtime")
    found = Cluster(node)
    found.write_conf("gpu:2", "gpu,shard")
    yield found
    node.node.down()


def told_gres(text):
    found = re.findall(r"has Gres=(\S+) for \S+, which is Gres=(\S+): write that there", text)
    return found[-1][1] if found else None


def test_two_jobs_get_instances_of_their_own(cluster):
    done = cluster.declare([THREES], shards=2)
    assert done.returncode == 0, done.stdout + done.stderr
    if not cluster.newer:
        assert "with shard in GresTypes= this slurmd takes each device file of a MIG instance for a GPU" in done.stdout
        cluster.write_conf("gpu:2", "gpu")
        done = cluster.declare([THREES], shards=2)
        assert "takes each device file of a MIG instance for a GPU, so no shards are written" in done.stdout
    wanted = told_gres(done.stdout)
    assert wanted == "gpu:a100_3g.20gb:2,gpu:a100:1" + (",shard:2" if cluster.newer else ""), done.stdout
    cluster.configure(wanted)
    told = cluster.ssh("slurmd -G 2>&1").stdout
    assert len(re.findall(r"Name=gpu Type=a100_3g.20gb .*File=/dev/nvidia0,/dev/nvidia-caps", told)) == 2, told
    again = cluster.declare([THREES], shards=2)
    assert again.returncode == 0 and told_gres(again.stdout) is None and "ConstrainDevices" not in again.stdout
    first, second = (cluster.submit("gpu:a100_3g.20gb:1") for dummy in range(2))
    third, whole = cluster.submit("gpu:a100_3g.20gb:1"), cluster.submit("gpu:a100:1")
    one, other, all_of_it = cluster.open_to(first), cluster.open_to(second), cluster.open_to(whole)
    assert len(one) == len(other) == 3 and one & other == {"/dev/nvidia0"}, (one, other)
    assert all_of_it == {"/dev/nvidia1"}
    assert cluster.state_of(third) == "PENDING"
    for job in (first, second):
        assert "CUDA 0\n" in cluster.output(job)  # of what it can open, the first
    cluster.end_jobs()


def test_a_layout_change_waits_for_the_job_that_has_an_instance_and_ends_nothing(cluster):
    job = cluster.submit("gpu:a100_3g.20gb:1")
    cluster.output(job)
    new = {"gpus": ["0"], "instances": [{"profile": "7g"}]}
    # It has not computed yet.
    refused = cluster.declare([new], shards=2)
    told = refused.stdout + refused.stderr
    assert refused.returncode != 0 and "end job {0}, or ask for".format(job) in told, told
    pid = cluster.ssh("scontrol listpids {0} | awk 'NR == 2 {{ print $1 }}'".format(job)).stdout.strip()
    cluster.ssh("nvml-simulator process add 0 {0} 1024 1 0".format(pid))
    refused = cluster.declare([new], shards=2)
    assert refused.returncode != 0 and "of job {0}".format(job) in refused.stdout + refused.stderr, refused.stdout
    assert cluster.state_of(job) == "RUNNING" and "3g.20gb" in cluster.ssh("cat /etc/slurm/gres.conf").stdout
    cluster.end_jobs()
    cluster.ssh("nvml-simulator process remove 0 {0}".format(pid))
    done = cluster.declare([new], shards=2)
    assert done.returncode == 0, done.stdout
    wanted = told_gres(done.stdout)
    assert wanted is not None and wanted.startswith("gpu:a100_7g.40gb:1,gpu:a100:1")
    cluster.configure(wanted)
    job = cluster.submit("gpu:a100_7g.40gb:1")
    assert len(cluster.open_to(job)) == 3
    cluster.end_jobs()


def test_rolling_waits_for_the_job_and_gives_slurm_the_new_instances(cluster):
    job = cluster.submit("gpu:a100_7g.40gb:1")
    cluster.output(job)
    # What an operator does first; nobody reads it until the play has Slurm do so.
    cluster.write_conf("gpu:a100_3g.20gb:2,gpu:a100:1", cluster.types)
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        play = beside.submit(cluster.rolling, mig_layout_layouts=[THREES], slurm_hooks_reconfigure=True)
        cluster.wait_for("Reason=gpu_node: rolling: ", play)
        assert cluster.state_of(job) == "RUNNING" and "7g.40gb" in cluster.ssh("cat /etc/slurm/gres.conf").stdout
        cluster.end_jobs()
        done = play.result()
    assert done.returncode == 0 and "1 of 1 nodes: 1 converged" in done.stdout, done.stdout[-6000:] + done.stderr
    assert "which is Gres=" not in done.stdout, done.stdout[-6000:]
    if not cluster.newer:
        # "Attempt to change gres/gpu Count on node mig from 2 to 3 invalid with File configuration"
        cluster.ssh("systemctl restart slurmctld")
    cluster.wait_for("Gres=gpu:a100_3g.20gb:2")
    cluster.wait_for("State=IDLE ")
    jobs = [cluster.submit("gpu:a100_3g.20gb:1") for dummy in range(2)]
    first, second = (cluster.open_to(one) for one in jobs)
    assert len(first) == len(second) == 3 and first & second == {"/dev/nvidia0"}, (first, second)
    cluster.end_jobs()


def test_rolling_keeps_a_node_drained_while_slurm_goes_by_its_old_gpus(cluster):
    """A restart or reconfigure would set the node INVALID_REG: slurm.conf still has more GPUs than gres.conf."""
    wish = {"mig_layout_layouts": [{"gpus": ["0"], "instances": [{"profile": "7g"}]}], "slurm_hooks_reconfigure": True}
    before = cluster.ssh("systemctl show -p MainPID slurmd").stdout
    done = cluster.rolling(**wish)
    assert done.returncode == 0 and "1 of 1 nodes: 1 waits for slurmd" in done.stdout, done.stdout[-6000:] + done.stderr
    told = cluster.show()
    assert re.search(r"State=\S*DRAIN", told) and "Reason=gpu_node: rolling: waits for slurmd" in told, told
    assert cluster.ssh("systemctl show -p MainPID slurmd").stdout == before
    # What the run asks for: the new Gres=, and a restart of slurmctld and slurmd.
    cluster.write_conf("gpu:a100_7g.40gb:1,gpu:a100:1", cluster.types)
    cluster.ssh("systemctl restart slurmctld slurmd", timeout=300)
    cluster.wait_for("Gres=gpu:a100_7g.40gb:1")
    done = cluster.rolling(**wish)
    assert done.returncode == 0 and "1 of 1 nodes: 1 converged" in done.stdout, done.stdout[-6000:] + done.stderr
    cluster.wait_for("State=IDLE ")
    job = cluster.submit("gpu:a100_7g.40gb:1")
    assert len(cluster.open_to(job)) == 3
    cluster.end_jobs()


@pytest.mark.soak
def test_after_a_boot_slurmd_finds_the_device_files(cluster):
    done = cluster.declare([THREES])
    assert done.returncode == 0, done.stdout
    cluster.configure(told_gres(done.stdout))
    cluster.ssh("systemctl enable slurmctld slurmd munge")
    files = cluster.named()
    cluster.node.reboot()
    assert cluster.named() == files and len(files) == 6
    cluster.ssh("ls " + " ".join(sorted(files)))
    cluster.wait_for("State=IDLE ")
    assert "gpu:a100_3g.20gb:2" in cluster.show()


def test_shards_of_a_whole_gpu_are_shared_by_jobs(cluster):
    """The last test: slurmctld 24.11.5 does not start with jobs in its memory that had shards, if Gres= has none."""
    done = cluster.declare([], state="default")
    assert done.returncode == 0, done.stdout
    cluster.ssh("nvml-simulator set gpu.0.mig_mode 0")
    done = cluster.declare([], shards=2)
    wanted = told_gres(done.stdout)
    assert wanted == "gpu:2,shard:4", done.stdout
    assert cluster.newer or "has no shard in GresTypes=" in done.stdout
    cluster.configure(wanted, "gpu,shard")
    jobs = [cluster.submit("shard:1") for dummy in range(4)]
    opened = [tuple(sorted(cluster.open_to(job))) for job in jobs]
    assert {one: opened.count(one) for one in opened} == {("/dev/nvidia0",): 2, ("/dev/nvidia1",): 2}
    fifth = cluster.submit("shard:1")
    time.sleep(3)
    assert cluster.state_of(fifth) == "PENDING"
    cluster.end_jobs()

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real Slurm, real Open MPI and real lstopo on one node with eight cores and eight simulated GPUs.

slurmctld, slurmd and munge run in the guest. The stand-ins for GPUs have no driver, so their device files are made
here with mknod: slurmd wants them to exist and never opens them.
"""

from __future__ import annotations

import json
import re
import shlex
import time

import pytest
import slurm_guest

# In each test run tests/real_slurm has the gate, the leases and gres.conf, and test_bundle.py a job and its scratch.
pytestmark = pytest.mark.soak
SCRATCH = "/mnt/resource_nvme"
PREFIX = "gpu_node: "
IDLE, MAXIMUM = 210, 1410  # MHz of a simulated A100 without a lock, and at most
# The GPU to NUMA vector of ND96asr_v4, with two cores a NUMA node.
CORES = ["2-3", "2-3", "0-1", "0-1", "6-7", "6-7", "4-5", "4-5"]
SLURM_CONF = (
    """ClusterName=virtual
SlurmctldHost={name}(127.0.0.1)
"""
    + slurm_guest.DAEMONS
    + """ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
GresTypes=gpu
Prolog=/etc/slurm/prolog.d/*
Epilog=/etc/slurm/epilog.d/*
PrologFlags=Alloc
SchedulerParameters=nohold_on_prolog_fail
NodeName={name} NodeAddr=127.0.0.1 CPUs=8 Sockets=4 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=2000 Gres=gpu:8
PartitionName=all Nodes=ALL Default=YES State=UP
"""
)
# One run of Ansible for the whole set-up: its start costs more than a task.
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - trainyard.gpu_node.node_runtime:
    - trainyard.gpu_node.nvme_scratch:
        serials: [TYSCRATCH0, TYSCRATCH1]
        boot_unit: false
    - trainyard.gpu_node.gpu_settings:
        persistence: true
        persistenced: false
        clocks: default
        boot_unit: false
    - trainyard.gpu_node.slurm_hooks:
      register: made
    - ansible.builtin.assert:
        that: [made.prolog_reached, made.epilog_reached]
    - trainyard.gpu_node.slurm_hooks:
      register: again
    - ansible.builtin.assert:
        that: [not again.changed]
"""


class Cluster:
    """The node as a user of Slurm and its administrator see it."""

    def __init__(self, node):
        self.node = node
        self.ssh = node.ssh

    def run(self, command, options="", check=True, timeout=120):
        """srun as a user; ``command`` is a shell script."""
        words = "cd /tmp && runuser -u trainee -- timeout {0} srun {1} sh -c {2}"
        return self.ssh(words.format(timeout, options, shlex.quote(command)), check=check, timeout=timeout + 60)

    def state(self):
        text = self.ssh("scontrol show node {0}".format(self.node.name)).stdout
        reason = re.search(r"^\s*Reason=(.*?)(?: \[[^\]]*\])?$", text, re.MULTILINE)
        return re.search(r"State=(\S+)", text).group(1), reason.group(1) if reason else None

    def wait(self, wanted, seconds=90):
        """Until the state of the node is one of ``wanted``."""
        deadline = time.monotonic() + seconds
        while True:
            state, reason = self.state()
            if state in wanted:
                return reason
            assert time.monotonic() < deadline, "{0} ({1}) instead of {2}\n{3}".format(
                state, reason, wanted, self.ssh("tail -n 30 /var/log/slurm/*.log").stdout
            )
            time.sleep(1)

    def clocks(self):
        gpus = json.loads(self.ssh("gpunode clocks list --json").stdout)["gpus"]
        return [gpu["graphics"]["now_mhz"] for gpu in sorted(gpus, key=lambda gpu: gpu["index"])]

    def cancel_all(self):
        self.ssh("scancel --user=trainee; true")
        self.wait(("IDLE", "IDLE+DRAIN"))


@pytest.fixture(scope="module")
def cluster(node_factory, tmp_path_factory):
    node = node_factory("slurm", cpus=8, nvme_count=2)
    node.ssh(slurm_guest.PREPARE + slurm_guest.DEVICES)
    node.write("/etc/slurm/slurm.conf", SLURM_CONF.format(name=node.name))
    node.write("/etc/slurm/cgroup.conf", slurm_guest.CGROUP_CONF)
    play = tmp_path_factory.mktemp("slurm") / "play.yml"
    play.write_text(PLAY)
    node.ansible(play)
    node.ssh("systemctl start slurmctld slurmd", timeout=300)
    found = Cluster(node)
    found.wait(("IDLE",))
    yield found
    node.node.down()


@pytest.fixture(autouse=True)
def in_service(cluster):
    yield
    cluster.ssh("mountpoint -q {0} || gpunode apply nvme_scratch; rm -f /etc/slurm/prolog.d/50-site".format(SCRATCH))
    cluster.cancel_all()
    if "DRAIN" in cluster.state()[0]:
        cluster.ssh("scontrol update NodeName={0} State=RESUME".format(cluster.node.name))
    cluster.wait(("IDLE",))


def test_slurmd_takes_gres_conf_with_the_cores_of_each_gpu(cluster):
    assert "Gres=gpu:8" in cluster.ssh("scontrol show node {0}".format(cluster.node.name)).stdout
    told = cluster.ssh("slurmd -G 2>&1").stdout
    found = dict(re.findall(r"File=/dev/nvidia(\d) Cores=(\S+)", told))
    assert [found[str(gpu)] for gpu in range(8)] == CORES, told
    assert "error" not in cluster.ssh("grep -i gres /var/log/slurm/slurmd.log || true").stdout


def test_a_job_has_its_clocks_and_its_folder_and_leaves_nothing(cluster):
    script = "cd {0}/jobs/$SLURM_JOB_ID && stat -c '%U %a' . && touch written && gpunode clocks list --json".format(
        SCRATCH
    )
    owner, dummy, told = cluster.run("exec 2>&1; " + script, "--gres=gpu:2").stdout.partition("\n")
    assert owner == "trainee 700"
    clocks = [gpu["graphics"]["now_mhz"] for gpu in json.loads(told)["gpus"]]
    assert sorted(clocks) == [IDLE] * 6 + [MAXIMUM] * 2
    cluster.wait(("IDLE",))
    assert cluster.clocks() == [IDLE] * 8
    assert cluster.ssh("ls {0}/jobs".format(SCRATCH)).stdout == ""
    assert cluster.ssh("ls /run/gpu_node/jobs").stdout == ""


def test_the_clocks_that_go_up_are_those_of_the_gpu_that_slurm_gave(cluster):
    """SLURM_JOB_GPUS has places in gres.conf, here from the last device file to the first."""
    lines = "".join("Name=gpu File=/dev/nvidia{0}\n".format(gpu) for gpu in range(7, -1, -1))
    cluster.ssh("cp -p /etc/slurm/gres.conf /root/gres.conf")
    # What slurmd tells a prolog; the variables of a job are others.
    script = "#!/bin/sh\necho $SLURM_JOB_GPUS $SLURM_CONF >/root/told\n"
    cluster.node.write("/etc/slurm/prolog.d/50-site", script, "0755")
    try:
        cluster.ssh("printf '{0}' >/etc/slurm/gres.conf && systemctl restart slurmd".format(lines), timeout=120)
        cluster.wait(("IDLE",))
        done = cluster.run("gpunode clocks list --json", "--gres=gpu:1").stdout
        position, conf = cluster.ssh("cat /root/told").stdout.split()
        assert conf == "/etc/slurm/slurm.conf"
        clocks = {gpu["index"]: gpu["graphics"]["now_mhz"] for gpu in json.loads(done)["gpus"]}
        assert [gpu for gpu, clock in clocks.items() if clock == MAXIMUM] == [7 - int(position)], done
        cluster.wait(("IDLE",))
        assert cluster.clocks() == [IDLE] * 8
    finally:
        cluster.ssh("cp -p /root/gres.conf /etc/slurm/gres.conf && systemctl restart slurmd", timeout=120)
        cluster.wait(("IDLE",))


def test_a_users_folder_in_the_place_of_that_of_all_jobs_is_moved_aside(cluster):
    cluster.ssh("rm -rf {0}/jobs && chmod 1777 {0}".format(SCRATCH))
    cluster.ssh(
        "runuser -u nobody -- sh -c 'mkdir -p -m 777 {0}/jobs && echo planted >{0}/jobs/planted'".format(SCRATCH)
    )
    told = cluster.run("stat -c '%U %a' {0}/jobs {0}/jobs/$SLURM_JOB_ID".format(SCRATCH)).stdout.splitlines()
    assert told == ["root 711", "trainee 700"]
    cluster.wait(("IDLE",))
    assert cluster.ssh("cat {0}/jobs.moved-aside-*/planted".format(SCRATCH)).stdout == "planted\n"
    cluster.ssh("rm -rf {0}/jobs.moved-aside-*".format(SCRATCH))


def test_two_jobs_with_different_gpus_do_not_undo_each_others_clocks(cluster):
    for gpus in (2, 3):
        cluster.ssh(
            "cd /tmp && runuser -u trainee -- sbatch -Q -n 1 --gres=gpu:{0} -o /dev/null --wrap 'sleep 300'".format(
                gpus
            )
        )
    deadline = time.monotonic() + 90
    while cluster.clocks().count(MAXIMUM) != 5:
        assert time.monotonic() < deadline, cluster.clocks()
        time.sleep(1)
    jobs = cluster.ssh("squeue -h -o '%i %b' | sort").stdout.split("\n")
    first = jobs[0].split()[0]
    cluster.ssh("scancel {0}".format(first))
    deadline = time.monotonic() + 90
    while cluster.ssh("ls /run/gpu_node/jobs").stdout.count(".json") != 1:
        assert time.monotonic() < deadline
        time.sleep(1)
    clocks = cluster.clocks()
    assert clocks.count(MAXIMUM) == 3 and clocks.count(IDLE) == 5, clocks
    cluster.cancel_all()
    cluster.ssh("while ls /run/gpu_node/jobs/*.json 2>/dev/null; do sleep 1; done", timeout=90)
    assert cluster.clocks() == [IDLE] * 8


def test_the_metrics_know_who_has_which_gpu_and_leave_a_profiler_its_counters(cluster):
    """By what this slurmd tells its prolog: the GPUs, and the words of the user in the comment."""
    assert cluster.node.module("gpu_metrics", source="nvml", textfile="/run/gpus.prom", interval_seconds=3600)[
        "changed"
    ]
    submit = "cd /tmp && runuser -u trainee -- sbatch --parsable -n 1 --gres=gpu:{0} --comment '{1}' -o /dev/null "
    submit += "--wrap 'sleep 300'"
    first = cluster.ssh(submit.format(2, "a plain run")).stdout.strip()
    second = cluster.ssh(submit.format(3, "for profiling, please")).stdout.strip()
    told = "cd /run/gpu_node/gpu_jobs 2>/dev/null && grep -H . * || true"
    deadline = time.monotonic() + 90
    while len(cluster.ssh(told).stdout.split()) != 5:
        assert time.monotonic() < deadline, cluster.ssh(told + "; journalctl -t gpu_node --no-pager | tail -20").stdout
        time.sleep(1)
    have = dict(line.split(":") for line in cluster.ssh(told).stdout.split())
    assert sorted(have.values()) == sorted([first] * 2 + [second] * 3)
    # The same GPUs as those whose clocks were raised.
    assert [number for number, clock in enumerate(cluster.clocks()) if clock == MAXIMUM] == sorted(map(int, have))
    assert cluster.ssh("ls /run/gpu_node/profiling").stdout.split() == [second]
    seen = cluster.ssh("gpunode metrics --activity 0.1").stdout
    assert seen.count('hpc_job="{0}"'.format(first)) == 2 and "gpu_node_metrics_profiled_jobs 1" in seen
    cluster.cancel_all()
    cluster.ssh("while ls /run/gpu_node/jobs/*.json 2>/dev/null; do sleep 1; done", timeout=90)
    assert cluster.ssh(told + "; ls /run/gpu_node/profiling").stdout.strip() == ""
    assert cluster.node.module("gpu_metrics", state="absent")["changed"]


def test_without_scratch_the_node_is_drained_by_us_and_resumed_by_us_alone(cluster):
    name = cluster.node.name
    # A script of the site, which must not run where the scratch is missing; Slurm would take it before "00".
    cluster.node.write("/etc/slurm/prolog.d/50-site", "#!/bin/sh\necho $SLURM_JOB_ID >>/root/site_ran\n", "0755")
    cluster.run("true")
    cluster.wait(("IDLE",))
    cluster.ssh("rm /root/site_ran; umount {0}".format(SCRATCH))
    cluster.run("true", "--gres=gpu:1 --immediate=20", check=False, timeout=60)
    reason = cluster.wait(("IDLE+DRAIN",))
    assert reason == PREFIX + "scratch {0}: it is not mounted".format(SCRATCH)
    assert cluster.ssh("ls /root/site_ran", check=False).returncode != 0
    cluster.cancel_all()

    done = cluster.ssh("gpunode hook resume", check=False)
    assert done.returncode == 1 and "it is not mounted" in done.stderr
    assert cluster.state() == ("IDLE+DRAIN", reason)

    cluster.ssh("gpunode apply nvme_scratch")
    assert "resumed" in cluster.ssh("gpunode hook resume").stdout
    assert cluster.wait(("IDLE",)) is None

    cluster.ssh("scontrol update NodeName={0} State=DRAIN Reason='bad DIMM'".format(name))
    assert "left as it is" in cluster.ssh("gpunode hook resume").stdout
    assert cluster.state() == ("IDLE+DRAIN", "bad DIMM")


def test_what_a_job_leaves_on_its_gpu_is_ended(cluster):
    # Started outside of Slurm, as by a user who signed in with ssh: no cgroup of a job, and on the GPU of the job.
    cluster.ssh("runuser -u trainee -- sh -c 'sleep 600 >/dev/null 2>&1 & echo $! >/tmp/left_behind'")
    pid = cluster.ssh("cat /tmp/left_behind").stdout.strip()
    cluster.ssh("nvml-simulator process add 5 {0} 512".format(pid))
    cluster.run("true", "--gres=gpu:8")
    cluster.wait(("IDLE",))
    cluster.ssh("while test -d /proc/{0}; do sleep 1; done".format(pid), timeout=60)
    cluster.ssh("nvml-simulator process remove 5 {0}".format(pid))
    assert "process {0} (sleep)".format(pid) in cluster.ssh("journalctl -t gpu_node --no-pager").stdout


# Real launchers ---------------------------------------------------------------------------------------

AFFINITY = 'python3 -c \'import os; print("rank", os.environ["{0}"], *sorted(os.sched_getaffinity(0)))\''


def placement(cluster, launcher, *options):
    words = "cd /tmp && gpunode pin --ranks 8 --launcher {0} --json {1}".format(launcher, " ".join(options))
    return json.loads(cluster.ssh(words).stdout)


def by_rank(text):
    found = re.findall(r"^rank (\d+) ([\d ]+)$", text, re.MULTILINE)
    return {int(rank): [int(cpu) for cpu in cpus.split()] for rank, cpus in found}


def wanted(content):
    return {rank["index"]: list(rank["cpus"]) for rank in content["ranks"]}


@pytest.mark.parametrize("bind", ["core", "numa"])
def test_srun_puts_each_rank_where_the_placement_has_it(cluster, bind):
    content = placement(cluster, "srun", "--bind", bind)
    launcher = content["launcher"]
    options = " ".join(shlex.quote(word) for word in [*launcher["count"], *launcher["arguments"]])
    done = cluster.run(AFFINITY.format("SLURM_LOCALID"), "--exclusive --gres=gpu:8 " + options)
    assert by_rank(done.stdout) == wanted(content), done.stdout + done.stderr
    cluster.wait(("IDLE",))


@pytest.mark.parametrize("asked", ["--ntasks=1", "--ntasks=1 --hint=nomultithread"])
def test_srun_starts_all_ranks_in_a_job_that_asked_for_one_task(cluster, asked):
    content = placement(cluster, "srun")
    launcher = content["launcher"]
    options = " ".join(shlex.quote(word) for word in [*launcher["count"], *launcher["arguments"]])
    cluster.node.write(
        "/tmp/one_task.sh", "#!/bin/bash\nsrun {0} {1}\n".format(options, AFFINITY.format("SLURM_LOCALID"))
    )
    submit = "sbatch --wait --exclusive --gres=gpu:8 --output=/tmp/one_task.out {0} /tmp/one_task.sh".format(asked)
    done = cluster.ssh(
        "rm -f /tmp/one_task.out; cd /tmp && runuser -u trainee -- {0}; cat /tmp/one_task.out".format(submit)
    )
    assert by_rank(done.stdout) == wanted(content), done.stdout + done.stderr
    cluster.wait(("IDLE",))


@pytest.mark.parametrize("bind", ["core", "numa"])
def test_open_mpi_puts_each_rank_where_the_placement_has_it(cluster, bind):
    content = placement(cluster, "openmpi", "--bind", bind)
    launcher = content["launcher"]
    for file in launcher["files"]:
        cluster.node.write("/tmp/" + file["name"], file["text"])
    environment = " ".join("{0}={1}".format(name, shlex.quote(value)) for name, value in launcher["environment"])
    options = " ".join(shlex.quote(word) for word in [*launcher["count"], *launcher["arguments"]])
    program = AFFINITY.format("OMPI_COMM_WORLD_LOCAL_RANK")
    done = cluster.ssh(
        "cd /tmp && runuser -u trainee -- env {0} mpirun {1} {2}".format(environment, options, program), timeout=300
    )
    assert by_rank(done.stdout) == wanted(content), done.stdout + done.stderr


def test_pin_check_passes_a_good_job_and_finds_the_rank_that_was_moved(cluster):
    content = placement(cluster, "openmpi")
    launcher = content["launcher"]
    for file in launcher["files"]:
        cluster.node.write("/tmp/" + file["name"], file["text"])
    cluster.node.write("/tmp/solver.py", "import time\n\ntime.sleep(900)\n")
    environment = " ".join("{0}={1}".format(name, shlex.quote(value)) for name, value in launcher["environment"])
    options = " ".join(shlex.quote(word) for word in [*launcher["count"], *launcher["arguments"]])
    cluster.ssh(
        "cd /tmp && (runuser -u trainee -- env {0} mpirun {1} python3 /tmp/solver.py >/dev/null 2>&1 &)".format(
            environment, options
        )
    )
    find = (
        "for pid in $(pgrep -fx 'python3 /tmp/solver.py'); do"
        " tr '\\0' '\\n' </proc/$pid/environ | sed -n \"s/^OMPI_COMM_WORLD_LOCAL_RANK=/$pid /p\"; done"
    )
    deadline = time.monotonic() + 120
    while True:
        pid_of = {int(line.split()[1]): line.split()[0] for line in cluster.ssh(find).stdout.splitlines()}
        if len(pid_of) == 8:
            break
        assert time.monotonic() < deadline, pid_of
        time.sleep(1)
    gpu_of = {rank["index"]: rank["gpu"]["index"] for rank in content["ranks"]}
    for rank, pid in pid_of.items():
        cluster.ssh("nvml-simulator process add {0} {1} 512".format(gpu_of[rank], pid))
    try:
        good = cluster.ssh("gpunode pin check solver.py --json", check=False)
        assert good.returncode == 0, good.stdout + good.stderr
        # Rank 0 goes to the core of rank 7, which is beside another GPU.
        core = content["ranks"][7]["cpus"][0]
        cluster.ssh("taskset -a -pc {0} {1}".format(core, pid_of[0]))
        bad = cluster.ssh("gpunode pin check solver.py", check=False)
        assert bad.returncode == 3, bad.stdout + bad.stderr
        warnings = [line for line in bad.stdout.splitlines() if "warning" in line.lower()]
        assert any(pid_of[0] in line and pid_of[7] in line for line in warnings), bad.stdout
        assert any(pid_of[0] in line and "GPU {0}".format(gpu_of[0]) in line for line in warnings), bad.stdout
    finally:
        cluster.ssh("pkill -f '[s]olver.py'; true")  # not the shell that says so
        for rank, pid in pid_of.items():
            cluster.ssh("nvml-simulator process remove {0} {1}".format(gpu_of[rank], pid))


def test_lstopo_sees_the_same_machine(cluster):
    """Cores, NUMA nodes and level-3 caches as hwloc finds them in this guest."""
    ours = json.loads(cluster.ssh("gpunode topo --json").stdout)
    text = cluster.ssh("lstopo-no-graphics --no-io --of xml").stdout
    theirs = {
        kind: {
            tuple(sorted(cpus(mask)))
            for mask in re.findall(r'<object type="{0}"[^>]*? cpuset="([0-9a-fx,]+)"'.format(kind), text)
        }
        for kind in ("Core", "NUMANode", "L3Cache")
    }
    assert theirs["Core"] == {tuple(sorted(group)) for group in ours["cpus"]["sibling_groups"]}
    assert theirs["NUMANode"] == {tuple(node["cpus"]) for node in ours["numa_nodes"]}
    caches = {tuple(group["cpus"]) for node in ours["numa_nodes"] for group in node["l3_groups"]}
    assert theirs["L3Cache"] == caches


def cpus(mask):
    value = int("".join(part[2:].rjust(8, "0") for part in mask.split(",")), 16)
    return [cpu for cpu in range(value.bit_length()) if value >> cpu & 1]


def test_a_sick_node_takes_no_job_and_comes_back_when_it_is_well(cluster):
    """The quick checks before each job, and the hook that HealthCheckProgram calls: here by hand, three times."""
    gate = cluster.node.module("health_gate", without=["profile", "clock_synchronised"], timer=False)
    assert gate["changed"], gate
    look = "gpunode hook health; true"
    cluster.ssh("nvml-simulator fault gpu 2 lost; rm -f /tmp/ran")
    cluster.ssh("cd /tmp && runuser -u trainee -- sbatch --gres=gpu:1 --wrap 'touch /tmp/ran'")
    reason = cluster.wait(("IDLE+DRAIN",))
    assert reason.startswith(PREFIX + "health: reboot: GPU 2"), reason
    assert cluster.ssh("squeue -h -o %T").stdout.split() == ["PENDING"]
    cluster.ssh(look)
    assert cluster.state() == ("IDLE+DRAIN", reason)
    cluster.ssh("test ! -e /tmp/ran")

    # It owes active checks, which cannot pass without the CUDA library: clean looks alone do not bring it back.
    cluster.ssh("nvml-simulator clear gpu 2; mv /usr/lib/x86_64-linux-gnu/libcuda.so.1 /root/")
    ended = "for n in $(seq 300); do systemctl is-active {0} | grep -q activating || break; sleep 1; done"
    for _ in range(4):
        cluster.ssh(look + "; " + ended.format("gpu-node-health-proof.service"), timeout=900)
        assert cluster.state() == ("IDLE+DRAIN", reason)
    assert (
        "gpu_memory_test"
        in cluster.ssh("journalctl -t gpu_node --no-pager; cat /var/lib/gpu_node/health/history.json").stdout
    )
    gate = cluster.node.module("health_gate", without=["profile", "clock_synchronised"], timer=False, proof=False)
    assert gate["changed"], gate
    # The clean looks from before count.
    for _ in range(3):
        cluster.ssh(look)
    # Slurm lets a job that it requeued wait for two minutes; these may be over, and the job too.
    cluster.ssh("scontrol update JobId=$(squeue -h -o %i) StartTime=now", check=False)
    deadline = time.monotonic() + 120
    while cluster.ssh("test -e /tmp/ran", check=False).returncode != 0:
        assert time.monotonic() < deadline, (cluster.state(), cluster.ssh("journalctl -t gpu_node --no-pager").stdout)
        time.sleep(2)

    cluster.wait(("IDLE",))
    cluster.ssh("scontrol update NodeName={0} State=DRAIN Reason='anna: keep out'".format(cluster.node.name))
    for _ in range(4):
        cluster.ssh(look)
    assert cluster.state() == ("IDLE+DRAIN", "anna: keep out")
    cluster.ssh("scontrol update NodeName={0} State=RESUME".format(cluster.node.name))
    assert cluster.node.module("health_gate", state="absent")["changed"]


def test_no_job_that_would_outlive_a_lease_starts_until_it_is_extended(cluster):
    def lease(hours):
        until = cluster.ssh("date -u -d '+{0} hours' +%Y-%m-%dT%H:%M:%SZ".format(hours)).stdout.strip()
        assert cluster.node.module("node_lease", until=until)["changed"]
        cluster.ssh("systemctl start gpu-node-node_lease.service")
        shown = cluster.ssh("scontrol -o show reservation").stdout
        start = re.search(r"ReservationName=gpu_node_lease_{0} StartTime=(\S+)".format(cluster.node.name), shown)
        assert start and start.group(1) + "Z" == until, shown  # the guest's zone is UTC
        assert "Nodes={0} ".format(cluster.node.name) in shown and "MAINT" in shown, shown

    lease(1)
    job = cluster.ssh(
        "cd /tmp && runuser -u trainee -- sbatch --parsable -o /dev/null --time=120 --wrap 'sleep 100'"
    ).stdout.strip()
    time.sleep(5)
    asked = "squeue -h -o '%t %r' -j {0}".format(job)
    assert cluster.ssh(asked).stdout.startswith("PD ReqNodeNotAvail"), cluster.ssh(asked).stdout
    lease(4)
    deadline = time.monotonic() + 120
    while not cluster.ssh(asked).stdout.startswith("R "):
        assert time.monotonic() < deadline, cluster.ssh(asked + "; scontrol -o show reservation").stdout
        time.sleep(2)
    assert cluster.node.module("node_lease", state="absent")["changed"]
    assert "gpu_node_lease" not in cluster.ssh("scontrol -o show reservation", check=False).stdout


def test_absent_leaves_what_was_there(cluster):
    """Last: the hooks go."""
    cluster.wait(("IDLE",))
    assert cluster.node.module("slurm_hooks", state="absent")["changed"]
    left = cluster.ssh("cd /etc/slurm && find . -type f | sort").stdout.split()
    assert left == ["./cgroup.conf", "./plugstack.conf", "./slurm.conf"]
    assert not cluster.node.module("slurm_hooks", state="absent")["changed"]

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a training job needs around it, on two nodes with real Slurm: an environment that both see beside a full home,
Horovod's job scripts, checkpoints into a store of blobs, a scratch that the nodes of a job share; and the end of a
node: its lease, its reset.

Real are Slurm, Open MPI, NFS, azcopy and the emulator of the store (Azurite, on this host, through a tunnel of ssh).
Horovod is a wheel of one module that calls MPI, and NOT Horovod. BeeOND is a stand-in, and NOT BeeGFS: the options,
order and status file of its start script, with sshfs in place of the file system.
"""

from __future__ import annotations

import concurrent.futures
import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest
import slurm_guest
from virtual_machine import remote

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.checkpoints import blob_store
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.python_env import env_node
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.slurm.beeond import beeond_stand_in
from ansible_collections.trainyard.gpu_node.tools.setup import store

pytestmark = pytest.mark.soak

SCRATCH = "/mnt/resource_nvme"
WORK = "/shared/work"
CONF = """GresTypes=gpu
Prolog=/etc/slurm/prolog.d/*
Epilog=/etc/slurm/epilog.d/*
PrologFlags=Alloc
SchedulerParameters=nohold_on_prolog_fail
BatchStartTimeout=600
SlurmdTimeout=40
"""
# A home of 5 GB without a free block, and a folder of the first node that both see.
HOME = r"""
set -e
mkdir -p /shared /srv/shared/work /srv/shared/envs /srv/shared/jobs /srv/shared/wheels
truncate -s 5G /srv/home.img
mkfs.ext4 -q -m 0 -E lazy_itable_init=1,lazy_journal_init=1,nodiscard /srv/home.img
mount -o loop /srv/home.img /home
"""
FILL_HOME = r"""
chown trainee: /srv/shared/work
fallocate -l "$(df --output=avail -B1 /home | tail -n 1)" /home/filler 2>/dev/null || true
dd if=/dev/zero of=/home/rest bs=4096 2>/dev/null || true
test "$(df --output=avail -B1 /home | tail -n 1)" -eq 0
"""
# The plugin of Debian's Slurm loads PMIx by a path that is in libpmix-dev.
PMIX = "ln -sf libpmix.so.2 /usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so\n"
SHARE = r"""
set -e
echo '/srv/shared 192.168.77.0/24(rw,no_root_squash,no_subtree_check,fsid=0)' >/etc/exports
systemctl start nfs-server
"""
# One connection for the many commands of a start: each costs an emulated CPU seconds.
SSH_CONFIG = "Host *\n  ControlMaster auto\n  ControlPath /root/.ssh/to-%h\n  ControlPersist 1h\n"
MOUNT = "mountpoint -q /shared || mount -t nfs4 192.168.77.1:/ /shared"
HOROVOD = Path(__file__).resolve().parents[1] / "packages" / "horovod" / "horovod.py"
TRAIN = """import os, sys
import horovod as hvd

hvd.init()
total = hvd.allreduce(hvd.rank() + 1)
print("rank", hvd.rank(), "of", hvd.size(), "local", hvd.local_rank(), "sum", total, "node", os.uname().nodename)
print("python", os.path.realpath(sys.prefix), flush=True)
hvd.shutdown()
"""
# Three checkpoints, the last one right before the end.
SAVE = """#!/bin/sh
set -e
for step in 1 2 3; do
  mkdir -p "$CHECKPOINT_FOLDER/step-$step"
  head -c 300000 /dev/urandom >"$CHECKPOINT_FOLDER/step-$step/model.pt"
  touch "$CHECKPOINT_FOLDER/step-$step/COMPLETE"
  sleep 3
done
echo saved
"""
# One run of Ansible for the whole set-up, on both nodes side by side: its start costs more than a task.
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - trainyard.gpu_node.node_runtime:
    - trainyard.gpu_node.nvme_scratch:
        serials: [TYSCRATCH0, TYSCRATCH1]
    - trainyard.gpu_node.slurm_hooks:
    - trainyard.gpu_node.python_env:
        folder: /shared/envs
        environments:
          - name: train
            packages: [horovod]
            verify_imports: [horovod]
        find_links: /shared/wheels
        user_folder: /mnt/resource_nvme/$USER
    - trainyard.gpu_node.job_templates:
        folder: /shared/jobs
        environment: /shared/envs/train
        gpus_per_node: 2
      when: inventory_hostname == 'first'
    - trainyard.gpu_node.checkpoint:
        destination: http://127.0.0.1:10000/devstoreaccount1/ckpt
        auth: sas_file
        sas_file: /mnt/resource_nvme/sas
        nodes: 2
        keep: 2
    - trainyard.gpu_node.beeond:
        start_seconds: 240
        auth_secret: of-this-test-only-and-of-no-other
    - trainyard.gpu_node.cleanup:
"""


class Cluster:
    def __init__(self, first, second):
        self.first, self.second = self.nodes = first, second

    def both(self, act):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return list(pool.map(act, self.nodes))

    def play(self, path):
        return self.first.ansible([path, "-i", str(self.second.inventory_path)], timeout=1200)

    def user(self, command, node=None, check=True, timeout=300):
        """A shell script of the user, as after a login."""
        words = "runuser -l trainee -c {0}".format(shlex.quote("cd {0} && {1}".format(WORK, command)))
        return (node or self.first).ssh(words, check=check, timeout=timeout)

    def submit(self, options):
        """The number of a job that was submitted."""
        return self.user("sbatch --parsable -o out-%j {0}".format(options)).stdout.strip()

    def end(self, job, seconds=300):
        """(state, what it wrote) when it is over."""
        deadline = time.monotonic() + seconds
        while True:
            shown = self.first.ssh("scontrol -o show job {0}".format(job), check=False).stdout
            state = re.search(r"JobState=(\S+)", shown)
            if state and state.group(1) not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
                slurm_guest.wait_idle(self.first)
                return state.group(1), self.first.ssh("cat {0}/out-{1}".format(WORK, job), check=False).stdout
            assert time.monotonic() < deadline, shown + self.logs()
            time.sleep(2)

    def run(self, options, seconds=300):
        return self.end(self.submit(options), seconds)

    def logs(self):
        return "".join(self.both(lambda node: node.ssh("tail -n 40 /var/log/slurm/*.log", check=False).stdout))

    def wait(self, node, command, seconds=90):
        """Until a command succeeds on a node."""
        deadline = time.monotonic() + seconds
        while True:
            done = node.ssh(command, check=False)
            if done.returncode == 0:
                return done.stdout
            assert time.monotonic() < deadline, (command, done.stdout + done.stderr, self.logs())
            time.sleep(1)

    def homes(self):
        return self.both(lambda node: node.ssh("cd /home && find . -printf '%p %s %T@ %C@\\n' && df -B1 /home").stdout)

    def left(self):
        """What is there of shared scratches, by node."""
        return self.both(self.left_on)

    def left_on(self, node):
        look = (
            "grep beegfs_ondemand /proc/self/mountinfo; pgrep -fa '^/opt/beegfs/sbin/beegfs-'; ls /run/gpu_node/beeond"
            " {0}/beeond /beeond 2>/dev/null | grep -E '^[0-9]'; true"
        )
        return node.ssh(look.format(SCRATCH)).stdout


@pytest.fixture(scope="module")
def cluster(node_factory, tmp_path_factory):
    folder = tmp_path_factory.mktemp("job_needs")

    def make(name):
        node = node_factory(name, lan=slurm_guest.ADDRESSES[name] + "/24", nvme_count=2, memory="2G")
        node.ssh(HOME)
        slurm_guest.join(node, CONF, " Gres=gpu:8")
        node.ssh(slurm_guest.DEVICES + PMIX + FILL_HOME)
        node.write("/root/beeond_stand_in.py", open(beeond_stand_in.__file__).read())
        node.ssh("python3 /root/beeond_stand_in.py set-up")
        return node

    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = Cluster(*pool.map(make, slurm_guest.ADDRESSES))
    know_each_other(found, folder)
    env_node.wheel(folder, "horovod", "0.28.1", code=HOROVOD.read_text())
    with open(str(folder / "horovod-0.28.1-py3-none-any.whl"), "rb") as stream:
        found.first.node.ssh("cat >/srv/shared/wheels/horovod-0.28.1-py3-none-any.whl", 60, stream.read())
    found.first.ssh(SHARE)
    found.both(lambda node: node.ssh(MOUNT))
    found.first.write(WORK + "/train.py", TRAIN)
    found.first.write(WORK + "/save.sh", SAVE, "0755")
    found.folder = folder
    yield found
    for node in found.nodes:
        node.node.down()


def know_each_other(cluster, folder):
    """Root of each reaches both by their names."""
    remote.new_key(folder / "key", "root")
    keys = {node.name: node.ssh("cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub").stdout for node in cluster.nodes}
    known = "".join("{0},{1} {2}".format(name, slurm_guest.ADDRESSES[name], key) for name, key in keys.items())
    for node in cluster.nodes:
        node.ssh("cat >>/root/.ssh/authorized_keys", stdin=(folder / "key.pub").read_text())
        node.write("/root/.ssh/id_ed25519", (folder / "key").read_text(), "0600")
        node.write("/etc/ssh/ssh_known_hosts", known)
        node.write("/root/.ssh/config", SSH_CONFIG, "0600")


@pytest.fixture(scope="module")
def converged(cluster):
    play = cluster.folder / "play.yml"
    play.write_text(PLAY)
    cluster.before = cluster.homes()
    cluster.told = cluster.play(play).stdout
    cluster.again = cluster.play(play).stdout
    cluster.first.ssh("systemctl start slurmctld slurmd", timeout=300)
    cluster.second.ssh("systemctl start slurmd", timeout=300)
    slurm_guest.wait_idle(cluster.first)
    return cluster


def counts(output):
    return {name: int(count) for name, count in re.findall(r"^(\w+) +: ok=\d+ +changed=(\d+)", output, re.MULTILINE)}


# Environments -----------------------------------------------------------------------------------------


def test_two_nodes_that_build_at_once_have_one_environment(converged):
    assert set(counts(converged.told)) == {"first", "second"}
    assert counts(converged.again) == {"first": 0, "second": 0}, converged.again
    assert len(converged.first.ssh("ls -d /shared/envs/train-*").stdout.split()) == 1
    assert converged.first.ssh("ls -A /shared/envs | grep building", check=False).stdout == ""


def test_a_job_has_it_on_both_nodes_and_homes_that_are_full_stay_as_they_are(converged):
    cluster = converged
    script = (
        "#!/bin/bash -l\nmodule load env/train\nsrun --ntasks-per-node=1 python3 -c 'import horovod, os, sys;"
        " print(os.uname().nodename, os.path.realpath(sys.prefix), horovod.__file__)'\n"
        "srun --ntasks-per-node=1 pip cache dir\n"
    )
    cluster.first.write(WORK + "/look.sh", script, "0755")
    state, told = cluster.run("-N 2 look.sh")
    assert state == "COMPLETED", told
    seen = dict(line.split(" ", 1) for line in told.splitlines() if line.startswith(("first ", "second ")))
    place = cluster.first.ssh("readlink -f /shared/envs/train").stdout.strip()
    assert {value.split()[0] for value in seen.values()} == {place} and set(seen) == {"first", "second"}, told
    assert told.count(SCRATCH + "/trainee/") == 2, told
    assert cluster.homes() == cluster.before


# Horovod's scripts, with a stand-in -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["horovod.slurm.sh", "horovod.mpirun.sh"])
def test_horovod_s_script_runs_its_ranks_on_both_nodes(converged, name):
    cluster = converged
    options = "--export=ALL,CONTAINER_IMAGE=,HOROVOD_TIMELINE={0}/timeline.json --nodes=2 /shared/jobs/{1} train.py"
    state, told = cluster.run(options.format(WORK, name), 600)
    assert state == "COMPLETED", told
    ranks = re.findall(r"^rank (\d) of 4 local (\d) sum 10.0 node (\w+)$", told, re.MULTILINE)
    assert sorted(ranks) == [("0", "0", "first"), ("1", "1", "first"), ("2", "0", "second"), ("3", "1", "second")], told
    place = cluster.first.ssh("readlink -f /shared/envs/train").stdout.strip()
    assert told.count("python " + place) == 4, told
    summed = cluster.user("gpunode timeline timeline.json && rm timeline.json").stdout
    assert re.search(r"negotiation +30", summed), summed


# Checkpoints ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def azurite(converged):
    found = blob_store.started(converged.folder / "azurite")
    tunnels = []
    for node in converged.nodes:
        node.node.ssh("cat >/usr/local/bin/azcopy && chmod 755 /usr/local/bin/azcopy", 120, azcopy())
        node.ssh("install -m 600 -o trainee /dev/stdin {0}/sas".format(SCRATCH), stdin=blob_store.signature() + "\n")
        words = ["ssh", *remote.ssh_options(node.folder, node.name), "-p", str(node.node.state.port), "-N"]
        words += ["-R", "127.0.0.1:10000:127.0.0.1:{0}".format(found.proxy.port), "root@127.0.0.1"]
        tunnels.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))
    yield found
    for tunnel in tunnels:
        tunnel.terminate()
    found.stop()


def azcopy():
    with open(str(store.folder() / store.AZCOPY), "rb") as stream:
        return stream.read()


@pytest.mark.parametrize("tasks", [1, 2])
def test_checkpoints_are_copied_while_the_command_runs(converged, azurite, tasks):
    """On two nodes, each its part on its own scratch, from Slurm's steps beside the command."""
    cluster = converged
    folder = "{0}/trainee/run-{1}".format(SCRATCH, tasks)
    options = "--export=ALL,CHECKPOINT_LOOK_SECONDS=1,CHECKPOINT_FOLDER={0} --nodes=2 --ntasks-per-node={1}"
    save = " /shared/jobs/checkpoint.slurm.sh srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --overlap ./save.sh"
    job = cluster.submit((options + save).format(folder, tasks))
    state, told = cluster.end(job, 900)
    assert state == "COMPLETED" and told.count("saved") == 2, told
    whole = {"/gpunode-manifest.{0}-of-2.json".format(part) for part in (0, 1)}
    for step in (2, 3):  # the last two are kept
        names = azurite.names("{0}-step-{1}/".format(job, step))
        assert whole <= {"/" + name.rsplit("/", 1)[1] for name in names}, (names, told)
        assert len([name for name in names if name.endswith("model.pt")]) == 2, names
    assert azurite.names("{0}-step-1/".format(job)) == [], told
    assert cluster.homes() == cluster.before


# A scratch that the nodes of a job share ----------------------------------------------------------------


JOB = r"""#!/bin/bash
cd /beeond/$SLURM_JOB_ID || exit 7
stat -c 'folder %U %a' .
srun -N 2 --ntasks-per-node=1 --overlap bash -c 'echo from $SLURMD_NODENAME >$SLURMD_NODENAME && sync'
cat first second
sleep ${1:-0}
"""


@pytest.fixture
def shared(converged):
    converged.first.write(WORK + "/shared.sh", JOB, "0755")
    yield converged
    for node in converged.nodes:
        node.ssh("rm -f {0}/trouble".format(beeond_stand_in.STATE))
    converged.first.ssh("scancel --user=trainee; scontrol update NodeName=first,second State=RESUME", check=False)
    slurm_guest.wait_idle(converged.first)


SMALL = "--comment=beeond --mem=100 -N 2 -n 2"


def test_two_jobs_at_once_have_a_file_system_each(shared):
    jobs = [shared.submit(SMALL + " shared.sh 20") for _ in range(2)]
    for job in jobs:
        state, told = shared.end(job)
        assert state == "COMPLETED", told + shared.logs()
        assert told.split("\n")[:3] == ["folder trainee 700", "from first", "from second"], told
    assert shared.left() == ["", ""]
    assert "pass" in shared.first.ssh("gpunode health --only beeond_leftover --all").stdout


def test_a_start_that_fails_costs_seconds_and_the_job_has_no_folder(shared):
    shared.first.write(beeond_stand_in.STATE + "/trouble", "fail")
    began = time.monotonic()
    state, told = shared.run(SMALL + " shared.sh")
    assert state == "FAILED" and "No such file" in told, told
    assert time.monotonic() - began < 150  # the others would wait 270 s
    assert shared.left() == ["", ""]


def test_a_prolog_that_is_killed_leaves_nothing_that_is_in_the_way(shared):
    shared.first.write(beeond_stand_in.STATE + "/trouble", "storage")
    job = shared.submit(SMALL + " shared.sh")
    shared.wait(shared.first, "pgrep -f 'beeond start'")
    shared.first.ssh("pkill -KILL -f 'hook prolog|prolog.d'")
    shared.wait(shared.first, "sinfo -h -n first -o %T | grep -E 'drain|down'")
    shared.first.ssh("rm {0}/trouble; scancel {1}".format(beeond_stand_in.STATE, job))
    shared.first.ssh("scontrol update NodeName=first,second State=RESUME", check=False)
    # The other node waits for a note of the first for a minute and a half; its own limit is four and a half.
    slurm_guest.wait_idle(shared.first, 180)
    told = shared.second.ssh("journalctl -b -t gpu_node --no-pager -o cat").stdout
    assert re.search("first has (noted nothing of it for 90 s|ended it already)", told), told
    state, told = shared.run(SMALL + " shared.sh")
    assert state == "COMPLETED", told + shared.logs()
    assert shared.left() == ["", ""]


def test_a_node_that_is_lost_in_the_middle_is_clean_when_it_is_back(shared):
    job = shared.submit(SMALL + " --no-requeue shared.sh 600")
    shared.wait(shared.first, "grep -q 'from second' {0}/out-{1}".format(WORK, job))
    shared.second.cut_power()
    shared.wait(shared.first, "sinfo -h -n second -o %T | grep down", 180)
    shared.first.ssh("scancel {0}".format(job))
    shared.wait(shared.first, "sinfo -h -n first -o %T | grep idle", 200)
    assert shared.left_on(shared.first) == ""
    shared.second.start()
    shared.second.ssh(slurm_guest.DEVICES + "mount -o loop /srv/home.img /home; systemctl start munge slurmd; " + MOUNT)
    slurm_guest.wait_idle(shared.first)
    leftover = shared.second.ssh("gpunode health --only beeond_leftover", check=False).stdout
    assert "job {0}".format(job) in leftover and "a data folder" in leftover, leftover
    state, told = shared.run(SMALL + " shared.sh")
    assert state == "COMPLETED", told + shared.logs()
    assert shared.left() == ["", ""]


# The end of a node ------------------------------------------------------------------------------------

# As a daemon does that keeps the time: adjtimex(2) with ADJ_STATUS and ADJ_MAXERROR, both to 0.
SYNCHRONISED = """
import ctypes
told = (ctypes.c_long * 32)()
told[0] = 0x10 | 0x04
print(ctypes.CDLL(None).adjtimex(told))
"""


def lease(node, seconds, path):
    """Declared, until so many seconds from now on; when that is on the monotonic clock."""
    end = time.monotonic() + seconds
    path.write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - trainyard.gpu_node.node_lease:\n        until: '{0}'\n"
        "        on_expiry: [/usr/bin/touch, /root/handed_back]\n".format(
            node.ssh("date -u -d '+{0} seconds' +%Y-%m-%dT%H:%M:%SZ".format(seconds)).stdout.strip()
        )
    )
    node.ansible(path)
    return end


def test_a_lease_that_ends_waits_for_the_job_and_hands_the_node_back(converged):
    cluster, node = converged, converged.second
    job = cluster.submit("-w second --mem=100 --wrap 'sleep 900'")
    cluster.wait(cluster.first, "squeue -h -j {0} -t R | grep .".format(job))
    end = lease(node, 150, cluster.folder / "lease.yml")
    assert "gpu-node-node_lease.timer" in node.ssh("systemctl list-timers --no-pager").stdout
    node.ssh("systemctl start gpu-node-node_lease.service")
    assert "gpu_node_lease_second" in node.ssh("scontrol show reservation").stdout
    time.sleep(max(0.0, end + 2 - time.monotonic()))
    node.ssh("systemctl start gpu-node-node_lease.service", check=False)
    told = " ".join(node.ssh("gpunode lease", check=False).stdout.split())
    assert "by the clock of this machine, which nothing synchronises: nothing is done by it" in told, told
    node.ssh("python3 -", stdin=SYNCHRONISED)
    node.ssh("systemctl start gpu-node-node_lease.service", check=False)
    shown = node.ssh("scontrol show node second").stdout
    assert "DRAIN" in shown and "gpu_node: lease: it ended" in shown, shown
    assert node.ssh("mountpoint -q {0}".format(SCRATCH), check=False).returncode == 0
    cluster.first.ssh("scancel {0}".format(job))
    cluster.wait(cluster.first, "sinfo -N -o '%N %T %E'; sinfo -h -n second -o %T | grep -q drained", 200)
    node.ssh("systemctl start gpu-node-node_lease.service", timeout=600)
    gone(node)
    assert node.ssh("ls /root/handed_back").stdout
    assert "DRAIN" in cluster.first.ssh("scontrol show node second").stdout
    assert "gpu_node_lease" not in cluster.first.ssh("scontrol show reservation", check=False).stdout


def gone(node):
    assert node.ssh("mountpoint -q {0}".format(SCRATCH), check=False).returncode != 0
    assert node.ssh("ls -d /opt/gpu_node /usr/local/bin/gpunode /etc/gpu_node/node.json", check=False).stdout == ""
    assert node.ssh("ls /etc/systemd/system | grep gpu-node", check=False).stdout == ""
    assert node.ssh("for d in /dev/nvme*n1; do wipefs -n $d; done").stdout == ""


def test_a_reset_without_a_controller_leaves_what_was_found(converged):
    cluster, node = converged, converged.first
    job = cluster.submit("-w first --mem=100 --wrap 'sleep 900'")
    cluster.wait(node, "squeue -h -j {0} -t R | grep .".format(job))
    refused = node.ssh("gpunode reset --yes", check=False, timeout=300)
    assert refused.returncode != 0 and job in refused.stderr, refused
    node.ssh("scancel {0}".format(job))
    cluster.wait(node, "sinfo -N -o '%N %T %E'; sinfo -h -n first -o %T | grep -q idle", 200)
    node.ssh("gpunode reset --yes", timeout=600)
    gone(node)
    shown = node.ssh("scontrol show node first").stdout
    assert "DRAIN" in shown and "Reason=gpu_node" in shown, shown

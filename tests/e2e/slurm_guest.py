# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm in guests: what the tests with a real slurmctld have in common."""

from __future__ import annotations

import time

# A user who submits, munge with a key of its own, the folders of Slurm.
PREPARE = r"""
set -e
id trainee >/dev/null 2>&1 || useradd -m -u 2000 trainee
dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 2>/dev/null
chown munge: /etc/munge/munge.key && chmod 400 /etc/munge/munge.key
mkdir -p /var/lib/slurm/slurmctld /var/lib/slurm/slurmd /var/log/slurm
chown slurm: /var/lib/slurm/slurmctld /var/log/slurm
systemctl start munge
"""
# The simulated GPUs have no driver: slurmd wants their device files to exist and never opens them.
DEVICES = """
for n in 0 1 2 3 4 5 6 7; do [ -e /dev/nvidia$n ] || mknod /dev/nvidia$n c 195 $n; chmod 666 /dev/nvidia$n; done
"""
# Several slurmd on one machine, each with its own name, port and folder. Slurm's plugins for cgroups do not take that,
# so there are none.
SEVERAL_CONF = """ClusterName=virtual
SlurmctldHost={name}(127.0.0.1)
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/%n
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/%n.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
GresTypes=gpu
MessageTimeout=100
"""
# Slurm 22.05 finds the mount point of cgroup v2 only when it is told.
CGROUP_CONF = "CgroupMountpoint=/sys/fs/cgroup\nIgnoreSystemd=yes\n"
# Where the daemons of Slurm keep what, one slurmd on a machine.
DAEMONS = """SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ReturnToService=2
"""
# Two guests on one network: slurmctld and a slurmd on the first, a slurmd on the second.
ADDRESSES = {"first": "192.168.77.1", "second": "192.168.77.2"}
TWO_CONF = (
    """ClusterName=virtual
SlurmctldHost=first(192.168.77.1)
"""
    + DAEMONS
    + """ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
PropagateResourceLimits=NONE
NodeName=first NodeAddr=192.168.77.1 {node}
NodeName=second NodeAddr=192.168.77.2 {node}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
)
TWO_NODE = "CPUs=4 Sockets=4 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=1500"
# After PREPARE, on both: one key of munge, and names.
ONE_CLUSTER = r"""
set -e
printf '192.168.77.1 first\n192.168.77.2 second\n' >>/etc/hosts
sed -i '/^127.0.1.1/d' /etc/hosts
systemctl stop munge
printf 'shared-key-of-this-test-only-and-of-no-other' >/etc/munge/munge.key
systemctl start munge
"""


def join(node, more="", line=""):
    """Make a guest one of the two; ``more`` lines of slurm.conf, ``line`` of what it says about both nodes."""
    node.ssh(PREPARE + ONE_CLUSTER)
    node.write("/etc/slurm/slurm.conf", TWO_CONF.format(node=TWO_NODE + line) + more)
    node.write("/etc/slurm/cgroup.conf", CGROUP_CONF)


def wait_idle(node, seconds=120):
    """Until slurmctld calls all nodes idle."""
    deadline = time.monotonic() + seconds
    while True:
        told = node.ssh("sinfo -h -N -o '%N %T %E'", check=False).stdout
        if {line.split()[1] for line in told.splitlines()} == {"idle"}:
            return
        assert time.monotonic() < deadline, told
        time.sleep(2)

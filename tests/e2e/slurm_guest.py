# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm in a guest: what the tests with a real slurmctld have in common."""

from __future__ import annotations

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

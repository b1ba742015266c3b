# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten nodes of one real slurmctld in one guest.

Each slurmd has a mount namespace where the state of the simulated GPUs, our own folders and the number of the boot are
its own. Slurm's plugins for cgroups do not take several slurmd on one machine, so there are none.
"""

from __future__ import annotations

import json
import re
import time

import slurm_guest

NODES = ["gpu{0:02}".format(number) for number in range(1, 11)]
SLURM_CONF = (
    slurm_guest.SEVERAL_CONF
    + """ReturnToService=2
Prolog=/etc/slurm/prolog.d/*
PrologFlags=Alloc
BatchStartTimeout=120
SchedulerParameters=nohold_on_prolog_fail
NodeName=DEFAULT CPUs={cpus} Sockets=4 CoresPerSocket={cores} ThreadsPerCore=1 RealMemory=500 Gres=gpu:{gpus}
NodeName=gpu[01-10] NodeHostname={name} NodeAddr=127.0.0.1 Port=[17001-17010]
PartitionName=all Nodes=ALL Default=YES State=UP
"""
)
# Each node has copies of these of its own.
OWN = "/run/nvml_simulator /var/lib/nvml_simulator /var/lib/gpu_node /run/gpu_node"
BOOT = "/proc/sys/kernel/random/boot_id"
FOLDERS = r"""
set -e
for node in {nodes}; do
    for folder in {own}; do
        mkdir -p $folder /srv/$node$folder
        cp -a $folder/. /srv/$node$folder/
    done
    cat {boot} >/srv/$node/boot_id
done
"""
START = r"""
systemd-run --quiet --collect --unit=slurmd-{node} --property=Delegate=yes --property=TasksMax=infinity \
    unshare --mount sh -c "for folder in {own}; do mount --bind /srv/{node}\$folder \$folder; done;
        mount --bind /srv/{node}/boot_id {boot}; exec slurmd -D {more} -N {node}"
"""


class Fleet:
    def __init__(self, node, gpus=8):
        self.node, self.ssh, self.gpus = node, node.ssh, gpus
        self.cpus = node.node.state.settings.cpus

    def configure(self):
        """Before the roles come: gres.conf is for a node that slurm.conf knows."""
        text = SLURM_CONF.format(name=self.node.name, gpus=self.gpus, cpus=self.cpus, cores=self.cpus // 4)
        self.node.write("/etc/slurm/slurm.conf", text)

    def begin(self):
        self.ssh("systemctl start slurmctld", timeout=300)
        self.ssh(FOLDERS.format(nodes=" ".join(NODES), own=OWN, boot=BOOT))
        for name in NODES:
            self.start(name)
        self.wait(self.idle, 300)

    def start(self, name, more=""):
        self.ssh(START.format(node=name, own=OWN, boot=BOOT, more=more))

    def boot(self, name):
        """Start the machine of this node anew: its slurmd, the number of the boot, nothing in /run."""
        self.ssh("systemctl stop slurmd-{0}; rm -rf /srv/{0}/run/gpu_node/*; uuidgen >/srv/{0}/boot_id".format(name))
        self.start(name, "-b")
        self.wait(
            lambda: "NOT_RESPONDING" not in self.states()[name][0] and self.on(name, "true", False).returncode == 0
        )

    def on(self, name, command, check=True, timeout=300):
        """Run it as that node sees the machine."""
        inside = "nsenter --mount --target $(systemctl show --value --property=MainPID slurmd-{0}) -- {1}"
        return self.ssh(inside.format(name, command), check=check, timeout=timeout)

    def look(self, name):
        """What HealthCheckProgram of that node runs: what was decided."""
        done = self.on(name, "gpunode hook health --node {0} --json".format(name), check=False)
        return json.loads(done.stdout)

    def states(self):
        found = {}
        for line in self.ssh("scontrol -o show node").stdout.splitlines():
            reason = re.search(r"Reason=(.*?)(?: \[[^\]]*\])?\s*$", line)
            found[line.split()[0].partition("=")[2]] = (
                re.search(r"State=(\S+)", line).group(1),
                reason.group(1) if reason else None,
            )
        return found

    def idle(self):
        return {state for state, dummy in self.states().values()} == {"IDLE"}

    def drained(self):
        return sorted(name for name, (state, dummy) in self.states().items() if "DRAIN" in state)

    def wait(self, condition, seconds=180):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "{0}\n{1}".format(
                self.states(), self.ssh("squeue; tail -n 20 /var/log/slurm/*.log; journalctl -t gpu_node").stdout
            )
            time.sleep(2)

    def submit(self, words):
        return self.ssh("cd /tmp && runuser -u trainee -- sbatch --parsable " + words).stdout.strip()

    def as_new(self):
        """No job, no fault, no history, every node in service."""
        self.ssh("scancel --state=PENDING; scancel --state=RUNNING; rm -f /srv/gpu*/var/lib/gpu_node/health/*")
        for name in NODES:
            self.on(name, "nvml-simulator clear")
        for name in self.drained():
            self.ssh("scontrol update NodeName={0} State=RESUME".format(name))
        self.wait(self.idle)

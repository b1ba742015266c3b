# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real Slurm makes of gres.conf and of a failed prolog: 22.05 on Debian 12, 24.11 on Debian 13.

The machine that slurmd sees is a synthetic topology of hwloc, so one guest is every kind of machine. The rules that are
held against it are pure: module_utils/slurm and slurm_files/layout.py.
"""

from __future__ import annotations

import re
import time

import pytest
import slurm_guest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks import compare, layout
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.layout import Machine
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gres_conf, slurm_conf, syntax

NODE = "NodeName=gpu01 NodeHostname={name} NodeAddr=127.0.0.1 {line} RealMemory=500 Gres={gres} State={state}\n"
TAIL = "PartitionName=all Nodes=ALL Default=YES State=UP\nProlog=/etc/slurm/prolog.sh\nPrologFlags=Alloc\n"
PROLOG = "#!/bin/sh\necho $SLURM_JOB_GPUS > /run/seen_by_prolog\ntest ! -e /run/prolog_fails\n"
RUN = (
    "systemd-run --quiet --collect --unit=slurmd-gpu01 --property=Delegate=yes --setenv=HWLOC_SYNTHETIC='{0}'"
    " --setenv=HWLOC_THISSYSTEM=0 slurmd -D -N gpu01"
)
STOP = (
    "pkill -KILL -x slurmd; pkill -KILL -x slurmctld; for n in $(seq 100); do"
    " pgrep -x slurmd >/dev/null || pgrep -x slurmctld >/dev/null || break; sleep 0.1; done"
)
CLEAN = "rm -rf /var/lib/slurm/slurmctld/* /var/lib/slurm/gpu01 /var/log/slurm/* /run/prolog_fails"
FOUR = "pack:2 numa:2 core:4 pu:1"
FOUR_SMT = "pack:2 numa:2 core:4 pu:2"
PLAIN, SMT = Machine(16, 16, 2, 4, 0), Machine(16, 32, 2, 4, 0)
NUMA = [tuple(range(4 * node, 4 * node + 4)) for node in range(4)]
# (what hwloc tells, what we read of it, slurm.conf about the node, SlurmdParameters)
MACHINES = [
    (FOUR, PLAIN, "Sockets=2 CoresPerSocket=8", ""),
    (FOUR, PLAIN, "Sockets=4 CoresPerSocket=4", ""),
    (FOUR, PLAIN, "Sockets=4 CoresPerSocket=4", "numa_node_as_socket"),
    (FOUR, PLAIN, "Sockets=4 CoresPerSocket=4", "config_overrides"),
    (FOUR, PLAIN, "CPUs=16", ""),
    (FOUR_SMT, SMT, "CPUs=32", ""),
    (FOUR_SMT, SMT, "CPUs=32 ThreadsPerCore=2", ""),
    ("pack:1 numa:4 core:4 pu:1", Machine(16, 16, 1, 4, 0), "Sockets=1 CoresPerSocket=16", ""),
    ("pack:2 numa:2 l3:2 core:2 pu:1", Machine(16, 16, 2, 4, 8), "Sockets=8 CoresPerSocket=2", "l3cache_as_socket"),
]


class Slurm:
    def __init__(self, node):
        self.node, self.ssh = node, node.ssh
        self.version = layout.version(self.ssh("slurmd -V").stdout)

    def start(self, gres, line="CPUs=16", parameters="", topology=FOUR, configured="gpu:4", more="", state="UNKNOWN"):
        self.ssh(STOP + "; " + CLEAN + "; mkdir -p /var/lib/slurm/slurmctld; chown slurm: /var/lib/slurm/slurmctld")
        text = slurm_guest.SEVERAL_CONF.format(name=self.node.name) + TAIL + more
        text += "SlurmdParameters={0}\n".format(parameters) if parameters else ""
        text += NODE.format(name=self.node.name, line=line, gres=configured, state=state)
        self.node.write("/etc/slurm/slurm.conf", text)
        self.node.write("/etc/slurm/gres.conf", gres)
        # Its plugin for cgroups wants a slice of its own, as a unit gives it.
        self.ssh(
            "slurmctld -c >/dev/null 2>&1; systemctl reset-failed slurmd-gpu01 2>/dev/null; " + RUN.format(topology)
        )
        self.topology = topology
        return syntax.of(text)

    def state(self):
        """The state once slurmd has registered: a ping that it answers before makes the node IDLE, unseen."""
        deadline = time.monotonic() + 60
        while True:
            told = self.ssh("scontrol show node gpu01", check=False).stdout
            found, started = re.search(r"State=(\S+)", told), re.search(r"SlurmdStartTime=(\S+)", told)
            if found and started and started.group(1) != "None":
                return found.group(1)
            assert time.monotonic() < deadline, told + self.ssh("tail -n 20 /var/log/slurm/*.log").stdout
            time.sleep(0.2)


@pytest.fixture(scope="module")
def slurm(shared_node):
    """Behind other files: it takes over Slurm of the shared guest, which no file after it uses."""
    shared_node.ssh(slurm_guest.PREPARE + slurm_guest.DEVICES)
    shared_node.write("/etc/slurm/prolog.sh", PROLOG, "0755")
    yield Slurm(shared_node)
    shared_node.ssh(STOP + "; true")


def test_the_cores_that_we_write_are_taken_and_the_others_are_not(slurm):
    # A Slurm that takes any cores says so by the first machines.
    whole = slurm.version >= layout.WHOLE_SOCKETS
    for topology, machine, line, parameters in MACHINES if whole else MACHINES[:2]:
        what = "{0}, {1} {2}: ".format(topology, line, parameters)
        files = ["/dev/nvidia{0}".format(gpu) for gpu in range(4)]
        for naive in (False, True):
            conf = syntax.of(NODE.format(name="x", line=line, gres="gpu:4", state="UNKNOWN"))
            words = frozenset(parameters.split())
            known = layout.Slurm(slurm.version, slurm.version, slurm_conf.node(conf, "gpu01"), words)
            cores = NUMA if naive else layout.choose(NUMA, machine, known).cores
            lines = [compare.Line(file, None, tuple(some)) for file, some in zip(files, cores)]
            slurm.start("\n".join(compare.lines(lines)) + "\n", line, parameters, topology)
            sockets = layout.registered(known, machine)
            parts = any(sockets.around(some) != some for some in cores if some)
            refused = parts and whole
            state = slurm.state()
            logs = slurm.ssh("scontrol show node gpu01; tail -n 20 /var/log/slurm/*.log").stdout
            # Not by INVALID_REG beside it: an answer to an early ping may overwrite that (24.11), and the drain stays.
            assert ("DRAIN" in state) == refused, "{0}{1}: {2}".format(what, state, logs)
            assert naive or not refused, what
            if whole:
                told = slurm.ssh("grep -o 'Sockets=[0-9]* Cores=[0-9]*' /var/log/slurm/gpu01.log | tail -1").stdout
                assert told.split() == ["Sockets={0}".format(sockets.sockets), "Cores={0}".format(sockets.cores)], what


GRES = [
    ("Name=gpu File=/dev/nvidia[4-5]\nName=gpu File=/dev/nvidia7,/dev/nvidia6\n", "gpu:4"),
    ("Name=gpu Type=b File=/dev/nvidia[0-1]\nName=gpu \\\n Type=a File=/dev/nvidia[6,3]\n", "gpu:a:2,gpu:b:2"),
    (
        "NodeName=gpu[01-02] Name=gpu File=/dev/nvidia2\nNodeName=gpu02 Name=gpu File=/dev/nvidia0\n"
        "name=gpu file=/dev/nvidia5\n",
        "gpu:2",
    ),
    (
        "Name=gpu File=/dev/nvidia[0-3]\nName=gpu MultipleFiles=/dev/nvidia4,/dev/nvidia7\n"
        "Name=gpu File=/dev/nvidia6\n",
        "gpu:6",
    ),
    ("Include more.conf\nName=gpu File=/dev/nvidia1 # one\n", "gpu:3"),
]


# `make test` runs the one that includes a file, `make soak` all.
@pytest.mark.parametrize(
    "text, configured", [*(pytest.param(*one, marks=pytest.mark.soak) for one in GRES[:-1]), GRES[-1]]
)
def test_positions_are_those_of_slurmd(slurm, text, configured):
    more = "Name=gpu File=/dev/nvidia[6-7]\n"
    slurm.node.write("/etc/slurm/more.conf", more)
    slurm.start(text, configured=configured)
    assert slurm.state() == "IDLE"
    files = {"/etc/slurm/gres.conf": text, "/etc/slurm/more.conf": more}
    found = gres_conf.devices(gres_conf.gpus(syntax.read("/etc/slurm/gres.conf", files.get), "gpu01"), configured)
    told = slurm.ssh("HWLOC_SYNTHETIC='{0}' slurmd -G -N gpu01 2>&1".format(slurm.topology)).stdout
    listed = re.findall(r"Name=gpu .*?File=(\S+)", told)
    expected = gres_conf.gpus(syntax.of("".join("Name=gpu File={0}\n".format(one) for one in listed)), "gpu01")
    assert [file for files in found.positions for file in files] == [
        file for line in expected.lines for file in line.files
    ], told
    # A job that takes all of the first type has the first positions; of two types a prolog is told the last alone.
    first = configured.split(",")[0]
    slurm.ssh("cd /tmp && runuser -u trainee -- timeout 60 srun --gres={0} true".format(first))
    seen = slurm.ssh("cat /run/seen_by_prolog").stdout.strip()
    assert seen == ",".join(str(number) for number in range(int(first.rpartition(":")[2])))


@pytest.mark.parametrize(
    "option, held",
    [pytest.param("", True, marks=pytest.mark.soak), ("SchedulerParameters=nohold_on_prolog_fail\n", False)],
)
def test_a_job_that_a_prolog_turned_away_is_held_unless_slurm_conf_says_otherwise(slurm, option, held):
    slurm.start("Name=gpu File=/dev/nvidia[0-3]\n", more=option)
    assert slurm.state() == "IDLE"
    slurm.ssh("touch /run/prolog_fails; cd /tmp && runuser -u trainee -- sbatch --output=/dev/null --wrap 'sleep 1'")
    deadline = time.monotonic() + 60
    while "DRAIN" not in slurm.ssh("scontrol show node gpu01 | grep State=").stdout:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    time.sleep(2)
    told = slurm.ssh("squeue --noheader --format='%T %r'").stdout.strip()
    assert told.startswith("PENDING ") and ("held" in told) == held, told
    assert not held or told == "PENDING launch failed requeued held"


@pytest.mark.soak
def test_an_include_that_slurmctlds_host_lacks_ends_it_for_a_cloud_node(slurm):
    slurm.start("Name=gpu File=/dev/nvidia[0-3]\n")
    slurm.ssh(STOP)
    slurm.ssh("echo 'Include /etc/slurm/of_the_nodes.conf' > /etc/slurm/gres.conf")
    slurm.ssh("sed -i 's/State=UNKNOWN/State=CLOUD/' /etc/slurm/slurm.conf")
    slurm.ssh("printf 'ResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=600\n' >> /etc/slurm/slurm.conf")
    done = slurm.ssh("timeout 120 slurmctld -D -c 2>&1", check=False)
    assert "fatal: error opening/reading /etc/slurm/gres.conf" in done.stdout, done.stdout

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real Slurm makes of gres.conf and of a failed prolog.

The machine that slurmd sees is a synthetic topology of hwloc, so one root is every kind of machine. The rules that are
held against it are pure: module_utils/slurm and slurm_files/layout.py.
"""

from __future__ import annotations

import re
import time

import pytest
import slurm_root

from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gres_compare as compare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gres_conf, layout, slurm_conf, syntax
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.layout import Machine

CONF = slurm_root.CONF.replace("SchedulerParameters=nohold_on_prolog_fail\n", "")
CONF = CONF.replace("Prolog=/etc/slurm/prolog.d/*", "Prolog=/etc/slurm/prolog.sh").replace("Epilog=", "#Epilog=")
NODE = "NodeName=gpu01 NodeAddr={address} {line} RealMemory=500 Gres={gres} "
PROLOG = "#!/bin/sh\necho $SLURM_JOB_GPUS > /run/seen_by_prolog\ntest ! -e /run/prolog_fails\n"
DEVICES = "for n in 0 1 2 3 4 5 6 7; do mknod -m 666 /dev/nvidia$n c 195 $n; done"
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
    """Daemons that start again for each machine."""

    def __init__(self, node):
        self.node = node
        self.version = layout.version(node.run("slurmd -V").stdout)

    def start(self, gres, line="CPUs=16", parameters="", topology=FOUR, configured="gpu:4", more=""):
        self.node.forget()
        node_line = NODE.format(address=slurm_root.ADDRESS, line=line, gres=configured)
        more += "GresTypes=gpu\n" + ("SlurmdParameters={0}\n".format(parameters) if parameters else "")
        self.topology = "HWLOC_THISSYSTEM=0 HWLOC_SYNTHETIC='{0}'".format(topology)
        files = {"/etc/slurm/gres.conf": gres, slurm_root.CONTROLLER + "/gres.conf": gres}
        self.node.start(node_line, more, self.topology + " slurmd", files=files, base=CONF, size="")
        return syntax.of(node_line)

    def state(self):
        return self.node.state()


@pytest.fixture
def slurm(node):
    node.run(DEVICES)
    node.write("/etc/slurm/prolog.sh", PROLOG, 0o755)
    return Slurm(node)


def test_the_cores_that_we_write_are_taken_and_the_others_are_not(slurm):
    # A Slurm that takes any cores says so by the first machines.
    whole = slurm.version >= layout.WHOLE_SOCKETS
    for topology, machine, line, parameters in MACHINES if whole else MACHINES[:2]:
        what = "{0}, {1} {2}: ".format(topology, line, parameters)
        files = ["/dev/nvidia{0}".format(gpu) for gpu in range(4)]
        for naive in (False, True):
            conf = syntax.of(NODE.format(address="x", line=line, gres="gpu:4"))
            words = frozenset(parameters.split())
            known = layout.Slurm(slurm.version, slurm.version, slurm_conf.node(conf, "gpu01"), words)
            cores = NUMA if naive else layout.choose(NUMA, machine, known).cores
            lines = [compare.Line(file, None, tuple(some)) for file, some in zip(files, cores)]
            slurm.start("\n".join(compare.lines(lines)) + "\n", line, parameters, topology)
            sockets = layout.registered(known, machine)
            parts = any(sockets.around(some) != some for some in cores if some)
            refused = parts and whole
            state = slurm.state()
            logs = slurm.node.logs()
            # Not by INVALID_REG beside it: an answer to an early ping may overwrite that (24.11), and the drain stays.
            assert ("DRAIN" in state) == refused, "{0}{1}: {2}".format(what, state, logs)
            assert naive or not refused, what
            if whole:
                asked = "grep -o 'Sockets=[0-9]* Cores=[0-9]*' /var/log/slurm/slurmd.log | tail -1"
                told = slurm.node.run(asked).stdout
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
    for folder in ("/etc/slurm", slurm_root.CONTROLLER):
        slurm.node.write(folder + "/more.conf", more)
    slurm.start(text, configured=configured)
    assert slurm.state() == "IDLE"
    files = {"/etc/slurm/gres.conf": text, "/etc/slurm/more.conf": more}
    found = gres_conf.devices(gres_conf.gpus(syntax.read("/etc/slurm/gres.conf", files.get), "gpu01"), configured)
    told = slurm.node.run(slurm.topology + " slurmd -G -N gpu01 2>&1", variables={}).stdout
    listed = re.findall(r"Name=gpu .*?File=(\S+)", told)
    expected = gres_conf.gpus(syntax.of("".join("Name=gpu File={0}\n".format(one) for one in listed)), "gpu01")
    assert [file for files in found.positions for file in files] == [
        file for line in expected.lines for file in line.files
    ], told
    # A job that takes all of the first type has the first positions; of two types a prolog is told the last alone.
    first = configured.split(",")[0]
    slurm.node.srun("true", "--gres=" + first)
    seen = slurm.node.run("cat /run/seen_by_prolog").stdout.strip()
    assert seen == ",".join(str(number) for number in range(int(first.rpartition(":")[2])))


@pytest.mark.parametrize(
    "option, held",
    [pytest.param("", True, marks=pytest.mark.soak), ("SchedulerParameters=nohold_on_prolog_fail\n", False)],
)
def test_a_job_that_a_prolog_turned_away_is_held_unless_slurm_conf_says_otherwise(slurm, option, held):
    slurm.start("Name=gpu File=/dev/nvidia[0-3]\n", more=option)
    assert slurm.state() == "IDLE"
    slurm.node.run("touch /run/prolog_fails")
    number = slurm.node.sbatch("sleep 1")
    slurm.node.drained()
    slurm.node.wait("job that is back", lambda: slurm.node.job(number).startswith("PENDING"))
    time.sleep(2)
    told = slurm.node.job(number)
    assert told.startswith("PENDING ") and ("held" in told) == held, told
    assert not held or told == "PENDING launch failed requeued held"


@pytest.mark.soak
def test_an_include_that_slurmctlds_host_lacks_ends_it_for_a_cloud_node(slurm):
    slurm.start("Name=gpu File=/dev/nvidia[0-3]\n")
    slurm.node.run("pkill -KILL -x slurmctld")
    cloud = "echo 'Include /etc/slurm/of_the_nodes.conf' >gres.conf; sed -i 's/Gres=gpu:4/& State=CLOUD/' slurm.conf\n"
    cloud += "printf 'ResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=600\n' >>slurm.conf\n"
    start = "unshare --uts sh -c 'hostname controller; exec timeout 30 slurmctld -D -c -f $PWD/slurm.conf' 2>&1"
    done = slurm.node.run("cd {0}\n{1}{2}".format(slurm_root.CONTROLLER, cloud, start), check=False)
    assert "fatal: error opening/reading {0}/gres.conf".format(slurm_root.CONTROLLER) in done.stdout, done.stdout

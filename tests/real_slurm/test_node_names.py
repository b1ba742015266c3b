# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node command finds the NodeName under which slurmd has registered, while slurmd runs and by its unit, and the
gate drains that node. The node that slurmctld shows is compared, not an answer of this collection."""

from __future__ import annotations

import dataclasses
from typing import Mapping

import pytest
import slurm_root

UNIT = "/etc/systemd/system/slurmd.service.d/site.conf"
DEFAULT = "/etc/default/slurmd"
ELSEWHERE = "/opt/slurm/etc/slurm.conf"
# An old file that nobody reads any more; it names another node for this host.
OLD = {"/etc/slurm/slurm.conf": "ClusterName=old\nSlurmctldHost=old(192.0.2.9)\nNodeName=old7 NodeHostname=gpu01\n"}


@dataclasses.dataclass(frozen=True)
class Case:
    """``slurmd``: how it is started; ``unit``: files by which its unit starts it in the same way; ``old``: see OLD."""

    truth: str
    nodes: str = ""
    host: str = "gpu01"
    slurmd: str = "slurmd"
    unit: Mapping[str, str] = dataclasses.field(default_factory=dict)
    conf: str = ""
    path: str = "/etc/slurm/slurm.conf"
    controller: str = ""
    old: bool = False


def options(words: str) -> Mapping[str, str]:
    return {DEFAULT: "SLURMD_OPTIONS='{0}'\n".format(words)}


def command(words: str) -> Mapping[str, str]:
    return {UNIT: "[Service]\nExecStart=\nExecStart=/usr/sbin/slurmd -D -s {0}\n".format(words)}


def dynamic(truth: str, words: str, host: str = "gpu01") -> Case:
    words += " --conf 'CPUs=1 RealMemory=500'"
    return Case(truth, GPU02, host, "slurmd " + words, command(words), "MaxNodeCount=8\nTreeWidth=65533\n")


def elsewhere(slurmd: str, unit: Mapping[str, str]) -> Case:
    return Case("rack7", RACK7, slurmd=slurmd, unit=unit, path=ELSEWHERE, old=True)


def configless(old: bool) -> Case:
    words = "--conf-server controller"
    controller = "SlurmctldParameters=enable_configless\n"
    return Case("rack7", RACK7, slurmd="slurmd " + words, unit=options(words), path="", controller=controller, old=old)


def option_n(words: str, unit: Mapping[str, str]) -> Case:
    return Case("rack7", "NodeName=gpu01" + OTHER + "NodeName=rack7", slurmd="slurmd " + words, unit=unit)


# Slurm sends a reconfiguration to each node: two nodes of one address would be one slurmd that gets it twice.
OTHER = " NodeAddr=192.0.2.2 CPUs=1 RealMemory=500\n"
GPU02 = "NodeName=gpu02" + OTHER
RACK7 = GPU02 + "NodeName=rack7 NodeHostname=gpu01"
FQDN = "gpu01.example.org"
CASES = {
    "short host name": Case("gpu01", GPU02 + "NodeName=gpu01"),
    "fqdn": Case(FQDN, GPU02 + "NodeName=" + FQDN, FQDN),
    "short name of an fqdn": Case("gpu01", GPU02 + "NodeName=gpu01", FQDN),
    "NodeHostname": Case("rack7", "NodeName=gpu01 NodeHostname=gpu99" + OTHER + "NodeName=rack7 NodeHostname=gpu01"),
    "NodeHostname that is an fqdn": Case("rack7", GPU02 + "NodeName=rack7 NodeHostname=" + FQDN, FQDN),
    "another name of the host": Case("alias01", GPU02 + "NodeName=alias01"),
    "localhost": Case("rack7", GPU02 + "NodeName=rack7 NodeHostname=localhost"),
    "-N in SLURMD_OPTIONS": option_n("-N rack7", options("-N rack7")),
    "-N in the unit": option_n("-Nrack7", command("-Nrack7")),
    "dynamic": dynamic("gpu01", "-Z"),
    "dynamic with an fqdn": dynamic(FQDN, "-Z", FQDN),
    "dynamic with -N": dynamic("dyn3", "-N dyn3 -Z"),
    "one of the nodes for the future": Case(
        "later1",
        GPU02 + "NodeName=later1 State=FUTURE CPUs=2 Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=500",
        # It gets a node of its own hardware.
        slurmd="mkdir -p /var/spool/slurmd; HWLOC_THISSYSTEM=0 HWLOC_SYNTHETIC='pack:1 core:2 pu:1' slurmd -F",
        unit=command("-F"),
    ),
    "-f beside an old file": elsewhere("slurmd -f " + ELSEWHERE, options("-f " + ELSEWHERE)),
    "SLURM_CONF beside an old file": elsewhere(
        "SLURM_CONF={0} slurmd".format(ELSEWHERE), {UNIT: "[Service]\nEnvironment=SLURM_CONF={0}\n".format(ELSEWHERE)}
    ),
    "configless": configless(old=False),
    "configless beside an old file": configless(old=True),
}
QUICK = ("NodeHostname", "-N in SLURMD_OPTIONS")


@pytest.mark.parametrize("case", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.soak) for one in CASES])
def test_the_node_that_slurmd_registers_is_found_and_drained(layers, suite, tmp_path, case):
    one = CASES[case]
    with slurm_root.root(layers(suite), tmp_path, one.host) as node:
        if one.truth == "alias01":
            node.run(
                "echo '{0} gpu01 alias01' >/etc/hosts; echo '{0} controller' >>/etc/hosts".format(slurm_root.ADDRESS)
            )
        node.start(
            one.nodes,
            slurm_root.WATCHED + one.conf,
            one.slurmd,
            path=one.path or None,
            controller=one.controller,
            files=OLD if one.old else {},
        )
        assert node.registered() == [one.truth]
        assert node.answer() == one.truth
        # From Slurm 23.11 on slurmd executes its own file again.
        node.run("scontrol reconfigure; sleep 1")
        node.wait("slurmd that has read it", lambda: node.answer() == one.truth, 10)
        assert node.srun(options="-w " + one.truth).stdout == "ran\n"
        node.sick()
        told = node.look()
        assert node.reason(one.truth).startswith("gpu_node: health: reboot: GPU 2"), told
        assert [name for name in node.nodes() if "gpu_node" in node.reason(name)] == [one.truth]
        # By its unit alone while it does not run, and by its process alone before.
        for path, text in one.unit.items():
            node.write(path, text)
        node.end()
        assert node.answer() == one.truth

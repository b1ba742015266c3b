# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The communication stack on a machine of each profile, partial sizes, a login node and one that no profile knows.

Each resource is really run on a folder that looks like the machine, twice, and taken back. What is expected is written
by hand.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import stat

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import run as core_run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import (
    enroot,
    hpcx,
    job_templates,
    nccl,
    rdma,
)
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology import make_trees, unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.hpcx import hpcx_tarball

PROFILES = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 5, "roles", "node_profile", "files", "profiles"
)
JOBS = "/usr/local/share/gpu_node/jobs"


@dataclasses.dataclass(frozen=True)
class Machine:
    """``ports``: (count, Gb/s) of InfiniBand. ``switches``: of the topology file that is made, None for no file."""

    tree: str
    profile: str = ""
    gpus: int = 0
    numa_nodes: int = 1
    ports: tuple = (0, None)
    switches: object = None
    rdma_devices: int = 0


MACHINES = {
    "V100": Machine("ndv2", "nd40rs_v2", 8, 2, (1, 100), rdma_devices=1),
    "A100": Machine("ndv4", "nd96asr_v4", 8, 4, (8, 200), switches=4, rdma_devices=9),
    "H100": Machine("ndv5", "nd96isr_h100_v5", 8, 2, (8, 400), switches=8, rdma_devices=9),
    "NC24ads_A100_v4": Machine("nc24", gpus=1),
    "NC48ads_A100_v4": Machine("nc48", gpus=2, numa_nodes=2),
    "NC96ads_A100_v4": Machine("nc96", gpus=4, numa_nodes=4),
    "login node": Machine("login"),
    "unknown": Machine("gb200", gpus=4, numa_nodes=2, ports=(4, 400), rdma_devices=4),
}


def partial(nodes, gpus):
    """A size with some of the GPUs of a host, each on a PCI bus of its own, and no NIC; 24 CPUs a NUMA node."""
    tree = make_trees.Tree("partial", "")
    tree.dmi(sys_vendor="Microsoft Corporation", product_name="Virtual Machine", chassis_asset_tag=make_trees.AZURE_TAG)
    tree.cpus("0-{0}".format(24 * nodes - 1))
    for node in range(nodes):
        cpus = "{0}-{1}".format(24 * node, 24 * node + 23)
        tree.node(node, cpus, 230000000, " ".join("10" if other == node else "21" for other in range(nodes)))
        tree.cores(24 * node, 24 * node + 23, 0, cpus, l3_id=node)
        if gpus:
            tree.pci(make_trees.vmbus("000{0}".format(node + 1)), "10de:20b5", "030200", node, cpus, "nvidia")
    tree.nodes("0-{0}".format(nodes - 1), 230000000 * nodes)
    return tree.lines[2:]


def unpacked(name, root):
    sizes = {"nc24": (1, 1), "nc48": (2, 2), "nc96": (4, 4), "login": (1, 0)}
    if name not in sizes:
        unpack.unpack(name, root)
    else:
        unpack.write(partial(*sizes[name]), root)


class Node:
    """A folder that looks like the machine, with Lmod and enroot in its image; slurmd is on all but the login node."""

    def __init__(self, machine, root):
        self.machine, self.root = machine, root
        unpacked(machine.tree, root)
        for folder in ("usr/share/lmod/lmod", "etc/lmod/modules", "opt", "usr/bin", "usr/sbin", "etc/enroot/hooks.d"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for name in ["bin/enroot"] + (["sbin/slurmd"] if machine.tree != "login" else []):
            (root / "usr" / name).write_text("#!/bin/sh\n")
            (root / "usr" / name).chmod(0o755)
        for key in ("user/max_user_namespaces", "user/max_mnt_namespaces", "vm/zone_reclaim_mode"):
            (root / "proc/sys" / key).parent.mkdir(parents=True, exist_ok=True)
            (root / "proc/sys" / key).write_text("500000\n" if key.startswith("user") else "0\n")
        self.source = hpcx_tarball.source(root)
        self.data = {}
        if machine.profile:
            with open(os.path.join(PROFILES, machine.profile + ".yml"), encoding="utf-8") as stream:
                self.data = yaml.safe_load(stream)
        self.host = Host(str(root))

    def text(self, path):
        return (self.root / path.lstrip("/")).read_text()

    def wanted(self, present=True):
        """Each resource with what is wanted of it, as the roles take that from the profile."""
        ports = self.data.get("infiniband", {})
        return {
            rdma: rdma.Desired(
                present=present,
                expected_ports=ports.get("count"),
                rate_gbps=ports.get("rate_gigabits_per_second"),
            ),
            hpcx: hpcx.Desired(present=present, **self.source, version="2.24.1"),
            nccl: of(nccl.Desired, {"state": "present" if present else "absent"}, self.data),
            enroot: enroot.Desired(present=present),
            job_templates: job_templates.Desired(folder=JOBS, present=present),
        }

    def converge(self, present=True, check_mode=False):
        wanted = list(self.wanted(present).items())
        return {
            module: (core_run.run(self.host, module.RESOURCE, given, check_mode), given)
            for module, given in (wanted if present else reversed(wanted))
        }

    def tree(self):
        found = {}
        for folder, folders, names in os.walk(str(self.root)):
            if folder == str(self.root):
                # Nothing of ours is in sysfs, and locks lie in /run until the next boot.
                folders[:] = [name for name in folders if name not in ("sys", "run")]
            for path in (os.path.join(folder, name) for name in folders + names):
                status = os.lstat(path)
                content = b""
                if stat.S_ISLNK(status.st_mode):
                    content = os.readlink(path).encode()
                elif stat.S_ISREG(status.st_mode):
                    with open(path, "rb") as stream:
                        content = stream.read()
                found[os.path.relpath(path, str(self.root))] = (
                    oct(status.st_mode),
                    hashlib.sha256(content).hexdigest(),
                )
        return found


@pytest.fixture(params=sorted(MACHINES))
def node(request, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return Node(MACHINES[request.param], tmp_path)


def facts(done, module):
    outcome, given = done[module]
    return module.RESOURCE.facts(outcome, given)


def test_the_stack_on_each_machine_and_back(node):
    before = node.tree()
    planned = node.converge(check_mode=True)
    assert node.tree() == before
    done = node.converge()
    assert {module: outcome.changed for module, (outcome, dummy) in done.items()} == {
        module: outcome.changed for module, (outcome, dummy) in planned.items()
    }
    assert [outcome.changed for outcome, dummy in node.converge().values()] == [False] * 5
    machine = node.machine

    # rdma
    seen = facts(done, rdma)
    assert len(seen["devices"]) == machine.rdma_devices and seen["differences"] == []
    assert (done[rdma][0].plan.skipped is None) is bool(machine.rdma_devices)
    if machine.rdma_devices:
        assert seen["ports_counted"] == machine.ports[0]

    # hpcx: for all of them, a login node too
    assert facts(done, hpcx)["current"] == "/opt/hpcx/current"
    assert "OMPI_MCA_pml_ucx_tls" in node.text("/etc/lmod/modules/mpi/hpcx.lua")

    # nccl: a file only where it tells something, and never one of another size
    path = facts(done, nccl)["topology_file"]
    assert (path is not None) is (machine.switches is not None)
    if path is not None:
        classes = re.findall(r'<pci busid="[^"]+" class="(\w+)"', node.text(path))
        assert classes.count("0x060400") == machine.switches and classes.count("0x030200") == machine.gpus
    conf = node.text("/etc/nccl.conf") if (node.root / "etc/nccl.conf").exists() else ""
    assert ("NCCL_TOPO_FILE=" in conf) is (path is not None) and "NCCL_GRAPH_FILE" not in conf
    assert node.text("/proc/sys/vm/zone_reclaim_mode") == "1\n"

    # enroot: adapters only where there are some; without slurmd nobody would make the folders of users
    settings = facts(done, enroot)["settings"]
    assert ("MELLANOX_VISIBLE_DEVICES" in settings) is bool(machine.rdma_devices)
    assert ("ENROOT_DATA_PATH" in settings) is (machine.tree != "login")
    missing = any("nvidia-container-cli" in note for note in done[enroot][0].plan.notes)
    assert missing is bool(machine.gpus)

    # job_templates: as many GPUs as there are, one rank of MPI for each NUMA node
    files = facts(done, job_templates)["files"]
    assert ("hpl.pyxis.sh" in files) is bool(machine.gpus) and "mpi-check.sh" in files
    if machine.gpus:
        assert re.search(r"^#SBATCH --gpus-per-node={0}$".format(machine.gpus), node.text(JOBS + "/hpl.pyxis.sh"), re.M)
    ranks = re.search(r"^#SBATCH --ntasks-per-node=(\d+)$", node.text(JOBS + "/mpi-check.sh"), re.M)
    assert int(ranks.group(1)) == machine.numa_nodes

    # and back
    gone = node.converge(present=False)
    assert gone[hpcx][0].changed
    assert node.tree() == before
    assert [outcome.changed for outcome, dummy in node.converge(present=False).values()] == [False] * 5

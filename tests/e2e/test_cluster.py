# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two nodes on one network with soft RoCE: the communication stack on both, Slurm over both, MPI over verbs.

slurmctld and a slurmd run on the first node, a slurmd on the second, Debian's Open MPI with UCX on both.
"""

from __future__ import annotations

import concurrent.futures
import json
import re

import pytest
import slurm_guest

pytestmark = pytest.mark.soak

FOLDER = "/opt/jobs"
# Debian's Open MPI without a compiler: its library called from Python. Sums 128 KiB over all ranks, ten times.
ALLREDUCE = """
import ctypes

mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)


def constant(name):
    return ctypes.byref(ctypes.c_char.in_dll(mpi, name))


world, size = constant("ompi_mpi_comm_world"), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_size(world, ctypes.byref(size))
count = 16384
given, summed = (ctypes.c_double * count)(*[1.0] * count), (ctypes.c_double * count)()
for _ in range(10):
    mpi.MPI_Allreduce(given, summed, count, constant("ompi_mpi_double"), constant("ompi_mpi_op_sum"), world)
print("sum", summed[0], summed[count - 1], "of", size.value)
mpi.MPI_Finalize()
"""
# What the modulefile of HPC-X sets. By itself UCX would take TCP beside soft RoCE. Before 1.18 it drops every datagram
# of a device whose driver leaves out the service level, as soft RoCE does (openucx/ucx pull request 10209).
UCX = (
    "OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any"
    " UCX_TLS=rc_v,ud_v,sm,self UCX_NET_DEVICES=rxe0:1 UCX_UD_VERBS_ETH_DGID_CHECK=n"
    " UCX_UD_TIMEOUT=10m UCX_RC_TIMEOUT=30s"
)
# The interface of the shared network carries soft RoCE.
ROCE = r"""
set -e
modprobe rdma_rxe
device=$(basename "$(dirname "$(grep -l '^52:54:01:' /sys/class/net/*/address)")")
rdma link add rxe0 type rxe netdev "$device"
"""
# A tarball with the layout of HPC-X and nothing in it that runs; the same bytes on both nodes.
TARBALL = r"""
set -e
name=hpcx-v2.24.1-gcc-doca_ofed-ubuntu22.04-cuda12-x86_64
cd /srv
mkdir -p $name/ompi/bin $name/ompi/lib $name/ucx/lib $name/ucx/bin
printf 'HPC-X v2.24.1\n' >$name/VERSION
printf 'export HPCX_DIR=here\n' >$name/hpcx-init.sh
printf '#!/bin/sh\necho HPC-X 2.24.1\n' >$name/ompi/bin/mpirun
chmod 755 $name/ompi/bin/mpirun
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c $name | gzip -n >hpcx.tar.gz
rm -rf $name
sha256sum hpcx.tar.gz
"""
VARIABLES = {
    "node_profile_name": "unknown",
    "gpu_node_comm": ["rdma", "hpcx", "nccl", "job_templates"],
    "job_templates_folder": FOLDER,
    "hpcx_source": "/srv/hpcx.tar.gz",
    "hpcx_version": "2.24.1",
}


class Cluster:
    def __init__(self, first, second):
        self.first, self.second = first, second
        (self.sha256,) = {node.ssh(TARBALL).stdout.split()[0] for node in (first, second)}

    def converge(self):
        words = ["playbooks/comm.yml", "-i", str(self.second.inventory_path), "-e"]
        words.append(json.dumps(dict(VARIABLES, hpcx_sha256=self.sha256)))
        return self.first.ansible(words, timeout=1200)

    def submit(self, options, environment="", seconds=240):
        """Run a batch script of the folder to its end as a user; what it wrote."""
        words = "cd /home/trainee && runuser -u trainee -- env {0} timeout {1} sbatch --wait -o out {2}; cat out"
        told = self.first.ssh(
            words.format(environment, seconds, options),
            check=False,
            timeout=seconds + 60,
        )
        return told.stdout + told.stderr


@pytest.fixture(scope="module")
def cluster(node_factory):
    def make(name):
        node = node_factory(name, lan=slurm_guest.ADDRESSES[name] + "/24", nvme_count=0, memory="2G")
        slurm_guest.join(node)
        node.ssh(ROCE)
        return node

    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = Cluster(*pool.map(make, slurm_guest.ADDRESSES))
    yield found
    for node in (found.first, found.second):
        node.node.down()


def recap(output):
    return {name: int(count) for name, count in re.findall(r"^(\w+) +: ok=\d+ +changed=(\d+)", output, re.MULTILINE)}


def test_the_stack_converges_on_both_nodes_and_then_changes_nothing(cluster):
    assert all(count > 0 for count in recap(cluster.converge().stdout).values())
    again = cluster.converge().stdout
    assert recap(again) == {"first": 0, "second": 0}, again


def test_hpcx_is_a_module_that_is_loaded_and_unloaded(cluster):
    told = cluster.first.ssh(
        "bash -lc 'module load mpi/hpcx; mpirun; echo $OMPI_MCA_coll_hcoll_enable; module unload mpi/hpcx; type mpirun'"
    ).stdout.split("\n")
    assert told[:3] == ["HPC-X 2.24.1", "0", "mpirun is /usr/bin/mpirun"], told


def test_both_nodes_are_in_service(cluster):
    cluster.first.ssh("systemctl start slurmctld slurmd", timeout=300)
    cluster.second.ssh("systemctl start slurmd", timeout=300)
    slurm_guest.wait_idle(cluster.first)


def test_a_step_of_slurm_has_the_limits(cluster):
    limits = "srun -N 2 sh -c 'ulimit -l; ulimit -n'"
    told = cluster.first.ssh("cd /tmp && runuser -u trainee -- " + limits).stdout.split()
    assert told.count("unlimited") == 2, told


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_rendered_job_runs_each_rank_on_cores_of_its_own(cluster, nodes):
    told = cluster.submit("--nodes={0} {1}/mpi-check.sh".format(nodes, FOLDER))
    ranks = re.findall(r"^rank (\d+) of (\d+): node (\w+), local rank \d+, CPUs (\S+),", told, re.MULTILINE)
    assert len(ranks) == 4 * nodes, told
    assert {name for _rank, _size, name, _cpus in ranks} == set(list(slurm_guest.ADDRESSES)[:nodes])
    assert len({(name, cpus) for _rank, _size, name, cpus in ranks}) == 4 * nodes
    assert re.search(r"RDMA port rxe0 4: ACTIVE", told), told


def test_messages_between_nodes_go_over_verbs(cluster):
    for node in (cluster.first, cluster.second):
        node.write("/opt/allreduce.py", ALLREDUCE)
    told = cluster.submit("--nodes=2 {0}/mpi-check.sh python3 /opt/allreduce.py".format(FOLDER), UCX, seconds=500)
    assert told.count("sum 8.0 8.0 of 8") == 8, told
    sent = dict(re.findall(r"^node (\w+): rxe0 sent (\d+) packets", told, re.MULTILINE))
    assert set(sent) == set(slurm_guest.ADDRESSES) and min(map(int, sent.values())) > 300, told

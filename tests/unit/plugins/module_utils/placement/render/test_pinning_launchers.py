# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What launchers are told, word by word: the forms that were used on ND96asr_v4, and each launcher's own syntax."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import Refused, Request, place
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.render import LAUNCHERS, adapt, render
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import names, shared
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.placement.launcher_texts import READERS


@pytest.fixture
def rendered(tree):
    def run(name, launcher, ranks=8, base="pin", **request):
        machine = tree(name)
        asked = adapt(launcher, Request(ranks=ranks, **request))
        return render(launcher, place(machine, asked), machine, base)

    return run


# The three forms of the reference ----------------------------------------------------------------------


def test_the_srun_form_of_ndv4(rendered):
    found = rendered("ndv4", "srun", bind="numa")
    assert found.arguments[0] == (
        "--cpu-bind=mask_cpu:ffffff000000,ffffff000000,ffffff,ffffff,"
        "ffffff000000000000000000,ffffff000000000000000000,ffffff000000000000,ffffff000000000000"
    )
    assert found.arguments[1:3] == ("--gpu-bind=map_gpu:0,1,2,3,4,5,6,7", "--mem-bind=map_mem:1,1,0,0,3,3,2,2")
    # Without --ntasks a step after "sbatch -n 1 --exclusive" starts one task, and says nothing.
    assert found.count == ("--ntasks=8", "--ntasks-per-node=8") and found.arguments[3:] == ("--nodes=1",)


def test_the_hpcx_form_of_ndv4(rendered):
    found = rendered("ndv4", "hpcx", bind="numa")
    assert dict(found.environment)["CUDA_VISIBLE_DEVICES"] == "2,3,0,1,6,7,4,5"
    assert found.arguments[:4] == ("--map-by", "ppr:2:numa", "--bind-to", "numa")
    hybrid = rendered("ndv4", "openmpi", threads=12)
    assert hybrid.arguments[:4] == ("--map-by", "ppr:2:numa:pe=12", "--bind-to", "core")
    assert hybrid.command() == (
        "OMP_NUM_THREADS=12 CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2,3,0,1,6,7,4,5 mpirun -np 8 "
        "--map-by ppr:2:numa:pe=12 --bind-to core "
        "-x OMP_NUM_THREADS -x CUDA_DEVICE_ORDER -x CUDA_VISIBLE_DEVICES PROGRAM"
    )


@pytest.mark.parametrize("threads", [None, 8])
def test_the_hpl_form_of_ndv4(rendered, threads):
    found = rendered("ndv4", "hpl", threads=threads)
    # What hpl.sh does not know ends it, and --cpu-cores-per-rank is known to that of 20.10 to 21.4 alone.
    assert found.environment == (("OMP_NUM_THREADS", "8"),) and "--cpu-cores-per-rank 8 too" in found.notes[1]
    assert " ".join(found.arguments) == (
        "--cpu-affinity 24-35:36-47:0-11:12-23:72-83:84-95:48-59:60-71 "
        "--gpu-affinity 0:1:2:3:4:5:6:7 --mem-affinity 1:1:0:0:3:3:2:2 "
        "--ucx-affinity mlx5_ib0:mlx5_ib1:mlx5_ib2:mlx5_ib3:mlx5_ib4:mlx5_ib5:mlx5_ib6:mlx5_ib7"
    )


# GPUs by name, and by the number that Slurm counts --------------------------------------------------------


def with_nvml(lost=()):
    domains = ["0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"]
    return topology.observe(
        Host(shared("ndv4")),
        [
            topology.GpuReading(n, None, None, one + ":00:00.0", fault="the GPU is lost")
            if n in lost
            else topology.GpuReading(n, "GPU-{0}".format(n), "A100", one + ":00:00.0")
            for n, one in enumerate(domains)
        ],
    )


def test_slurm_counts_a_lost_gpu():
    machine = with_nvml(lost=(1,))
    found = render("srun", place(machine, Request(ranks=7)), machine)
    assert "--gpu-bind=map_gpu:0,2,3,4,5,6,7" in found.arguments
    found = render("srun", place(machine, Request(ranks=2, gpus=(7, 2))), machine)
    assert "--gpu-bind=map_gpu:7,2" in found.arguments


@pytest.mark.parametrize("launcher", ["openmpi", "intelmpi", "torchrun", "mvapich2", "numactl"])
def test_cuda_is_told_uuids_where_nvml_told_them(launcher):
    machine = with_nvml(lost=(1,))
    found = render(launcher, place(machine, adapt(launcher, Request(ranks=3, gpus=(2, 0, 7)))), machine)
    text = " ".join([found.command(), *found.lines, *(file.text for file in found.files)])
    order = ("GPU-2,GPU-0,GPU-7", "gpu=GPU-2 ;;\n1) ")
    assert order[launcher == "numactl"] in text
    assert "CUDA_DEVICE_ORDER" not in text and "CUDA_VISIBLE_DEVICES=2" not in text


# The others --------------------------------------------------------------------------------------------


def test_intel_mpi(rendered):
    found = rendered("ndv2", "intelmpi")
    assert dict(found.environment)["I_MPI_PIN_DOMAIN"] == (
        "[0x1f,0x3e0,0x7c00,0xf8000,0x1f00000,0x3e000000,0x7c0000000,0xf800000000]"  # five bits each
    )
    assert not found.notes and "these domains overlap" in rendered("ndv2", "intelmpi", bind="numa").notes[0]


def test_mvapich2(rendered):
    words = rendered("ndv4", "mvapich2").arguments
    assert words[-2:] == (
        "MV2_ENABLE_AFFINITY=1",
        "MV2_CPU_MAPPING=24-35:36-47:0-11:12-23:72-83:84-95:48-59:60-71",
    )


def test_lsf(rendered):
    assert rendered("ndv4", "lsf").command() == (
        "bsub -n 8 -R 'span[ptile=8]' "
        "-R 'affinity[core(12,same=numa):cpubind=core:membind=localonly:distribute=balance]' "
        "-gpu num=8:mode=shared:j_exclusive=yes PROGRAM"
    )
    assert "affinity[core(12,same=numa):cpubind=numa:" in rendered("ndv4", "lsf", bind="numa").command()
    assert "affinity[thread(16,same=numa):cpubind=thread:" in rendered("nps4_smt", "lsf", smt=True).command()
    assert "affinity[core(16):cpubind=core:membind=localprefer:" in rendered("nps4_smt", "lsf", threads=16).command()
    with pytest.raises(Refused, match="these ranks have 12 or 24; ask for 12 threads a rank"):
        rendered("ndv4", "lsf", ranks=7)


def test_numactl(rendered):
    lines = rendered("ndv4", "numactl", ranks=3).lines
    assert lines == (
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES=0 numactl --physcpubind=24-35 --membind=1 PROGRAM",
        "CUDA_VISIBLE_DEVICES=1 numactl --physcpubind=36-47 --membind=1 PROGRAM",
        "CUDA_VISIBLE_DEVICES=2 numactl --physcpubind=0-23 --membind=0 PROGRAM",
    )
    # Without NUMA numactl fails whatever it is told.
    assert rendered("laptop", "numactl", ranks=1).lines[-1].endswith("taskset --cpu-list 0,2,4,6 PROGRAM")


def test_torchrun(rendered):
    found = rendered("gb200", "torchrun", ranks=4, base="/scratch/job")
    assert found.command() == (
        "OMP_NUM_THREADS=32 CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1,2,3 "
        "torchrun --nproc_per_node=4 --no_python /scratch/job.sh python3 PROGRAM"
    )
    assert "\n3) cpus=96-127 memory=--membind=1 ;;\n" in found.files[0].text


def test_kubernetes(rendered):
    text = "\n".join(rendered("ndv4", "kubernetes").lines)
    assert "cpuManagerPolicy: static" in text and "topologyManagerPolicy: single-numa-node" in text
    # All cores are in use: the first of each NUMA node is the system's, so pods ask for 11 of 12.
    assert 'reservedSystemCPUs: "0,24,48,72"' in text and text.count('cpu: "11"') == 2
    assert "full-pcpus-only" not in text
    text = "\n".join(rendered("nps4_smt", "kubernetes").lines)
    # Idle cores lie on the other nodes. The kubelet counts hardware threads and gives whole cores.
    assert 'reservedSystemCPUs: "0,128"' in text and text.count('cpu: "16"') == 2
    assert 'full-pcpus-only: "true"' in text
    assert "best-effort" in "\n".join(rendered("nps4_smt", "kubernetes", threads=16).lines)


@pytest.mark.parametrize(
    "name, ranks, request_, words",
    [
        ("ndv5", 8, {}, "ppr:4:numa:pe=12"),
        ("ndv5", 8, {"threads": 8}, "ppr:4:numa:pe=8"),
        ("hb176", 4, {"bind": "numa"}, "ppr:1:numa"),
        ("hb176", 176, {}, "ppr:44:numa:pe=1"),
        ("nps4_smt", 16, {"gpus": "none", "smt": True}, "ppr:2:numa:pe=8"),
        # Not expressible: a cache with cores to spare, one thread of a core, nodes without ranks, nodes without CPUs,
        # a cpuset, a node with fewer ranks than the others.
        ("hb176", 24, {}, None),
        ("nps4_smt", 16, {"gpus": "none"}, None),
        ("ndv5", 7, {"threads": 8}, None),
        ("nps4_smt", 8, {"smt": True}, None),
        ("gb200", 4, {}, None),
        ("ndv4", 8, {"allowed_cpus": tuple(range(95))}, None),
    ],
)
def test_open_mpi_gets_the_script_where_no_mapping_says_it(tree, rendered, name, ranks, request_, words):
    found = rendered(name, "openmpi", ranks=ranks, base="/tmp/job", **request_)
    if words is None:
        assert found.arguments[:2] == ("--bind-to", "none") and found.arguments[-1] == "/tmp/job.sh"
        assert found.files[0].executable and "\n0) cpus=" in found.files[0].text
    else:
        assert found.arguments[1] == words and not found.files


def test_the_mask_lists_of_open_mpi_may_have_any_length(tree):
    """A rankfile's list of more than 63 characters made Open MPI 4.1 abort; CPUs 0 2 4 ... need one."""
    machine = tree("ndv4")
    asked = adapt("openmpi", Request(ranks=1, gpus="none", threads=48, allowed_cpus=tuple(range(0, 96, 2))))
    found = render("openmpi", place(machine, asked), machine)
    assert "--rankfile" not in found.arguments and READERS["openmpi"](found, machine) == [set(range(0, 96, 2))]


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("name", names())
def test_every_launcher_on_every_captured_machine(tree, launcher, name):
    machine = tree(name)
    for bind in ("core", "numa"):
        placement = place(machine, adapt(launcher, Request(ranks=1, bind=bind)))
        found = render(launcher, placement, machine)
        if launcher in READERS:
            assert READERS[launcher](found, machine) == [set(rank.cpus) for rank in placement.ranks]
        assert found.command() if found.program else found.lines


def test_an_unknown_launcher_is_told_with_those_that_are_known(tree):
    with pytest.raises(NodeError) as error:
        adapt("pbs", Request(ranks=1))
    assert str(error.value) == (
        "launcher pbs: it is not known here; use one of srun, openmpi, intelmpi, mvapich2, lsf, numactl, hpl, "
        "torchrun or kubernetes."
    )


def test_ranks_that_share_a_gpu_are_told_what_a_list_cannot_say(rendered):
    found = rendered("ndv4", "openmpi", ranks=4, gpus=(0, 0, 2, 2))
    assert dict(found.environment)["CUDA_VISIBLE_DEVICES"] == "2,0"
    assert "several ranks have one GPU" in found.notes[0]
    assert rendered("ndv4", "srun", ranks=4, gpus=(0, 0, 2, 2)).arguments[1] == "--gpu-bind=map_gpu:0,0,2,2"

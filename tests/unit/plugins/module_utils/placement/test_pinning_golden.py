# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placements on captured machines. What is expected stands here by hand, from the machines' own tables."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.sysfs import format_cpulist
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology import GpuReading
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import Refused, Request, place
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared


def cpus(placement):
    return [format_cpulist(rank.cpus) for rank in placement.ranks]


def column(placement, name):
    return [getattr(rank, name) for rank in placement.ranks]


# With a GPU for each rank ------------------------------------------------------------------------------


def test_ndv4_gives_each_rank_half_a_numa_node_beside_its_gpu(tree):
    found = place(tree("ndv4"), Request(ranks=8))
    # GPUs 0 1 on NUMA node 1, 2 3 on 0, 4 5 on 3, 6 7 on 2.
    assert cpus(found) == ["24-35", "36-47", "0-11", "12-23", "72-83", "84-95", "48-59", "60-71"]
    assert column(found, "home") == [1, 1, 0, 0, 3, 3, 2, 2]
    assert column(found, "memory_nodes") == [(1,), (1,), (0,), (0,), (3,), (3,), (2,), (2,)]
    assert [rank.gpu.index for rank in found.ranks] == list(range(8))
    assert column(found, "infiniband") == ["mlx5_ib{0}".format(number) for number in range(8)]
    # Four cores a cache: three whole caches a rank, numbered through the machine.
    assert column(found, "l3_groups")[:3] == [(6, 7, 8), (9, 10, 11), (0, 1, 2)]
    assert column(found, "threads") == [12] * 8
    assert found.warnings == () and found.idle_cpus == () and not found.limited


def test_ndv4_by_numa_nodes_is_the_same_in_another_order(tree):
    found = place(tree("ndv4"), Request(ranks=8, order="numa"))
    assert cpus(found) == ["0-11", "12-23", "24-35", "36-47", "48-59", "60-71", "72-83", "84-95"]
    assert [rank.gpu.index for rank in found.ranks] == [2, 3, 0, 1, 6, 7, 4, 5]


def test_ndv4_with_fewer_threads_stays_clear_of_other_caches(tree):
    assert cpus(place(tree("ndv4"), Request(ranks=8, threads=8)))[:2] == ["24-31", "32-39"]
    # Three of the four cores of a cache; the fourth stays idle.
    assert cpus(place(tree("ndv4"), Request(ranks=8, threads=3)))[:2] == ["24-26", "28-30"]


def test_ndv2_and_ndv5(tree):
    found = place(tree("ndv2"), Request(ranks=8))
    assert cpus(found) == ["0-4", "5-9", "10-14", "15-19", "20-24", "25-29", "30-34", "35-39"]
    assert set(column(found, "infiniband")) == {"mlx5_ib0"}
    found = place(tree("ndv5"), Request(ranks=8))
    assert cpus(found) == ["0-11", "12-23", "24-35", "36-47", "48-59", "60-71", "72-83", "84-95"]
    assert column(found, "home") == [0] * 4 + [1] * 4


def test_gb200_takes_memory_from_the_processor_and_not_from_the_gpus(tree):
    found = place(tree("gb200"), Request(ranks=4))
    assert cpus(found) == ["0-31", "32-63", "64-95", "96-127"]
    assert column(found, "memory_nodes") == [(0,), (0,), (1,), (1,)]
    assert column(found, "infiniband") == ["mlx5_ib0", "mlx5_ib1", "mlx5_ib2", "mlx5_ib3"]


def test_nps4_with_smt_takes_one_thread_of_each_core_beside_the_gpu(tree):
    found = place(tree("nps4_smt"), Request(ranks=8))
    # GPUs on NUMA nodes 3 3 1 1 7 7 5 5 of 16 cores each; CPUs 128 and up are second threads.
    assert cpus(found) == ["48-55", "56-63", "16-23", "24-31", "112-119", "120-127", "80-87", "88-95"]
    assert column(found, "l3_groups")[0] == (12, 13)
    assert found.warnings == ("NUMA node 0,2,4,6 has no rank: 64 of 128 cores stay idle; 16 thread(s) a rank use them",)


def test_nps4_with_smt_gets_second_threads_when_asked(tree):
    found = place(tree("nps4_smt"), Request(ranks=8, smt=True))
    assert cpus(found)[:2] == ["48-55,176-183", "56-63,184-191"]
    assert column(found, "threads") == [16] * 8
    # Sixteen threads fit on eight cores then.
    assert cpus(place(tree("nps4_smt"), Request(ranks=8, threads=16, smt=True))) == cpus(found)


def test_one_missing_thread_takes_smt_from_its_core_alone(tree):
    machine = tree("nps4_smt")
    # CPU 176 is the second thread of CPU 48's core, the first of NUMA node 3.
    usable = tuple(cpu for cpu in machine.cpus.online if cpu != 176)
    found = place(machine, Request(ranks=8, smt=True, allowed_cpus=usable))
    assert cpus(found)[:2] == ["48-55,177-183", "56-63,184-191"]
    assert column(found, "threads") == [15, *[16] * 7]
    assert "1 core(s) have fewer than 2 hardware threads to use (CPU 48): the ranks there can" in found.warnings[0]
    # Sixteen threads a rank need a core more there, and the ranks of a NUMA node get equal numbers of cores.
    found = place(machine, Request(ranks=8, threads=16, smt=True, allowed_cpus=usable))
    assert all(len(rank.cpus) >= 16 for rank in found.ranks)
    # All 32 threads of the 16 cores of a node are 31 there: the most that every rank can have is told, and works.
    with pytest.raises(Refused, match=r"up to 2 hardware threads each .*ask for (\d+) thread"):
        place(machine, Request(ranks=8, threads=33, smt=True, allowed_cpus=usable))


def test_cores_of_two_kinds_use_what_each_has(tree):
    # The laptop's CPUs 0-7 are four cores of two threads; without 5 and 7 two of the cores have one.
    found = place(tree("laptop"), Request(ranks=1, gpus="none", smt=True, allowed_cpus=(0, 1, 2, 3, 4, 6)))
    assert cpus(found) == ["0-4,6"] and column(found, "threads") == [6]
    for threads, expected in ((3, "0,2,4"), (5, "0-4"), (6, "0-4,6")):
        request = Request(ranks=1, gpus="none", threads=threads, allowed_cpus=(0, 1, 2, 3, 4, 6))
        assert cpus(place(tree("laptop"), request)) == [expected]


def test_the_threads_that_use_idle_nodes_are_counted_with_smt(tree):
    found = place(tree("nps4_smt"), Request(ranks=8, smt=True))
    assert "; 32 thread(s) a rank use them" in found.warnings[0]
    again = place(tree("nps4_smt"), Request(ranks=8, smt=True, threads=32))
    assert not any("has no rank" in warning for warning in again.warnings)


def test_nps4_with_more_threads_than_near_cores_goes_to_the_nearest_idle_node(tree):
    found = place(tree("nps4_smt"), Request(ranks=8, threads=16))
    assert cpus(found)[:4] == ["0-7,48-55", "8-15,56-63", "16-23,32-39", "24-31,40-47"]
    assert column(found, "memory_nodes")[0] == (0, 3)
    assert "rank 0-7 reaches over more than one NUMA node; 8 thread(s) a rank stay inside" in found.warnings[0]


def test_threads_that_no_way_of_single_threads_can_hold_take_second_threads(tree):
    found = place(tree("nps4_smt"), Request(ranks=8, threads=32))
    assert all(len(rank.cpus) == 32 and len(rank.cores) == 16 for rank in found.ranks)
    assert "all hardware threads" in found.warnings[1]


def test_a_laptop_without_numa(tree):
    found = place(tree("laptop"), Request(ranks=1))
    assert (cpus(found), column(found, "memory_nodes"), found.numa) == (["0,2,4,6"], [()], False)
    assert found.ranks[0].gpu.pci_address == "0000:01:00.0"
    assert cpus(place(tree("laptop"), Request(ranks=4, gpus="none"))) == ["0", "2", "4", "6"]
    assert cpus(place(tree("laptop"), Request(ranks=2, gpus="none", smt=True))) == ["0-3", "4-7"]


# Without GPUs ------------------------------------------------------------------------------------------


def test_hb176_gives_24_ranks_a_cache_each(tree):
    found = place(tree("hb176"), Request(ranks=24))
    # Caches of 8 8 8 8 6 6 cores on each NUMA node of 44: six cores of each.
    first = ["0-5", "8-13", "16-21", "24-29", "32-37", "38-43"]
    assert cpus(found)[:7] == [*first, "44-49"]
    assert column(found, "l3_groups") == [(number,) for number in range(24)]
    assert found.warnings == ()


def test_hb176_spreads_few_ranks_over_the_numa_nodes(tree):
    assert cpus(place(tree("hb176"), Request(ranks=4))) == ["0-43", "44-87", "88-131", "132-175"]
    found = place(tree("hb176"), Request(ranks=2))
    assert cpus(found) == ["0-43", "88-131"]
    assert "NUMA node 1,3 has no rank" in found.warnings[0] and "a multiple of 4 ranks" in found.warnings[0]
    # Two caches a rank, the last of them two of six cores: 12 cores each.
    assert cpus(place(tree("hb176"), Request(ranks=12)))[:4] == ["0-11", "16-27", "32-43", "44-55"]
    assert cpus(place(tree("hb176"), Request(ranks=176))) == [str(cpu) for cpu in range(176)]


def test_one_rank_may_take_the_whole_machine(tree):
    found = place(tree("ndv4"), Request(ranks=1, threads=96))
    assert cpus(found) == ["0-95"] and found.ranks[0].home == 1
    assert "reaches over more than one NUMA node" in found.warnings[0]


# Limits ------------------------------------------------------------------------------------------------


def test_a_cpuset_is_respected_and_told(tree):
    found = place(tree("ndv4"), Request(ranks=4, gpus=(0, 1, 2, 3), allowed_cpus=tuple(range(12, 36))))
    assert cpus(found) == ["24-29", "30-35", "12-17", "18-23"]
    assert found.limited


def test_a_gpu_without_a_core_beside_it_is_told(tree):
    found = place(tree("ndv4"), Request(ranks=2, gpus=(0, 2), allowed_cpus=tuple(range(24))))
    assert cpus(found) == ["0-11", "12-23"]
    assert any("the rank of GPU 0 sits away from it" in warning for warning in found.warnings)


def test_offline_cpus_get_no_rank(tree):
    # CPUs 0 1 share a core, so do 4 5; 2, 3 and 7 are offline, so 6 is alone on its core.
    assert cpus(place(tree("offline"), Request(ranks=3))) == ["0", "4", "6"]
    with pytest.raises(Refused, match="4 ranks: there are 3 core"):
        place(tree("offline"), Request(ranks=4))


def test_memory_of_a_cpuset(tree):
    found = place(tree("ndv4"), Request(ranks=8, allowed_memory_nodes=(0,)))
    assert column(found, "memory_nodes") == [(0,)] * 8


# Uneven ------------------------------------------------------------------------------------------------


def test_a_lopsided_request_is_told_with_numbers_that_are_even(tree):
    found = place(tree("ndv4"), Request(ranks=7, gpus=(0, 1, 2, 3, 4, 5, 6)))
    assert [len(rank.cores) for rank in found.ranks] == [12] * 6 + [24]
    assert "NUMA node 2 has 1 rank(s) of 24 core(s)" in found.warnings[0]
    assert "12 thread(s) a rank would be too" in found.warnings[0]
    found = place(tree("ndv4"), Request(ranks=10, gpus="none"))
    assert "8 or 12 ranks would be even" in found.warnings[0]
    for even in (8, 12):
        again = place(tree("ndv4"), Request(ranks=even, gpus="none"))
        assert len({len(rank.cores) for rank in again.ranks}) == 1


def test_ranks_that_must_share_caches_are_told(tree):
    found = place(tree("ndv4"), Request(ranks=16, gpus="none"))
    # Six cores a rank and four a cache; four cores would be a cache each.
    assert cpus(found)[:2] == ["0-5", "6-11"]
    assert "4 thread(s) a rank would not" in found.warnings[0]


def test_cores_that_are_left_over_are_told(tree):
    found = place(tree("hb176"), Request(ranks=96))
    assert found.warnings == ("80 of 176 cores are left over; as many as 176 ranks have 1 core(s) each",)


def test_a_lost_gpu_gets_no_rank():
    domains = ["0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"]
    readings = [GpuReading(n, "GPU-{0}".format(n), "A100", one + ":00:00.0") for n, one in enumerate(domains)]
    readings[1] = dataclasses.replace(readings[1], uuid=None, fault="the GPU is lost")
    machine = topology.observe(Host(shared("ndv4")), readings)
    found = place(machine, Request(ranks=7))
    assert [rank.gpu.index for rank in found.ranks] == [0, 2, 3, 4, 5, 6, 7]
    assert found.ranks[0].gpu.uuid == "GPU-0"
    assert found.warnings[0] == "GPU 0002:00:00.0 gets no rank: the GPU is lost"
    with pytest.raises(Refused, match="this node has 7 GPU"):
        place(machine, Request(ranks=8))


def test_unknown_numa_nodes_are_told(tree):
    found = place(tree("minus_one"), Request(ranks=2))
    assert column(found, "home") == [0, 1]
    assert "NUMA node of GPU 1 is not known" in found.warnings[0]


# Refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_, words, alternatives",
    [
        (Request(ranks=0), "0 ranks: a placement needs one at least; ask for 1 to 8.", [1, 8]),
        # With threads that fit on no rank, the number of ranks alone is no remedy.
        (Request(ranks=0, threads=200), "ask for 1 to 8 of 12 thread(s).", [1, 8]),
        (Request(ranks=9, threads=50), "8 GPU(s) to give; ask for 8 rank(s) of 12 thread(s).", [8]),
        (Request(ranks=97, gpus="none", threads=97), "ask for 96 rank(s) of 1 thread(s), or let ranks share", [96, 97]),
        (Request(ranks=97, gpus="none"), "97 ranks: there are 96 core(s) to use", [96, 97]),
        (Request(ranks=9), "9 ranks with a GPU each: this node has 8 GPU(s) to give; ask for 8 rank(s)", [8, 9]),
        (
            Request(ranks=8, threads=13),
            "ask for 12 thread(s) a rank, or for 7 rank(s) of 13 thread(s), or let ranks share cores "
            "(gpunode pin --share-cores).",
            [8, 7, 8],
        ),
        (Request(ranks=8, threads=0), "0 threads a rank: a rank runs one at least", [8]),
        (Request(ranks=2, gpus=(0, 9)), "GPU 9: this node has no GPU of that number", []),
        (Request(ranks=2, gpus=(0, 1, 2)), "3 GPU number(s) were given", [3]),
        (Request(ranks=1, gpus="some"), "gpus some: no such word is known", []),
        (Request(ranks=1, bind="socket"), "bind socket: no such one is known; use core or numa.", []),
        (Request(ranks=1, allowed_cpus=(500,)), "no CPU that is online may be used here", []),
    ],
)
def test_what_cannot_be_placed_is_refused_with_numbers_that_work(tree, request_, words, alternatives):
    machine = tree("ndv4")
    with pytest.raises(Refused) as refusal:
        place(machine, request_)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)
    assert [one.ranks for one in refusal.value.alternatives] == alternatives
    for alternative in refusal.value.alternatives:
        place(machine, alternative)


def test_a_machine_without_gpu_says_so(tree):
    with pytest.raises(Refused, match="this node has no GPU that answers; ask for gpus none"):
        place(tree("hb176"), Request(ranks=2, gpus="each"))


def test_cores_are_shared_only_when_asked(tree):
    found = place(tree("ndv4"), Request(ranks=97, gpus="none", share_cores=True))
    assert len(found.ranks) == 97 and "ranks share cores, as asked" in found.warnings[0]


def test_a_gpu_may_serve_several_ranks_when_listed_so(tree):
    found = place(tree("ndv4"), Request(ranks=4, gpus=(0, 0, 2, 2)))
    assert cpus(found) == ["24-35", "36-47", "0-11", "12-23"]

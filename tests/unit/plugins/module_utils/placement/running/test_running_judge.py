# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said about an application, on captured machines. Expected by hand, from the reference lines of ND96asr_v4."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import Request, place
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.running import (
    GpuUse,
    Process,
    State,
    Thread,
    judge,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.running.judge import launchers, named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.running.places import Places
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import names, shared

# ND96asr_v4: the cores of the reference HPL line, and the masks of the reference srun line, both by GPU index.
HPL = ["24-35", "36-47", "0-11", "12-23", "72-83", "84-95", "48-59", "60-71"]
SRUN = ["24-47", "24-47", "0-23", "0-23", "72-95", "72-95", "48-71", "48-71"]
DOMAINS = ["0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"]


@pytest.fixture(scope="module")
def machine():
    known = {}

    def get(name):
        if name not in known:
            known[name] = topology.observe(Host(shared(name)))
        return known[name]

    return get


def cpus(text):
    found = []
    for part in text.split(","):
        first, dummy, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def process(pid, allowed, working=1, idle=0, at=0, parent=1, name="app", ticks=100, given=None):
    """A process whose working threads run on the CPUs that it is allowed, from the one in place ``at`` on."""
    allowed = cpus(allowed) if isinstance(allowed, str) else allowed
    threads = [
        Thread(pid + 1000 * number, name, allowed, (("R", allowed[(at + number) % len(allowed)]),) * 3)
        for number in range(working)
    ]
    threads += [
        Thread(pid + 1000 * (working + number), name, allowed, (("S", allowed[0]),) * 3) for number in range(idle)
    ]
    return Process(pid, parent, name, name, ticks, tuple(threads), given)


def gpus(*users):
    """GPU i of an ND96asr_v4, used by these processes."""
    return tuple(
        GpuUse(number, None, DOMAINS[number] + ":00:00.0", None if pids is None else tuple(pids))
        for number, pids in enumerate(users)
    )


def told(state, found):
    return [(one.severity, one.kind, one.message) for one in judge(state, found)]


def kinds(state, found, severity="warning"):
    return [one.kind for one in judge(state, found) if one.severity == severity]


def without_cpus(found, node):
    """The machine, with this NUMA node's CPUs given to the next one: GPUs hang on a node that has only memory."""
    nodes = {one.id: one for one in found.numa_nodes}
    nodes[node ^ 1] = dataclasses.replace(nodes[node ^ 1], cpus=tuple(sorted(nodes[0].cpus + nodes[1].cpus)))
    far = tuple((other, 10 if other == node else 12 if other == node ^ 1 else 32) for other in nodes)
    nodes[node] = dataclasses.replace(nodes[node], cpus=(), kind="memory_only", l3_groups=(), distances=far)
    return dataclasses.replace(found, numa_nodes=tuple(nodes[one] for one in sorted(nodes)))


def test_our_own_placement_beside_a_node_without_cpus_is_well():
    found = without_cpus(topology.look(Host(shared("ndv4")), ask_nvml=False), 1)
    placed = place(found, Request(ranks=2))
    assert [rank.gpu.numa_node for rank in placed.ranks] == [1, 1]
    state = State(tuple(process(10 + rank.index, rank.cpus) for rank in placed.ranks), gpus((10,), (11,), *[None] * 6))
    assert "far_from_gpu" not in kinds(state, found)
    # Far is told still, with the node that would be near.
    state = State((process(10, "48-59"),), gpus((10,), *[None] * 7))
    assert ("warning", "far_from_gpu", "process 10 uses GPU 0 of NUMA node 0 and runs on NUMA node 2") in told(
        state, found
    )


def bound(pid, masks, last, looks=3, state="R"):
    threads = tuple(
        Thread(pid + number, "app", cpus(allowed), ((state, cpu),) * looks)
        for number, (allowed, cpu) in enumerate(zip(masks, last))
    )
    return Process(pid, 1, "app", "app", 100, threads, None)


def test_threads_of_one_process_on_one_cpu_are_told(machine):
    found = machine("ndv4")
    message = "process 10 runs several threads on one CPU (0) while others of its CPUs are idle (1-2)"
    for one in (bound(10, ["0", "0", "0-2"], [0, 0, 0]), bound(10, ["0-2"] * 3, [0, 0, 0])):
        assert ("warning", "shares_cpu", message) in told(State((one,)), found)
    for one in (
        bound(10, ["0", "1", "2"], [0, 1, 2]),  # a CPU each
        bound(10, ["0-2"] * 3, [0, 0, 0], looks=1),  # seen once says nothing
        bound(10, ["0-2"] * 3, [0, 0, 0], state="S"),  # asleep
        bound(10, ["0-1"] * 2, [0, 0], looks=0),
    ):
        assert "shares_cpu" not in kinds(State((one,)), found)
    # No CPU is free: that is told as too many threads, or there is another process on it.
    full = bound(10, ["0-1"] * 3, [0, 0, 1])
    assert kinds(State((full,)), found) == ["too_many_threads"]
    other = bound(30, ["1"], [1])
    assert "shares_cpu" not in kinds(State((bound(10, ["0-1"] * 2, [0, 0]), other)), found)


@pytest.mark.parametrize("masks", [HPL, SRUN])
def test_the_reference_placements_are_well(machine, masks):
    ranks = tuple(process(100 + rank, mask, working=12, idle=40, at=12 * (rank % 2)) for rank, mask in enumerate(masks))
    state = State(ranks, gpus(*[[100 + rank] for rank in range(8)]))
    assert kinds(state, machine("ndv4")) == []
    # Four cores share a level-3 cache there, so ranks of 12 and of 24 cores cross them; a fact, not a fault.
    notes = [message for severity, dummy, message in told(state, machine("ndv4")) if severity == "note"]
    width = 3 if masks is HPL else 6
    assert notes == ["8 processes (100 to 107) may run on cores of {0} level-3 caches each".format(width)]


def test_ranks_in_the_order_of_numa_nodes_sit_away_from_their_gpus(machine):
    """The classic mistake: rank i on the i-th twelfth of the cores, though GPU 0 hangs on NUMA node 1."""
    ranks = tuple(process(100 + rank, "{0}-{1}".format(12 * rank, 12 * rank + 11)) for rank in range(8))
    found = judge(State(ranks, gpus(*[[100 + rank] for rank in range(8)])), machine("ndv4"))
    warnings = [one for one in found if one.severity == "warning"]
    assert [one.kind for one in warnings] == ["far_from_gpu"] * 8
    assert warnings[0].message == "process 100 uses GPU 0 of NUMA node 1 and runs on NUMA node 0"
    assert (warnings[0].pids, warnings[0].gpus) == ((100,), (0,))


def test_a_job_that_nobody_pinned(machine):
    ranks = tuple(process(100 + rank, "0-95", at=rank) for rank in range(8))
    assert told(State(ranks), machine("ndv4")) == [
        (
            "warning",
            "crosses_numa",
            "8 processes (100 to 107) may run on NUMA nodes 0-3, which is the whole machine: not pinned",
        )
    ]


def test_two_ranks_on_the_same_cores(machine):
    ranks = (process(100, "0-11", working=12), process(101, "0-11", working=12), process(102, "12-23", working=12))
    state = State(ranks)
    assert ("warning", "shares_core", "processes 100 and 101 share cores: 24 threads on 12 cores (CPU 0-11)") in told(
        state, machine("ndv4")
    )
    assert kinds(state, machine("ndv4")) == ["shares_core"]


def test_ranks_that_overlap_by_one_core_are_crowded_only_when_they_fill_theirs(machine):
    full = State((process(100, "0-3", working=4), process(101, "3-6", working=4)))
    assert kinds(full, machine("ndv4")) == ["shares_core"]
    half = State((process(100, "0-3", working=2), process(101, "3-6", working=2, at=1)))
    assert kinds(half, machine("ndv4")) == []


def test_idle_ranks_on_one_core_are_told_as_well(machine):
    state = State((process(100, "5", working=0, idle=3), process(101, "5", working=0, idle=3)))
    assert told(state, machine("ndv4")) == [
        ("warning", "shares_core", "processes 100 and 101 share cores: 2 threads on one core (CPU 5)")
    ]


def test_two_hardware_threads_of_one_core_are_one_core(machine):
    """NPS4 with SMT: CPU n and n + 16 are one core."""
    state = State((process(100, "0"), process(101, "16")))
    assert told(state, machine("nps4")) == [
        ("warning", "shares_core", "processes 100 and 101 share cores: 2 threads on one core (CPU 0,16)")
    ]
    assert kinds(State((process(100, "0,16"), process(101, "1,17"))), machine("nps4")) == []


def test_threads_seen_on_one_core_at_once_are_told_though_there_is_room(machine):
    def seen(pid, *places):
        looks = tuple(None if cpu is None else ("R", cpu) for cpu in places)
        return Process(pid, 1, "app", "app", 1, (Thread(pid, "app", cpus("0-23"), looks),))

    twice = State((seen(100, 3, 3, 5), seen(101, 3, 3, 7)))
    assert told(twice, machine("ndv4"))[0] == (
        *(
            "warning",
            "shares_core",
            "processes 100 and 101 run on the same core (CPU 3) at the same time, though they have enough",
        ),
    )
    # Once may be a thread that moved between two reads.
    assert kinds(State((seen(100, 3, 4, 5), seen(101, 3, 6, None))), machine("ndv4")) == []


def test_more_working_threads_than_cpus(machine):
    state = State((process(100, "0-11", working=24),))
    assert ("warning", "too_many_threads", "process 100 has 24 running threads and 12 CPUs for them (0-11)") in told(
        state, machine("ndv4")
    )
    assert kinds(State((process(100, "0-11", working=12, idle=200),)), machine("ndv4")) == []


def test_idle_gpus_are_told_unless_the_job_does_not_have_them(machine):
    ranks = (process(100, "24-35"), process(101, "36-47"))
    state = State(ranks, gpus([100], [101], [], [], [777], None, [777], [777]))
    assert told(state, machine("ndv4"))[0] == ("warning", "gpu_idle", "GPU 2-3 are idle: no process uses them")
    given = tuple(process(one.pid, one.allowed, given=("0", "1")) for one in ranks)
    assert kinds(State(given, state.gpus), machine("ndv4")) == []
    short = tuple(process(one.pid, one.allowed, given=("0", "1", "2")) for one in ranks)
    assert told(State(short, state.gpus), machine("ndv4"))[0][2] == "GPU 2 is idle: no process uses it"
    assert (
        kinds(State(tuple(process(one.pid, one.allowed, given=()) for one in ranks), state.gpus), machine("ndv4")) == []
    )


def test_a_launcher_is_not_judged(machine):
    ranks = tuple(process(100 + rank, mask, parent=50, ticks=5000) for rank, mask in enumerate(HPL))
    for name, ticks in (("mpirun", 100), ("python3", 100)):
        starter = process(50, "0-95", working=0, idle=4, name=name, ticks=ticks)
        state = State((starter, *ranks))
        assert launchers(state) == {50} and kinds(state, machine("ndv4")) == []
    # A job that has just begun: to change the user cost as much as the ranks have used so far.
    young = tuple(process(100 + rank, mask, parent=50, ticks=20) for rank, mask in enumerate(HPL))
    for name in ("runuser", "su", "sudo", "systemd-run"):
        starter = process(50, "0-95", working=0, idle=1, name=name, ticks=15)
        assert launchers(State((starter, *young))) == {50}, name
    # A parent that works, or uses a GPU, is a rank that has children (PyTorch's data loaders).
    for starter, use in (
        (process(50, "0-95", ticks=5000), ()),
        (process(50, "0-95", working=0, idle=1, ticks=1), gpus([50])),
    ):
        state = State((starter, *ranks), use)
        assert launchers(state) == frozenset() and "crosses_numa" in kinds(state, machine("ndv4"))


def test_when_nothing_but_launchers_is_there_they_are_judged(machine):
    state = State((process(50, "0-95", working=0, idle=1, name="srun"),))
    assert launchers(state) == frozenset() and kinds(state, machine("ndv4")) == ["crosses_numa"]


def test_levels_of_cache_and_memory_are_numbered_through_the_machine(machine):
    places = Places.of(machine("ndv4"))
    assert len(set(places.caches.values())) == 24 and places.caches[95] == 23
    assert places.nodes_of([23, 24]) == {0, 1}
    assert places.gpu_node(None, "000e:00:00.0") == {2}
    assert len(set(Places.of(machine("nps4")).caches.values())) == 8


def test_processes_are_named_shortly():
    assert named([7]) == "process 7"
    assert named([8, 7]) == "processes 7 and 8"
    assert named([9, 7, 8]) == "processes 7, 8 and 9"
    assert named(range(20, 30)) == "10 processes (20 to 29)"


LOOKS = st.lists(st.none() | st.tuples(st.sampled_from("RSDTZ"), st.integers(0, 200)), max_size=3).map(tuple)
THREADS = st.builds(
    Thread,
    tid=st.integers(1, 99),
    name=st.text(max_size=3),
    allowed=st.lists(st.integers(0, 200), max_size=6).map(tuple),
    looks=LOOKS,
)
PROCESSES = st.builds(
    Process,
    pid=st.integers(1, 12),
    parent=st.integers(0, 12),
    name=st.sampled_from(["app", "mpirun", "bash"]),
    command=st.just("x"),
    cpu_ticks=st.integers(0, 50),
    threads=st.lists(THREADS, max_size=4).map(tuple),
    gpus_given=st.none() | st.lists(st.sampled_from(["0", "1", "GPU-", "MIG-x"])).map(tuple),
)
USES = st.builds(
    GpuUse,
    index=st.integers(0, 9),
    uuid=st.none() | st.just("GPU-1"),
    pci_address=st.none() | st.sampled_from(["0001:00:00.0", "nothing"]),
    pids=st.none() | st.lists(st.integers(1, 12)).map(tuple),
)


@pytest.mark.parametrize("name", names())
@given(
    processes=st.lists(PROCESSES, min_size=1, max_size=5, unique_by=lambda one: one.pid),
    uses=st.lists(USES, max_size=3),
)
def test_no_state_breaks_the_judgement(machine, name, processes, uses):
    state = State(tuple(processes), tuple(uses))
    once = judge(state, machine(name))
    assert once == judge(State(tuple(processes), tuple(uses)), machine(name))
    assert [one.severity for one in once] == sorted((one.severity for one in once), reverse=True)
    assert {pid for one in once for pid in one.pids} <= {one.pid for one in processes}

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which copies run side by side, and processes that wait for each other."""

from __future__ import annotations

import functools
import itertools
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology.types import (
    CpuSummary,
    Gpu,
    NumaNode,
    Placement,
    Topology,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import apart, paths, peers
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.turns import Turns


def topology(gpus, nodes):
    """A machine: for each GPU (bridges above it, NUMA node), and how many NUMA nodes there are."""
    found = []
    for number, (bridges, node) in enumerate(gpus):
        place = Placement(address(number), tuple(bridges), node, None, None)
        found.append(Gpu(address(number), True, number, None, None, None, None, None, None, None, place))
    numa = tuple(NumaNode(node, "cpus_and_memory", (node,), 2**30, (), (), (), False) for node in range(nodes))
    return Topology(CpuSummary((), (), (), (), 0, 1, ()), None, (), numa, tuple(found), (), (), (), None, ())


def address(number):
    return "{0:04x}:00:00.0".format(number + 1)


def ways(gpus, nodes):
    return paths.host_paths([address(number) for number in range(len(gpus))], topology(gpus, nodes))


# Azure's virtual machines: each GPU below a root complex of its own. A server: two GPUs below one switch, and so on.
NDV4 = [(["pci000{0}:00".format(gpu + 1)], node) for gpu, node in enumerate([1, 1, 0, 0, 3, 3, 2, 2])]
NDV5 = [(["pci000{0}:00".format(gpu + 1)], gpu // 4) for gpu in range(8)]
SWITCHES = [(["pci0000:{0}0".format(gpu // 2), "0000:{0}0:01.0".format(gpu // 2)], gpu // 4) for gpu in range(8)]


@pytest.mark.parametrize(
    ("gpus", "nodes", "waiting", "sharers"),
    [
        (NDV4, 4, [(), (0,), (), (2,), (), (4,), (), (6,)], (1, 2)),
        (NDV5, 2, [(), (0,), (0, 1), (0, 1, 2), (), (4,), (4, 5), (4, 5, 6)], (1, 4)),
        (SWITCHES, 2, [(), (0,), (0, 1), (0, 1, 2), (), (4,), (4, 5), (4, 5, 6)], (2, 4)),
        ([(["pci0000:00"], 0)], 1, [()], (1, 1)),
        ([(["pci0000:00"], 0), (["pci0000:40"], 1)], 2, [(), ()], (1, 1)),
        # Unknown: no NUMA node, or a GPU that sysfs does not show. It may share anything.
        ([(["pci0000:00"], None), (["pci0000:40"], 1)], 2, [(), (0,)], (1, 2)),
        ([([], 0), (["pci0000:40"], 1)], 2, [(), (0,)], (2, 2)),
    ],
    ids=["ndv4", "ndv5", "switches", "one", "two nodes", "no numa node", "no path"],
)
def test_gpus_that_share_a_path_to_the_host_take_turns(gpus, nodes, waiting, sharers):
    found = ways(gpus, nodes)
    assert list(paths.waits_for(found)) == waiting
    assert set(paths.sharers(found)) == {sharers}


machines = some.integers(1, 9).flatmap(
    lambda count: some.lists(
        some.tuples(
            some.lists(some.sampled_from(["pci0000:00", "pci0000:40", "a", "b", "c"]), max_size=3, unique=True),
            some.none() | some.integers(0, 2),
        ),
        min_size=count,
        max_size=count,
    )
)


@given(machines)
def test_those_that_share_a_path_wait_and_the_others_do_not(gpus):
    found = ways(gpus, 3)
    waiting = paths.waits_for(found)
    for one, other in itertools.combinations(range(len(gpus)), 2):
        assert (one in waiting[other]) == bool(found[one] & found[other])
        assert other not in waiting[one]  # nobody waits in a circle
    shared = {(one, other) for one, other in itertools.permutations(range(len(gpus)), 2) if gpus[one] == gpus[other]}
    assert all(found[one] & found[other] for one, other in shared)


@given(machines, some.data())
def test_each_pair_is_copied_once_and_shares_its_path_with_no_other_of_its_round(gpus, data):
    found, count = ways(gpus, 3), len(gpus)
    pairs = list(itertools.permutations(range(count), 2))
    linked = frozenset(data.draw(some.sets(some.sampled_from(pairs)))) if pairs else frozenset()
    plan = peers.plan(found, linked)
    assert sorted(pair for members in plan for pair in members) == sorted(pairs)
    for members in plan:
        for one, other in itertools.combinations(members, 2):
            assert not set(one) & set(other)  # each GPU is in one pair
            if one not in linked and other not in linked:
                mine, theirs = (found[pair[0]] | found[pair[1]] for pair in (one, other))
                assert not mine & theirs


@pytest.mark.parametrize(("count", "rounds"), [(1, 0), (2, 2), (3, 6), (4, 6), (7, 14), (8, 14), (16, 30)])
def test_gpus_with_nvlinks_meet_in_as_few_rounds_as_there_can_be(count, rounds):
    every = frozenset(itertools.permutations(range(count), 2))
    assert len(peers.plan(ways(NDV5[:1] * count, 2), every)) == rounds


def test_pairs_over_pcie_take_turns_and_those_with_nvlinks_do_not():
    """Two GPUs below each of four switches, NVLinks between neighbours (bridges) only."""
    bridged = frozenset(pair for one in range(0, 8, 2) for pair in ((one, one + 1), (one + 1, one)))
    plan = peers.plan(ways(SWITCHES, 2), bridged)
    widest = max(len(members) for members in plan)
    assert widest >= 3 and all(
        sum(1 for pair in members if pair not in bridged and (pair[0] < 4) != (pair[1] < 4)) <= 1 for members in plan
    )


@given(some.integers(1, 17))
def test_all_gpus_send_and_receive_in_each_round_of_all_at_once(count):
    plan = paths.shifted(count)
    for members in plan:
        assert sorted(one for one, dummy in members) == sorted(other for dummy, other in members) == list(range(count))
    assert sorted(pair for members in plan for pair in members) == sorted(itertools.permutations(range(count), 2))


# Processes --------------------------------------------------------------------------------------------


def times(waiting, slow=(), limit=10.0):
    """(start, end) of the step of each process, where each waits for others; those in ``slow`` never end."""
    turns = Turns(len(waiting))

    def work(number, before):
        if before:
            turns.wait(1, lambda: apart.doing("wait", limit), before)
        apart.doing("copy {0}".format(number), limit)
        begun = time.monotonic()
        time.sleep(60.0 if number in slow else 0.3)
        done = time.monotonic()
        turns.finished(number, 1)
        turns.wait(1, lambda: apart.doing("wait", limit))
        return begun, done, os.getpid()

    tasks = [
        apart.Task("task {0}".format(number), functools.partial(work, number, before))
        for number, before in enumerate(waiting)
    ]
    return apart.side_by_side(tasks, limit, ended=turns.gone)


def test_processes_take_turns_where_they_must_and_go_on_when_all_are_through():
    answers = [answer() for answer in times([(), (0,), (), (2,)])]
    assert answers[0][1] <= answers[1][0] and answers[2][1] <= answers[3][0]
    assert answers[2][0] < answers[1][1]  # the two groups run side by side


def test_nobody_waits_for_a_process_that_hangs_and_it_is_named():
    begun = time.monotonic()
    answers = times([(), (0,), (0, 1)], slow=(0,), limit=1.0)
    with pytest.raises(NodeError, match="task 0: it did not end in time: copy 0"):
        answers[0]()
    first, second = answers[1](), answers[2]()
    assert first[1] <= second[0] and time.monotonic() - begun < 20.0
    for answer in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(answer[2], 0)


def test_a_step_is_never_taken_back():
    turns = Turns(2)
    turns.gone(0)
    turns.finished(0, 1)
    turns.finished(1, 2)
    turns.wait(2, lambda: pytest.fail("it waits"))


def test_who_names_nobody_waits_for_all():
    turns, asked = Turns(3), []

    def waiting():
        asked.append(len(asked))
        turns.finished(asked[-1], 1)

    turns.wait(1, waiting)
    assert asked == [0, 1, 2]
    turns.wait(2, lambda: turns.finished(1, 2), [1])


def test_copies_of_the_topology_are_what_the_plan_is_made_of():
    """A GPU that another process hides from sysfs shares with all; it does not share with nobody."""
    machine = topology(NDV5, 2)
    unknown = paths.host_paths(["ffff:00:00.0"], machine)[0]
    assert all(unknown & own for own in ways(NDV5, 2))
    alone = replaced(machine, gpus=())
    assert paths.waits_for(paths.host_paths([address(0), address(1)], alone)) == ((), (0,))

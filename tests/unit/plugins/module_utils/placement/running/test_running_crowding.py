# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Crowding against brute force: by Hall's theorem a set of processes is crowded when it has too few cores."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.running.crowding import crowds
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

CORES = st.frozensets(st.integers(0, 6), min_size=2, max_size=3)
# Few threads on more cores: most of these just fit, and only when some move on to other cores.
WANTS = st.dictionaries(st.integers(1, 5), st.tuples(st.integers(1, 2), CORES), min_size=2, max_size=5).map(
    lambda wants: {pid: (min(count, len(cores)), cores) for pid, (count, cores) in wants.items()}
)


def is_crowded(wants, pids):
    cores = frozenset().union(*(wants[pid][1] for pid in pids))
    return sum(wants[pid][0] for pid in pids) > len(cores)


@examples(400)
@given(WANTS)
def test_it_is_crowded_exactly_when_some_set_has_fewer_cores_than_threads(wants):
    sets = itertools.chain.from_iterable(itertools.combinations(wants, size) for size in range(1, len(wants) + 1))
    assert bool(crowds(wants)) == any(is_crowded(wants, pids) for pids in sets)


@given(WANTS)
def test_each_crowd_is_one_and_says_so_with_its_numbers(wants):
    seen = set()
    for crowd in crowds(wants):
        assert len(crowd.pids) > 1 and not seen & set(crowd.pids)
        seen |= set(crowd.pids)
        assert crowd.cores == frozenset().union(*(wants[pid][1] for pid in crowd.pids))
        assert crowd.threads == sum(wants[pid][0] for pid in crowd.pids) > len(crowd.cores)


def test_two_ranks_on_a_whole_numa_node_are_not_crowded():
    node = frozenset(range(24))
    assert crowds({1: (12, node), 2: (12, node)}) == []
    (crowd,) = crowds({1: (12, node), 2: (13, node), 3: (24, frozenset(range(24, 48)))})
    assert (crowd.pids, crowd.threads, len(crowd.cores)) == ((1, 2), 25, 24)


def test_a_process_that_can_go_elsewhere_is_no_part_of_a_crowd():
    assert crowds({1: (1, frozenset({0})), 2: (1, frozenset({0, 1}))}) == []
    (crowd,) = crowds({1: (1, frozenset({0})), 2: (1, frozenset({0})), 3: (1, frozenset({0, 1}))})
    assert crowd.pids == (1, 2)


def test_who_can_move_on_makes_room_for_others():
    assert crowds({1: (1, frozenset({0, 1})), 2: (2, frozenset({0, 2}))}) == []
    chain = {pid: (1, frozenset({pid, pid + 1})) for pid in range(5)}
    assert crowds(chain) == [] and crowds({**chain, 9: (1, frozenset({0, 9}))}) == []
    assert len(crowds({**chain, 9: (1, frozenset({0})), 10: (1, frozenset({5}))})) == 1


def test_a_large_machine_takes_no_time():
    cores = frozenset(range(384))
    assert len(crowds({pid: (384, cores) for pid in range(384)})) == 1
    assert crowds({pid: (1, frozenset({pid, pid + 1})) for pid in range(384)}) == []

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bisection against machines whose faults are known: every position, in few rounds, and nobody else is blamed."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.arrange import (
    apart,
    first_pairs,
    like_halves,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.search import conclude, next_tests
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.search_types import Pair, Settings, Trial


def names(numbers):
    return tuple("n{0:02d}".format(number) for number in numbers)


def search(count, oracle, rounds_most=60, **settings):
    """Drive the machine by what ``oracle(set of numbers)`` says is good."""
    nodes, chosen, rounds = names(range(count)), Settings(**settings), []
    while True:
        due = next_tests(nodes, rounds, chosen)
        if not due:
            return conclude(nodes, rounds, chosen)
        assert len(rounds) < rounds_most
        flat = [node for one in due for node in one]
        assert len(flat) == len(set(flat)) and all(len(one) >= 2 for one in due) and set(flat) <= set(nodes)
        rounds.append(tuple(Trial(one, "" if oracle({int(node[1:]) for node in one}) else "short") for one in due))


def faults(bad=(), pairs=()):
    return lambda nodes: not (nodes & set(bad) or any(set(pair) <= nodes for pair in pairs))


def log2(count):
    return math.ceil(math.log2(count))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("pairwise", [False, True])
@pytest.mark.parametrize("count", [*range(2, 20), 31, 32, 33, 48, 63, 64])
def test_one_bad_node_at_every_place(count, pairwise):
    healthy = search(count, faults(), pairwise=pairwise)
    assert healthy.clean and healthy.proven == names(range(count)) and healthy.rounds <= 8
    for bad in range(count):
        found = search(count, faults([bad]), pairwise=pairwise)
        assert found.done and found.rounds <= ((14 if count < 8 else 9) if pairwise else 2 * log2(count) + 8)
        if count == 2:  # nobody can tell which of two it is
            assert found.unresolved == (names(range(2)),) and not found.nodes
            continue
        assert found.nodes == names([bad])
        assert not (found.pairs or found.unresolved or found.together or found.unsteady or found.unproven)
        assert found.proven == tuple(node for node in names(range(count)) if node != "n{0:02d}".format(bad))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pairwise", [False, True])
@pytest.mark.parametrize("count", [*range(3, 14), 16, 17])
def test_one_bad_pair_at_every_place(count, pairwise):
    for one, other in itertools.combinations(range(count), 2):
        found = search(count, faults(pairs=[(one, other)]), pairwise=pairwise)
        assert found.rounds <= 2 * log2(count) + (14 if pairwise else 10)
        assert [set(pair.one + pair.other) for pair in found.pairs] == [set(names([one, other]))]
        assert not (found.nodes or found.unresolved or found.together or found.unsteady or found.unproven)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pairwise", [False, True])
@pytest.mark.parametrize("count", [*range(5, 14), 16, 17])
def test_two_bad_nodes_at_every_place(count, pairwise):
    for bad in itertools.combinations(range(count), 2):
        found = search(count, faults(bad), pairwise=pairwise)
        assert found.nodes == names(bad) and found.rounds <= (16 if pairwise else 3 * log2(count) + 7)
        assert not (found.pairs or found.unresolved or found.together or found.unsteady or found.unproven)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [31, 32, 33, 48, 63, 64])
def test_many_nodes_with_two_faults_somewhere(count):
    chance = random.Random(count)
    for _dummy in range(12):
        one, other = sorted(chance.sample(range(count), 2))
        found = search(count, faults([one, other]), pairwise=False)
        assert found.nodes == names([one, other]) and found.rounds <= 3 * log2(count) + 8
        found = search(count, faults(pairs=[(one, other)]), pairwise=False)
        assert found.pairs and found.rounds <= 4 * log2(count) + 10 and not found.nodes


@given(st.integers(5, 40), st.data())
def test_any_minority_of_bad_nodes_and_a_bad_pair(count, draw):
    bad = draw.draw(st.sets(st.integers(0, count - 1), max_size=(count - 1) // 2))
    pair = draw.draw(st.sets(st.integers(0, count - 1), min_size=2, max_size=2))
    found = search(count, faults(bad, [pair]), pairwise=draw.draw(st.booleans()))
    blamed = set(found.nodes).union(*found.unresolved, found.unproven)
    assert found.done and set(names(bad)) <= blamed
    # A node is convicted by two partners; only where these are the other side of the bad pair can that be wrong.
    assert set(found.nodes) <= set(names(bad | pair))
    rest = set(names(range(count))) - blamed
    for one in found.pairs:
        rest -= set(one.one + one.other)
    assert len(rest) < 2 or rest <= set(found.proven)


@given(st.integers(2, 20), st.randoms(), st.integers(1, 3), st.booleans())
def test_results_without_sense_end_it_all_the_same(count, chance, runs, pairwise):
    found = search(count, lambda nodes: chance.random() < 0.5, 100, runs=runs, pairwise=pairwise, rounds_max=40)
    assert found.rounds <= 40


@pytest.mark.parametrize("seed", range(20))
def test_a_node_that_fails_now_and_then_is_found_by_repeating(seed):
    chance = random.Random(seed)
    found = search(16, lambda nodes: 5 not in nodes or chance.random() < 0.3, 100, runs=4, pairwise=False)
    assert set(found.nodes) <= {"n05"}
    # It is named, or what was seen of it is told; it is never passed over.
    assert found.nodes == ("n05",) or not found.clean


def test_one_bad_run_that_never_comes_again_is_told_and_nobody_is_blamed():
    runs = itertools.count()
    found = search(8, lambda nodes: next(runs) != 0, pairwise=False)
    assert found.done and not found.nodes and not found.pairs and found.unsteady == (names(range(8)),)


def test_all_together_fall_short_and_no_half_does():
    found = search(16, lambda nodes: len(nodes) < 16, pairwise=False)
    assert found.together == (names(range(16)),) and not found.nodes and not found.pairs


def test_between_two_switches():
    """Everything between 0-7 and 8-15 is slow: one sentence, not 64 pairs."""
    found = search(16, lambda nodes: not (min(nodes) < 8 <= max(nodes)), pairwise=False)
    assert found.pairs == (Pair(names(range(8)), names(range(8, 16))),) and not found.nodes
    assert found.rounds <= 8


def test_where_nothing_is_good_nobody_is_blamed():
    found = search(12, lambda nodes: False)
    assert found.done and not found.nodes and not found.pairs and not found.proven
    assert set().union(*found.unresolved, found.unproven) == set(names(range(12)))
    assert found.rounds <= 4 and found.tests <= 24


def test_the_rounds_have_an_end():
    found = search(64, faults([5]), pairwise=False, rounds_max=3)
    assert not found.done and not found.clean and found.rounds == 3 and not found.nodes


def test_a_round_may_be_run_in_parts():
    """With room for one test at once it takes longer and finds the same."""
    nodes, rounds, chosen = names(range(10)), [], Settings()
    while next_tests(nodes, rounds, chosen):
        one = next_tests(nodes, rounds, chosen)[0]
        rounds.append((Trial(one, "short" if "n07" in one else ""),))
        assert len(rounds) < 20
    assert conclude(nodes, rounds, chosen).nodes == ("n07",)


def test_a_pair_of_which_a_run_does_well_is_no_bad_pair():
    """Three runs of four fall short, clearly, and the third does not: suspects, nobody is named."""
    runs = itertools.count(1)
    found = search(16, lambda nodes: nodes != {4, 5} or next(runs) == 3)
    assert not found.pairs and not found.nodes and found.unsteady == (names([4, 5]),)


def test_runs_that_noise_explains_name_nobody():
    """Each of a node's runs is 2 deviations short: four of them are 4 together, too little; nine are 6."""
    nodes, chosen = names(range(16)), Settings(alike=True, firm=False)
    for deviations, named in ((1.0, ()), (2.0, ("n05",)), (6.0, ("n05",))):
        rounds = []
        while next_tests(nodes, rounds, chosen):
            due = next_tests(nodes, rounds, chosen)
            rounds.append(
                tuple(
                    Trial(one, "short" if "n05" in one else "", deviations=deviations if "n05" in one else 0.0)
                    for one in due
                )
            )
        found = conclude(nodes, rounds, chosen)
        assert found.done and found.nodes == named and not found.pairs and "n05" not in found.proven


@pytest.mark.parametrize("count", [*range(8, 40), 64, 100, 130])
def test_halves_are_of_like_size_and_leave_few_pairs_apart(count):
    nodes = names(range(count))
    halves = like_halves(nodes)
    assert {len(half) for half in halves} <= {count // 2, (count + 1) // 2} and len(halves) == 2 * log2(count)
    first = [pair for group in first_pairs(nodes, True) for pair in group]
    assert len(apart(nodes, [*halves, *first])) <= (count // 2 if count % 2 else 0)


@pytest.mark.parametrize("count", range(8, 15))
def test_whichever_half_is_bad_a_tenth_of_the_first_pairs_is_good(count):
    (pairs,) = first_pairs(tuple(range(count)), True)
    for well in itertools.combinations(range(count), (count + 1) // 2):
        assert sum(set(pair) <= set(well) for pair in pairs) >= max(2, math.ceil(len(pairs) / 10))

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The middle, the tail and the groups of figures whose truth is known without them."""

from __future__ import annotations

import math
import random

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.spread import (
    limit,
    middle,
    populations,
    shortest_half,
    tail,
)


@pytest.mark.parametrize("good, bad", [(5, 4), (6, 4), (40, 30), (56, 44)])
def test_bad_ones_below_half_do_not_move_the_middle_however_alike_they_are(good, bad):
    values = [100.0 + 0.1 * place for place in range(good)]
    assert middle(values + [70.0] * bad) == pytest.approx(100 + 0.1 * (good - 1) / 2)


def test_the_shortest_half_of_even_figures_is_about_their_middle():
    assert shortest_half([float(one) for one in range(9)]) == (2.0, 6.0)


def test_the_middle_is_nearly_as_exact_as_the_median():
    """Their median has a deviation of 1.25 / sqrt(41) = 0.196; the middle of their shortest half has twice that."""
    chance = random.Random(1)
    errors = [middle([chance.gauss(0, 1) for dummy in range(41)]) for dummy in range(300)]
    assert math.sqrt(sum(one**2 for one in errors) / len(errors)) < 1.25 * 0.196


def quantiles(shape, count):
    """Of a generalized Pareto distribution, one for each of so many equal chances, the furthest first."""
    return [pareto(shape, (place + 0.5) / count) for place in range(count)]


def pareto(shape, chance):
    return ((1 / chance) ** shape - 1) / shape if shape else -math.log(chance)


@pytest.mark.parametrize("count, most", [(64, 1.3), (512, 1.2), (10000, 1.1)])
def test_the_tail_of_figures_as_heavy_as_students_goes_as_far_as_they_do(count, most):
    """And further by the standard error of what few figures tell."""
    truth = pareto(0.2, 0.02 / count)
    least = 1 + 0.5 / math.sqrt(2 * math.sqrt(count))
    assert least * truth < tail(quantiles(0.2, count), 0, 0.02) < most * truth


def test_many_figures_say_that_their_tail_is_lighter():
    """Of an exponential one: further than the truth by the errors of its shape and mean, nearer than Student's."""
    truth = pareto(0, 0.02 / 10000)
    assert 1.3 * truth < tail(quantiles(0, 10000), 0, 0.02) < 1.8 * truth


def test_figures_that_are_equal_to_the_threshold_are_not_beyond_it():
    assert tail([9.0, 8.0, 7.0] + [1.0] * 97, 0, 0.02) == tail([9.0, 8.0, 7.0, 1.0], 0, 0.02)


def test_nothing_is_too_far_that_is_never_an_outlier():
    chance = random.Random(1)
    assert limit([chance.gauss(0, 0.01) for dummy in range(64)], 8, 0.004, 7.0) == 7.0


def split(values, nodes_min=5, least_apart=0.0):
    """How many are in each group."""
    return [len(places) for places in populations(values, nodes_min, least_apart)]


def test_groups_are_tight_and_far_from_each_other():
    tight = [0.0, 0.1, 0.2, 0.3, 0.4]
    assert split([*tight, *(30 + one for one in tight), *(40 + one for one in tight * 4)]) == [5, 5, 20]
    assert split([*range(5), *range(6, 11)]) == [10]
    # The gap of 2.6 is wide beside the one half, and not beside the other.
    assert split([*tight, 3.0, 5.0, 7.0, 9.0, 11.0]) == [10]


def test_groups_that_are_hardly_apart_are_one():
    values = [0.0] * 5 + [1.0] * 5
    assert (split(values, least_apart=0.9), split(values, least_apart=1.1)) == ([5, 5], [10])

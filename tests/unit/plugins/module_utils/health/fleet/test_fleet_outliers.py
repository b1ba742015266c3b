# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The odd one out: found wherever it is, never made up, and the same whatever the order and the unit."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import plain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet import data
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.outliers import compare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.samples import Sample, samples
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.spread import cutoff, poisson

RATE = "host_to_device_gigabytes_per_second"


def fleet(values, name=RATE, better="higher", counter=False, kind="nd96asr_v4"):
    """Values by node and key: a number, or a list of one a GPU."""
    return [
        Sample("node{0:04d}".format(node), kind, name, value, "gpu{0}".format(key) if several else "", counter, better)
        for node, found in enumerate(values)
        for several in [isinstance(found, list)]
        for key, value in enumerate(found if several else [found])
    ]


def noisy(nodes, middle=24.0, deviation=0.05, seed=1, gpus=8):
    chance = random.Random(seed)
    return [[chance.gauss(middle, deviation) for dummy in range(gpus)] for dummy in range(nodes)]


def named(comparison):
    return [(one.node, one.key) for one in comparison.outliers]


def told(comparison):
    return {one.node for one in comparison.outliers} | {node for one in comparison.groups for node in one.members}


@pytest.mark.parametrize("nodes", [5, 6, 7, 8, 16, 64, 1000])
def test_one_slow_gpu_among_equals_is_named_with_its_key(nodes):
    values = noisy(nodes, gpus=2)
    place = nodes // 2
    values[place][1] = 18.0
    comparison = compare(fleet(values))
    assert named(comparison) == [("node{0:04d}".format(place), "gpu1")]
    finding = comparison.outliers[0].finding()
    assert (finding.outcome, finding.action, finding.code) == (types.Outcome.WARN, types.Remedy.LOOK, RATE)
    assert str(nodes) + " nodes of type nd96asr_v4" in finding.reason and "25 %" in finding.reason
    assert finding.reason.startswith("18 GB/s is ") and finding.reason.count(" GB/s") == 3
    assert finding.thing == RATE + " of gpu1"
    assert comparison.outliers[0].finding({"gpu1": "GPU 1 (gpu1)"}).thing == RATE + " of GPU 1 (gpu1)"


def test_a_place_that_is_always_slower_hides_nobody():
    """GPU 0 and 1 of each node are behind a slower bridge: 20 is usual there and bad elsewhere."""
    values = [[20.0, 20.0, 24.0, 24.0] for dummy in range(12)]
    values[7][3] = 20.0
    assert named(compare(fleet(values))) == [("node0007", "gpu3")]


def test_serial_numbers_are_compared_by_their_place():
    found = [
        Sample(
            node,
            "k",
            "read_bytes_per_second",
            6e9 if (node, disk) != ("n3", 1) else 3e9,
            node + str(disk),
            False,
            "higher",
        )
        for node in ["n{0}".format(number) for number in range(9)]
        for disk in range(2)
    ]
    assert named(compare(found)) == [("n3", "n31")]


@pytest.mark.parametrize("nodes", [5, 8, 30, 200])
@pytest.mark.parametrize("seed", range(25))
def test_a_healthy_fleet_of_many_figures_has_no_outlier(nodes, seed):
    found = []
    for number in range(10):
        values = noisy(nodes, 100.0, 10.0 ** (number % 3 - 1), seed * 100 + number, gpus=2)
        found += fleet(values, "figure{0}_gigabytes_per_second".format(number))
    false = compare(found).outliers
    # The rate is tested below; one seed may have one.
    assert len(false) <= 1


def student(chance):
    return chance.gauss(0, 1) / math.sqrt(chance.gammavariate(2.5, 2) / 5)


# A figure of a part of a node, which may be of a second population.
SHAPES = {
    "heavy": lambda chance, second: 100 + student(chance),
    "left-skewed": lambda chance, second: 100 - 0.7 * chance.expovariate(1),
    "two populations": lambda chance, second: (95 if second else 100) + 0.5 * chance.gauss(0, 1),
    "counted": lambda chance, second: float(sum(chance.random() < 0.05 for dummy in range(10))),
    "uneven counts": lambda chance, second: float(int(chance.expovariate(math.log(3)))),
    "whole degrees": lambda chance, second: float(round(chance.gauss(45, 2))),
}


def shaped(shape, nodes, seed, gpus=8):
    chance = random.Random(seed)
    values = []
    for node in range(nodes):
        second = node % 10 < 3
        values.append([SHAPES[shape](chance, second) for dummy in range(gpus)])
    return values


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("nodes", [8, 64])
def test_healthy_figures_that_are_not_normal_are_no_outliers(shape, nodes):
    """Before, heavy and skewed tails, counts and two populations made nearly each fleet of 64 nodes have one."""
    counter = "count" in shape
    better = "lower" if counter or shape == "whole degrees" else "higher"
    name = "corrected_errors" if counter else {"whole degrees": "temperature_celsius"}.get(shape, RATE)
    false = sum(bool(compare(fleet(shaped(shape, nodes, seed), name, better, counter)).outliers) for seed in range(20))
    assert false <= 2


@pytest.mark.parametrize("shape", ["heavy", "left-skewed"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.44])
@pytest.mark.parametrize("nodes", [8, 64])
def test_nodes_that_are_a_fifth_slower_are_told_whatever_their_number(shape, share, nodes):
    bad = max(int(share * nodes), 1)
    for seed in range(5):
        values = shaped(shape, nodes, seed)
        for node in range(bad):
            values[node] = [0.8 * value for value in values[node]]
        assert told(compare(fleet(values))) == {"node{0:04d}".format(node) for node in range(bad)}


def test_fewer_than_half_that_are_a_tenth_slower_are_told():
    values = [[100 + chance.gauss(0, 1) for dummy in range(8)] for chance in [random.Random(3)] for node in range(50)]
    for node in range(22):
        values[node] = [0.9 * value for value in values[node]]
    assert told(compare(fleet(values))) == {"node{0:04d}".format(node) for node in range(22)}


def test_bad_nodes_that_are_bad_in_different_ways_are_told_one_by_one():
    values = noisy(100, 100.0, 0.5)
    for node in range(30):
        values[node] = [value * (0.92 - 0.02 * node) for value in values[node]]
    assert told(compare(fleet(values))) == {"node{0:04d}".format(node) for node in range(30)}


def test_two_kinds_of_nodes_are_one_group_with_what_splits_them_and_hide_nobody():
    values = shaped("two populations", 60, 1)
    values[10] = [85.0] * 8  # of the slower kind
    values[19] = [85.0] * 8  # of the faster kind
    second = {"node{0:04d}".format(node) for node in range(60) if node % 10 < 3}
    traits = {
        "node{0:04d}".format(node): {"driver": "550" if node % 10 < 3 else "570", "load": str(node)}
        for node in range(60)
    }
    comparison = compare(fleet(values), traits=traits)
    reasons = {one.node: one.finding().reason for one in comparison.outliers}
    assert "the median of its group of 19 nodes of type" in reasons["node0010"]
    (group,) = comparison.groups
    assert {one.node for one in comparison.outliers} == {"node0010", "node0019"}
    assert second - {"node0010"} <= set(group.members) <= second | {"node0019"}
    values[19] = values[18]
    (group,) = compare(fleet(values), traits=traits).groups
    assert set(group.members) == second
    assert group.split == "these have driver: 550, the others: 570"
    assert "18 nodes of type nd96asr_v4 are a group at 95" in group.finding().reason
    assert compare(fleet(values)).groups[0].split == ""
    traits["node0059"]["driver"] = "580"
    assert compare(fleet(values), traits=traits).groups[0].split == ""


def test_where_no_side_is_bad_the_smaller_group_is_told():
    values = [100.0 + 0.01 * node for node in range(20)] + [130.0 + 0.01 * node for node in range(6)]
    for found in (values, [-value for value in values]):
        (group,) = compare(fleet(found, better="")).groups
        assert (len(group.members), group.others) == (6, 20)


def test_counts_are_no_groups():
    comparison = compare(fleet([0.0] * 20 + [500.0] * 6, "corrected_errors", "lower", counter=True))
    assert not comparison.groups and len(comparison.outliers) == 6


def test_nodes_that_are_alike_are_no_outliers_for_a_hundredth():
    values = noisy(64, 100.0, 0.01)
    values[5][3] = 98.0
    assert not compare(fleet(values)).outliers


def test_a_node_that_is_slow_as_a_whole_is_told_once():
    values = noisy(40, 100.0, 1.0)
    values[7] = [value - 30 for value in values[7]]
    (one,) = compare(fleet(values)).outliers
    assert (one.node, one.key, one.parts) == ("node0007", "", 8)
    assert ", the best of its 8 parts, is " in one.finding().reason


def test_a_node_with_other_parts_than_the_rest_is_compared_by_its_worst():
    found = fleet([[100.0, 100.0]] * 8 + [[100.0, 40.0]]) + [
        Sample("node0009", "nd96asr_v4", RATE, value, key, False, "higher")
        for key, value in (("x", 100.0), ("y", 50.0), ("z", 100.0))
    ]
    assert named(compare(found)) == [("node0008", "gpu1"), ("node0009", "y")]


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
def test_of_so_few_nodes_nobody_is_named(nodes):
    assert not compare(fleet([100.0] * (nodes - 1) + [1.0])).outliers


@pytest.mark.parametrize("mean, chance, count", [(0.5, 1e-4, 5), (3.0, 1e-3, 10), (1e-9, 0.5, 0)])
def test_quantiles_of_poisson(mean, chance, count):
    """By the sum of the probabilities."""
    assert poisson(mean, chance) == count


def test_the_quantile_of_many_goes_on_where_the_sum_ends():
    assert abs(poisson(100.0, 1e-6) - poisson(100.001, 1e-6)) < 1.5


def test_few_healthy_fleets_have_a_false_outlier():
    false = sum(bool(compare(fleet(noisy(12, 100.0, 5.0, seed))).outliers) for seed in range(300))
    assert false <= 300 * data.FALSE_ALARMS.value * 2


@given(st.integers(5, 60), st.floats(1e-3, 1e9), st.sampled_from(["higher", "lower", ""]))
def test_equal_nodes_have_none(nodes, value, better):
    assert not compare(fleet([value] * nodes, better=better)).outliers


@given(st.integers(2, 40), st.data())
def test_below_half_all_bad_ones_are_found(good, draw):
    """The breakdown point: up to one less than half of the nodes may be bad, and as bad as can be."""
    bad = draw.draw(st.integers(0, good - 1))
    nodes = good + bad
    if nodes < 5:
        return
    places = set(draw.draw(st.permutations(range(nodes)))[:bad])
    values = [draw.draw(st.floats(0.0, 60.0)) if node in places else 100.0 for node in range(nodes)]
    assert told(compare(fleet(values))) == {"node{0:04d}".format(place) for place in places}


numbers = st.floats(0, 1e6).map(lambda value: round(value, 3))


@given(st.lists(st.lists(numbers, min_size=1, max_size=4), min_size=1, max_size=20), st.randoms())
def test_the_order_means_nothing(values, chance):
    found = fleet(values)
    other = list(found)
    chance.shuffle(other)
    assert compare(other) == compare(found)


@given(st.lists(st.integers(1, 10**6), min_size=5, max_size=30), st.integers(-20, 20))
def test_the_unit_means_nothing(values, power):
    """A power of two changes no digit, so nothing may change but the figures."""
    scale = 2.0**power
    plain = compare(fleet([float(value) for value in values]))
    scaled = compare(fleet([value * scale for value in values]))
    assert named(scaled) == named(plain)
    assert [one.value for one in scaled.outliers] == [one.value * scale for one in plain.outliers]


@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=3), max_size=12))
def test_no_figures_crash_it(values):
    for counter in (False, True):
        for outlier in compare(fleet(values, better="", counter=counter)).outliers:
            assert str(outlier.finding())


def test_only_the_bad_side_counts():
    for better, expected in (("higher", []), ("lower", ["node0003"]), ("", ["node0003"])):
        values = [50.0] * 10
        values[3] = 90.0
        assert [one.node for one in compare(fleet(values, "temperature_celsius", better)).outliers] == expected


@pytest.mark.parametrize("nodes, least", [(33, 4), (64, 3), (512, 3)])
def test_many_nodes_without_any_event_say_how_rare_it_is(nodes, least):
    """The fewer events, and the more nodes, the nearer to 0 the mean is known to be."""

    def counted(*counts):
        values = [*counts, *[0.0] * (nodes - len(counts))]
        return [node for node, _key in named(compare(fleet(values, "corrected_total", "lower", counter=True)))]

    assert (counted(least - 1.0), counted(float(least))) == ([], ["node0000"])
    # One event on a third of the nodes says more often.
    assert counted(float(least), *[1.0] * (nodes // 3)) == []


@pytest.mark.parametrize("nodes, fleets", [(8, 200), (64, 60), (512, 10)])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5])
def test_rare_events_of_healthy_nodes_are_chance(nodes, fleets, rate):
    chance = random.Random(nodes)
    least = math.exp(-rate)
    false = 0
    for _fleet in range(fleets):
        values = []
        for _node in range(nodes):
            product, count = chance.random(), 0.0
            while product > least:
                product, count = product * chance.random(), count + 1
            values.append(count)
        false += bool(compare(fleet(values, "corrected_total", "lower", counter=True)).outliers)
    assert false <= 0.05 * fleets


def test_a_count_of_few_is_chance_and_of_many_is_not():
    def counted(count):
        return named(compare(fleet([0.0] * 20 + [count], "corrected_total", "lower", counter=True)))

    assert counted(3.0) == [] and counted(30.0) == [("node0020", "")]
    # Traffic is a counter, too, and neither side of it is bad.
    assert not compare(fleet([0.0] * 20 + [1e12], "received_bytes", "", counter=True)).distributions


def test_two_degrees_in_an_even_room_are_nothing():
    assert not compare(fleet([40.0] * 20 + [46.0], "temperature_celsius", "lower")).outliers
    assert compare(fleet([40.0] * 20 + [48.0], "temperature_celsius", "lower")).outliers


def test_types_of_machines_are_not_mixed_and_few_are_not_compared():
    found = fleet([100.0] * 9) + [
        dataclasses.replace(one, node=one.node + "b", kind="other") for one in fleet([50.0, 50.0, 51.0, 51.0])
    ]
    comparison = compare(found)
    assert not comparison.outliers and comparison.alone == {"other": 4}
    shown = [(one.kind, len(one.values), one.median) for one in comparison.distributions]
    assert shown == [("nd96asr_v4", 9, 100.0), ("other", 4, 50.5)]


def test_the_cutoff_grows_with_what_is_compared_and_falls_with_what_is_known():
    assert cutoff(10**6, 1) == data.CUTOFF.value
    assert cutoff(1000, 10**6) > cutoff(1000, 10**4) > data.CUTOFF.value
    assert cutoff(5, 2000) > cutoff(20, 2000) > cutoff(1000, 2000)


def verdict(profile="nd96asr_v4", value=24.0, gpus=("0", "1")):
    measured = tuple(types.Measured(RATE, value, gpu, better="higher") for gpu in gpus)
    result = types.Result("bandwidth", "t", types.Outcome.PASS, "", (), measured, 0.0)
    return plain(types.Verdict("n", 0.0, types.Cost.ACTIVE, profile, types.Outcome.PASS, (result,), {}, (), 0.0))


def test_verdicts_as_they_lie_in_json():
    found = samples({"a": verdict(), "b": verdict("unknown"), "c": verdict(""), "d": verdict("unknown", gpus=("0",))})
    assert [(one.node, one.kind, one.key, one.better) for one in found] == [
        ("a", "nd96asr_v4", "0", "higher"),
        ("a", "nd96asr_v4", "1", "higher"),
        ("b", "unknown machine 1", "0", "higher"),
        ("b", "unknown machine 1", "1", "higher"),
        ("c", "unknown machine 1", "0", "higher"),
        ("c", "unknown machine 1", "1", "higher"),
        ("d", "unknown machine 2", "0", "higher"),
    ]


def test_parts_that_somebody_made_are_not_compared():
    """How much memory of a GPU instance is in use says what runs there."""
    one = verdict()
    one["results"][0]["measured"][1]["labels"] = {"GPU_I_ID": "2"}
    assert [sample.key for sample in samples({"a": one})] == ["0"]


junk = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.just("higher"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["results", "measured", "name", "value", "key", "better", "profile", "counter", "labels"]),
            inner,
        )
    ),
)


@given(st.dictionaries(st.text(max_size=3), junk, max_size=3))
def test_whatever_lies_there_crashes_nothing(verdicts):
    compare(samples(verdicts))


def test_every_figure_has_its_source():
    figures = [value for value in vars(data).values() if isinstance(value, data.Figure)] + list(
        data.MEANINGFUL.values()
    )
    assert len(figures) > 10 and all(len(figure.source) > 20 for figure in figures)

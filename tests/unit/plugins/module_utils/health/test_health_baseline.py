# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters over a day: growth is told for a day, neither once nor for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import baseline
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected, Measured

HOUR = 3600.0
NAME = ("errors_total", "mlx5_ib0")


def figure(value, counter=True):
    return Measured(NAME[0], value, NAME[1], counter)


def grown(points, value, now):
    expected = Expected("", {}, {}, {}, baseline.origins(points, now), {}, now)
    return expected.growth(figure(value))


def test_growth_is_told_for_a_day_and_then_forgotten():
    points, now, told = {}, 1e9, []
    for hour in range(60):
        value = 5.0 if hour >= 10 else 0.0
        found = grown(points, value, now + hour * HOUR)
        told.append(bool(found and found.by))
        points = baseline.updated(points, [figure(value)], now + hour * HOUR)
    assert told.index(True) == 10
    # A day after the growth it is no longer told; the last point before it is then older than a day.
    assert [hour for hour, one in enumerate(told) if one] == list(range(10, 34))


def test_a_first_run_has_nothing_to_compare_with():
    assert grown({}, 1000.0, 1e9) is None


def test_a_counter_that_began_anew_has_no_growth():
    points = baseline.updated({}, [figure(100.0)], 1e9)
    assert grown(points, 3.0, 1e9 + HOUR) is None
    points = baseline.updated(points, [figure(3.0)], 1e9 + HOUR)
    assert grown(points, 4.0, 1e9 + 2 * HOUR).by == 1.0


def test_only_counters_are_kept():
    assert baseline.updated({}, [figure(1.0, counter=False)], 1e9) == {}


@given(st.lists(st.tuples(st.floats(0, 10 * HOUR), st.floats(0, 1e9)), max_size=200))
def test_the_baseline_stays_small_and_in_order(steps):
    points, now = {}, 1e9
    for pause, value in steps:
        now += pause
        points = baseline.updated(points, [figure(value)], now)
        (kept,) = points.values()
        assert len(kept) <= 25 + 20  # one an hour, and one a minute of the last twenty
        assert [time for time, dummy in kept] == sorted(time for time, dummy in kept)
        assert [one for dummy, one in kept] == sorted(one for dummy, one in kept)
        found = grown(points, value, now)
        assert found is not None and found.by >= 0 and found.hours <= 24


def test_one_point_a_minute_of_the_last_minutes_and_one_an_hour_before():
    points, now = {}, 1e9
    for second in range(0, 5 * 3600, 10):
        points = baseline.updated(points, [figure(float(second))], now + second)
    (kept,) = points.values()
    ages = [(now + second - time) // 60 for time, dummy in kept]
    recent = [age for age in ages if age <= 20]
    assert recent == sorted(range(20), reverse=True) or len(recent) in (20, 21)
    assert len(ages) - len(recent) == 5


@pytest.mark.parametrize(
    ("seconds", "minutes_ago"), [(None, 65), (60, 5), (299, 5), (301, 10), (600, 10), (601, 15), (10000, 65)]
)
def test_a_rate_is_counted_from_the_newest_point_that_is_old_enough(seconds, minutes_ago):
    points = {NAME: [(1e9 - 60.0 * minutes, 100.0 - minutes) for minutes in (65, 15, 10, 5)]}
    expected = Expected("", {}, {}, {}, baseline.origins(points, 1e9), {}, 1e9)
    found = expected.growth(figure(100.0), seconds)
    assert (found.by, round(found.hours * 60)) == (minutes_ago, minutes_ago)


def test_sums_of_other_parts_are_not_compared():
    some, every = Measured("errors", 1.0, "gpu", True, "", "1"), Measured("errors", 900.0, "gpu", True, "", "3")
    points = baseline.updated({}, [some], 1e9)
    assert Expected("", {}, {}, {}, baseline.origins(points, 1e9), {}, 1e9).growth(every) is None
    points = baseline.updated(points, [every], 1e9 + 300)
    expected = Expected("", {}, {}, {}, baseline.origins(points, 1e9 + 300), {}, 1e9)
    assert (expected.growth(some).by, expected.growth(every).by) == (0.0, 0.0)


def test_a_clock_that_was_wrong_leaves_nothing_behind():
    points = baseline.updated({}, [figure(1.0)], 2e9)
    assert baseline.updated(points, [figure(2.0)], 1e9) == {NAME: [(1e9, 2.0)]}


def test_it_is_written_and_read(tmp_path):
    host = Host(str(tmp_path))
    assert baseline.read(host) == {}
    points = baseline.updated({}, [figure(7.0)], 1e9)
    baseline.write(host, points)
    assert baseline.read(host) == points


@given(st.text(max_size=60))
def test_a_file_of_something_else_counts_as_none(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("node")
    path = folder / baseline.PATH.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    baseline.read(Host(str(folder)))
    for content in ("[]", "3", '{"counters": 3}', '{"counters": [{"name": "a", "key": "", "points": [[1]]}]}'):
        path.write_text(content, encoding="utf-8")
        assert baseline.read(Host(str(folder))) == {}


def test_retired_pages_are_told_for_a_week():
    slow, points, now, told = ("gpu_retired_pages_double_bit", "0000:0b:00.0"), {}, 1e9, []
    for hour in range(10 * 24):
        figures = [Measured(slow[0], 20.0 if hour >= 10 else 18.0, slow[1], True), figure(2.0)]
        found = Expected("", {}, {}, {}, baseline.origins(points, now), {}, now).growth(figures[0])
        told.append(bool(found and found.by))
        points = baseline.updated(points, figures, now)
        now += HOUR
    assert [hour for hour, one in enumerate(told) if one] == list(range(10, 10 + 7 * 24))
    assert {name: len(kept) for name, kept in points.items()} == {slow: 7 * 24 + 1, NAME: 25}

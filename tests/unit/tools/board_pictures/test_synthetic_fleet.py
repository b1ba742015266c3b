# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The synthetic fleet and the order of the rules; `make soak` draws (tests/soak/test_board_pictures.py)."""

from __future__ import annotations

import re

import yaml

from tools.board_pictures import fleet, prometheus


def test_a_level_reads_only_what_the_levels_before_it_wrote() -> None:
    groups = yaml.safe_load(prometheus.RULES.read_text(encoding="utf-8"))["groups"]
    levels = prometheus.levels(groups)
    written: "set[str]" = set()
    every = {rule["record"] for group in groups for rule in group["rules"]}
    for level in levels:
        rules = [rule for group in level for rule in group["rules"]]
        for rule in rules:
            read = set(re.findall(r"gpu_node:[a-z0-9_:]+", str(rule["expr"]))) & every - {rule["record"]}
            assert read <= written, rule["record"]
        written |= {rule["record"] for rule in rules}
    assert written == every and len(levels) > 2


def test_a_level_is_evaluated_at_least_once_a_minute() -> None:
    groups = [{"name": "slow", "interval": "300s", "rules": [{"record": "gpu_node:a", "expr": "b"}]}]
    [[slow]] = prometheus.levels(groups)
    assert slow["interval"] == "60s"


def test_no_series_of_the_fleet_is_there_twice() -> None:
    names = [(one.name, tuple(sorted(one.labels.items()))) for one in fleet.series()]
    assert len(names) == len(set(names))


def test_the_fleet_has_what_the_tests_of_the_pictures_look_for() -> None:
    found = {(one.name, one.labels["hostname"], one.labels.get("gpu")): one for one in fleet.series()}
    lost = found["gpu_node_gpu_up", "gpu009", "5"]
    assert (lost.value(fleet.LOST - 1), lost.value(fleet.MINUTES)) == (1.0, 0.0)
    clock = found["gpu_node_gpu_sm_clock_hertz", "gpu006", "3"]
    assert clock.value(fleet.HOT - 1) > 1.9e9 and clock.value(fleet.MINUTES) < 1e9

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the fleet was at earlier runs: files in a folder that may hold anything, and the picture of them."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report import history, model, page
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report.history import Run
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.plugin_utils.health_report.health_fleet import fleet

NOW = 1795000000.0
COUNTS = st.dictionaries(st.sampled_from(model.OUTCOMES), st.integers(1, 5000), min_size=1)
RUNS = st.builds(Run, st.integers(1, 2**33).map(float), COUNTS, st.integers(0, 9), st.integers(9, 90000))


@given(RUNS)
def test_a_run_comes_back_as_it_was_written(run):
    assert history.parse(history.entry(run)) == run


@pytest.mark.parametrize(
    "words",
    ["", "{", "null", "[]", "[" * 9999, '{"schema": "other"}', '{"schema": "trainyard.gpu_node/history/1"}']
    + [
        json.dumps(dict(json.loads(history.entry(Run(NOW, {"pass": 1}, 0, 8))), **change))
        for change in (
            {"time": "x"},
            {"time": -1},
            {"time": 1e300},
            {"counts": []},
            {"counts": {"pass": -1}},
            {"counts": {"pass": 1e300}},
            {"used": None},
            {"gpus": True},
        )
    ],
)
def test_what_is_no_run_says_nothing(words):
    assert history.parse(words) is None


def test_words_of_others_are_not_on_the_page():
    run = history.parse(history.entry(Run(NOW, {"pass": 1, "<b>x</b>": 2})))
    assert run.counts == {"pass": 1}


def test_the_folder_is_bounded_and_what_is_of_others_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "MOST", 3)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "health-x.json").write_text("mine")
    for number in range(5):
        history.keep(str(tmp_path), Run(NOW + 60 * number, {"pass": number + 1}))
    assert [one.counts["pass"] for one in history.read(str(tmp_path))] == [3, 4, 5]
    assert len(os.listdir(str(tmp_path))) == 5 and (tmp_path / "notes.txt").read_text() == "mine"


def test_gpus_in_use_are_those_that_nodes_tell():
    report = model.report(fleet(4), {})
    assert (history.of_report(report).used, history.of_report(report).gpus) == (0, 0)
    verdicts = fleet(4)
    for number, verdict in enumerate(verdicts.values()):
        told = {"name": "gpus_in_use", "value": float(number), "labels": {"gpus": "8"}}
        verdict["results"][0]["measured"] = [told, {"name": "gpus_in_use", "value": 5.0, "labels": {"gpus": "x"}}]
    found = history.of_report(model.report(verdicts, {}))
    assert (found.used, found.gpus) == (6, 32) and found.nodes == 4


def test_the_page_shows_the_runs_before():
    runs = tuple(Run(NOW - 86400 * day, {"pass": 60 - day, "fail": 4 + day}, 8 * day, 512) for day in range(9, -1, -1))
    shown = page.page(model.report(fleet(64), {}), "Fleet", runs)
    assert "<h2>Over time</h2>" in shown and shown.count('class="of-fail"') == 10 and shown.count("<polyline") == 1
    assert "10 runs; 60 of 64 nodes are well now, 0 of 512 GPUs are in use" in shown
    assert "Over time" not in page.page(model.report(fleet(4), {}), "Fleet", runs[:1])


@given(st.lists(RUNS, max_size=5))
def test_any_runs_make_a_picture_within_its_bounds(runs):
    import re

    shown = history.picture(tuple(runs))
    for top, height in re.findall(r'y="(-?[0-9.]+)" width="[0-9.]+" height="([0-9.]+)"', shown):
        assert 19.8 <= float(top) <= 120 and float(top) + float(height) <= 120.2

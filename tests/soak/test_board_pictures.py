# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboards, drawn by Grafana's own components over a real Prometheus with a synthetic fleet
(tools/board_pictures): texts that must appear and texts that must not. The pictures are in build/boards.

State timelines and the heat map are in Grafana's core and not in its packages: a plain substitute is drawn, and the
tests look at its data frames.
"""

from __future__ import annotations

import json
import re
import shutil
from typing import Any, Dict, Iterator, List, Tuple

import pytest
import yaml

from tools.board_pictures import browser, draw, fleet, prometheus

NAMES = sorted(path.stem for path in draw.BOARDS.glob("*.json"))
#: Grafana's colours in its dark theme.
COLORS = {"pass": "#73BF69", "warn": "#FADE2A", "unknown": "#B877D9", "fail": "#F2495C"}
#: Panels for which the fleet has nothing.
EMPTY = {("node", "Slowed GPUs")}
NEVER = r"\bNaN\b|\bInf\b|\bundefined\b|not told|\bnull\b|[2-9]\d\d+(\.\d+)?%|\$\{?\w+|\[object"
#: Larger letters than in a title are for single figures.
LETTERS = 24


@pytest.fixture(name="boards", scope="session")
def _boards() -> Dict[str, List[Dict[str, Any]]]:
    if shutil.which("npm") is None or not any(map(shutil.which, browser.PROGRAMS)):
        pytest.skip("npm or Chromium is not installed: apt-get install npm chromium-headless-shell")
    return draw.draw()


def panels(boards: Dict[str, List[Dict[str, Any]]]) -> Iterator[Tuple[str, Dict[str, Any]]]:
    for name, found in boards.items():
        for panel in found:
            yield "{0}: {1}".format(name, panel["title"]), panel


def panel(boards: Dict[str, List[Dict[str, Any]]], name: str, title: str) -> Dict[str, Any]:
    return next(one for one in boards[name] if one["title"] == title)


def first(boards: Dict[str, List[Dict[str, Any]]], name: str, title: str) -> Dict[str, str]:
    """The uppermost row of a table."""
    found = next(one for one in boards[name] if (one["title"], one["type"]) == (title, "table"))
    columns = found["columns"]
    return dict(zip(columns, found["texts"][1 + len(columns) :]))


def rows(boards: Dict[str, List[Dict[str, Any]]], name: str, title: str) -> List[Dict[str, str]]:
    """The rows of a table as shown, by the title of the column."""
    found = next(one for one in boards[name] if (one["title"], one["type"]) == (title, "table"))
    return [dict(zip(found["columns"], row)) for row in found["rows"]]


def text(boards: Dict[str, List[Dict[str, Any]]], name: str, title: str) -> str:
    """The value of a stat panel."""
    return str(panel(boards, name, title)["texts"][-1])


def test_every_panel_is_drawn(boards):
    assert sorted(boards) == NAMES
    assert not [(where, one["error"]) for where, one in panels(boards) if one.get("error")]
    for name in NAMES:
        picture = (draw.OUT / (name + ".png")).read_bytes()
        assert picture.startswith(b"\x89PNG") and len(picture) > 20_000


def test_the_fleet_has_each_recorded_series(boards):
    groups = yaml.safe_load(prometheus.RULES.read_text(encoding="utf-8"))["groups"]
    records = {rule["record"] for group in groups for rule in group["rules"]}
    with prometheus.serve(draw.OUT / "prometheus" / "data") as address:
        query = 'label_values({__name__=~".+"}, __name__)'
        assert records <= set(prometheus.label_values(address, query, fleet.START, fleet.END))


def test_no_panel_has_texts_of_a_mistake(boards):
    found = {
        where: [line for line in one["texts"] if re.search(NEVER, line)]
        for where, one in panels(boards)
        if re.search(NEVER, "\n".join(one["texts"]))
    }
    assert not found


def test_a_panel_is_empty_only_where_the_fleet_has_nothing(boards):
    empty = {
        (name, one["title"])
        for name in NAMES
        for one in boards[name]
        if not (one.get("rows") or one.get("series")) or "No data" in one["texts"]
    }
    assert empty <= EMPTY


def test_a_label_is_shown_as_it_is(boards):
    """Job 4711 is no 4.71 kJ, GPU 3 no 300 %."""
    seen = set()
    for where, one in panels(boards):
        for column, values in (one.get("labels") or {}).items():
            shown = [row[int(column)] for row in one["rows"]]
            # An action has other words, and a dash is for a label that is not there.
            assert [pair for pair in zip(shown, values) if pair[1].isdigit() and pair[0] != pair[1]] == [], where
            seen.update(shown)
    assert {"4711", "3", "13", "gpu009", "team-a/train-0"} <= seen


def test_titles_and_legends_are_not_cut(boards):
    assert not [where for where, one in panels(boards) if one["cut"]]
    assert not [where for where, one in panels(boards) if one["hidden"]]


def test_letters_are_large_only_in_single_figures(boards):
    large = {where: one["letters"] for where, one in panels(boards) if one["type"] != "stat"}
    assert not {where: size for where, size in large.items() if size > LETTERS}


@pytest.mark.parametrize("name", NAMES)
def test_a_top_panel_draws_as_many_lines_as_it_says(boards, name):
    board = json.loads((draw.BOARDS / (name + ".json")).read_text(encoding="utf-8"))
    for one in board["panels"]:
        if one["type"] != "timeseries":
            continue
        limits = [re.findall(r"(?:topk|bottomk) ?\((\d+)", target["expr"]) for target in one["targets"]]
        if all(limits):
            most = sum(max(map(int, limit)) for limit in limits)
            assert len(panel(boards, name, one["title"])["series"]) <= most, one["title"]


def test_outcomes_have_their_colours(boards):
    """Fail is red, wherever it is a series, a value of a state timeline, or a single figure."""
    seen = set()
    for where, one in panels(boards):
        for series in one.get("series") or []:
            outcome = series["name"] if series["name"] in COLORS else series["text"]
            if outcome in COLORS:
                assert series["color"].upper() == COLORS[outcome].upper(), (where, outcome)
                seen.add((one["type"], outcome))
    assert {("timeseries", outcome) for outcome in COLORS} <= seen
    assert {("state-timeline", "fail"), ("stat", "fail")} <= seen


# The five questions ------------------------------------------------------------------------------------


def test_which_node_is_unhealthy_and_what_to_do(boards):
    found = {row["node"]: row for row in rows(boards, "health", "Findings")}
    assert set(found) == {"gpu006", "gpu009", "gpu011", "gpu012"}
    lost = found["gpu009"]
    assert (lost["check"], lost["outcome"], lost["component"]) == ("gpu_lost", "fail", "GPU-009-5")
    assert "reboot" in lost["what to do"]
    assert first(boards, "health", "Findings")["outcome"] == "fail"
    assert text(boards, "health", "Failed") == "2" and text(boards, "fleet", "GPUs lost") == "1"
    # gpu011 is unknown, and the verdict of gpu014 is old.
    assert text(boards, "health", "Unknown") == "2"
    states = {one["name"]: one["text"] for one in panel(boards, "health", "Nodes that did not pass")["series"]}
    assert states == {"gpu006": "warn", "gpu009": "fail", "gpu011": "unknown", "gpu012": "fail", "gpu014": "unknown"}


def test_which_job_is_slow_and_why(boards):
    slow = first(boards, "job", "Jobs that may be slow")
    assert (slow["job"], slow["user"], slow["account"]) == ("4712", "bob", "vision")
    worst = first(boards, "job", "GPUs of the job")
    assert (worst["node"], worst["GPU"], worst["slowed"]) == ("gpu006", "3", "1")
    assert text(boards, "job", "Slowed GPUs") == "1"
    (reason,) = panel(boards, "job", "Slowed GPUs by reason")["series"]
    assert "hardware_thermal_slowdown" in reason["name"]
    clocks = {one["name"]: one["last"] for one in panel(boards, "job", "Slowest clocks")["series"]}
    assert "gpu006" in min(clocks, key=lambda name: clocks[name]) and min(clocks.values()) < 1e9
    assert {row["node"] for row in rows(boards, "job", "Nodes of the job")} == {"gpu005", "gpu006"}
    assert panel(boards, "job", "Network sent")["series"] and panel(boards, "job", "Local disks")["series"]


def test_where_gpus_are_wasted(boards):
    wasted = {row["job"]: row for row in rows(boards, "capacity", "Jobs by unused GPUs")}
    assert wasted["4713"]["user"] == "carol" and "team-b/notebook-0" in wasted
    assert wasted["4713"]["unused GPUs"] == "8"
    (idle,) = rows(boards, "capacity", "Idle MIG instances")
    assert (idle["node"], idle["GPU"], idle["instance"], idle["job"]) == ("gpu013", "1", "2", "4718")


def test_who_uses_how_much(boards):
    users = {row["user"]: row for row in rows(boards, "usage", "Users")}
    assert {"alice", "bob", "carol", "erin", "frank", "grace"} <= set(users)
    assert {row["namespace"] for row in rows(boards, "usage", "Namespaces")} == {"team-a", "team-b"}
    assert {"nlp", "vision", "physics", "bio"} <= {row["account"] for row in rows(boards, "usage", "Accounts")}
    # Hours are hours, not days or weeks.
    shown = "\n".join(line for name in ("usage", "capacity") for one in boards[name] for line in one["texts"])
    assert not re.search(r"\b(weeks?|days?)$", shown, re.MULTILINE)


def test_is_the_fabric_healthy(boards):
    ports = {(row["node"], row["adapter"]): row for row in rows(boards, "fabric", "Ports down or with errors")}
    assert {("gpu012", "mlx5_3"), ("gpu005", "mlx5_2")} == set(ports)
    assert text(boards, "fabric", "Ports down") == "1"
    links = {(row["node"], row["GPU"]) for row in rows(boards, "fabric", "GPUs with link errors")}
    assert links == {("gpu003", "6")}


def test_mig_instances_are_shown_by_their_number(boards):
    instances = rows(boards, "mig", "Instances")
    assert {row["node"] for row in instances} == {"gpu013"}
    assert sorted(int(row["instance"]) for row in instances) == [1, 2, 7, 8, 9, 10, 11, 12, 13]

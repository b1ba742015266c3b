# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a panel looks like: units, colours, texts and sizes, by the generated files."""

from __future__ import annotations

import re

import pytest
from board_files import BOARDS, PANELS, columns, defaults, of_type, overrides

#: Units that Grafana does not scale to another one that nobody expects: ``h`` becomes days and weeks.
UNITS = {"none", "percentunit", "s", "bytes", "Bps", "celsius", "hertz", "watt", "kwatth", "reqps"}
OTHER_UNITS = {"string", "dateTimeAsIso", "suffix:h", "suffix:errors/s"}
MEANING = {
    "outcome": {"pass": "green", "warn": "yellow", "unknown": "purple", "fail": "red"},
    "state": {"busy": "green", "idle": "yellow", "wasted": "red", "unallocated": "blue", "unknown": "purple"},
}
#: Words that English manuals do not use for this.
FOREIGN = (
    r"(?i)\b(told|tells?|untold|sick|not well|well again|stands?|lies?|is no [a-z]+|nobody|somebody|of those|beside)\b"
)


@pytest.mark.parametrize(("name", "panel"), of_type("table"))
def test_no_column_of_a_table_has_the_unit_of_another(name, panel):
    """A unit of the whole table formats labels, too: job 4711 became 4.71 kJ and GPU 3 300 %."""
    assert "unit" not in defaults(panel) and "thresholds" not in defaults(panel)
    labels, values = columns(panel)
    of = overrides(panel)
    assert labels and values and set(of) == set(labels.values()) | values
    assert {of[one]["unit"] for one in labels.values()} == {"string"}
    assert all(of[one]["unit"] not in ("string", "") for one in values)


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_unit_is_one_that_grafana_shows_as_it_is_called(name, panel):
    used = {defaults(panel).get("unit", "none")} | {one["unit"] for one in overrides(panel).values() if "unit" in one}
    assert used <= UNITS | OTHER_UNITS


@pytest.mark.parametrize(("name", "panel"), of_type("timeseries", "bargauge"))
def test_a_line_of_an_outcome_or_a_state_has_the_colour_of_its_meaning(name, panel):
    """By the order of the lines, fail became green."""
    for label, meaning in MEANING.items():
        if any(one.get("legendFormat") == "{{" + label + "}}" for one in panel["targets"]):
            found = {name: one["color"] for name, one in overrides(panel).items() if "color" in one}
            assert found == {value: {"mode": "fixed", "fixedColor": colour} for value, colour in meaning.items()}


@pytest.mark.parametrize(("name", "panel"), of_type("state-timeline"))
def test_states_of_checks_and_nodes_include_unknown(name, panel):
    texts = {one["text"]: one["color"] for one in defaults(panel)["mappings"][0]["options"].values()}
    assert texts == MEANING["outcome"] or set(texts) == {"slowed"}


@pytest.mark.parametrize(("name", "panel"), of_type("table"))
def test_a_table_of_findings_has_the_outcome_and_what_to_do(name, panel):
    labels, values = columns(panel)
    if any("gpu_node_health_finding{" in one["expr"] for one in panel["targets"]) and "check" in labels:
        assert {"outcome", "check", "key", "action"} <= set(labels) and values == {"first seen"}
        (mapping,) = overrides(panel)["outcome"]["mappings"]
        assert {value: one["color"] for value, one in mapping["options"].items()} == MEANING["outcome"]
        assert panel["options"]["sortBy"] == [{"displayName": "outcome", "desc": False}]


@pytest.mark.parametrize(("name", "panel"), of_type("table"))
def test_a_table_of_jobs_names_their_owners(name, panel):
    labels, _values = columns(panel)
    assert "hpc_job" not in labels or {"user", "account", "namespace"} <= set(labels)


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_an_outcome_of_nodes_is_one_in_which_a_stale_verdict_is_unknown(name, panel):
    assert not [one["expr"] for one in panel["targets"] if "gpu_node_health_outcome" in one["expr"]]


@pytest.mark.parametrize(("name", "panel"), of_type("timeseries", "state-timeline"))
def test_the_highest_few_are_the_same_over_the_whole_range(name, panel):
    """topk chooses anew at each step, and a panel of five had 16 lines."""
    for target in panel["targets"]:
        for found in re.finditer(r"(?:topk|bottomk)\(", target["expr"]):
            assert argument(target["expr"][found.end() :]).endswith("@ end())"), target["expr"]


def argument(text):
    """Up to the parenthesis that closes."""
    depth = 1
    for index, one in enumerate(text):
        depth += {"(": 1, ")": -1}.get(one, 0)
        if not depth:
            return text[:index]
    raise AssertionError(text)


@pytest.mark.parametrize(("name", "panel"), of_type("heatmap"))
def test_a_heat_map_reads_a_histogram_that_a_rule_recorded(name, panel):
    """Of the series of each GPU, a thousand nodes have 128 MB in six hours."""
    assert panel["options"]["calculate"] is False
    assert [one["format"] for one in panel["targets"]] == ["heatmap"]
    assert all(re.match(r"sum by \(le\) \(gpu_node:\w+:bucket\{", one["expr"]) for one in panel["targets"])


@pytest.mark.parametrize(("name", "panel"), of_type("bargauge"))
def test_one_bar_is_not_as_high_as_the_panel(name, panel):
    options = panel["options"]
    assert (options["sizing"], options["maxVizHeight"]) == ("manual", 30)
    assert options["text"] == {"titleSize": 12, "valueSize": 16}


@pytest.mark.parametrize(("name", "panel"), of_type("table", "state-timeline", "bargauge", "stat"))
def test_an_empty_panel_explains_what_that_means(name, panel):
    text = defaults(panel).get("noValue", "")
    assert text and (panel["type"] == "stat" or (text.endswith(".") and len(text) > 10))
    # The cells without a value do not show it.
    assert {one.get("noValue") for one in overrides(panel).values() if "unit" in one} <= {"-"}


@pytest.mark.parametrize(("name", "panel"), of_type("stat"))
def test_a_missing_value_is_not_green(name, panel):
    """Grafana gives it the lowest colour."""
    assert defaults(panel)["thresholds"]["steps"][0]["color"] in ("text", "blue", "purple")


@pytest.mark.parametrize(("name", "panel"), of_type("table"))
def test_a_table_is_not_higher_than_a_third_of_a_screen(name, panel):
    assert panel["gridPos"]["h"] <= 8


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_title_fits(name, panel):
    """On a screen of 1366 pixels, beside the icons of the description and of the link."""
    assert len(panel["title"]) * 7.3 <= panel["gridPos"]["w"] * 54 - 64


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_the_texts_of_a_panel_are_plain_english(name, panel):
    of = overrides(panel)
    texts = [panel["title"], panel["description"], defaults(panel).get("noValue", ""), *of]
    texts += [one.get("legendFormat", "") for one in panel["targets"]]
    assert not [one for one in texts if re.search(FOREIGN, one)]


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_the_description_of_a_board_is_plain_english(name):
    assert not re.search(FOREIGN, BOARDS[name]["title"] + BOARDS[name]["description"])

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a fleet: table, JSON, JUnit and the page, with kind and unkind verdicts."""

from __future__ import annotations

import html.parser
import json
import random
import re
import time
from xml.etree import ElementTree as xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report import junit, model, page, table
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.plugin_utils.health_report.health_fleet import (
    fleet,
    verdict,
    with_finding,
)

MISSING = {"gpu9001": "it was not reached (timed out)"}
HOSTILE = (
    '</script><script>document.title="owned"</script><img src=http://x.invalid/ onerror=alert(1)>"\'&\x00\u202e\ud800'
)


class Seen(html.parser.HTMLParser):
    """Every element of a page with its attributes, and that they are closed in order."""

    VOID = ("meta", "br", "path")

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def test_the_table_is_worst_first_with_reason_and_remedy_and_counts_the_healthy():
    rows = table.rows(model.report(fleet(32), MISSING))
    assert rows[0] == ("", "33 nodes: 1 fail, 1 no verdict, 1 unknown, 2 warn, 28 pass")
    assert [line.split()[-1] for dummy, line in rows if not line.startswith(" ")][1:-1] == [
        "gpu0003",
        "gpu9001",
        "gpu0012",
        "gpu0007",
        "gpu0020",
    ]
    text = [line.strip() for dummy, line in rows]
    assert (
        "GPU 3 (0000:0b:00.0): it has fallen off the bus (Xid 79); reboot the node, and open a ticket if it "
        "recurs. [gpu_count]" in text
    )
    assert "no verdict: it was not reached (timed out); put that right and run it again." in text
    assert any("[gpu_temperature] (likely)" in line for line in text)
    assert any(line.startswith("host_to_device_gigabytes_per_second of 0000:06:00.0: 21.4 GB/s is 3.") for line in text)
    assert rows[-1] == ("pass", "28 nodes are healthy")


def test_the_same_on_many_nodes_is_told_once():
    one = verdict("n", random.Random(1))
    same = {"n{0:03d}".format(number): with_finding(one, reason="it is not there") for number in range(500)}
    rows = [line for dummy, line in table.rows(model.report(same, {}))]
    assert rows[1] == "fail       n000, n001, n002 and 497 more"
    assert len(rows) < 6


def test_a_thousand_nodes_each_with_its_own_trouble_stay_readable():
    one = verdict("n", random.Random(1))
    sick = {"n{0:04d}".format(number): with_finding(one, reason="r{0}".format(number)) for number in range(1000)}
    rows = table.rows(model.report(sick, {}))
    assert len(rows) < 100 and rows[-1][1] == "and 960 more node(s) that are not well"


def test_too_few_to_compare_is_said():
    rows = table.rows(model.report(fleet(3), {}))
    assert rows[-1][1] == "nd96asr_v4: 3 node(s), too few to tell an odd one out"


def test_json_tells_all_and_is_json():
    content = json.loads(json.dumps(model.report(fleet(32), MISSING).to_dict()))
    assert content["schema"] == "trainyard.gpu_node/fleet/1"
    assert content["counts"] == {"fail": 1, "none": 1, "unknown": 1, "warn": 2, "pass": 28}
    assert content["nodes"][0]["host"] == "gpu0003" and content["nodes"][0]["findings"][0]["action"] == "reboot"
    assert content["nodes"][1]["verdict"] is None
    assert [(one["host"], one["key"], one["value"]) for one in content["outliers"]] == [
        ("gpu0020", "0000:06:00.0", 21.4)
    ]


def test_junit_counts_fails_as_failures_and_what_is_not_known_as_errors():
    root = xml.fromstring(junit.junit(model.report(fleet(32), MISSING)))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == (str(32 * 6 + 2), "1", "2")
    suites = {suite.get("name"): suite for suite in root}
    failed = suites["gpu0003"].find("testcase/failure")
    assert "fallen off the bus" in failed.get("message")
    assert suites["gpu0012"].find("testcase[@name='nvme_health']/error") is not None
    assert suites["gpu9001"].find("testcase[@name='verdict']/error") is not None
    assert suites["gpu0020"].find("testcase[@name='outlier']/system-out") is not None
    assert suites["gpu0000"].find("testcase/failure") is None and len(suites["gpu0000"]) == 6


def test_the_page_needs_nothing_from_outside_and_says_what_is_where():
    text = page.page(model.report(fleet(64), MISSING), "Racks & rows")
    seen = Seen(text)
    for _dummy, attributes in seen.elements:
        assert not {"src", "href", "onclick", "onerror", "action", "style"} & set(attributes)
    assert "url(" not in text and "@import" not in text and "http:" not in text and "https:" not in text
    assert seen.all("meta")[1]["content"].startswith(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"
    )
    cells = seen.all("button")
    assert [cell["data-host"] for cell in cells] == sorted(cell["data-host"] for cell in cells) and len(cells) == 65
    by_host = {cell["data-host"]: cell for cell in cells}
    assert by_host["gpu0003"]["class"] == "fail" and by_host["gpu0003"]["aria-label"] == "gpu0003: fail"
    assert by_host["gpu9001"]["class"] == "none" and by_host["gpu0005"]["class"] == "pass"
    assert "Racks & rows" in seen.words and len(seen.all("article")) == 5
    assert len([one for one in seen.all("path") if one.get("class") == "mark"]) == 1
    # A sign in each cell: not by colour alone.
    assert text.count(">✗</button>") == 1 and text.count(">✓</button>") == 60


def test_a_thousand_nodes_make_a_page_of_bounded_size_in_bounded_time():
    started = time.process_time()
    one = verdict("n", random.Random(1))
    sick = {"x{0:04d}".format(number): with_finding(one, reason="r{0} ".format(number) * 30) for number in range(300)}
    text = page.page(model.report(dict(fleet(700), **sick), {}), "t")
    assert len(text.encode()) < 2_000_000 and text.count("<article>") == page.SHOWN_MAX
    assert time.process_time() - started < 30


def test_what_a_hostile_node_sends_stays_text():
    content = with_finding(verdict("n", random.Random(1)), thing=HOSTILE, reason=HOSTILE, remedy=HOSTILE)
    content["profile"] = content["results"][0]["id"] = content["results"][0]["seen"] = HOSTILE
    content["results"][0]["measured"] = [{"name": HOSTILE, "value": 1.0, "key": HOSTILE}]
    sent = {"a" + HOSTILE: content, "b": content, "c": content, "d": content}
    report = model.report(sent, {"e" + HOSTILE: HOSTILE}, 3)
    text = page.page(report, HOSTILE)
    seen = Seen(text)
    assert len(seen.all("script")) == 2 and not seen.all("img")
    assert text.count("</script") == 2
    data = re.search('id="data">(.*?)</script>', text, re.DOTALL).group(1)
    assert "<" not in data and len(json.loads(data)["nodes"]) == 5
    text.encode("utf-8")
    root = xml.fromstring(junit.junit(report))
    assert len(root) == 5
    assert all(line.isprintable() for dummy, line in table.rows(report))


junk = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4) | st.sampled_from(["fail", "pass", "\x00", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "results",
                    "findings",
                    "finding",
                    "check",
                    "measured",
                    "id",
                    "outcome",
                    "time",
                    "thing",
                    "name",
                    "value",
                    "profile",
                    "seen",
                ]
            ),
            inner,
        )
    ),
)


@given(
    st.dictionaries(
        st.text(max_size=4),
        st.dictionaries(st.sampled_from(["results", "observed", "outcome", "time", "profile"]), junk),
        max_size=3,
    )
)
def test_no_verdict_crashes_the_report(verdicts):
    report = model.report(verdicts, {"x": "\x01"}, 3)
    table.rows(report)
    Seen(page.page(report, "t"))
    xml.fromstring(junit.junit(report))
    json.dumps(report.to_dict())


@pytest.mark.parametrize("outcome", [None, "fine", 3, "PASS"])
def test_an_unknown_outcome_is_not_a_pass(outcome):
    content = dict(verdict("n", random.Random(1)), outcome=outcome)
    assert model.report({"n": content}, {}).nodes[0].outcome == "none"


def two_kinds(drivers):
    """Sixteen nodes, of which the first six are 10 % slower, with the drivers of these and of the others."""
    chance = random.Random(2)
    found = {}
    for number in range(16):
        one = verdict("gpu{0:04d}".format(number), chance)
        for result in one["results"]:
            for figure in result["measured"]:
                if number < 6 and figure["name"] == "host_to_device_gigabytes_per_second":
                    figure["value"] *= 0.9
        seen = "driver {0}".format(drivers[number >= 6])
        one["results"] = [
            *one["results"],
            {"id": "gpu_presence", "title": "The driver answers", "outcome": "pass", "seen": seen, "findings": []},
        ]
        found[one["node"]] = one
    return found


def test_a_group_that_nothing_explains_is_a_warning_of_its_nodes_told_once():
    report = model.report(two_kinds(("570", "570")), {})
    rows = [line for dummy, line in table.rows(report)]
    assert rows[0] == "16 nodes: 6 warn, 10 pass" and rows[1] == "warn       gpu0000, gpu0001, gpu0002 and 3 more"
    assert sum("6 nodes of type nd96asr_v4 are a group at 22." in line for line in rows) == 1
    assert "(10 %) below the 10 others" in rows[2]


def test_a_group_of_another_driver_is_told_with_it_and_no_node_is_sick_for_it():
    report = model.report(two_kinds(("550", "570")), {})
    rows = [line for dummy, line in table.rows(report)]
    assert rows[0] == "16 nodes: 16 pass"
    assert rows[-1].endswith("these have The driver answers: driver 550, the others: driver 570")
    (group,) = report.to_dict()["groups"]
    assert len(group["hosts"]) == 6 and group["others"] == 10 and "driver 550" in group["differ_in"]
    assert "these have The driver answers: driver 550" in page.page(report, "t")


def test_what_is_only_observed_is_told_after_the_rest_and_makes_no_node_sick():
    chance = random.Random(7)
    verdicts = {"gpu{0}".format(number): verdict("gpu{0}".format(number), chance) for number in range(1, 6)}
    lost = {"check": "gpu_lost<b>", "finding": {"outcome": "fail", "thing": "GPU 3"}, "pattern": "*"}
    for host in list(verdicts)[:4]:
        verdicts[host] = dict(
            verdicts[host], observed=[lost, dict(lost, check="gpu_pcie", finding={"outcome": "warn"})]
        )
    report = model.report(verdicts, {})
    assert report.counts == {"pass": 5}
    lines = [line for dummy, line in table.rows(report)]
    assert "observed   gpu_lost<b> would be fail on 4 nodes: gpu1, gpu2, gpu3 and 1 more" in lines
    assert "observed   gpu_pcie would be warn on 4 nodes: gpu1, gpu2, gpu3 and 1 more" in lines
    shown = page.page(report, "x")
    assert "<h2>Observed</h2>" in shown and "<b>gpu_lost&lt;b&gt;</b> would be fail on 4: gpu1" in shown
    assert "<h2>Observed</h2>" not in page.page(model.report({"a": verdict("a", chance)}, {}), "x")


def figures(*parts, name="part_faults"):
    labels = {"kind": "gpu", "seen_on": "gpu07", "present": "false", "window": "30d"}
    rows = [{"name": name, "value": 4, "key": one, "labels": labels} for one in parts]
    return {"id": "repeat_offender", "outcome": "pass", "title": "No part fails again and again", "measured": rows}


def test_parts_that_fail_again_are_in_the_table_the_page_and_the_json():
    chance = random.Random(9)
    sick = dict(verdict("gpu07", chance), results=[figures("GPU-1")])
    came = dict(verdict("gpu12", chance), results=[figures("GPU-1")])
    row = came["results"][0]["measured"][0]
    row["value"], row["labels"] = 0, dict(row["labels"], seen_on="gpu12", present="true")
    report = model.report({"gpu07": sick, "gpu12": came}, {}, now=2e9)
    told = (
        "gpu12: GPU GPU-1: 4 faults within 30 days, the last at an unknown time; "
        "it failed 4 times on gpu07 before it came to gpu12"
    )
    assert "again      " + told in [line for dummy, line in table.rows(report)]
    assert report.counts == {"pass": 2}
    assert "<h2>Parts that fail again</h2>" in page.page(report, "x") and told in page.page(report, "x")
    (one,) = json.loads(json.dumps(report.to_dict()))["repeat_offenders"]
    assert (one["host"], one["name"], one["faults"], one["window_seconds"]) == ("gpu12", "GPU-1", 4, 30 * 86400)
    assert one["hosts"] == [{"node": "gpu07", "faults": 4, "remedies": 0, "first": None, "last": None}]
    assert "fail again" not in page.page(model.report({"a": verdict("a", chance)}, {}), "x")


def test_a_flood_of_hostile_parts_stays_text_and_bounded():
    sick = dict(
        verdict("a", random.Random(9)), results=[figures(*("{0}{1}".format(at, HOSTILE) for at in range(5000)))]
    )
    report = model.report({"a": sick}, {})
    lines = [line for dummy, line in table.rows(report)]
    assert len(lines) < 60 and all(line.isprintable() for line in lines) and "and 1980 more part(s)" in "\n".join(lines)
    text = page.page(report, "x")
    assert len(Seen(text).all("script")) == 2 and not Seen(text).all("img") and len(text) < 200000
    assert len(report.to_dict()["repeat_offenders"]) == 1000

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a node for the plugin of node-problem-detector: which subject says what."""

from __future__ import annotations

import pytest
from hypothesis import given

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.returns import RETURNS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import node_status, record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    DARK,
    HEALTHY,
    LOST,
    NOW,
    OBSERVED,
    SICK,
    VERDICTS,
    WARM,
    result,
    verdict,
)

NOT_PASS = {Outcome.FAIL: "problem", Outcome.UNKNOWN: "unknown"}


def read(text):
    """{subject: (state, message)}, and the two numbers of the second line."""
    head, time, *lines = text.splitlines()
    assert head == "gpu_node status 1" and time.startswith("time ")
    parts = [line.split(" ", 2) for line in lines]
    return {name: (state, "".join(rest)) for name, state, *rest in parts}, tuple(map(int, time.split()[1:]))


def states(one):
    return {name: state for name, (state, dummy) in read(node_status.render(one, 750.0))[0].items()}


def test_a_healthy_node_and_a_sick_one():
    content, times = read(node_status.render(SICK, 750.0))
    assert times == (int(NOW), 750)
    assert content["node"] == ("problem", "2 more; GPU 3 (0000:0b:00.0): it has fallen off the bus (Xid 79)")
    assert content["gpu"][0] == "problem" and content["gpu"][1].startswith("1 more; GPU 3")
    assert content["scratch"] == ("unknown", "disk nvme0: no nvme command")
    assert content["infiniband"] == ("unknown", "no check of it was made")
    assert content["warnings"] == ("problem", "GPU 1: 84 C")
    content = read(node_status.render(HEALTHY, 750.0))[0]
    assert content["node"] == ("ok", "pass: 2 checks") and content["gpu"] == ("ok", "2 checks")
    assert content["infiniband"] == ("ok", "no port") and content["warnings"] == ("ok", "no warnings")


@pytest.mark.parametrize(
    "check, code, area",
    [
        ("gpu_nvlink", "down", "nvlink"),
        ("gpu_xid", "xid_74", "nvlink"),
        ("gpu_xid", "xid_79", "gpu"),
        ("gpu_pcie", "width", "gpu"),
        ("repeat_offender", "gpu_fatal_xids", "gpu"),
        ("ib_ports", "link_down", "infiniband"),
        ("scratch_mounted", "not_mounted", "scratch"),
        ("nvme_smart", "worn", "scratch"),
        ("service_running", "failed", None),
    ],
)
def test_a_fault_is_of_its_area_and_of_the_node(check, code, area):
    every = [result(name) for name in ("gpu_lost", "gpu_nvlink", "ib_ports", "nvme_smart")]
    found = states(verdict(*every, result(check, replaced(LOST, code=code))))
    assert found["node"] == "problem"
    assert {name: found[name] for name in node_status.AREAS} == {
        name: "problem" if name == area else "ok" for name in node_status.AREAS
    }


def test_nvlink_that_nobody_looked_at_is_not_well():
    none = {"gpu_nvlink": "the driver does not answer", "gpu_fabric": "the driver does not answer"}
    assert states(verdict(result("gpu_driver", LOST), not_applicable=none))["nvlink"] == "unknown"
    assert states(verdict(result("gpu_driver", WARM), not_applicable=none))["nvlink"] == "ok"


def test_what_is_silenced_or_only_observed_is_no_problem():
    found = states(OBSERVED)
    assert found["node"] == found["gpu"] == found["warnings"] == "ok"


def test_every_area_is_of_rows_that_there_are():
    known = {one.part for one in RETURNS}
    assert {part for parts in node_status.AREAS.values() for part in parts} <= known


@given(VERDICTS)
def test_any_verdict_is_a_line_of_plain_text_for_each_subject(one):
    text = node_status.render(one, 750.0)
    assert text.isascii() and text.replace("\n", "").isprintable() and len(text) < 3000
    content = read(text)[0]
    assert tuple(content) == node_status.SUBJECTS
    assert content["node"][0] == NOT_PASS.get(one.outcome, "ok")
    # No area is worse than the node.
    if one.outcome in (Outcome.PASS, Outcome.WARN):
        assert "problem" not in [content[name][0] for name in node_status.AREAS]


def test_it_is_written_with_each_verdict_and_holds_for_two_and_a_half_intervals(tmp_path):
    host = Host(str(tmp_path))
    assert record.write(host, verdict(result("nvme_smart", DARK)), {"health_gate": {"interval_seconds": 100}}) == ()
    content, times = read((tmp_path / node_status.PATH[1:]).read_text())
    assert times == (int(NOW), 250) and content["node"][0] == "unknown"
    assert node_status.PATH in record.STATE_FILES

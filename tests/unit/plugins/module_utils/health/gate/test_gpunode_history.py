# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode history``: what a person and a program see of what a node remembers."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import attempts, journal
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.attempts import Attempt, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import history, past
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import (
    Debt,
    Entry,
    Fault,
    History,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.journal import Event, Journal
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parts import NODE, Part
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Outcome

NOW = 1_790_000_000.0
GPU = Part("gpu", "GPU-5b3c7a11-0000-4000-8000-000000000003")
DEBT = Debt((Fault("gpu_xid", "xid_79", "reboot"),), "GPU 3: it is off the bus", attempts=1, tried=NOW)
DRAIN = Entry(NOW - 600, Cost.PASSIVE, Outcome.FAIL, "GPU 3: it is off the bus", "drain")
QUIET = Entry(NOW, Cost.PASSIVE, Outcome.PASS)
EVENTS = (
    Event(journal.FAULT, GPU, NOW - 900, NOW - 600, "b1", "gpu_xid", "xid_79", "reboot", at=5.0, count=3, node="gpu12"),
    Event(journal.REMEDY, NODE, NOW - 300, NOW - 300, "b1", code="reboot", node="gpu07"),
)
TRIED = Attempt("reboot", "node", NOW - 300, "b1", "GPU 3: it is off the bus", ended=NOW, outcome="done")


@pytest.fixture
def host(tmp_path, monkeypatch):
    found = Host(str(tmp_path))
    monkeypatch.setattr(main, "Host", lambda: found)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return found


@pytest.fixture
def run(host, capsys):
    def run(*words):
        status = main.main(["history", "--node", "gpu07", *words])
        return status, capsys.readouterr().out

    return run


def remember(host, debt=DEBT):
    history.write(host, History((DRAIN, QUIET), True, NOW, debt=debt))
    attempts.write(host, Record((TRIED,)))
    journal.write(host, Journal(EVENTS))


def test_all_of_it_is_told(host, run):
    remember(host)
    status, text = run()
    assert status == 0
    assert "gpu07: drained for its health, as of 2026-09-21T" in text
    assert "it went out for: GPU 3: it is off the bus" in text and "faults: gpu_xid/xid_79 (reboot)" in text
    assert "it owes a passing gpu_memory_test" in text and "(1 of 3" in text
    assert "drain  GPU 3: it is off the bus" in text and "reboot of node: GPU 3" in text
    lines = text.splitlines()
    at = lines.index("gpu {0}:".format(GPU.name))
    assert lines[at + 2].split()[4:] == ["fault", "3", "gpu_xid/xid_79", "on", "gpu12"]
    # Verdicts that did nothing are no history.
    assert len([line for line in lines if line.startswith("20") and "drain" in line]) == 1
    assert max(len(line) for line in lines) <= 80


def test_programs_get_the_same(host, run):
    remember(host)
    told = json.loads(run("--json")[1])
    assert told["drained"] is True and told["owed"]["faults"][0]["code"] == "xid_79"
    assert "gpu_memory_test" in told["owed"]["checks"] and told["acts"][0]["action"] == "drain"
    assert [one["what"] for one in told["events"]] == ["fault", "remedy"] and told["problems"] == []
    assert told["remedies"]["attempts"][0]["remedy"] == "reboot"


def test_one_line_for_many_nodes(host, run):
    remember(host)
    status, text = run("--brief")
    assert status == 0 and text.count("\n") == 1
    assert text.startswith("gpu07: drained for its health") and "it owes a passing" in text
    assert "last fault 2026-09-21T" in text and "gpu_xid/xid_79 of gpu GPU-5b3c" in text


def test_a_node_where_nothing_has_happened_says_so(run):
    status, text = run()
    assert status == 0 and "slurmctld was not asked yet" in text and "nothing has happened" in text
    assert "it owes no proof" in text


@pytest.mark.parametrize("path", [history.PATH, attempts.PATH, journal.PATH])
@pytest.mark.parametrize("text", ["{", '{"entries": 7, "events": 7}', None])
def test_what_cannot_be_read_is_told_and_the_rest_too(host, run, path, text):
    remember(host)
    if text is not None:
        host.write(path, text)
    else:
        os.unlink(host.path(path))
        os.mkdir(host.path(path))
    status, told = run()
    assert status == 1 and "cannot be read: {0}".format(path) in told.replace("\n  ", " ")
    assert "it owes no proof" not in told or path != history.PATH
    kept = {"drain  GPU 3": history.PATH, "reboot of node": attempts.PATH, "gpu_xid/xid_79 on": journal.PATH}
    assert [words for words in kept if words not in told] == [words for words in kept if kept[words] == path]
    status, told = run("--json")
    assert status == 1 and path in json.loads(told)["problems"][0]
    status, told = run("--brief")
    assert status == 1 and told.count("\n") == 1 and path in told


def test_words_of_others_are_escaped(host, run):
    bad = "red\x1b[31m\nroot: all is well"
    history.write(
        host,
        History(
            (DRAIN.__class__(NOW, Cost.PASSIVE, Outcome.FAIL, bad, "drain"),),
            True,
            NOW,
            debt=Debt((Fault(bad, bad, bad),), bad),
        ),
    )
    attempts.write(host, Record((Attempt(bad, bad, NOW, "b", bad, ended=NOW, outcome=bad),), latched=bad))
    journal.write(host, Journal((Event("fault", Part("gpu", bad), NOW, NOW, "b", bad, bad, bad, node=bad),)))
    for words in ((), ("--brief",), ("--json",)):
        text = run(*words)[1]
        assert "\x1b" not in text and not [line for line in text.splitlines() if line.strip().startswith("root: all")]


def test_a_proof_that_is_not_asked_for_says_why(host, run):
    remember(host)
    host.write("/etc/gpu_node/node.json", json.dumps({"health_gate": {"proof": False}}))
    assert "no proof is asked for (health_gate_proof)" in run()[1]
    overrule = {"until": "2099-12-31", "owner": "anna", "reason": "wanted\x1b back"}
    host.write("/etc/gpu_node/node.json", json.dumps({"health": {"overrules": [overrule]}}))
    assert "anna lets it back without its proof: wanted? back" in run()[1]
    host.write("/etc/gpu_node/node.json", json.dumps({"health": {"overrules": [dict(overrule, until="2020-01-01")]}}))
    told = run()[1].replace("\n  ", " ")
    assert "it owes a passing" in told and "the overrule by anna ended on 2020-01-01, and a proof is asked for" in told


def test_what_only_a_person_settles_says_so(host, run):
    fault = (Fault("gpu_xid", "xid_79", "reboot"),)
    void = past.owed(Debt(fault), Settings()).checks
    remember(host, Debt(fault, "x", void=void))
    assert void and "it waits for a person: nothing on this node can prove" in run()[1]


def test_only_root_reads_it(run, monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main.main(["history"]) == 1
    assert "only root may read it" in capsys.readouterr().err

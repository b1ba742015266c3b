# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode events``: what a person and a program see of it."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import events, main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events import ask, memory
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events.memory import Memory
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.events.azure_stand_in import (
    ID,
    NOW,
    elapsed,
    event,
)


@pytest.fixture
def run(tmp_path, azure, monkeypatch, capsys):
    real = ask.azure
    monkeypatch.setattr(ask, "azure", lambda: real(run.place))
    monkeypatch.setattr(main, "Host", lambda: Host(str(tmp_path)))

    def run(*words):
        status = main.main(["events", *words])
        return status, capsys.readouterr().out

    run.place, run.host = azure.place, Host(str(tmp_path))
    return run


def declare(host, **section):
    host.write("/etc/gpu_node/node.json", json.dumps({"cloud_events": section}))


def test_where_nobody_is_to_be_asked_nobody_is(run, azure):
    status, text = run()
    assert status == 0 and text.startswith("nobody is asked for events") and azure.requests == []
    assert json.loads(run("--json")[1])["provider"] == "none"


@pytest.mark.parametrize("by", ["declaration", "firmware"])
def test_what_is_pending_and_what_happened(run, azure, by):
    if by == "declaration":
        declare(run.host, provider="azure")
    else:
        run.host.write("/sys/class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n")
    assert run() == (0, "no event is pending\n")
    azure.set(event("Redeploy"))
    memory.write(run.host, Memory(drained=(ID,)).noted(NOW, ("drain: \x1b[31mred",)))
    status, text = run()
    assert status == 0 and "Redeploy  {0}  at 2027-01-15T08:15:00Z  scale_set_3".format(ID) in text
    assert "drained by us for: " + ID in text and "2027-01-15T08:00:00Z  drain: ?[31mred" in text
    document = json.loads(run("--json")[1])
    assert document["events"][0]["type"] == "redeploy" and document["drained_for"] == [ID] and document["answered"]


@pytest.mark.parametrize("text", ["{", '{"known": 7}', "x" * 1100000, None])
def test_a_file_that_cannot_be_read_is_told_and_ends_it_with_1(run, text):
    declare(run.host, provider="azure")
    if text is None:
        os.makedirs(run.host.path(memory.PATH))
    else:
        run.host.write(memory.PATH, text)
    status, told = run()
    assert status == 1 and told.startswith("what this node is drained for cannot be read: " + memory.PATH)
    status, told = run("--json")
    assert status == 1 and json.loads(told)["unreadable"].startswith(memory.PATH) and json.loads(told)["events"] == []
    os.rename(run.host.path(memory.PATH), run.host.path("/gone"))
    assert run()[0] == 0 and json.loads(run("--json")[1])["unreadable"] is None


def test_a_declaration_that_cannot_be_read_is_no_empty_one(run, capsys):
    os.makedirs(run.host.path("/etc/gpu_node/node.json"))
    status, text = run()
    assert status == 1 and "nobody is asked" not in text


def test_a_cloud_that_does_not_answer_is_told_within_a_second(run, azure):
    declare(run.host, provider="azure")
    azure.pause = 5.0
    done = []
    assert elapsed(lambda: done.append(run())) < 1.5  # most of it is the time to load the command
    assert done[0][0] == 1 and done[0][1].startswith("no answer: 127.0.0.1")
    document = json.loads(run("--json")[1])
    assert document["events"] is None and "no answer in time" in document["why"]


def test_only_root_acts(run, monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for what in ("once", "follow"):
        assert main.main(["events", what]) == 1
        assert "only root may run it" in capsys.readouterr().err


def test_the_service_ends_when_its_command_is_replaced(tmp_path):
    path = tmp_path / "gpunode.pyz"
    path.write_text("old")
    replaced = events._replaced(str(path))
    assert not replaced() and not replaced()
    path.with_suffix(".new").write_text("new")
    os.replace(str(path.with_suffix(".new")), str(path))
    assert replaced()
    path.unlink()
    assert replaced()

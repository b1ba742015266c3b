# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of remedies: bounded, and nothing is forgotten or trusted by a cut, a copy, a clock or a hostile hand."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import attempts
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.attempts import Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import remedies as check
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected, Outcome
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.remedies.remedy_states import (
    NOW,
    attempt,
    tried,
)

HERE = "6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01"


@pytest.fixture
def host(tmp_path):
    machine(tmp_path, HERE)
    return Host(str(tmp_path))


def machine(root, uuid):
    path = root / "sys/class/dmi/id/product_uuid"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(uuid + "\n")


def stored(host, text):
    path = pathlib.Path(host.path(attempts.PATH))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogatepass")


def test_what_was_written_is_read_and_is_bounded(host):
    record = attempts.read(host)
    assert record.attempts == () and not record.held
    for number in range(300):
        record = record.added(attempt(hours=300 - number, units=("a.service",), persistent=("GPU-1",), gpus=("GPU-1",)))
    record = record.latch("too many\x1b[2J\nof them " + "x" * 1000, NOW)
    attempts.write(host, record)
    assert attempts.read(host) == record and len(record.attempts) == attempts.LONGEST
    assert "\n" not in record.latched and "\x1b" not in record.latched and len(record.latched) == 300
    assert len(open(host.path(attempts.PATH), encoding="ascii").read()) < 60000


def test_a_record_of_an_older_version_names_the_gpu_of_a_reset(host):
    record = attempts.read(host).added(attempt()).added(attempt("restart_service", "nvidia-fabricmanager.service"))
    attempts.write(host, record)
    content = json.loads(host.read(attempts.PATH))
    for one in content["attempts"]:
        del one["gpus"]
    stored(host, json.dumps(content))
    assert [one.gpus for one in attempts.read(host).attempts] == [("GPU-3",), ()]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "7", '{"version": 1}', '{"version": 2, "attempts": []}', "\x00" * 64, "[" * 100000],
)
def test_one_that_cannot_be_read_counts_as_latched(host, text):
    stored(host, text)
    record = attempts.read(host)
    assert record.attempts == () and "cannot be read" in record.held
    assert not host.exists(attempts.DAMAGED)
    # A person releases it, and it is made anew.
    attempts.write(host, record.release("anna"))
    assert attempts.read(host).held == "" and attempts.read(host).released == "anna"
    assert host.read(attempts.DAMAGED) == text


@pytest.mark.parametrize("mode, uid", [(0o666, 0), (0o600, 12345)])
def test_a_record_that_another_user_can_write_counts_as_latched(host, mode, uid):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    attempts.write(host, attempts.read(host).added(attempt()))
    assert not attempts.read(host).held
    os.chmod(host.path(attempts.PATH), mode)
    os.chown(host.path(attempts.PATH), uid, uid)
    assert "cannot be read" in attempts.read(host).held


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
    )
)
def test_hostile_content_is_told_and_never_trusted(tmp_path_factory, content):
    host = Host(str(tmp_path_factory.mktemp("node")))
    good = json.loads('{"version": 1, "attempts": [], "latched": "", "latched_at": 0, "released": "", "machine": ""}')
    stored(host, json.dumps(dict(good, attempts=[content])))
    assert attempts.read(host).held
    stored(host, json.dumps(dict(good, latched_at=content)))
    read = attempts.read(host)
    assert read.held or isinstance(content, (int, float))


def test_a_folder_in_its_place_counts_as_latched(host, tmp_path):
    (tmp_path / attempts.PATH.lstrip("/")).mkdir(parents=True)
    assert attempts.read(host).held


def test_a_copied_disk_says_nothing_of_this_machine(host, tmp_path):
    attempts.write(host, attempts.read(host).added(attempt()).latch("too many", NOW))
    assert attempts.read(host).held == "too many"
    machine(tmp_path, "11111111-2222-4333-8444-555555555555")
    record = attempts.read(host)
    assert record.attempts == () and not record.held
    # Of a machine whose firmware tells nothing it is taken for its own.
    machine(tmp_path, "00000000-0000-0000-0000-000000000000")
    assert attempts.read(host).held == "too many"


def test_a_clock_that_was_set_back_gives_no_new_attempts():
    record = tried(attempt(hours=1), attempt(hours=30))
    assert len(record.within(attempts.DAY_SECONDS, NOW)) == 1
    assert len(record.within(attempts.DAY_SECONDS, NOW - 400 * 86400)) == 2


def test_a_write_that_fails_leaves_what_was_there(host, monkeypatch):
    before = attempts.read(host).added(attempt())
    attempts.write(host, before)

    def full(*given, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(NodeError, match="free some space"):
        attempts.write(host, before.added(attempt()))
    monkeypatch.undo()
    assert attempts.read(host) == before


def expected(**gate):
    return Expected("", {}, {"health_gate": gate}, {}, {}, {}, NOW)


def test_each_verdict_tells_of_a_latched_breaker():
    judged = check.judge(Record(latched="too many"), expected(remedies=["reset_gpu"]))
    (found,) = judged.findings
    assert found.outcome is Outcome.WARN and "too many" in found.reason and "gpunode remedy release" in found.remedy
    # Also where remedies were switched off since.
    assert check.judge(Record(latched="too many"), expected()).findings
    assert check.judge(Record(), expected(remedies=["reset_gpu"])).findings == ()
    assert check.judge(Record(), expected()).not_applicable

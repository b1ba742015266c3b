# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a converge: what it means in each state, and the check before each job that reads it."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import boot
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command.exit_status import BUSY, DONE, NOT_DONE
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import converge_record as record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import systemd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.converge_record import Record, Standing
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import converge as check
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome

NOW, BEFORE = "boot-of-now", "boot-before"


def of(status, boot=NOW, reason=""):
    return Record(status, reason, 100.0, None if status == "running" else 160.0, boot, "0.1.0", None)


@pytest.fixture
def host(tmp_path):
    path = tmp_path / "proc/sys/kernel/random"
    path.mkdir(parents=True)
    (path / "boot_id").write_text(NOW + "\n")
    return Host(str(tmp_path))


@pytest.mark.parametrize(
    ("found", "busy", "standing"),
    [
        (of("running"), True, Standing.RUNNING),
        (of("running"), False, Standing.INTERRUPTED),
        # Another run has begun, and has not written its own record yet.
        (of("running", BEFORE), True, Standing.INTERRUPTED),
        (of("running", BEFORE), False, Standing.INTERRUPTED),
        (of("ready"), False, Standing.READY),
        (of("ready", BEFORE), False, Standing.OTHER_BOOT),
        (of("ready", ""), False, Standing.OTHER_BOOT),
        (of("not_ready", reason="GPU 3: lost"), False, Standing.NOT_READY),
        (of("not_ready", BEFORE), False, Standing.NOT_READY),
        (None, False, Standing.DAMAGED),
    ],
)
def test_what_a_record_means(found, busy, standing):
    known = record.judge(found, True, NOW, busy)
    assert known.standing is standing
    assert bool(known.reason) == (standing is not Standing.READY)


@given(
    status=st.sampled_from(("running", "ready", "not_ready")),
    boot=st.sampled_from((NOW, BEFORE, "")),
    now=st.sampled_from((NOW, "")),
    busy=st.booleans(),
)
def test_only_a_run_that_ended_ready_in_this_boot_makes_a_node_ready(status, boot, now, busy):
    ready = record.judge(of(status, boot), True, now, busy).standing is Standing.READY
    assert ready == (status == "ready" and boot == now == NOW)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_no_content_of_the_file_crashes_or_is_a_record(value):
    assert record.FILE.parse(json.dumps(value))[0] is None


def test_it_is_written_and_read_again_and_anybody_may_read_it(host):
    for one in (of("running"), of("not_ready", reason='ü\n"x"'), of("ready")):
        record.write(host, one)
        assert record.FILE.read(host)[0] == one
    assert os.stat(host.path(record.PATH)).st_mode & 0o777 == 0o644
    assert json.loads(host.read(record.PATH)) == {
        "schema": "trainyard.gpu_node/converge/1",
        "status": "ready",
        "reason": "",
        "started": 100.0,
        "ended": 160.0,
        "boot_id": NOW,
        "version": "0.1.0",
        "outcome": None,
        "in_service": False,
    }


@pytest.mark.parametrize(
    "change", [{"schema": "trainyard.gpu_node/converge/2"}, {"status": "well"}, {"started": "x"}, {"boot_id": None}]
)
def test_another_form_is_no_record(host, change):
    record.write(host, of("ready"))
    changed = dict(json.loads(host.read(record.PATH)), **change)
    found = record.FILE.parse(json.dumps(changed))[0]
    assert found is None or found.boot_id == "None"


def test_running_holds_as_long_as_the_lock_is_held(host):
    assert record.known(host).standing is Standing.NONE
    with host.lock(record.LOCK, 0):
        record.write(host, of("running"))
        assert record.known(host).standing is Standing.RUNNING
    assert record.known(host).standing is Standing.INTERRUPTED
    with host.lock(record.LOCK, 0):  # a look leaves the lock free
        pass


@pytest.mark.parametrize(
    ("standing", "admitted"),
    [
        ("none", False),
        ("running", False),
        ("running in service", True),
        ("interrupted", False),
        ("ready", True),
        ("not_ready", False),
    ],
)
@pytest.mark.parametrize("unit", ["enabled", "disabled", "masked"])
def test_slurmd_starts_where_a_node_is_ready_or_is_not_ours_to_refuse(host, capsys, standing, admitted, unit):
    host.write("/etc/systemd/system/" + record.UNIT, "x")
    if unit != "disabled":
        systemd.enable(host, record.UNIT)
    if unit == "masked":
        os.unlink(host.path("/etc/systemd/system/" + record.UNIT))
        os.symlink("/dev/null", host.path("/etc/systemd/system/" + record.UNIT))
    running = standing.startswith("running")
    status = {"none": None, "interrupted": "running"}.get(standing, standing.split()[0])
    if status is not None:
        # Of an interrupted run nothing is known: slurmd may have been stopped since.
        record.write(
            host, dataclasses.replace(of(status), in_service=standing in ("running in service", "interrupted"))
        )
    with host.lock(record.LOCK, 0) if running else contextlib.nullcontext():
        refused = BUSY if running else NOT_DONE
        status = boot.run(host, argparse.Namespace(what="admit", json=False))
    assert status == (DONE if admitted or unit != "enabled" else refused)
    if unit == "enabled" and not admitted:
        assert ("running: " if running else "not ready: ") in capsys.readouterr().out


def judged(host):
    return check.judge(check.look(Evidence(host, {}, {})), None)


def test_the_paths_of_the_check_are_those_of_the_record():
    assert check._RECORD == record.PATH and check._UNIT == record.UNIT


def test_a_node_that_no_boot_converges_has_nothing_to_check(host):
    assert judged(host).not_applicable


@pytest.mark.parametrize(
    ("found", "enabled", "code"),
    [
        (None, True, "none"),
        (of("ready"), True, None),
        (of("ready"), False, None),
        (of("ready", BEFORE), True, "other_boot"),
        (of("ready", BEFORE), False, None),
        (of("running"), False, "interrupted"),
        (of("running", BEFORE), True, "interrupted"),
        (of("not_ready", reason="GPU 3: lost"), False, "not_ready"),
    ],
)
def test_the_check_refuses_jobs_until_a_run_has_ended_well(host, found, enabled, code):
    if enabled:
        systemd.enable(host, record.UNIT)
    if found is not None:
        record.write(host, found)
    findings = judged(host).findings
    assert [one.code for one in findings] == ([] if code is None else [code])
    assert all(one.outcome is Outcome.FAIL for one in findings)


@pytest.mark.parametrize(("found", "code"), [(None, None), (of("ready", BEFORE), None), (of("not_ready"), "not_ready")])
def test_a_unit_that_somebody_masked_promises_nothing(host, found, code):
    systemd.enable(host, record.UNIT)
    os.symlink("/dev/null", host.path("/etc/systemd/system/" + record.UNIT))
    if found is not None:
        record.write(host, found)
    assert [one.code for one in judged(host).findings] == ([] if code is None else [code])


def test_while_a_run_is_at_it_the_check_says_wait(host):
    with host.lock(record.LOCK, 0):
        record.write(host, of("running"))
        (finding,) = judged(host).findings
    assert finding.outcome is Outcome.UNKNOWN and "wait until it has ended" in str(finding)


def test_a_node_that_no_boot_converges_pays_nothing_measurable(host):
    """Two looks for a file; a check before a job has some milliseconds."""
    evidence = Evidence(host, {}, {})
    assert min(timeit.repeat(lambda: check.look(evidence), number=10, repeat=5)) / 10 < 0.001

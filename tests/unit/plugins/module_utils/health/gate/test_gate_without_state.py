# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate whose state cannot be written, is damaged, or is lost: the node stays out, and a healthy one in service."""

from __future__ import annotations

import dataclasses
import errno
import json
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import hook as command
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import safe_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import gate, history, owing, record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks import health as hook
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.gate.test_gate_on_slurm import (
    HEALTHY,
    HOUR_LATER,
    REASON,
    SICK,
    Slurm,
)


@pytest.fixture
def slurm(tmp_path):
    found = Slurm(tmp_path, 10)
    found.boot("gpu00")
    return found


@pytest.fixture(params=["full", "read-only", "I/O error", "no directory"])
def unwritable(request, slurm, monkeypatch):
    """The state directory of gpu00; call it to repair the file system."""
    folder = slurm.roots / "gpu00/var/lib/gpu_node"
    if request.param == "no directory":
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("")
        yield folder.unlink
        return
    number = {"full": errno.ENOSPC, "read-only": errno.EROFS, "I/O error": errno.EIO}[request.param]

    def fails(*dummy, **given):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(safe_files, "_temporary", fails)
        yield patched.undo


def later(minutes):
    return dataclasses.replace(HOUR_LATER, time=HOUR_LATER.time + 60.0 * minutes)


@pytest.mark.parametrize("drain_after", [1, 3])
def test_a_gate_that_cannot_write_its_state_still_drains(slurm, unwritable, drain_after):
    told = []
    done = slurm.gate("gpu00", told, drain_after=drain_after).settle(SICK)
    assert done.decision.action == "drain" and slurm.node("gpu00") == ("IDLE+DRAIN", REASON)
    assert len([one for one in told if history.PATH + ": it could not be written" in one]) == 1


def test_a_healthy_node_that_cannot_write_its_state_stays_in_service(slurm, unwritable):
    assert [slurm.gate("gpu00").settle(later(one)).decision.action for one in range(4)] == ["leave"] * 4
    assert slurm.drained == []


def test_a_node_that_was_drained_without_a_record_is_validated(slurm, unwritable):
    slurm.gate("gpu00", proof=True).settle(SICK)
    for minute in range(5):
        assert slurm.gate("gpu00", proof=True).settle(later(minute)).decision.action == "leave"
    unwritable()
    decision = slurm.gate("gpu00", proof=True).settle(later(9)).decision
    assert decision.action == "leave" and "gpu_memory_test" in decision.prove
    assert slurm.drained == ["gpu00"]


def test_the_health_check_program_drains_before_it_writes_files(slurm, unwritable, monkeypatch):
    monkeypatch.setattr(hook, "examined", lambda *dummy, **given: SICK)
    monkeypatch.setattr(record, "keep", lambda *dummy: slurm.set("gpu01", *slurm.node("gpu00")) or ())
    done = hook.watch(slurm.host("gpu00"), "gpu00", lambda text: None)
    assert done.decision["decision"]["action"] == "drain" and slurm.drained == ["gpu00", "gpu01"]


def test_a_lock_directory_that_is_full_keeps_no_node_in_service(slurm):
    (slurm.roots / "gpu00/run").mkdir(parents=True)
    (slurm.roots / "gpu00/run/gpu_node").write_text("")
    assert slurm.gate("gpu00").settle(SICK).decision.action == "drain"


def cut(path):
    path.write_bytes(path.read_bytes()[:200])


DAMAGES = {
    "cut": cut,
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(4096)),
    "another object": lambda path: path.write_text("{}"),
    "no object": lambda path: path.write_text("null"),
    "too large": lambda path: os.truncate(path, safe_files.MOST_BYTES + 1),
    "writable": lambda path: path.chmod(0o666),
    "foreign": lambda path: os.chown(path, 12345, 12345),
    "a link": lambda path: (path.rename(str(path) + ".real"), path.symlink_to(str(path) + ".real")),
    "a FIFO": lambda path: (path.unlink(), os.mkfifo(path)),
    "lost": lambda path: path.unlink(),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_record_returns_no_node_to_service_before_validation(slurm, how):
    if how == "foreign" and os.geteuid() != 0:
        pytest.skip("only root can give a file away")

    def gate():
        return slurm.gate("gpu00", proof=True)

    gate().settle(SICK)
    path = slurm.roots / "gpu00" / history.PATH[1:]
    DAMAGES[how](path)
    assert how == "lost" or owing.held(slurm.host("gpu00", proof=True), "gpu00", HEALTHY.time).why
    decisions = [gate().settle(later(minute)).decision for minute in range(5)]
    assert {one.action for one in decisions} == {"leave"} and "gpu_memory_test" in decisions[0].prove
    assert slurm.node("gpu00") == ("IDLE+DRAIN", REASON)
    assert os.path.lexists(str(path) + safe_files.DAMAGED) == (how != "lost")
    assert history.load(slurm.host("gpu00"))[1] == ""


@pytest.mark.parametrize("how", DAMAGES)
def test_a_node_in_service_stays_there_when_its_record_is_damaged(slurm, how):
    if how == "foreign" and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    slurm.gate("gpu00", proof=True).settle(HEALTHY)
    DAMAGES[how](slurm.roots / "gpu00" / history.PATH[1:])
    assert slurm.gate("gpu00", proof=True).settle(later(1)).decision.why == "it is in service"
    slurm.boot("gpu00", "second")
    assert slurm.gate("gpu00", proof=True).settle(later(99)).decision.action == "leave"
    assert slurm.drained == [] and not history.read(slurm.host("gpu00")).debt.faults


def test_clean_verdicts_before_a_drain_that_the_record_lacks_do_not_count(slurm):
    for minute in range(5):
        slurm.gate("gpu00").settle(later(minute))
    slurm.set("gpu00", "IDLE+DRAIN", REASON)
    decisions = [slurm.gate("gpu00").settle(later(100 + minute)).decision for minute in range(3)]
    assert [one.action for one in decisions] == ["leave", "leave", "resume"]
    assert decisions[0].why == "1 of 3 clean verdicts in a row"


def test_the_first_boot_has_no_record_and_requires_no_validation(slurm):
    assert slurm.gate("gpu00", proof=True).settle(HEALTHY).decision.why == "it is in service"
    assert not history.read(slurm.host("gpu00")).debt.faults


def test_the_first_damaged_file_is_kept_and_is_not_larger_than_a_mebibyte(tmp_path):
    path = tmp_path / "state.json"
    for content in (b"first" + bytes(3 << 20), b"second", b"third"):
        path.write_bytes(content)
        safe_files.set_aside(str(path), history.PATH, "")
        assert not path.exists()
    kept = (tmp_path / "state.json.damaged").read_bytes()
    assert kept.startswith(b"first") and len(kept) == 1 << 20


def test_a_clock_that_is_set_back_allows_no_more_resumes(slurm):
    def back(seconds, resumes):
        for one in (SICK, HEALTHY, HEALTHY, HEALTHY):
            one = dataclasses.replace(one, time=one.time + seconds)
            decision = slurm.gate("gpu00", resumes_a_day=resumes).settle(one).decision
        return decision

    assert [back(seconds, 2).action for seconds in (0, 600, -7200)] == ["resume", "resume", "leave"]
    assert "within a day" in slurm.gate("gpu00", resumes_a_day=2).settle(HEALTHY).decision.why


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"health_gate": []}', "\0" * 100, "[" * 100000])
def test_a_damaged_declaration_ends_the_health_check_program_with_one_sentence(slurm, monkeypatch, capsys, text):
    path = slurm.roots / "gpu00/etc/gpu_node/node.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    logged = []
    monkeypatch.setattr(main, "Host", lambda: Host(str(slurm.roots / "gpu00")))
    monkeypatch.setattr(command.syslog, "syslog", lambda *words: logged.append(words[-1]))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SLURMD_NODENAME", "gpu00")
    assert main.main(["hook", "health"]) == 4
    told = capsys.readouterr()
    assert told.out == "" and len(told.err.splitlines()) == 1 and "/etc/gpu_node/node.json" in told.err
    assert logged == [told.err.strip().replace("gpunode: ", "health: ")]
    assert slurm.drained == [] and "bug" not in told.err


@pytest.mark.parametrize("value", [None, 7, -1, "x", [], {}, [None], {"x": 1}, 1e999, True])
def test_a_setting_of_another_type_is_no_crash_of_the_gate(slurm, value):
    path = slurm.roots / "gpu00/etc/gpu_node/node.json"
    slurm.gate("gpu00")
    section = json.loads(path.read_text())["health_gate"]
    for name in ("drain_after", "resume_after", "unknown_drains", "proof", "remedies", "interval_seconds", "keepalive"):
        path.write_text(json.dumps({"health_gate": dict(section, **{name: value})}))
        gate.Gate(slurm.host("gpu00"), "gpu00", lambda text: None, pause=lambda seconds: None).settle(HEALTHY)
    assert slurm.drained == []

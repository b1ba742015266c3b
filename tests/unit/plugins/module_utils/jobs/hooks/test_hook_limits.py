# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a hook may take, what it may print, and when the second of its two names has nothing to do."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import hook as command
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks import health as gate_hooks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks import hook, run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.advice import advice
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.types import (
    EPILOG,
    PROLOG,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import drain, scratch, syntax
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import LONGEST_SECONDS, Job
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    HEALTHY,
)


def test_all_steps_of_a_hook_share_one_budget(monkeypatch):
    monkeypatch.setattr(hook, "SETTLE_SECONDS", 0.2)
    told = []
    one = hook.Hook(Host(), told.append, budget_seconds=0.5)
    before = time.monotonic()
    results = [one.step("step {0}".format(number), 0.2, lambda: time.sleep(60)) for number in range(20)]
    one.report.finding = "a finding"
    for _turn in range(5):
        one.settle("draining the node", lambda: time.sleep(60))
    assert time.monotonic() - before < 1.5 and results == [None] * 20
    assert "step 0: it took longer than 0.2 s" in told[0]
    assert told[19] == "step 19: no time is left for it in this hook"
    # A finding is settled all the same.
    assert "draining the node: it took longer" in told[20]
    assert told[21] == "draining the node: no time is left for it in this hook"


def test_a_grace_period_is_time_of_its_own():
    one = hook.Hook(Host(), lambda text: None, budget_seconds=0.0)
    assert one.step("a step", 1.0, lambda: "done") is None
    one.more_time(5.0)
    assert one.step("a step", 1.0, lambda: "done") == "done"


def test_all_steps_of_healthcheckprogram_share_50_seconds(monkeypatch, tmp_path):
    """slurmd ends it after 60: by their own limits they had 75."""
    clock, limits, took = [100.0], [], {}

    @contextlib.contextmanager
    def limit(seconds, what):
        limits.append((what, round(seconds, 3)))
        clock[0] += min(took.get(what, seconds), seconds)
        yield

    decision = gate_hooks.plan.Decision(drain.LEAVE, "it owes something", prove=("gpu_compute",))
    monkeypatch.setattr(gate_hooks.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(gate_hooks, "time_limit", limit)
    monkeypatch.setattr(gate_hooks, "examined", lambda *dummy: HEALTHY)
    monkeypatch.setattr(gate_hooks.record, "keep", lambda *dummy: [])
    monkeypatch.setattr(gate_hooks.gate.Gate, "settle", lambda self, verdict: gate_hooks.gate.Report(decision, False))
    monkeypatch.setattr(Host, "run", lambda self, *dummy: None)
    watch = gate_hooks.watch(Host(str(tmp_path)), "gpu01", lambda text: None)
    assert clock[0] == 150.0 and [seconds for dummy, seconds in limits] == [35, 15]
    assert any("starting the proof: no time is left of the 50 s" in note for note in watch.notes)
    del limits[:]
    took.update({"checking the health": 1, "settling the node's state in Slurm": 1})
    gate_hooks.watch(Host(str(tmp_path)), "gpu01", lambda text: None)
    assert [seconds for dummy, seconds in limits] == [35, 20, 15, 10, 10]


def test_what_goes_wrong_in_a_step_is_one_sentence_and_holds_nothing():
    told = []
    one = hook.Hook(Host(), told.append)

    def refused():
        raise NodeError("GPU 3", "it is lost", "reset it")

    assert one.step("a step", 1.0, refused) is None and one.step("another", 1.0, lambda: 1 // 0) is None
    assert told[0] == "GPU 3: it is lost; reset it. (a step)" and "report this as a bug" in told[1]


def test_a_hook_ends_before_the_time_that_the_docs_promise():
    # The scratch is looked at outside of the steps, in a child process with its own limit.
    assert hook.BUDGET_SECONDS + hook.SETTLE_SECONDS + scratch.LOOK_SECONDS < LONGEST_SECONDS
    assert run.HEALTH_SECONDS < hook.BUDGET_SECONDS
    with open(os.path.join(os.path.dirname(run.__file__), "../../../../docs/slurm.md"), encoding="utf-8") as stream:
        assert "PrologEpilogTimeout={0}".format(LONGEST_SECONDS + 10) in stream.read()


@pytest.mark.parametrize(
    "line, told",
    [
        ("", 0),
        ("PrologEpilogTimeout=65534", 0),
        ("PrologEpilogTimeout=110", 0),
        ("PrologEpilogTimeout=60", 1),
        ("PrologTimeout=30\nEpilogTimeout=300", 1),
    ],
)
def test_a_limit_of_slurm_that_would_end_a_hook_in_the_middle_is_told(line, told):
    state = State(slurm_conf="/etc/slurm/slurm.conf", conf=syntax.of(line))
    notes = [note for note in advice(state, Desired()) if "Timeout=" in note]
    assert len(notes) == told and all("may take 105 s: give it more" in note for note in notes)


def test_a_history_that_cannot_be_read_holds_no_job(monkeypatch):
    def unreadable(host, node):
        raise NodeError("/var/lib/gpu_node/x", "it is not valid JSON", "remove it")

    monkeypatch.setattr(gate_hooks, "examined", lambda host, node, tell: "a verdict")
    monkeypatch.setattr(gate_hooks, "failure", lambda verdict: None)
    monkeypatch.setattr(gate_hooks, "owed", unreadable)
    told = []
    one = hook.Hook(Host(), told.append)
    one.declared = {"health_gate": {"prolog": True}}
    assert run._healthy(one, Job(1, 1000)) is True and one.report.finding is None
    assert told == ["/var/lib/gpu_node/x: it is not valid JSON; remove it. (checking the health)"]


# What it prints ---------------------------------------------------------------------------------------

HOSTILE = "x\nslurmd: error: drained\x1b[2J\x9b\u202e\udcff"


def test_no_name_of_a_process_reaches_a_log_as_it_is(capsys, monkeypatch):
    lines = []
    monkeypatch.setattr(command.syslog, "syslog", lambda level, text: lines.append(text))
    command._tell("epilog")("process 7 ({0}) stays: it is of job 3".format(HOSTILE))
    printed = capsys.readouterr().err
    assert printed == "gpunode: {0}\n".format(lines[0]) and lines[0].isprintable()
    assert "process 7 (x?slurmd: error: drained?[2J???) stays" in lines[0]


def test_nor_does_it_reach_an_error_or_a_reason():
    assert str(NodeError("process 7 ({0})".format(HOSTILE), "it stays", "end it")).isprintable()
    assert drain.reason_text(HOSTILE).isprintable()


# The script in Slurm's folder -------------------------------------------------------------------------


@pytest.fixture
def prolog(tmp_path):
    (tmp_path / "gpunode").write_text("#!/bin/sh\necho ran $*\n")
    (tmp_path / "gpunode").chmod(0o755)
    (tmp_path / "jobs").mkdir()
    script = PROLOG.replace("/usr/local/bin/gpunode", str(tmp_path / "gpunode"))
    (tmp_path / "prolog").write_text(script.replace("/run/gpu_node/jobs", str(tmp_path / "jobs")))

    def start(job="42"):
        done = subprocess.run(
            ["sh", str(tmp_path / "prolog")], env={"SLURM_JOB_ID": job}, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.strip()

    return start


@pytest.mark.parametrize(
    "name, age, job, ran",
    [
        (None, 0, "42", True),
        ("42.json", 0, "42", False),
        ("42.json", 0, "43", True),
        # A job that was requeued, after an epilog that was killed, and after none at all.
        ("42.over.json", 0, "42", True),
        ("42.json", 3600, "42", True),
        ("42.json", 0, "../jobs/42", True),
        ("42.json", 0, "", True),
    ],
)
def test_the_second_name_of_a_prolog_does_nothing_for_the_same_start_of_a_job(prolog, tmp_path, name, age, job, ran):
    if name:
        note = tmp_path / "jobs" / name
        note.write_text("{}")
        os.utime(str(note), (time.time() - age,) * 2)
    assert prolog(job) == ("ran hook prolog" if ran else "")


@pytest.mark.parametrize("text, event", [(PROLOG, "prolog"), (EPILOG, "epilog")])
@pytest.mark.parametrize(
    "status, shown, drains",
    [
        (127, "State=MIXED", True),
        (127, "State=MIXED Reason=resumed by gpu-node", True),
        (127, "State=MIXED+DRAIN Reason=new fan", False),
        (1, "", False),
        (0, "", False),
    ],
)
def test_a_hook_without_any_python_drains_with_a_reason_that_names_the_remedy(
    tmp_path, text, event, status, shown, drains
):
    scontrol = '[ "$1" = -o ] && echo \'NodeName=gpu01 {0}\' && exit\nprintf \'%s\\n\' "$@" >"$0.told"'.format(shown)
    for name, body in (("gpunode", "exit {0}".format(status)), ("scontrol", scontrol)):
        (tmp_path / name).write_text("#!/bin/sh\n{0}\n".format(body))
        (tmp_path / name).chmod(0o755)
    script = text.replace("/usr/local/bin/gpunode", str(tmp_path / "gpunode"))
    environment = {"SLURM_JOB_ID": "42", "SLURMD_NODENAME": "gpu01", "PATH": str(tmp_path) + ":/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", script], env=environment, check=False)
    assert done.returncode == status
    told = tmp_path / "scontrol.told"
    assert told.exists() == drains
    if drains:
        words = told.read_text().splitlines()
        assert words[:3] == ["update", "NodeName=gpu01", "State=DRAIN"]
        name, dummy, reason = words[3].partition("=")
        ours = drain.read(reason)
        assert name == "Reason" and (ours.kind, ours.remedy) == (drain.HEALTH, "configure")
        assert "install one, then run site.yml" in ours.words

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each command of ``gpunode`` ends with when it was used wrongly, when the node is at fault, and when we are."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.cli import ending, main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import formats
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome
from ansible_collections.trainyard.gpu_node.plugins.module_utils.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvml.identity import Identity, unknown
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resource import Misuse, NodeError

FORMS = {
    "text": (),
    "json": ("--json",),
    "nagios": ("--nagios",),
    "npd": ("--npd",),
    "prometheus": ("--format", "prometheus"),
    "nfd": ("--format=nfd",),
    "azure": ("--form", "azure"),
}


class Ended:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def gpunode(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(main, "Host", lambda: Host(str(tmp_path)))

    def run(*words):
        status = main.main(list(words))
        told = capsys.readouterr()
        return Ended(status, told.out, told.err)

    return run


def declare(folder, text):
    (folder / "etc/gpu_node").mkdir(parents=True)
    (folder / "etc/gpu_node/node.json").write_text(text, encoding="utf-8")


# Wrong use of health, what a sick node.json does to it, and a bug of ours. Nagios: 2 is critical, 3 unknown (Monitoring
# Plugins Guidelines); node-problem-detector: 1 is a problem, 2 and above unknown (pkg/custompluginmonitor).
WRONG = {"text": 2, "json": 2, "nagios": 3, "npd": 2, "prometheus": 2, "nfd": 2, "azure": 2}
NOT_KNOWN = {"text": 4, "json": 4, "nagios": 3, "npd": 2, "prometheus": 4, "nfd": 4, "azure": 4}
CASES = {
    "a check that there is not": (("--only", "gpu_nonsense"), "", WRONG, "gpu_nonsense"),
    "a check to leave out that there is not": (("--without", "nonsense"), "", WRONG, "nonsense"),
    "a check of another level": (("--quick", "--only", "memory_swap"), "", WRONG, "memory_swap"),
    "a time limit out of range": (("--call-timeout", "0"), "", WRONG, "call_timeout 0"),
    "a word for a number": (("--call-timeout", "soon"), "", WRONG, "call-timeout"),
    "an option that there is not": (("--nonsense",), "", WRONG, "--nonsense"),
    "a declaration cut short": (("--only", "gpu_*"), "{", NOT_KNOWN, "node.json"),
    "a declaration of another kind": ((), "[]", NOT_KNOWN, "node.json"),
    "a setting that names no check": ((), '{"health": {"without": ["nonsense"]}}', NOT_KNOWN, "setting without"),
    "a setting that is none": ((), '{"health": {"without": 7}}', NOT_KNOWN, "7 is no list of checks"),
    "a setting that is a text": ((), '{"health": {"without": "gpu_*"}}', NOT_KNOWN, "'gpu_*' is no list of checks"),
    "a setting with a number": ((), '{"health": {"without": [7]}}', NOT_KNOWN, "[7] is no list of checks"),
    "a setting that leaves no check": ((), '{"health": {"without": ["*"]}}', NOT_KNOWN, "setting without"),
    "a setting that leaves out what was asked for": (
        ("--only", "memory_swap"),
        '{"health": {"without": ["memory_*"]}}',
        NOT_KNOWN,
        "it leaves out all that was asked for",
    ),
    "limits that are none": ((), '{"health": {"thresholds": 7}}', NOT_KNOWN, "7 is no set of limits"),
    "a limit that is none": ((), '{"health": {"thresholds": {"swap": 7}}}', NOT_KNOWN, "threshold swap"),
    "a section that is none": ((), '{"health": 3}', NOT_KNOWN, "section health of /etc/gpu_node/node.json"),
    "options that leave no check": (
        ("--only", "memory_swap", "--without", "memory_swap"),
        "",
        WRONG,
        "none of level passive is left by only and without",
    ),
    "options that leave out every check": (("--quick", "--without", "*"), "", WRONG, "none of level quick is left by"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_no_error_is_told_as_a_verdict(gpunode, tmp_path, case, form):
    words, declared, status, said = CASES[case]
    if declared:
        declare(tmp_path, declared)
    done = gpunode("health", *words, *FORMS[form])
    assert done.status == status[form], done.__dict__
    assert "Traceback" not in done.err
    if form in ("nagios", "npd"):
        assert done.err == ""
        assert done.out.startswith("GPU_NODE UNKNOWN - unknown: " if form == "nagios" else "unknown: ")
    else:
        assert said in done.err
    if form == "nagios":
        assert said in done.out
    if form == "text":
        assert done.out == ""
    if form == "json":
        document = json.loads(done.out)
        assert document["outcome"] == "unknown" and document["schema"] == "trainyard.gpu_node/verdict/1"
        (finding,) = document["results"][0]["findings"]
        assert said in " ".join((finding["thing"], finding["reason"], finding["remedy"]))
    if form == "prometheus":
        assert 'gpu_node_health_outcome{outcome="unknown"} 1' in done.out
    if form == "nfd":
        assert "trainyard.io/gpu-node-health=unknown" in done.out


@pytest.mark.parametrize("words, level", [((), "passive"), (("--quick",), "quick"), (("--active",), "active")])
@pytest.mark.parametrize("wrong", [("--only", "nonsense"), ("--nonsense",), ()])
def test_a_verdict_that_could_not_be_made_has_the_level_that_was_asked_for(gpunode, tmp_path, words, level, wrong):
    declare(tmp_path, "[]")
    assert json.loads(gpunode("health", *words, *wrong, "--json").out)["level"] == level


OTHERS = {
    "pin without ranks": (("pin",), 2, "the number of ranks is missing"),
    "pin for no launcher": (("pin", "--ranks", "2", "--launcher", "mpiexec"), 2, "launcher mpiexec"),
    "pin with words for GPUs": (("pin", "--ranks", "2", "--gpus", "a,b"), 2, "--gpus a,b"),
    "pin with words for CPUs": (("pin", "--ranks", "2", "--cpus", "3-1"), 2, "--cpus 3-1"),
    "pin with an option that there is not": (("pin", "--nonsense"), 2, "--nonsense"),
    "pin check of nothing": (("pin", "check"), 2, "gpunode pin check"),
    "pin check of no expression": (("pin", "check", "("), 2, "no regular expression"),
    "pin check of no job": (("pin", "check", "--job", "mine"), 2, "no Slurm job number"),
    "pin check of no process number": (("pin", "check", "--pid", "-5"), 2, "process -5"),
    "pin check of what does not run": (("pin", "check", "nothing_of_this_name"), 1, "nothing_of_this_name"),
    "clocks without an action": (("clocks",), 2, "ACTION"),
    "apply of nothing that is": (("apply", "everything"), 2, "everything"),
    "no such command": (("nonsense",), 2, "nonsense"),
}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("case", OTHERS)
def test_wrong_use_is_2_and_what_could_not_be_done_is_1(gpunode, case, as_json):
    words, status, said = OTHERS[case]
    done = gpunode(*words, *(("--json",) if as_json else ()))
    assert done.status == status and said in done.err and "Traceback" not in done.err
    assert bool(done.out) == as_json
    if as_json:
        error = json.loads(done.out)["error"]
        assert said in error["message"] and error["thing"] and error["reason"] and error["remedy"]


def test_a_gpu_that_may_be_there_and_tells_no_name_is_no_wrong_use():
    there = [Identity(0, "GPU-1", "0000:0b:00.0"), Identity(1)]
    assert isinstance(unknown("7", there[:1]), Misuse) and isinstance(unknown("nonsense", there), Misuse)
    assert isinstance(unknown("7", there), NodeError) and not isinstance(unknown("7", there), Misuse)


@pytest.mark.parametrize(("words", "status"), [(("topo",), 1), (("health",), 4), (("hook", "health"), 4)])
def test_a_bug_of_ours_is_a_sentence_with_its_place(gpunode, monkeypatch, words, status):
    def broken(dummy):
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr(main.importlib, "import_module", lambda *dummy: type("Broken", (), {"run": staticmethod(run)}))

    def run(host, dummy):
        broken(host)

    done = gpunode(*words)
    assert done.status == status and done.err.count("\n") == 1
    assert re.match(
        r"gpunode: gpunode \w+: it failed \(ZeroDivisionError: no such luck, test_gpunode_ending.py:\d+\); "
        r"report this as a bug\.\n",
        done.err,
    )


def test_the_statuses_of_a_verdict_are_those_of_every_command():
    assert {one.value: status for one, status in formats.EXIT_STATUS.items()} == {
        Outcome.PASS.value: ending.DONE,
        Outcome.FAIL.value: ending.NOT_DONE,
        Outcome.WARN.value: ending.WARNINGS,
        Outcome.UNKNOWN.value: ending.UNKNOWN,
    }
    assert ending.WRONG_USE not in formats.EXIT_STATUS.values()

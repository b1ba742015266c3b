# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each command of ``gpunode`` ends with when it was used wrongly, when the node is at fault, and when we are."""

from __future__ import annotations

import json
import os
import pathlib
import re
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import exit_status, main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.selectors import unknown
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import formats
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import own

GALAXY = pathlib.Path(__file__).resolve().parents[5] / "galaxy.yml"
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


def test_a_missing_command_is_told_in_words_and_the_program_names_itself_once(gpunode):
    for words, start in (
        (
            (),
            "gpunode: it takes one of its commands, and none was given; choose among converge, undo, ",
        ),
        (("clocks",), "gpunode: gpunode clocks: it takes one of its commands, and none was given; choose among list, "),
    ):
        done = gpunode(*words)
        assert done.status == 2 and done.err.startswith(start), done.err


def test_a_node_without_a_declaration_is_told_how_this_command_takes_one(gpunode):
    for words, way in (
        (("converge",), "--declaration FILE"),
        (("declaration", "check"), "gpunode declaration check FILE"),
        (("declaration", "show"), "gpunode declaration show FILE"),
    ):
        done = gpunode(*words)
        assert done.status == 1 and "no declaration; give one with {0}; docs".format(way) in " ".join(done.err.split())


@pytest.mark.parametrize("words", [("converge", "--check"), ("undo", "--check"), ("declaration", "show")])
@pytest.mark.parametrize("uid, told", [(1001, "only root can read it; run it as root."), (0, "it is there and cannot")])
def test_a_declaration_that_cannot_be_read_is_not_called_missing(gpunode, tmp_path, monkeypatch, words, uid, told):
    (tmp_path / "etc/gpu_node/declaration.json").mkdir(parents=True)  # what root cannot read as a file either
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    done = gpunode(*words)
    assert done.status == 1 and "declaration.json: " + told in " ".join(done.err.split()), done.err


def test_a_user_is_not_told_that_the_boot_unit_is_removed(gpunode, monkeypatch):
    removed = []
    monkeypatch.setattr(own, "remove", removed.append)
    monkeypatch.setattr(main, "Host", lambda: Host("/"))
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    done = gpunode("boot", "disable")
    assert done.status == 1 and done.err == "gpunode: gpunode boot disable: only root may do that; run it as root.\n"
    assert not removed and not done.out


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
    "a declaration without an end": ((), "[" * 100000, NOT_KNOWN, "it is not valid JSON (maximum"),
    "a declaration of another kind": ((), "[]", NOT_KNOWN, "node.json"),
    "a setting that leaves no check": ((), '{"health": {"without": ["*"]}}', NOT_KNOWN, "setting without"),
    "a setting that leaves out what was asked for": (
        ("--only", "memory_swap"),
        '{"health": {"without": ["memory_*"]}}',
        NOT_KNOWN,
        "it leaves out all that was asked for",
    ),
    "a section that is none": ((), '{"health": 3}', NOT_KNOWN, "section health of /etc/gpu_node/node.json"),
    "options that leave no check": (
        ("--only", "memory_swap", "--without", "memory_swap"),
        "",
        WRONG,
        "none of level passive is left by only and without",
    ),
    "options that leave out every check": (("--quick", "--without", "*"), "", WRONG, "none of level quick is left by"),
}


@pytest.mark.sampled(40)
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
    elif form == "json":
        assert done.err == ""
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


# What was typed, and what of the sentence names the word that was meant.
TYPOS = {
    ("inof",): "gpunode inof: there is no such command; did you mean 'info'?",
    ("--json", "inof"): "gpunode inof: there is no such command; did you mean 'info'?",
    ("clocks", "lsit"): "gpunode clocks lsit: there is no such command; did you mean 'list'?",
    ("pin", "chekc", "train.py"): "gpunode pin chekc: there is no such command; did you mean 'check'?",
    ("pin", "--rnks", "8"): "gpunode pin --rnks: there is no such option; did you mean '--ranks'?",
    ("inof", "--wacth"): "gpunode inof: there is no such command; did you mean 'info'?",
    ("help", "clokcs"): "gpunode clokcs: there is no such command; did you mean 'clocks'?",
    ("help", "clocks", "rset"): "gpunode clocks rset: there is no such command; did you mean 'reset'?",
    ("info", "--wacth"): "gpunode info --wacth: there is no such option; did you mean '--watch'?",
    ("info", "--wacth=3"): "gpunode info --wacth: there is no such option; did you mean '--watch'?",
    # Not the missing --graphics: that is what was misspelt.
    ("clocks", "set", "--grahpics", "1005"): "--grahpics: there is no such option; did you mean '--graphics'?",
    ("pin", "--bind", "nmua"): "gpunode pin --bind nmua: there is no such value; did you mean 'numa'?",
    ("apply", "nvme_scrach"): "gpunode apply nvme_scrach: there is no such value; did you mean 'nvme_scratch'?",
    ("pin", "--ranks", "2", "--launcher", "slrum"): "launcher slrum: it is not known here; did you mean 'slurm'?",
    ("health", "--only", "gpu_lsot"): "check 'gpu_lsot': there is none of this name; did you mean 'gpu_lost'?",
    ("health", "--format", "promtheus"): "--format promtheus: there is no such value; did you mean 'prometheus'?",
    ("clocks",): "choose among list, max, reset, set;",
    ("info", "all"): "gpunode info all: it takes no such argument;",
    ("diagnose", "--hours", "1d"): "gpunode diagnose --hours 1d: this is no number; give one for H; see 'gpunode diag",
    ("board", "--logdir", "/", "--local-port", "x"): "--local-port x: this is no whole number; give one for PORT; see",
    ("board", "--logdir", ""): "option --logdir: it is empty; name the folder with the event files.",
    ("image", "--root", ""): "option --root: it is empty, and would be this folder; give the top of an image.",
    ("checkpoint", "put", "latest", "/etc/passwd", "--to", "https://a/b"): "checkpoint latest: 'gpunode checkpoint get",
    ("checkpoint", "put", "one", "/bin", "--to", "https://a/b", "--limit", "0"): "--limit: 0 s is no length of time",
    ("checkpoint", "get", "one", "/tmp", "--to", "https://a/b", "--limit", "nan"): "option --limit: nan s is no length",
    ("checkpoint", "plan", "--bytes", "1T", "--interval", "10m"): "--interval 10m: this is no number; give one for SEC",
    ("checkpoint", "plan", "--bytes", "1T", "--pause", "inf"): "option --pause: inf s is no length of time; give a fin",
    ("checkpoint", "plan", "--bytes", "1T", "--node-mtbf", "inf"): "--node-mtbf: inf is out of range; give a finite",
    ("info", "--watch", "0"): "'0' is no number of seconds from 0.1 to 86400",
    ("info", "--watch", "nan"): "'nan' is no number of seconds",
    ("health", "--quick", "--watch", "--format", "nfd"): "gpunode health --watch: it does not go with --format nfd;",
}


@pytest.mark.parametrize("words", TYPOS)
def test_a_misspelt_word_is_named_with_the_one_that_is_like_it(gpunode, words):
    done = gpunode(*words)
    told = json.loads(done.out)["error"]["message"] if "--json" in words else done.err
    assert done.status == 2 and TYPOS[words] in told, (done.out, done.err)
    assert done.err.count("\n") == (0 if "--json" in words else 1)


def test_what_is_like_nothing_gets_the_list_and_no_guess(gpunode):
    done = gpunode("xyzzy")
    assert (
        "did you mean" not in done.err
        and "choose among converge, undo, boot, reset, lease, cleanup, declaration" in done.err
    )


def test_a_uuid_with_a_typo_is_named_and_an_address_that_is_not_there_is_no_typo():
    there = [Identity(0, "GPU-b66f2ca6-2264-0595-ea0f-c279078346cb", "0001:00:00.0")]
    assert "did you mean 'GPU-b66f2ca6" in str(unknown("GPU-b66f2ca6-2264-0595-ea0f-c279078346bc", there))
    assert "did you mean" not in str(unknown("0002:00:00.0", there))


# Help and version -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [(), ("info",), ("clocks",), ("clocks", "max"), ("pin",), ("pin", "check"), ("help",)]
)
def test_help_of_a_command_is_what_its_option_help_prints(gpunode, capsys, words):
    told = gpunode("help", *words)
    with pytest.raises(SystemExit) as ended:
        main.main([*words, "--help"])
    assert (told.status, told.err, ended.value.code) == (0, "", 0)
    assert told.out == capsys.readouterr().out and "usage: gpunode" in told.out
    assert json.loads(gpunode("help", *words, "--json").out) == {"help": told.out}


def test_the_version_is_that_of_the_collection(gpunode, capsys):
    said = re.search(r"^version: (\S+)$", GALAXY.read_text(encoding="utf-8"), re.MULTILINE).group(1)
    with pytest.raises(SystemExit) as ended:
        gpunode("--version")
    assert ended.value.code == 0 and capsys.readouterr().out == "gpunode (trainyard.gpu_node) {0}\n".format(said)
    for words in (("--version", "--json"), ("--json", "--version")):
        assert json.loads(gpunode(*words).out) == {"version": said}


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
    "clocks without an action": (("clocks",), 2, "choose among list, max"),
    "apply of nothing that is": (("apply", "everything"), 2, "everything"),
    "no such command": (("nonsense",), 2, "nonsense"),
}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("case", OTHERS)
def test_wrong_use_is_2_and_what_could_not_be_done_is_1(gpunode, case, as_json):
    words, status, said = OTHERS[case]
    done = gpunode(*words, *(("--json",) if as_json else ()))
    assert done.status == status and "Traceback" not in done.err
    assert bool(done.out) == as_json and bool(done.err) != as_json
    if as_json:
        error = json.loads(done.out)["error"]
        assert said in error["message"] and error["thing"] and error["reason"] and error["remedy"]
    else:
        assert said in done.err and done.err.count("\n") == 1


def test_a_gpu_that_may_be_there_and_tells_no_name_is_no_wrong_use():
    there = [Identity(0, "GPU-1", "0000:0b:00.0"), Identity(1)]
    assert isinstance(unknown("7", there[:1]), Misuse) and isinstance(unknown("nonsense", there), Misuse)
    assert isinstance(unknown("7", there), NodeError) and not isinstance(unknown("7", there), Misuse)


@pytest.mark.parametrize(("form", "status"), [("--format=text", 4), ("--json", 4), ("--nagios", 3)])
def test_a_health_command_that_cannot_be_loaded_leaves_the_node_unknown(gpunode, monkeypatch, form, status):
    monkeypatch.setitem(sys.modules, main.__package__ + ".health", None)
    done = gpunode("health", form)
    assert done.status == status and "it failed (ModuleNotFoundError: " in done.out + done.err
    assert form != "--json" or json.loads(done.out)["outcome"] == "unknown"


@pytest.mark.parametrize(("words", "status"), [(("topo",), 1), (("health",), 4), (("hook", "health"), 4)])
def test_a_bug_of_ours_is_a_sentence_with_its_place(gpunode, monkeypatch, words, status):
    def broken(dummy):
        raise ZeroDivisionError("no such luck")

    def run(host, dummy):
        broken(host)

    monkeypatch.setattr(main.importlib.import_module("." + words[0], main.__package__), "run", run)
    done = gpunode(*words)
    assert done.status == status and done.err.count("\n") == 1
    assert re.match(
        r"gpunode: gpunode \w+: it failed \(ZeroDivisionError: no such luck, test_gpunode_ending.py:\d+\); "
        r"report this as a bug\.\n",
        done.err,
    )


def test_the_statuses_of_a_verdict_are_those_of_every_command():
    assert {one.value: status for one, status in formats.EXIT_STATUS.items()} == {
        Outcome.PASS.value: exit_status.DONE,
        Outcome.FAIL.value: exit_status.NOT_DONE,
        Outcome.WARN.value: exit_status.WARNINGS,
        Outcome.UNKNOWN.value: exit_status.UNKNOWN,
    }
    assert exit_status.WRONG_USE not in formats.EXIT_STATUS.values()


@pytest.mark.parametrize(
    "words",
    [
        ("boot", "status"),
        ("boot", "admit"),
        ("boot", "disable"),
        ("declaration", "check", "FILE"),
        ("declaration", "show", "FILE"),
        ("declaration", "check", "MISSING"),
        ("declaration", "show"),
        ("lease",),
        ("history",),
        ("events",),
        ("pin", "check", "no-such-program"),
        ("pin", "check", "--pid", "0"),
        ("apply", "nonsense"),
    ],
)
def test_json_prints_one_document_wherever_the_flag_is(gpunode, tmp_path, words):
    file = tmp_path / "gpu01.json"
    file.write_text('{"rdma": {}}', encoding="utf-8")
    names = {"FILE": str(file), "MISSING": str(tmp_path / "missing.json")}
    words = tuple(names.get(word, word) for word in words)
    plain = gpunode(*words)
    for index in range(len(words) + 1):
        done = gpunode(*words[:index], "--json", *words[index:])
        assert isinstance(json.loads(done.out), dict) and done.err == "", (index, done.__dict__)
        assert done.status == plain.status, index


def test_the_status_of_a_boot_is_json(gpunode):
    assert json.loads(gpunode("boot", "status", "--json").out)["status"] == "none"
    assert json.loads(gpunode("boot", "admit", "--json").out)["admitted"] is True
    assert json.loads(gpunode("boot", "disable", "--json").out) == {"removed": True}


@pytest.mark.parametrize("words", [("converge", "--declaration", "FILE")])
def test_a_busy_node_ends_with_75_and_json_on_request(gpunode, tmp_path, monkeypatch, words):
    file = tmp_path / "gpu01.json"
    file.write_text('{"rdma": {}}', encoding="utf-8")
    words = [str(file) if word == "FILE" else word for word in words]
    monkeypatch.setattr(own, "_LOCK_SECONDS", 0.0)
    with Host(str(tmp_path)).lock("converge"):
        plain = gpunode(*words)
        done = gpunode(*words, "--json")
    assert plain.status == done.status == exit_status.BUSY, (plain.__dict__, done.__dict__)
    assert plain.err.startswith("gpunode: converge: another run has been working on it")
    assert json.loads(done.out)["error"]["thing"] == "converge" and done.err == ""


def test_the_list_of_checks_fits_into_80_columns(gpunode):
    done = gpunode("health", "--active", "--list")
    assert done.status == 0 and max(len(line) for line in done.out.splitlines()) <= 80


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["scratch"], "gpunode scratch: an argument is missing; give status; see 'gpunode scratch --help'."),
        (["pin", "--ranks"], "gpunode pin: --ranks has no value; give --ranks N; see 'gpunode pin --help'."),
        (["pin", "--bind"], "gpunode pin: --bind has no value; give --bind core or numa; see 'gpunode pin --help'."),
        (["remedy", "release"], "give --by NAME; see 'gpunode remedy release --help'."),
    ],
)
def test_a_missing_argument_is_named_as_a_person_types_it(words, told, capsys):
    assert main.main(words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("words", [["undo"], ["undo", "--check"], ["undo", "--yes"]])
def test_an_undo_without_a_declaration_says_what_to_do(words, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(main, "Host", lambda: Host(str(tmp_path)))
    assert main.main(words) == 1
    told = capsys.readouterr().err
    assert "it is unknown what to remove; give it with --declaration FILE, or run 'gpunode reset --yes'" in told


@pytest.mark.parametrize(
    "words", [("hook", "resume"), ("hook", "health"), ("hook", "proof"), ("remedy",), ("history",)]
)
def test_no_help_says_that_a_node_is_called_like_its_host(gpunode, words):
    """docs/slurm.md, "Which node, and which files": the NodeName is found by slurmd's own rules."""
    told = " ".join(gpunode("help", *words).out.split())
    assert "--node NAME NodeName of this node; found by slurmd's own rules" in told and "host name" not in told

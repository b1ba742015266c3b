# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller keeps of a module's answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ansible_collections.trainyard.gpu_node as collection
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import node_answer
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.variables import playbooks

(SOURCE,) = {Path(path) for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
PROFILE = {
    "name": "nd96asr_v4",
    "source": "metadata",
    "reason": "the cloud says Standard_ND96asr_v4",
    "data": {"gpus": {"count": 8}},
    "compared": True,
    "matches": False,
    "differences": [{"subject": "GPUs", "expected": 8, "found": 7, "severity": "fail"}],
    "roles": ["all", "gpu_settings"],
    "left": "",
    "lost": "",
}


def nested(depth):
    found = []
    for _level in range(depth):
        found = [found]
    return found


def test_an_honest_answer_stays_as_it_is():
    answer = {
        "changed": True,
        "diff": [{"before": "a\n\tb\n", "after": ""}],
        "profile": PROFILE,
        "seconds": 0.5,
        "n": None,
    }
    facts = {"ansible_facts": {"gpu_node_profile": PROFILE}}
    assert node_answer.cleaned(dict(answer, **facts), True) == dict(answer, **facts)
    assert node_answer.cleaned(dict(answer, **facts)) == answer


@pytest.mark.parametrize(
    "key",
    ["add_host", "add_group", "ansible_stats", "_ansible_delegated_vars", "ansible_host", "deprecations"],
)
def test_keys_on_which_ansible_acts_are_dropped(key):
    assert node_answer.cleaned({"changed": False, key: {"a": 1}}, True) == {"changed": False}


@pytest.mark.parametrize(
    "fact",
    [
        "../../etc",
        ["name"],
        {"name": "../../etc"},
        {"name": 5},
        {"name": "-rf"},
        {"name": "a\nb"},
        {"data": []},
        {"roles": ["all", {"a": 1}]},
        {"roles": ["{{ x }}"]},
        {"differences": ["text"]},
        {"matches": "yes"},
        {"data": {"text": "A" * 300000}},
        {"data": nested(40)},
        {"data": {"a": nested(40)}},
    ],
)
def test_a_malformed_profile_is_not_trusted(fact):
    for answer in (
        {"ansible_facts": {"gpu_node_profile": fact}},
        {"profile": fact} if isinstance(fact, dict) else None,
    ):
        if answer is not None:
            with pytest.raises(node_answer.Untrusted):
                node_answer.cleaned(answer, True)


@pytest.mark.parametrize(
    "answer",
    [
        {"a": nested(200)},
        {"a": ["x"] * (node_answer.VALUES_MAX + 1)},
        {"a": "x" * (node_answer.CHARACTERS_MAX + 1)},
        {"a" * (node_answer.CHARACTERS_MAX + 1): 1},
        {"failed": "no"},
        {"changed": 1},
        {"skipped": "{{ x }}"},
        [],
    ],
    ids=["depth", "values", "text", "key", "failed", "changed", "skipped", "list"],
)
def test_an_answer_of_another_size_or_type_is_not_trusted(answer):
    with pytest.raises(node_answer.Untrusted):
        node_answer.cleaned(answer)


def test_other_keys_of_the_profile_and_control_characters_are_dropped():
    told = node_answer.cleaned({"ansible_facts": {"gpu_node_profile": dict(PROFILE, more=1), "x": 1}}, True)
    assert told == {"ansible_facts": {"gpu_node_profile": PROFILE}}
    told = node_answer.cleaned({"msg": "a\x1b[2J\u202eb\ud800\r\nc", "warnings": ["\x1b]0;x", 5, "", "w" * 9000]})
    assert told["msg"] == "a\ufffd[2J\ufffdb\ufffd\nc"
    assert told["warnings"][0] == "\ufffd]0;x" and len(told["warnings"]) == 2 and len(told["warnings"][1]) == 2000


def test_variables_that_name_something_on_the_controller_are_not_taken_from_facts():
    of_controller = [
        name for name in playbooks.OPTIONS if name.startswith(("gpu_node_kubernetes_", "gpu_node_rolling_"))
    ]
    of_controller += [
        "gpu_node_declaration_folder",
        "gpu_node_azure_az",
        "node_profile_profiles",
        "kubernetes_gpu_helm",
    ]
    of_controller += ["kubernetes_gpu_folder", "gpu_sharing_kubeconfig", "__gpu_node_rolling_file"]
    assert node_answer.foreign(dict.fromkeys(of_controller)) == sorted(of_controller)
    assert (
        node_answer.foreign({"gpu_node_profile": {}, "distribution": "", "image_release": 1, "nccl_version": 2}) == []
    )
    assert node_answer.foreign("text") == []


def test_no_action_plugin_runs_a_module_past_the_check():
    for path in [*(SOURCE / "plugins" / "action").glob("*.py"), *(SOURCE / "plugins" / "plugin_utils").rglob("*.py")]:
        assert ("_execute_module" in path.read_text(encoding="utf-8")) == (path.name == "node_action.py"), path


def test_no_play_over_gpu_nodes_runs_a_module_of_ansible_on_them():
    """Its answer would set facts. `raw` has text as its answer; the others run on the controller."""
    there = ("ping", "stat", "setup", "slurp", "package_facts", "service_facts", "shell", "uri", "find", "gather_facts")
    for path in (SOURCE / "playbooks").rglob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert not [name for name in there if "ansible.builtin.{0}:".format(name) in text], path
        assert "gather_facts: true" not in text, path


def test_the_fact_of_a_known_machine_is_accepted():
    # As resources/node_profile/types.py returns it.
    fact = {"name": "virtual", "source": "builtin", "reason": None, "left": None, "lost": None, "matches": None}
    fact.update(data={"gpus": {"count": 8}}, compared=True, differences=[], roles=["gpu_settings"])
    assert node_answer.profile(fact) == fact
    empty = dict.fromkeys(fact)
    assert node_answer.profile(empty) == empty


ESCAPE = "\x1b[2J\x1b]0;owned\x07"


def test_the_output_of_a_module_has_no_control_characters_and_no_exception_before_ansible_reads_it():
    answer = {"failed": True, "msg": ESCAPE, "exception": ESCAPE, "a": [{ESCAPE: ESCAPE}], "module_stderr": "x" * 10**6}
    told = node_answer.output("banner {0}\n{1}\n{0}".format(ESCAPE, json.dumps(answer)))
    first, *junk = told.splitlines()
    found = json.loads(first)
    assert "exception" not in found and found["failed"] is True and found["msg"] == "\ufffd[2J\ufffd]0;owned\ufffd"
    assert "\x1b" not in told and "\\u001b" not in told and len(told) < 20000
    assert junk == ["\ufffd[2J\ufffd]0;owned\ufffd"]


def test_an_honest_output_stays_as_it_is():
    answer = {"changed": True, "msg": "a\n\tb", "diff": [{"before": "é"}], "n": 1.5, "left": None}
    text = json.dumps(answer)
    assert json.loads(node_answer.output("\n" + text + "\n")) == answer
    assert json.loads(node_answer.output("Welcome to gpu01\n" + json.dumps(answer, indent=1))) == answer
    trace = (
        "Traceback (most recent call last):\n"
        + "  File x, line 1\n" * 100
        + "OSError: [Errno 28] No space left on device"
    )
    assert node_answer.output(trace) == trace and node_answer.shortened(trace) == trace


@pytest.mark.parametrize(
    "text",
    [
        ESCAPE * 10**5,
        '{"failed": true' + ESCAPE * 10**5 + "}",
        "{" * 10**6,
        '{"a":' * 20000 + "1" + "}" * 20000,
        "[" + ESCAPE * 10**5 + "]",
        '{"failed": true, "msg": "' + ESCAPE + "}\n" * 10**5,
    ],
    ids=["text", "no_json", "braces", "deep", "list", "lines"],
)
def test_an_output_that_is_not_an_answer_is_shortened(text):
    told = node_answer.output(text)
    assert len(told) < 10000 and "\x1b" not in told and "\x07" not in told


@pytest.mark.parametrize("more", [{"x": "A" * 2 * 10**6}, {"x": {"A" * 2 * 10**6: 1}}, {"x": float("nan")}])
def test_a_failed_answer_that_floods_a_terminal_is_not_used(more):
    with pytest.raises(node_answer.Untrusted):
        node_answer.output(json.dumps(dict(more, failed=True)))

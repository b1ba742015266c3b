# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The converge of a whole node: order, what a failure stops, the choice of resources, check mode and undo."""

from __future__ import annotations

import json
import os
import re

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils import health
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError, Refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Outcome, Verdict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import converge as whole
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import wish
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.summary import lines
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.node.number_node import DATA, numbers


@pytest.fixture
def node(tmp_path, monkeypatch):
    return numbers(tmp_path, monkeypatch)


def test_all_resources_in_their_order_and_nothing_the_second_time(node):
    report = node.converge()
    assert node.ran == list(node.needs) and report.to_dict()["changed"] and report.to_dict()["ready"]
    assert json.loads(node.host.read(wish.PATH)) == {name: {} for name in node.needs}
    assert not node.converge().to_dict()["changed"] and len(node.ran) == len(node.needs)


def test_figures_of_the_profile_are_defaults_of_the_others_and_what_is_given_wins(node):
    node.converge(sections={"node_profile": {}, "rdma": {}, "enroot": {"ports": 2}})
    assert (node.seen["rdma"].ports, node.seen["enroot"].ports) == (8, 2)


def test_a_failure_stops_what_needs_it_and_nothing_else(node):
    node.broken.add("disks")
    node.refused.add("rdma")
    report = node.converge()
    assert report.failures == [
        "disks: disks: it broke; repair it.",
        "nvme_scratch: not done, as disks failed",
        "enroot: not done, as nvme_scratch failed",
        "rdma: rdma: it is foreign; move it away.",
    ]
    assert node.ran == ["node_profile", "disks"] and not report.to_dict()["ready"]
    assert report.parts["rdma"]["refusals"] == [{"thing": "rdma", "reason": "it is foreign", "remedy": "move it away"}]
    assert lines(report)[-5:] == ["needs attention:"] + ["  - " + one for one in report.failures]


def test_a_profile_that_is_only_looked_at_is_no_change(node):
    """Where another resource is asked for by its name, the profile is not declared, and nothing says so."""
    for check_mode in (False, True):
        report = node.converge(only=("rdma",), check_mode=check_mode)
        profile = report.parts["node_profile"]
        assert not profile["changed"] and not profile["actions"] and node.seen["rdma"].ports == 8
    assert "node_profile" not in node.ran and not node.converge(only=("rdma",)).to_dict()["changed"]


def test_without_a_profile_nothing_is_done(node):
    node.refused.add("node_profile")
    report = node.converge()
    assert list(report.parts) == ["node_profile"] and not node.ran and node.host.read(wish.PATH) is None


def test_check_mode_tells_all_and_changes_nothing(node):
    report = node.converge(check_mode=True)
    assert not node.ran and node.host.read(wish.PATH) is None
    assert [name for name, part in report.parts.items() if part["changed"]] == [
        "node_profile",
        "declaration",
        "disks",
        "nvme_scratch",
        "enroot",
        "rdma",
    ]
    assert "would be changed:" in lines(report)


def test_a_choice_of_resources(node):
    node.converge(only=("rdma",))
    assert node.ran == ["rdma"]  # the profile is looked at for its figures, and not declared
    assert "rdma" in node.seen["node_profile"].asked
    node.converge(without=("rdma", "disks"))
    assert node.ran == ["rdma", "node_profile", "nvme_scratch", "enroot"]


@pytest.mark.parametrize("chosen", [{"only": ("rdna",)}, {"without": ("rdma", "rdna")}])
def test_a_choice_that_names_nothing_is_no_choice(node, chosen):
    with pytest.raises(Misuse, match="resource 'rdna': there is no such resource; did you mean 'rdma'?"):
        node.converge(**chosen)
    assert not node.seen


def test_a_declaration_that_others_may_read_is_closed(node):
    node.converge()
    path = node.host.path(wish.PATH)
    assert os.stat(path).st_mode & 0o777 == 0o600
    os.chmod(path, 0o644)
    assert node.converge(check_mode=True).parts["declaration"]["changed"]
    assert node.converge().parts["declaration"]["changed"] and os.stat(path).st_mode & 0o777 == 0o600
    assert not node.converge().parts["declaration"]["changed"]


def test_what_is_not_chosen_stays_as_it_was_declared(node):
    def declared():
        return json.loads(node.host.read(wish.PATH) or "null")

    node.converge(sections={"rdma": {"size": 2}, "enroot": {}}, only=("rdma",))
    assert declared() == {"rdma": {"size": 2}}
    node.converge(sections={"rdma": {"size": 3}, "enroot": {"size": 4}}, without=("rdma",))
    assert declared() == {"enroot": {"size": 4}, "rdma": {"size": 2}}
    node.converge(sections={"rdma": {}, "enroot": {}}, only=("enroot",), undo=True)
    assert declared() == {"rdma": {"size": 2}}
    node.host.write(wish.PATH, "{")
    assert "is not valid JSON" in node.converge(only=("rdma",)).failures[0]
    node.converge(sections={"rdma": {}})
    assert declared() == {"rdma": {}}


def test_the_comment_is_that_of_whoever_declared_last(node):
    def comment():
        return json.loads(node.host.read(wish.PATH)).get("$comment")

    ours = {"$comment": "of the image", "rdma": {"size": 2}, "enroot": {}}
    report = node.converge(sections=ours, boot=True)
    assert report.to_dict()["ready"] and set(report.parts) == {"node_profile", "declaration", "rdma", "enroot"}
    assert wish.read(node.host) == ours and list(wish.read(node.host))[0] == "$comment"
    node.converge(sections=wish.read(node.host), only=("rdma",))
    assert comment() == "of the image"
    node.converge(sections={wish.COMMENT: "of a person", "rdma": {"size": 3}}, only=("rdma",))
    assert comment() == "of a person"
    node.converge(sections={"rdma": {"size": 3}}, only=("rdma",))
    assert comment() is None
    node.converge(sections=ours)
    node.converge(sections=ours, undo=True)
    assert node.host.read(wish.PATH) is None


def test_a_resource_without_a_section_is_left_alone(node):
    node.converge("node_profile", "rdma")
    assert node.ran == ["node_profile", "rdma"]


def test_a_machine_that_is_left_alone_gets_what_was_asked_for_and_what_is_to_go_goes(node):
    node.roles = ["rdma"]
    node.sizes["enroot"] = 1
    node.converge(sections={"node_profile": {}, "nvme_scratch": {}, "enroot": {"state": "absent"}, "rdma": {}})
    assert node.ran == ["node_profile", "enroot", "rdma"]
    node.roles = []
    node.host.remove(wish.PATH)
    node.sizes.clear()
    node.converge("node_profile", "rdma")
    assert node.ran[3:] == ["node_profile"] and node.host.read(wish.PATH) is None


def test_undo_goes_backwards_through_all_and_takes_the_declaration(node):
    node.converge()
    node.ran.clear()
    report = node.converge(undo=True)
    assert node.ran == ["rdma", "enroot", "nvme_scratch", "disks", "node_profile"] and not any(node.sizes.values())
    assert node.host.read(wish.PATH) is None and report.to_dict()["ready"]
    assert not node.converge(undo=True).to_dict()["changed"]


def test_an_undo_that_failed_keeps_the_declaration_and_what_is_still_needed(node):
    """A cache that could not be taken away lies on the scratch, and would lose its disks."""
    node.converge()
    node.broken.add("enroot")
    assert node.converge(undo=True).failures == [
        "enroot: enroot: it broke; repair it.",
        "nvme_scratch: not taken away, as enroot failed and needs it",
        "disks: not taken away, as nvme_scratch failed and needs it",
    ]
    assert node.host.read(wish.PATH) is not None
    assert {name for name, size in node.sizes.items() if size} == {"enroot", "nvme_scratch", "disks"}
    # Who asks for the one alone has it taken away.
    assert not node.converge(undo=True, only=("nvme_scratch",)).failures and node.sizes["nvme_scratch"] == 0
    node.broken.clear()
    assert not node.converge(undo=True).failures and node.host.read(wish.PATH) is None


def test_wrong_options_of_all_sections_are_told_together_before_anything_is_looked_at(node):
    with pytest.raises(Refused) as told:
        node.converge(sections={"rdma": {"size": 10}, "enroot": {"colour": 1}, "health": {"fail_on": 1, "retries": 2}})
    assert [refusal.thing for refusal in told.value.refusals] == [
        "enroot, option colour",
        "rdma, option size",
        "health, option retries",
        "health, option fail_on",
    ]
    assert not node.seen


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "not valid JSON"),
        ("[]", "it is no mapping of sections"),
        ('{"rdna": {}}', "section 'rdna' of x: there is no such resource; did you mean 'rdma'?"),
        (
            '{"gpu_sharing": {}}',
            "section gpu_sharing of x: it is of a cluster, and of no node; leave it out; playbooks/sharing.yml and",
        ),
        ('{"rdma": 1}', "section rdma of x: it is no mapping of options"),
        ('{"rdma": {}, "nccl": {}, "rdma": {}}', "not valid JSON ('rdma' stands in it twice)"),
        ('{"rdma": {"names": "keep", "names": "ordered"}}', "not valid JSON ('names' stands in it twice)"),
        (
            '{"rdma": 1, "rdna": {}}',
            'no mapping of options; write it as {"option": value}, or {} for its defaults. sect',
        ),
        ('{"$comment": 1}', "$comment of x: it is no text"),
        ('{"$schema": {}}', "$schema of x: it is no text"),
    ],
)
def test_what_is_no_declaration(node, text, words):
    with pytest.raises(NodeError, match=re.escape(words)):
        wish.parse(text, "x")


def test_an_option_of_another_kind_hides_no_other_one():
    with pytest.raises(NodeError) as error:
        wish.desired({"slurm_hooks": {"gres_cores": "socket", "shards_per_gpu": "4"}}, {})
    assert "slurm_hooks, option shards_per_gpu: '4' is no whole number; write it without quotes." in str(error.value)
    assert "slurm_hooks, option gres_cores: 'socket' is not known here; use one of" in str(error.value)


def test_a_check_to_leave_out_that_there_is_none_of_is_told_at_once():
    with pytest.raises(
        NodeError, match=re.escape("health, check 'gpu_nvlnk': there is none of this name; did you mean")
    ):
        wish.desired({wish.HEALTH: {"without": ["gpu_nvlnk"]}}, {})
    assert wish.desired({wish.HEALTH: {"without": ["gpu_*"]}}, {})[wish.HEALTH].without == ("gpu_*",)


def test_the_schema_for_an_editor_stays_with_the_declaration(node):
    ours = {"$schema": "./declaration.schema.json", "$comment": "of the image", "rdma": {"size": 2}}
    node.converge(sections=wish.parse(json.dumps(ours), "x"))
    assert wish.read(node.host) == ours


@pytest.mark.parametrize(
    "sections, names",
    [
        ({}, ()),
        ({"nvme_scratch": {"count": 0, "serials": []}}, ()),
        ({"nvme_scratch": {"count": 2}, "gpu_settings": {"require_gpus": True}}, ("gpu_settings", "nvme_scratch")),
        ({"nvme_scratch": {"serials": ["a"]}}, ("nvme_scratch",)),
    ],
)
def test_what_is_asked_for_by_its_options(sections, names):
    assert whole.asked(sections) == names


@pytest.mark.parametrize("boot, more", [(False, ()), (True, ("service_running",))])
def test_a_converge_does_not_wait_for_its_own_end_nor_a_boot_for_what_waits_for_it(node, monkeypatch, boot, more):
    asked = []

    def examine(dummy_host, dummy_name, options):
        asked.append(options)
        return Verdict("gpu01", 0.0, Cost.PASSIVE, "", Outcome.PASS, (), {}, (), 0.0)

    monkeypatch.setattr(health, "examine", examine)
    monkeypatch.setattr(health, "to_dict", lambda verdict: {"outcome": verdict.outcome.value})
    report = node.converge(sections={"health": {"without": ["gpu_*"]}}, boot=boot)
    assert report.health["outcome"] == "pass" and not report.failures
    assert asked[0].without == ("gpu_*", "converge", *more)


def test_consent_for_one_run_is_neither_declared_nor_read_again(tmp_path):
    host = Host(str(tmp_path))
    sections = {"nvme_scratch": {"rebuild": True, "overwrite_serials": ["S0"], "count": 2}, "health": {}}
    kept = {"nvme_scratch": {"count": 2}, "health": {}}
    assert json.loads(wish.text(sections)) == kept
    host.write(wish.PATH, json.dumps(sections))
    assert wish.read(host) == kept
    # A file that is given is for this run.
    assert wish.parse(json.dumps(sections), "a file") == sections


def test_the_models_of_the_scratch_are_those_by_which_a_machine_is_managed(node):
    scratch = {"models": ["Fast*"]}
    node.converge(sections={"nvme_scratch": scratch, "rdma": {}})
    assert node.seen["node_profile"].scratch_models == ("Fast*",)
    node.converge(sections={"node_profile": {"scratch_models": ["Other*"]}, "nvme_scratch": scratch})
    assert node.seen["node_profile"].scratch_models == ("Other*",)
    node.converge(sections={"node_profile": {}, "rdma": {}})
    assert node.seen["node_profile"].scratch_models == ()


@pytest.mark.parametrize(
    "more, roles, compared",
    [
        # It is declared by this run, and read by the look itself.
        ({}, ["rdma"], False),
        ({"check_mode": True}, ["rdma"], True),
        ({}, [], True),
    ],
)
def test_the_verdict_compares_with_the_profile_that_is_not_declared_here(node, monkeypatch, more, roles, compared):
    asked = []

    def examine(host, name, options):
        asked.append(options)
        raise NodeError("node", "it was asked", "look")

    monkeypatch.setattr(health, "examine", examine)
    node.roles = roles
    report = node.converge(sections={"node_profile": {}, "health": {"without": ["gpu_xid"]}}, **more)
    assert report.health == {"failed": True, "msg": "node: it was asked; look."}
    assert asked[0].profile == ({"name": "big", "data": DATA} if compared else None)
    assert tuple(asked[0].without) == ("gpu_xid", "converge")
    # Without a profile there is nothing to compare with.
    node.converge(sections={"health": {}}, check_mode=True, only=("health",))
    del asked[:]
    monkeypatch.setattr(whole, "_profile", lambda *dummy: {"changed": False})
    node.converge(sections={"health": {}}, check_mode=True)
    assert asked[0].profile is None


def test_one_resource_brings_the_command_that_its_units_run(node, monkeypatch):
    installed = []

    def runtime(host, source, check_mode):
        installed.append((source, check_mode))
        return dict(answer)

    answer = {"changed": True, "actions": [{"action": "install"}]}
    made = node.resource
    monkeypatch.setattr(whole, "runtime", runtime)
    monkeypatch.setattr(registry, "resource", lambda name: replaced(made(name), needs_command=True))

    def single(command="/tmp/gpunode", check_mode=False, **given):
        del installed[:]
        return whole.single(node.host, "rdma", given, check_mode, {}, command)

    part = single(check_mode=True)
    assert installed == [("/tmp/gpunode", True)] and not node.ran
    part = single()
    assert installed == [("/tmp/gpunode", False)] and node.ran == ["rdma"]
    assert part["changed"] and [one["action"] for one in part["actions"]] == ["install", "grow"]
    # A command that came anew is a change, though the resource has none.
    part = single()
    assert part["changed"] and [one["action"] for one in part["actions"]] == ["install"]
    answer.update(changed=False, actions=[])
    assert not single()["changed"] and len(installed) == 1
    # It is the installed one, or the resource is taken away, passed over or refused: nothing is brought.
    assert single(command=None) and not installed
    assert single(state="absent")["changed"] and not installed
    node.skipped.add("rdma")
    assert single()["skipped_reason"] and not installed
    node.skipped.clear()
    node.refused.add("rdma")
    assert single()["failed"] and not installed
    node.refused.clear()
    answer.update(failed=True, msg="disk full")
    assert single()["msg"] == "disk full" and node.sizes["rdma"] == 0
    monkeypatch.setattr(registry, "resource", made)
    assert single()["changed"] and not installed


def test_what_a_node_waits_for_before_it_takes_jobs():
    rows = [
        {"index": 0, "pci_address": "0001:00:00.0", "needs": "gpu_reset"},
        {"index": 1, "pci_address": "0002:00:00.0", "needs": "none"},
    ]
    mig = {"reboot_pending": True, "gpus": rows}
    report = whole.Report({"mig_layout": mig, "slurmd": {"waits": "slurmd has yet to"}}, {}, False)
    reboot, unread = report.to_dict()["waits"]
    assert report.failures == [] and not report.to_dict()["ready"]
    text = "the MIG mode of GPU 0 (0001:00:00.0) changes at a reboot: reboot the node, then run this again"
    assert reboot == {"for": "a reboot", "why": text}
    assert unread == {"for": "slurmd", "why": "slurmd has yet to"}
    # A name of a device that comes at a boot (rdma) harms no job.
    for parts in ({"mig_layout": dict(mig, reboot_pending=False), "slurmd": {}}, {"rdma": {"reboot_pending": True}}):
        assert whole.Report(parts, {}, False).waits == []

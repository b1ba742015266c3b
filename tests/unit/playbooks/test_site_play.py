# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""site.yml, comm.yml and reset.yml with real inventories: what a node is sent, and what is made of its answer. The
module node is one that notes what it gets and answers what the test says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import Desired

ROOT = Path(__file__).resolve().parents[3]
MODULE = """#!{python}
# WANT_JSON
import json, os, sys
arguments = json.load(open(sys.argv[1]))
with open({asked!r}, "a") as stream:
    stream.write(json.dumps(arguments) + "\\n")
print(open({answer!r}).read())
"""
PROFILE = {"name": "virtual", "compared": True, "data": {"nvme": {"count": 8, "models": ["QEMU NVMe Ctrl"]}}}
ANSWER = {"changed": False, "ready": True, "failures": [], "summary": ["changed: nothing"], "profile": PROFILE}
COMM = list(registry.group("comm"))
DISABLED = {one.name for one in registry.RESOURCES.values() if not one.enabled}


@pytest.fixture
def play(tmp_path):
    """The collection with another module node, and a playbook over this machine as one node of an inventory."""
    collection = tmp_path / "collections/ansible_collections/trainyard/gpu_node"
    (collection / "plugins/modules").mkdir(parents=True)
    parts = ["roles", "playbooks", "meta"]
    parts += ["plugins/" + one for one in ("action", "filter", "lookup", "module_utils", "plugin_utils")]
    for name in parts:
        (collection / name).symlink_to(ROOT / name)
    for module in (ROOT / "plugins" / "modules").glob("*.py"):
        (collection / "plugins/modules" / module.name).symlink_to(module)
    asked, answer = tmp_path / "asked", tmp_path / "answer"
    module = collection / "plugins/modules/node.py"
    module.unlink()
    module.write_text(MODULE.format(python=sys.executable, asked=str(asked), answer=str(answer)), encoding="utf-8")
    become = tmp_path / "become"
    become.write_text('#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n', encoding="utf-8")
    become.chmod(0o755)
    run_of = {"runs": 0}

    def run(name, *words, inventory="virtual", **variables):
        run_of["runs"] += 1
        asked.write_text("")
        folder = tmp_path / str(run_of["runs"])
        folder.mkdir()
        (folder / "group_vars").symlink_to(ROOT / "inventories" / inventory / "group_vars")
        connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (folder / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"node": connection}}}), "utf-8")
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.playbook", "-i", str(folder), "-e", json.dumps(variables), *words]
            + ["trainyard.gpu_node." + name],
            env=dict(
                clean,
                ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"),
                ANSIBLE_BECOME_EXE=str(become),
                ANSIBLE_HOME=str(tmp_path.parent / "ansible_home"),
                ANSIBLE_NOCOLOR="1",
            ),
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        run.output = done.stdout + done.stderr
        run.status = done.returncode
        return [json.loads(line) for line in asked.read_text().splitlines()]

    run.answer = lambda **more: answer.write_text(json.dumps(dict(ANSWER, **more)))
    run.answer()
    return run


def test_a_node_is_sent_one_declaration_in_one_run_and_its_summary_is_shown(play):
    play.answer(summary=["profile: virtual; the machine is like it", "changed: nothing"])
    (asked,) = play("site", rdma_rate_gbps="200")
    assert play.status == 0 and (asked["state"], asked["only"], asked["without"]) == ("present", [], []), play.output
    assert list(asked["declaration"]) == [one for one in (*registry.NAMES, "health") if one not in ("image", *DISABLED)]
    assert asked["declaration"]["rdma"]["rate_gbps"] == 200.0
    assert asked["declaration"]["node_profile"]["manage"] == "known"
    assert asked["declaration"]["node_profile"]["asked"] == []
    shown = json.loads(re.search(r'(?s)"msg": (\[.*?\n    \])', play.output).group(1))
    assert shown == ["profile: virtual; the machine is like it", "changed: nothing"]


def test_a_node_that_is_not_ready_ends_the_run_in_the_words_of_who_set_variables(play):
    told = "nccl: option settings: it is empty; give it without option limits."
    play.answer(ready=False, failures=[told, "rdma: port 1: it is down; see to it."], summary=["x", "  - " + told])
    play("site")
    words = "nccl: nccl_settings (option settings): it is empty; give it without nccl_limits (option limits)."
    assert play.status == 2 and "node is not ready: {0} rdma: port 1: it is down".format(words) in play.output
    assert '"  - ' + words in play.output, play.output


def test_what_variables_and_tags_choose(play):
    (asked,) = play("site", "--tags", "comm,health", gpu_node_comm=["nccl"], gpu_node_health_gate=True)
    assert set(COMM) & set(asked["declaration"]) == {"nccl"} and "health_gate" in asked["declaration"]
    assert asked["declaration"]["node_profile"]["asked"] == ["nccl", "health_gate"]
    assert asked["only"] == [*COMM, "health"]
    (asked,) = play("site", "--skip-tags", "nvme_scratch", gpu_node_manage="yes")
    assert (asked["only"], asked["without"]) == ([], ["nvme_scratch"])
    assert asked["declaration"]["node_profile"]["manage"] == "any"
    for words in (("--skip-tags", "nvme_scrach"), ("--tags", "rdma,nvme_scrach")):
        assert play("site", *words) == [] and play.status == 2
        assert "tag 'nvme_scrach': there is no resource of that name; did you mean 'nvme_scratch'?" in play.output


def test_the_stack_alone(play):
    (asked,) = play("comm")
    assert asked["only"] == ["node_profile", *COMM] and play.status == 0, play.output
    (asked,) = play("comm", "--tags", "nccl,health")
    assert asked["only"] == ["nccl"]


def test_an_undo_wants_to_be_told_and_is_of_all_that_a_node_may_have(play):
    assert play("reset") == [] and "add '-e gpu_node_reset=yes'" in play.output
    (asked,) = play("reset", gpu_node_reset="yes", gpu_node_comm=[], pyxis_state="present")
    of_node = {*registry.NAMES, "health"} - {"image"}  # which nothing is done to
    assert asked["state"] == "absent" and set(asked["declaration"]) == of_node, play.output


def test_a_variable_that_takes_the_profile_costs_a_look_at_the_machine_first(play):
    look, asked = play("site", job_templates_folder="/shared/{{ gpu_node_profile.name }}")
    assert list(look["declaration"]) == ["node_profile"] and look["only"] == ["node_profile"], play.output
    assert asked["declaration"]["job_templates"]["folder"] == "/shared/virtual"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("data, count", [(PROFILE["data"], 8), ({}, None)])
def test_the_generic_inventory_takes_what_the_detected_profile_says(play, data, count):
    (asked,) = play("site", inventory="generic")
    desired = of(Desired, asked["declaration"]["nvme_scratch"], data)
    assert desired.models and desired.count == count and desired.mount_point == "/scratch"

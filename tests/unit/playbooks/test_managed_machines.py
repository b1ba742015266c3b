# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which roles the playbooks run on which machine.

The machines are captured trees. All roles but node_profile and node_summary are stand-ins that write down their name.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

import ansible_collections.trainyard.gpu_node as collection
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_profile import manage
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack

(SOURCE,) = {Path(path).resolve() for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
REAL = ("node_profile", "node_summary")
STACK = ["rdma", "hpcx", "nccl", "enroot", "pyxis", "job_templates"]
ALL = ["node_runtime", "nvme_scratch", "slurm_hooks", "gpu_settings", *STACK]
STAND_IN = """---
- name: Stand in
  ansible.builtin.debug:
    msg: stand-in {name}
"""


def ansible(folder, playbook, hosts, *arguments):
    """Run a playbook of the collection in ``folder``. Nobody becomes root."""
    (folder / "become").write_text('#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n')
    (folder / "become").chmod(0o755)
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "ansible_become_exe": str(folder / "become"),
        "node_profile_metadata": "never",
        "node_profile_call_timeout_seconds": 5,
    }
    inventory = {"gpu_nodes": {"hosts": hosts, "vars": variables}}
    (folder / "inventory.json").write_text(json.dumps(inventory))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    done = subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", "-i", str(folder / "inventory.json"), *arguments, str(playbook)],
        env=dict(
            clean,
            ANSIBLE_COLLECTIONS_PATH=str(folder),
            ANSIBLE_LIBRARY=str(folder / "library"),
            ANSIBLE_NOCOLOR="1",
            ANSIBLE_FORKS="8",
        ),
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def collection_in(folder, *linked):
    """The collection in a folder of its own, with its playbooks and these parts, without its roles."""
    top = folder / "ansible_collections/trainyard/gpu_node"
    (top / "roles").mkdir(parents=True)
    shutil.copytree(str(SOURCE / "playbooks"), str(top / "playbooks"))
    for name in linked:
        (top / name).symlink_to(SOURCE / name)
    return top


@pytest.fixture
def play(tmp_path):
    tree = collection_in(tmp_path, "plugins", "meta")
    for role in (SOURCE / "roles").iterdir():
        there = tree / "roles" / role.name
        if role.name in REAL:
            shutil.copytree(str(role), str(there))
            continue
        (there / "tasks").mkdir(parents=True)
        (there / "tasks/main.yml").write_text(STAND_IN.format(name=role.name))
        for name in ("defaults", "vars"):
            if (role / name).is_dir():
                (there / name).symlink_to(role / name)

    def run(playbook, hosts, *arguments):
        for host, variables in hosts.items():
            tree_of_host = variables.pop("tree", None) or unpack("hb176", tmp_path / "trees" / host)
            variables.update(node_profile_root=tree_of_host, node_profile_gpus=False)
        printed = ansible(tmp_path, tree / "playbooks" / playbook, hosts, "--skip-tags", "health", *arguments)
        told = re.findall(r'^ok: \[(\w+)\] .*\{\n +"msg": "stand-in (\w+)"', printed, re.MULTILINE)
        return {host: [role for one, role in told if one == host] for host in hosts}, printed

    return run


def test_site_leaves_alone_what_it_does_not_know_and_runs_what_was_asked_for(play, tmp_path):
    hosts = {
        "bare": {},
        "gpus": {"tree": unpack("ndv4", tmp_path / "gpus")},
        "login": {"gpu_node_comm": ["enroot", "pyxis"]},
        "asked": {"gpu_node_manage": True},
        "gate": {"gpu_node_health_gate": True},
        "required": {"gpu_settings_require_gpus": True, "nvme_scratch_count": 4},
        "named": {"nvme_scratch_serials": ["S1"]},
        "gone": {"nccl_state": "absent", "slurm_hooks_state": "absent"},
    }
    ran, printed = play("site.yml", hosts)
    assert ran == {
        "bare": [],
        "gpus": ALL,
        "login": ["node_runtime", "enroot", "pyxis"],
        "asked": ALL,
        "gate": ["node_runtime", "health_gate"],
        "required": ["node_runtime", "nvme_scratch", "gpu_settings"],
        "named": ["node_runtime", "nvme_scratch"],
        "gone": ["slurm_hooks", "nccl"],
    }
    told = printed.partition('ok: [bare] => {\n    "msg"')[2].partition("}")[0]
    assert "machine: it has no NVIDIA GPU, no profile" in told and "changed: nothing" in told, printed
    assert "set gpu_node_manage: true" in told
    assert not (tmp_path / "trees/bare/etc/gpu_node").exists() and (tmp_path / "trees/login/etc/gpu_node").exists()


@pytest.mark.parametrize(
    "check, roles, given", [(False, [], True), (False, ALL, False), (True, [], True), (True, ALL, True)]
)
def test_the_verdict_on_a_machine_that_is_left_alone_does_not_say_run_site(check, roles, given):
    """As no profile is ever declared there, the verdict gets what the look at the machine said."""
    loader = DataLoader()
    tasks = loader.load_from_file(str(SOURCE / "playbooks/tasks/converge.yml"), trusted_as_template=True)
    (verdict,) = [task for task in tasks[0]["block"] if task["name"] == "The verdict on the node"]
    profile = verdict["trainyard.gpu_node.health_check"]["profile"]
    seen = {"name": "unknown", "data": {}, "roles": roles}
    variables = {"ansible_check_mode": check, "gpu_node_profile": seen, "__roles": roles, "omit": "left out"}
    told = Templar(loader, variables=variables).template(profile)
    assert told == ({"name": "unknown", "data": {}} if given else "left out")


def test_playbooks_and_the_library_name_the_same_roles():
    for name in ("comm.yml", "tasks/converge.yml"):
        (told,) = re.findall(r"gpu_node_comm \| default\((\[.+?\])\)", (SOURCE / "playbooks" / name).read_text())
        assert tuple(ast.literal_eval(told)) == manage.COMM == tuple(STACK), name
    texts = [(SOURCE / "playbooks/tasks" / name).read_text() for name in ("converge.yml", "comm_roles.yml")]
    run = {role for text in texts for role in re.findall(r"name: trainyard\.gpu_node\.(\w+)$", text, re.MULTILINE)}
    assert run - {"node_summary"} == set(manage.ROLES)


def test_a_tag_asks_for_its_roles(play):
    assert play("site.yml", {"bare": {}}, "--tags", "pyxis,hpcx")[0]["bare"] == ["node_runtime", "hpcx", "pyxis"]


def test_the_stack_alone_is_left_to_those_that_ask(play):
    ran, dummy = play(
        "comm.yml", {"bare": {}, "login": {"gpu_node_comm": ["hpcx"]}, "asked": {"gpu_node_manage": True}}
    )
    assert ran == {"bare": [], "login": ["node_runtime", "hpcx"], "asked": ["node_runtime", *STACK]}


def test_reset_takes_away_from_any_machine(play):
    ran, dummy = play("reset.yml", {"bare": {"gpu_node_reset": True}})
    assert set(ran["bare"]) == {*ALL, "health_gate"}

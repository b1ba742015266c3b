# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which roles the playbooks run on which machine, and what the role nvme_scratch installs there.

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
ALL = ["node_runtime", "nvme_scratch", "slurm_hooks", "gpu_tuning", *STACK]
STAND_IN = """---
- name: Stand in
  ansible.builtin.debug:
    msg: stand-in {name}
"""
# Writes down what it was given on which host, and answers as the role needs it. One that is not built from Ansible's
# parts starts in a fraction of the time.
MODULE = """#!{python}
# WANT_JSON
import json, os, sys
with open(sys.argv[1]) as stream:
    arguments = json.load(stream)
given = {{key: value for key, value in arguments.items() if not key.startswith("_")}}
with open("{folder}/calls." + os.environ["NODE"], "a") as stream:
    stream.write(json.dumps(["{name}", arguments["_ansible_check_mode"], given]) + "\\n")
print(json.dumps({{"changed": False, "skipped_reason": "no disk" if given.get("models") == ["none"] else None}}))
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
        "required": {"gpu_tuning_require_gpus": True, "nvme_scratch_count": 4},
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
        "required": ["node_runtime", "nvme_scratch", "gpu_tuning"],
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


# What is installed for a scratch ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Of the role nvme_scratch on machines that lack its tools: what modules and package managers were given."""
    folder = tmp_path_factory.mktemp("scratch")
    tree = collection_in(folder, "meta")
    (tree / "plugins/modules").mkdir(parents=True)
    (folder / "library").mkdir()
    shutil.copytree(str(SOURCE / "roles/nvme_scratch"), str(tree / "roles/nvme_scratch"))
    places = {"nvme_scratch": tree / "plugins/modules", "boot_unit": tree / "plugins/modules"}
    for name in ("nvme_scratch", "boot_unit", "apt", "dnf"):
        file = places.get(name, folder / "library") / (name + ".py")
        file.write_text(MODULE.format(python=sys.executable, name=name, folder=folder))
    tasks = tree / "roles/nvme_scratch/tasks/present.yml"
    text = tasks.read_text()
    assert text.count("command -v mdadm") == 1
    tasks.write_text(text.replace("command -v mdadm", "false"))
    (folder / "play.yml").write_text(
        "- hosts: gpu_nodes\n  gather_facts: false\n  vars: {__node_runtime_result: {}}\n"
        "  environment: {NODE: '{{ inventory_hostname }}'}\n  roles: [trainyard.gpu_node.nvme_scratch]\n"
    )
    none = {"ansible_package_use": "apt", "nvme_scratch_models": ["none"]}
    hosts = {
        "apt": {"ansible_package_use": "apt"},
        "dnf": {"ansible_package_use": "dnf"},
        "none": none,
        "image": dict(none, nvme_scratch_ahead=True),
    }
    ansible(folder, folder / "play.yml", hosts)
    return {
        host: [json.loads(line) for line in (folder / ("calls." + host)).read_text().splitlines()] for host in hosts
    }


@pytest.mark.parametrize("manager, option", [("apt", "install_recommends"), ("dnf", "install_weak_deps")])
def test_tools_come_without_recommended_packages(calls, manager, option):
    assert [(name, check) for name, check, dummy in calls[manager]] == [
        ("nvme_scratch", True),
        (manager, False),
        ("nvme_scratch", False),
        ("boot_unit", False),
    ]
    looked, installed, done, dummy = [given for dummy, dummy, given in calls[manager]]
    assert installed == {"name": ["mdadm", "xfsprogs"], "state": "present", option: False}
    assert looked == done, "what was looked at is what is done"


def test_without_disks_nothing_is_installed_but_for_an_image(calls):
    assert [name for name, dummy, dummy in calls["none"]] == ["nvme_scratch", "nvme_scratch"]
    assert [name for name, dummy, dummy in calls["image"]] == ["apt", "nvme_scratch", "boot_unit"]

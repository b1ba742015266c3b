# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory slurm_nodes as Ansible reads it: from a file, and from a scontrol that is a script, well or ill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
import yaml

import ansible_collections.trainyard.gpu_node as collection
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.slurm.slurm_answers import (
    ANSWERS,
    LATE,
    TEXT,
)

pytestmark = pytest.mark.usefixtures("kept_bytecode")

# Writes what lies beside it, as an old scontrol that knows no --json.
SCONTROL = """#!/bin/sh
cd "$(dirname "$0")" && echo "$@" >>calls
case "$*" in *--json*) [ -e json ] || {{ echo "scontrol: unrecognized option '--json'" >&2; exit 1; }}; cat json ;;
*) {0} ;; esac
"""
PLUGIN = "trainyard.gpu_node.slurm_nodes"


@pytest.fixture
def read(tmp_path):
    """What ``ansible-inventory --list`` makes of such a file, with its hosts' variables; and what it says."""
    roots = sorted({os.path.dirname(os.path.dirname(os.path.dirname(path))) for path in collection.__path__})

    def run(answer="cat text", environment=(), **options):
        (tmp_path / "scontrol").write_text(SCONTROL.format(answer))
        (tmp_path / "scontrol").chmod(0o755)
        content = dict({"plugin": PLUGIN, "scontrol": str(tmp_path / "scontrol")}, **options)
        (tmp_path / "test.slurm_nodes.yml").write_text(yaml.safe_dump(content))
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.inventory", "-i", str(tmp_path / "test.slurm_nodes.yml"), "--list"],
            env=dict(
                clean,
                ANSIBLE_COLLECTIONS_PATH=os.pathsep.join(roots),
                ANSIBLE_NOCOLOR="1",
                ANSIBLE_LOCALHOST_WARNING="False",
                COLUMNS="10000",
                **dict(environment),
            ),
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        # Ansible marks text that it will not take for a template in this way.
        listed = (
            json.loads(done.stdout, object_hook=lambda one: one.get("__ansible_unsafe", one)) if done.stdout else {}
        )
        hosts = listed.pop("_meta", {}).get("hostvars", {})
        groups = {name: group["hosts"] for name, group in listed.items() if group.get("hosts")}
        return hosts, groups, " ".join(done.stderr.split())

    (tmp_path / "text").write_text(TEXT)
    run.folder = tmp_path
    return run


def calls(read):
    return (read.folder / "calls").read_text().splitlines()


def test_from_an_old_scontrol_by_its_text(read):
    hosts, groups, told = read()
    assert calls(read) == ["-a --json show node", "-a -o show node"] and told == ""
    assert groups["gpu_nodes"] == groups["slurm_gres_gpu_a100"] == ["gpu01"]
    assert groups["slurm_partition_all"] == ["gpu01", "cloud-1"]
    assert groups["slurm_state_powered_down"] == ["cloud-1"]
    assert hosts["gpu01"] == {
        "ansible_host": "10.0.0.5",
        "slurm_node_address": "10.0.0.5",
        "slurm_node_boot_time": 1795306581,
        "slurm_node_cpus": 96,
        "slurm_node_features": ["ndv4", "a100"],
        "slurm_node_gpus": 8,
        "slurm_node_gres": [
            {"name": "gpu", "type": "a100", "count": 8},
            {"name": "nic", "type": None, "count": 8},
        ],
        "slurm_node_memory_mib": 900000,
        "slurm_node_name": "gpu01",
        "slurm_node_partitions": ["gpu", "all"],
        "slurm_node_reason": None,
        "slurm_node_reservation": None,
        "slurm_node_states": ["idle"],
        "slurm_node_version": "22.05.8",
    }
    assert "ansible_host" not in hosts["cloud-1"]


def test_from_a_new_scontrol_behind_a_command_by_its_json(read):
    (read.folder / "json").write_text(ANSWERS["late"])
    hosts, groups, dummy = read(command=["env", "BEHIND=1"], partitions=["gpu"], prefix="s_", gpu_group="gpus")
    assert calls(read) == ["-a --json show node"]
    assert sorted(hosts) == ["gpu01"] and groups["gpus"] == groups["s_state_idle"] == ["gpu01"]


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "127.1", "::1", "LocalHost.localdomain"])
def test_what_is_loopback_elsewhere_is_no_node_here(read, address):
    nodes = [dict(LATE["nodes"][0], address=address), LATE["nodes"][1]]
    (read.folder / "json").write_text(json.dumps(dict(LATE, nodes=nodes)))
    hosts, dummy, told = read(command=["env"])
    assert hosts == {} and "node gpu01: '{0}' is not the node but this machine".format(address) in told
    if address == "127.0.0.1":
        assert sorted(read(command=["env"], allow_loopback=True)[0]) == sorted(read()[0]) == ["cloud-1", "gpu01"]


def test_constructed_groups_and_a_reason_that_is_no_template(read):
    reason = "{{ lookup('pipe', 'touch " + str(read.folder / "hacked") + "') }}"
    (read.folder / "json").write_text(json.dumps(dict(LATE, nodes=[dict(LATE["nodes"][0], reason=reason)])))
    hosts, groups, dummy = read(
        compose={"told": "slurm_node_reason ~ '!'"},
        groups={"azure_ndv4": "'ndv4' in slurm_node_features"},
        keyed_groups=[{"key": "slurm_node_version", "prefix": "slurmd"}],
    )
    assert hosts["gpu01"]["told"] == reason + "!" and not (read.folder / "hacked").exists()
    assert groups["azure_ndv4"] == groups["slurmd_22_05_8"] == ["gpu01"]


def test_an_expression_that_fails_leaves_no_half_inventory(read):
    # The first node has an address of its own and the second has none.
    hosts, dummy, told = read(strict=True, compose={"shown": "ansible_host"})
    assert "Could not set shown for host cloud-1" in told and hosts == {}


def test_the_cache_saves_the_question(read):
    options = {"cache": True, "cache_plugin": "jsonfile", "cache_connection": str(read.folder / "cache")}
    first = read(**options)
    asked = len(calls(read))
    assert read(**options) == first and len(calls(read)) == asked
    for path in (read.folder / "cache").iterdir():
        path.write_text('[{"name": "gpu01", "of": "another version"}]')
    assert read(**options) == first and len(calls(read)) == 2 * asked


@pytest.mark.parametrize(
    "options, told",
    [
        (
            {"answer": "echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1"},
            "ended with status 1: slurm_load_node error: Unable to contact slurm controller",
        ),
        ({"answer": "sleep 600", "timeout": 1}, "it did not answer within 1 s"),
        ({"answer": "head -c 600 text"}, "the answer is cut short"),
        ({"answer": "cat text; exit 1"}, "it ended with status 1"),
        ({"answer": "echo Willkommen; cat text"}, "this is not what scontrol writes: 'Willkommen'"),
        ({"answer": ":"}, "the answer is empty"),
        ({"command": ["/no/such/ssh"]}, "/no/such/ssh: it cannot be started (No such file or directory)"),
        ({"file": "nothing"}, "it cannot be read (No such file or directory); give the saved answer."),
        (
            {"scontrol": "/no/such/scontrol"},
            "; where scontrol is elsewhere, set 'command: [ssh, LOGIN_NODE]' or 'scontrol: PATH' in this file.",
        ),
        (
            {"scontrol": "/no/such/scontrol", "command": ["env", "BEHIND=1"]},
            "; set 'scontrol: PATH' in this file, as it is on the machine that 'command' reaches.",
        ),
        ({"partition": ["gpu"]}, "option 'partition': this plugin has none of that name; did you mean 'partitions'? "),
        ({"state": ["idle"], "group": {}}, "of that name; did you mean 'states'? "),
        ({"state": ["idle"], "group": {}}, "of that name; did you mean 'groups'? "),
        ({"partitions": ["gpuu"]}, "partition 'gpuu': no node is in it; take one of: all, gpu."),
        ({"states": ["ilde"]}, "state 'ilde': Slurm has none; take one of: "),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_bad_answer_is_one_sentence_and_no_host(read, options, told):
    began = time.monotonic()
    hosts, groups, errors = read(**options)
    assert told in errors and hosts == {} and groups == {}
    # Ansible itself tells an error of an inventory twice: as its own, and as the cause of it.
    assert errors.count(told) == 2 and errors.count("caused by") == errors.count("Failed to parse inventory with") // 2
    assert time.monotonic() - began < 100


def test_where_ansible_is_told_so_a_bad_answer_ends_the_run(read):
    dummy, dummy, told = read(answer="exit 3", environment={"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1"})
    assert "ended with status 3" in told


def test_a_saved_answer_and_an_answer_without_end(read):
    (read.folder / "saved.json").write_text(ANSWERS["early"])
    assert sorted(read(file="saved.json")[0]) == ["cloud-1", "gpu01"]
    assert not (read.folder / "calls").exists()
    hosts, dummy, told = read(answer="yes NodeName=gpu01")
    assert "it wrote more than 256 MiB" in told and hosts == {}

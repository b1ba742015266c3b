# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with an inventory is told before a node is touched: real runs over nodes that are not there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret

import ansible_collections.trainyard.gpu_node as collection
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.variables import check

(SOURCE,) = {Path(path) for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
ROOTS = os.pathsep.join(sorted({str(Path(path).parents[2]) for path in collection.__path__}))
PLAYS = ["site", "comm", "health", "rolling", "reset", "validate"]
KNOWN = {name for role in (None, *registry.NAMES) for name in check.specification(role)}


@pytest.fixture
def play(tmp_path):
    def run(name, hosts, *arguments, **variables):
        """``hosts`` are the nodes with their variables, none of which can be reached; None for no inventory."""
        inventory = []
        if hosts is not None:
            # Nothing listens there, so no test can change anything.
            nowhere = {"ansible_host": "127.0.0.1", "ansible_port": 1}
            groups = {
                "gpu_nodes": {"hosts": {host: dict(given, **nowhere) for host, given in hosts.items()}},
                "others": {"hosts": {"login": nowhere}},
            }
            (tmp_path / "inventory.json").write_text(json.dumps(groups))
            inventory = ["-i", str(tmp_path / "inventory.json")]
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.playbook", *inventory, *arguments, "-e", json.dumps(variables)]
            + [str(SOURCE / "playbooks" / (name + ".yml"))],
            env=dict(
                clean, ANSIBLE_COLLECTIONS_PATH=ROOTS, ANSIBLE_NOCOLOR="1", ANSIBLE_LOCAL_TEMP=str(tmp_path / "t")
            ),
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        done.told = done.stdout + done.stderr
        assert "Traceback" not in done.told, done.told
        return done

    return run


def tasks(done):
    return re.findall(r"^TASK \[(.*?)\]", done.stdout, re.MULTILINE)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PLAYS)
def test_a_run_over_no_host_is_an_error(play, name):
    done = play(name, {})
    assert done.returncode != 0, done.told
    assert "no host of the inventory (" in done.told and "give the inventory with -i" in done.told
    assert tasks(done) == []


def test_each_way_to_have_no_host_is_named(play):
    for hosts, arguments, words in (
        (None, (), "hosts 'gpu_nodes': no host of the inventory ("),
        ({"gpu01": {}}, ("--limit", "login"), "hosts 'gpu_nodes': --limit 'login' leaves none of them"),
        ({"gpu01": {}}, ("-e", "gpu_node_hosts=gpu_node"), "hosts 'gpu_node': no host of the inventory ("),
    ):
        done = play("health", hosts, *arguments)
        assert done.returncode != 0 and words in done.told, done.told
    done = play("validate", {"gpu01": {}}, gpu_node_validate_from="logn")
    words = "gpu_node_validate_from: no host of the inventory ("
    assert done.returncode != 0 and words in done.told and ") is 'logn'; put it there" in done.told, done.told
    # A check of the syntax has no inventory, and the limit of a good run leaves some.
    assert play("site", None, "--syntax-check").returncode == 0
    done = play("check_variables", {"gpu01": {}, "gpu02": {}}, "--limit", "gpu02")
    assert done.returncode == 0, done.told


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["site", "rolling"])
def test_a_wrong_value_of_one_node_stops_the_run_before_any_node_is_touched(play, name):
    hosts = {
        "gpu01": {},
        "gpu02": {"gpu_settings_clocks": "fast", "nvme_scratch_count": "many", "gpu_settings_ecc": "{{ omit }}"},
        "gpu03": {"nvme_scratch_chunk_kib": 3, "nvme_scratch_state": "there"},
    }
    done = play(name, hosts, gpu_node_health_level="thorough")
    assert done.returncode == 2 and tasks(done) == ["Check the variables of all nodes"], done.told
    for sentence in (
        "gpu_settings_clocks: 'fast' names no clock; use max, default, or a mapping with graphics_mhz, memory_mhz or "
        "both. [gpu02]",
        "nvme_scratch_count: 'many' is no whole number; give a whole number. [gpu02]",
        "nvme_scratch_state: 'there' is not known here; use one of present, absent. [gpu03]",
        "gpu_node_health_level: 'thorough' is not known here; use one of quick, passive, active. [all 3 nodes]",
    ):
        assert sentence in done.told, (sentence, done.told)


def test_alone_the_variables_of_a_cluster_are_checked_too(play):
    hosts = {"gpu01": {"gpu_sharing_apply": "kubctl"}, "gpu_02": {}}
    done = play("check_variables", hosts)
    assert done.returncode == 2, done.told
    assert "gpu_sharing_apply: 'kubctl' is not known here; use one of kubectl, files. [gpu01]" in done.told, done.told
    # A host that has none of them is no node of a cluster, so its name need not be one there.
    assert "gpu_02" not in done.told.partition("variables are wrong")[2]


def test_each_rule_of_a_module_is_told_with_the_variable(play):
    cases = {
        "node_profile_name": (
            "nd96asr_v5",
            "profile 'nd96asr_v5': there is no profile of that name; did you mean 'nd96asr_v4'? choose among",
        ),
        "nvme_scratch_chunk_kib": (3, "3 KiB is out of range"),
        "nvme_scratch_before_units": (["a b"], "'a b' is no name of a unit"),
        "rdma_expected_ports": (-1, "-1 is out of range"),
        "hpcx_source": ("https://mirror/x.tar?sig=abcdefghijklmnop", "it is nothing without hpcx_sha256; give both."),
        "nccl_link_speed": ("7", "'7' is no PCIe link speed that NCCL knows"),
        "enroot_scratch": ("here", "'here' is no absolute path"),
        "pyxis_options": ({"colour": "red"}, "pyxis knows no 'colour'"),
        "job_templates_nodes": (-1, "-1 is out of range"),
        "slurm_hooks_grace_seconds": (500, "500 seconds is out of range"),
        "health_gate_interval_seconds": (1, "1 seconds is out of range"),
    }
    # A wrong value does not hide another one of the same module.
    several = {
        "pyxis_options": {"colour": "red"},
        "pyxis_source": "https://mirror/pyxis.tar.gz",
        "slurm_hooks_grace_seconds": 500,
        "slurm_hooks_prolog_dir": "here",
        "node_profile_profiles": "/nowhere/profiles",
        "node_profile_name": "mine",
    }
    done = play("check_variables", {"gpu01": {name: case[0] for name, case in cases.items()}, "gpu02": several})
    assert done.returncode == 2
    for name, case in cases.items():
        assert "{0}: {1}".format(name, case[1]) in done.told, (name, done.told)
    assert "abcdefghijklmnop" not in done.told
    for words in (
        "pyxis_options: pyxis knows no 'colour'",
        "pyxis_source: it is nothing without pyxis_sha256",
        "slurm_hooks_grace_seconds: 500 seconds is out of range",
        "slurm_hooks_prolog_dir: 'here' is no absolute path",
        "node_profile_profiles: there is no folder '/nowhere/profiles' on the controller; correct it. [gpu02]",
    ):
        assert words in done.told, (words, done.told)


def test_what_lies_in_a_vault_is_not_shown(play, tmp_path):
    (tmp_path / "password").write_text("open sesame")
    secret = VaultLib().encrypt("tr0ub4dor", VaultSecret(b"open sesame"))
    lines = yaml.safe_dump({"site_secret": secret.decode()}).replace("site_secret: ", "site_secret: !vault ")
    (tmp_path / "secret.yml").write_text(lines + "nccl_state: '{{ site_secret }}'\n")
    vault = ("--vault-password-file", str(tmp_path / "password"), "-e", "@" + str(tmp_path / "secret.yml"))
    done = play("check_variables", {"gpu01": {}}, *vault)
    assert done.returncode == 2 and "nccl_state: '[hidden]' is not known here" in done.told, done.told
    assert "tr0ub4dor" not in done.told


def test_a_wrong_value_is_told_once_with_its_own_name_and_in_words_for_people(play):
    # The role node_profile reads the disks' models, too, and its own variable is right.
    empty = {"node_profile_name": "auto", "nvme_scratch_models": None, "nccl_limits": None, "gpu_node_comm": None}
    hosts = {"gpu01": empty, "gpu02": {"node_profile_name": "auto", "nvme_scratch_models": {"a": 1}}}
    done = play("check_variables", hosts)
    assert done.returncode == 2
    lines = [line for line in done.told.partition("variables are wrong:\n")[2].splitlines() if line.endswith("]")]
    assert lines == [
        "gpu_node_comm: it is empty; give rdma, hpcx, nccl, enroot, pyxis, job_templates. [gpu01]",
        "nccl_limits: it is empty; give a mapping, or leave it out. [gpu01]",
        "nvme_scratch_models: {'a': 1} is no list; give a list. [gpu02]",
    ], done.told


def test_defaults_and_values_that_take_a_fact_are_right(play):
    # A variable of each role, so that its modules are asked; one with a fact of the node, which nobody knows yet.
    given = {role + "_state": "present" for role in registry.NAMES if role + "_state" in KNOWN}
    given["nvme_scratch_models"] = "{{ gpu_node_profile.data.nvme.models }}"
    given["nccl_topology"] = "{{ 'none' }}"
    done = play("check_variables", {"gpu01": given, "gpu02": {"slurm_node_name": "gpu02", "nccl_version": "2.28"}})
    assert done.returncode == 0 and "nothing reads" not in done.told, done.told


def test_what_is_wrong_for_jobs_alone_does_not_hold_up_a_look_or_an_undo(play):
    hosts = {"gpu01": {"nvme_scratch_chunk_kib": 3}}
    assert "is out of range" not in play("health", hosts).told
    done = play("reset", hosts, gpu_node_reset=True)
    assert "is out of range" not in done.told and "Ask for consent to lose the scratch" in tasks(done)


def test_a_variable_that_nothing_reads_is_a_warning_with_the_nearest_name_if_one_is_like_it(play):
    hosts = {
        "gpu01": {"nvme_scratch_mont_point": "/x", "gpu_settings_mig": True},
        "gpu02": {"gpu_setings_clocks": "max", "gpu_node_parallelism": 8},
    }
    done = play("check_variables", hosts)
    told = " ".join(done.told.split())
    assert done.returncode == 0
    for words in (
        "nvme_scratch_mont_point: nothing reads this variable; did you mean nvme_scratch_mount_point? [gpu01]",
        "gpu_setings_clocks: nothing reads this variable; did you mean gpu_settings_clocks? [gpu02]",
        "gpu_settings_mig: nothing reads this variable, and none has a name like it; leave it out, or choose among "
        "those that 'ansible-doc -t role trainyard.gpu_node.gpu_settings' lists. [gpu01]",
        "gpu_node_parallelism: nothing reads this variable, and none has a name like it; leave it out. [gpu02]",
    ):
        assert told.count(words) == 1, told


def test_a_misspelt_variable_of_the_gate_is_refused_as_it_would_drain_nodes(play):
    other = {"health_gate_observed": ["*"], "health_gate_observe": "{{ health_gate_observed }}"}
    hosts = {"gpu01": {"health_gate_observed": ["*"]}, "gpu02": other, "gpu03": {"health_gate_observer": "anna"}}
    done = play("check_variables", hosts)
    told = " ".join(done.told.split())
    assert done.returncode != 0 and "Nothing was changed, as variables are wrong:" in told
    # Of a name that the right one takes its value from, it is a warning.
    line = "health_gate_observed: nothing reads this variable; did you mean health_gate_observe? [{0}]"
    assert "wrong: " + line.format("gpu01") in told and "[WARNING]: " + line.format("gpu02") in told, told
    assert "[WARNING]: " + line.format("gpu01") not in told
    done = play("reset", {"gpu01": hosts["gpu01"]}, gpu_node_reset=True)
    assert "as variables are wrong" not in done.told


def test_managing_any_machine_is_no_misspelling_and_takes_true_or_false(play):
    done = play("check_variables", {"gpu01": {"gpu_node_manage": True}, "gpu02": {"gpu_node_manage": "maybe"}})
    assert "nothing reads" not in done.told, done.told
    assert "gpu_node_manage: 'maybe' is neither true nor false; give true or false. [gpu02]" in done.told

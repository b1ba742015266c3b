# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the variables of a host, and which of them nothing reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

import ansible_collections.trainyard.gpu_node as collection
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.variables import check, names, playbooks

(SOURCE,) = {Path(path) for path in collection.__path__ if (Path(path) / "playbooks").is_dir()}
KNOWN = {name for role in (None, *registry.NAMES) for name in check.specification(role)}
PREFIXES = [*registry.NAMES, "gpu_node"]


@pytest.mark.parametrize(
    "variable, value, told",
    [
        ("gpu_node_rolling_batch", "zero", "'zero' is neither a number of nodes nor percent; give 3 or '5%'."),
        ("gpu_node_rolling_batch", 0, "'0' is a batch without nodes; give 3 or '5%'."),
        ("gpu_node_rolling_failures", "five", "'five' is neither a number of nodes nor percent; give 3 or '5%'."),
        ("gpu_node_rolling_failures", "101%", "'101%' is more than all nodes; give 3 or '5%'."),
        (
            "gpu_node_health_without",
            ["gpu_nvlnk"],
            "check 'gpu_nvlnk': there is none of this name; did you mean 'gpu_nvlink'? "
            "'gpunode health --active --list' has them.",
        ),
        (
            "gpu_node_health_only",
            ["nothing_*"],
            "check 'nothing_*': there is none of this name; 'gpunode health --active --list' has them.",
        ),
        (
            "nvme_scratch_mode",
            0o777,
            "it is the number 511 and no text (YAML makes numbers of 0777, 2:00:00 and 2.10); put it in quotes.",
        ),
        ("nvme_scratch_mode", "0777", None),
        ("nvme_scratch_mode", True, "it is true and no text; put it in quotes."),
        (
            "gpu_node_rolling_reason",
            7200,
            "it is the number 7200 and no text (YAML makes numbers of 0777, 2:00:00 and 2.10); put it in quotes.",
        ),
        ("gpu_node_rolling_reason", "7200", None),
        ("gpu_node_validate_nodes", "gpu01,gpu02", None),
        ("gpu_node_validate_runs", "two", "'two' is no whole number; give a whole number."),
        ("gpu_node_rolling_batch", "10%", None),
        ("gpu_node_rolling_failures", 0, None),
        ("gpu_node_health_without", ["gpu_*", "converge"], None),
    ],
)
def test_a_value_that_a_play_would_end_with_later_is_told_at_once(variable, value, told):
    found = check.wrong_values(("nvme_scratch",), {variable: value}, lambda given, dummy: given)
    assert found == ([] if told is None else ["{0}: {1}".format(variable, told)])


def told_of(roles=(*registry.NAMES, *registry.OF_CLUSTER), state="present", **variables):
    return check.wrong_values(roles, variables, lambda given, dummy: given, state)


LAYOUTS = "mig_layout_layouts"


NUMBER = "and no text (YAML makes numbers of 0777, 2:00:00 and 2.10); put it in quotes."


@pytest.mark.parametrize(
    "layout, told",
    [
        ({"gpus": [3600.0, "0002:00:00.0"]}, ["[0].gpus: it is the number 3600.0 " + NUMBER]),
        (
            {"gpu": ["all"], "instances": [{"profile": "3g", "cuont": 2}]},
            [
                "[0].gpu: there is no such option; did you mean 'gpus'? use some of gpus, mig, instances.",
                "[0].instances[0].cuont: there is no such option; did you mean 'count'? use some of profile, count, "
                "start, compute.",
            ],
        ),
        (
            {"instances": [{"profile": "3g", "count": "two"}]},
            ["[0].instances[0].count: 'two' is no whole number; give a whole number."],
        ),
        (
            {"instances": [{"profile": "3g", "count": 20}]},
            ["[0].instances[0].count: 20 is out of range; give 1 to 14."],
        ),
        (
            {"instances": ["3g"]},
            [
                '[0].instances[0]: \'3g\' is no mapping of names to values; write it as {"profile": "3g"}.',
            ],
        ),
        (
            {"instances": [{"profil": "3g"}]},
            [
                "[0].instances[0].profil: there is no such option; did you mean 'profile'? use some of profile, count, "
                "start, compute.",
                "[0].instances[0].profile: it is missing; give it.",
            ],
        ),
        ({"gpus": [0], "instances": [{"profile": 9, "count": "2"}]}, []),
        ({"gpus": "all", "instances": [{"profile": "3g"}]}, []),
    ],
)
def test_what_lies_in_a_list_is_told_by_its_place(layout, told):
    assert told_of(mig_layout_layouts=[layout]) == [LAYOUTS + text for text in told]


@pytest.mark.parametrize(
    "given, told",
    [
        (
            {"gpu_sharing_apply": "files", "gpu_sharing_folder": "/f", "gpu_sharing_config": "slice-8"},
            ["gpu_sharing_config: 'slice-8' is no config; use one of whole, or add it to gpu_sharing_configs."],
        ),
        (
            {"gpu_sharing_apply": "files", "gpu_sharing_default": "slice-5"},
            [
                "gpu_sharing_default: 'slice-5' is no config; use one of whole, or add it to gpu_sharing_configs.",
                "gpu_sharing_folder: there is none, and apply is files; name a folder for the files.",
            ],
        ),
        (
            {"slurm_hooks_prolog_dir": "x", "slurm_hooks_shards_per_gpu": 2000},
            [
                "slurm_hooks_prolog_dir: 'x' is no absolute path",
                "slurm_hooks_shards_per_gpu: 2000 is out of range; give 0 to",
            ],
        ),
        (
            {"gpu_sharing_gpus": "many", "gpu_sharing_name": "GPU_01"},
            ["gpu_sharing_gpus: 'many' is no whole number", "gpu_sharing_name: 'GPU_01' is no name of an object"],
        ),
        # That of all roles is told once, by its own name.
        (
            {"gpu_node_kubernetes_name": "GPU_01", "gpu_sharing_config": "", "kubernetes_gpu_tainted": False},
            ["gpu_node_kubernetes_name: 'GPU_01' is no name of an object in Kubernetes; use lower-case letters"],
        ),
        (
            {"gpu_node_kubernetes_seconds": 0, "gpu_sharing_config": "", "gpu_sharing_name": "gpu-1"},
            ["gpu_node_kubernetes_seconds: 0 seconds is out of range; give 1 to 3600 seconds."],
        ),
        ({"job_templates_node": 7}, ["job_templates_node: it is the number 7 " + NUMBER]),
    ],
)
def test_only_the_variable_that_is_wrong_is_blamed(given, told):
    found = told_of(inventory_hostname="gpu01", **given)
    assert len(found) == len(told), found
    for sentence in told:
        assert any(text.startswith(sentence) for text in found), (sentence, found)


def test_what_goes_away_is_checked_for_what_matters_to_it():
    given = {"nvme_scratch_chunk_kib": 3, "mig_layout_layouts": [{"gpu": []}], "mig_layout_call_timeout_seconds": 0}
    assert told_of(state="absent", **given) == [
        "mig_layout_call_timeout_seconds: 0 seconds is out of range; give 0.1 to 600 seconds."
    ]


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("gpu_settings_clock", "gpu_settings_clocks"),
        ("nvme_scratch_power", "nvme_scratch_owner"),
        ("ncll_topology", "nccl_topology"),
        ("enroot_packges", "enroot_packages"),
        ("gpu_node_rolling_bach", "gpu_node_rolling_batch"),
        ("job_templates_time_limit", "job_templates_time"),
        # Ours, and no misspelling: a guess would mislead.
        ("gpu_settings_mig", ""),
        ("nvme_scratch_raid_level", ""),
        ("gpu_node_parallelism", ""),
        # Of others: roles, inventory plugins, Ansible.
        ("enroot_version", None),
        ("nccl_version", None),
        ("slurm_node_states", None),
        ("gpu_type", None),
        ("ansible_host", None),
        ("__gpu_settings_result", None),
        ("gpu_settings_clocks", None),
    ],
)
def test_names_that_are_near_and_names_of_others(given, near):
    assert names.misspelt([given], KNOWN, PREFIXES) == ({} if near is None else {given: near})


def test_the_variables_of_the_playbooks_are_all_known():
    texts = [path.read_text(encoding="utf-8") for path in (SOURCE / "playbooks").rglob("*.yml")]
    texts.append((SOURCE / "plugins/plugin_utils/declarations.py").read_text(encoding="utf-8"))
    texts += [" ".join(("gpu_node_" + one.group, registry.switch(one))) for one in registry.RESOURCES.values()]
    read = {name for text in texts for name in re.findall(r"(?<![\w.])gpu_node_(?!health_\*|health\b)\w+", text)}
    # A group that rolling.yml makes, tags of Azure, and what a role finds out.
    others = {"gpu_node_rolling_failed", "gpu_node_delete_after", "gpu_node_owner"}
    assert read - {*others, *playbooks.FACTS} == set(playbooks.OPTIONS)


def judged_of(*hosts):
    """(problems of each host, how often templates were filled in for it)."""
    loader, judged, told, work, calls = DataLoader(), {}, [], [], []

    def template(value, context):
        calls.append(value)
        return Templar(loader, variables=context).template(value)

    for given in hosts:
        variables = {
            name: trust_as_template(value) if isinstance(value, str) else value for name, value in given.items()
        }
        before = len(calls)
        told.append(check.wrong_values(registry.NAMES, variables, template, judged=judged))
        work.append(len(calls) - before)
    return told, work


def test_templates_are_filled_in_once_for_hosts_that_give_them_the_same():
    same = {"gpu_settings_clocks": "{{ site_clocks }}", "site_clocks": "max", "nccl_state": "present"}
    told, work = judged_of(*[dict(same, inventory_hostname="gpu{0:04}".format(number)) for number in range(20)])
    assert told == [[]] * 20
    assert work[0] > 0 and work[1:] == [0] * 19


@pytest.mark.parametrize(
    "clocks, more",
    [
        ("{{ site_clocks }}", {}),
        ("{{ site[0].clocks }}", {"site": [{"clocks": "{{ site_clocks }}"}]}),
        ("{{ lookup('vars', 'site' ~ '_clocks') }}", {}),
    ],
)
def test_a_template_that_is_wrong_on_one_host_only_is_found(clocks, more):
    right = dict(more, gpu_settings_clocks=clocks, site_clocks="max")
    if "site" in more:
        right["site"] = [{"clocks": trust_as_template(more["site"][0]["clocks"])}]
    told = judged_of(right, dict(right, site_clocks="fast"), right)[0]
    assert told[0] == told[2] == [] and len(told[1]) == 1 and "fast" in told[1][0], told


def test_a_variable_of_another_role_that_a_default_takes_makes_a_difference():
    # job_templates_gres_type is slurm_hooks_gres_type by itself.
    given = {"job_templates_state": "present"}
    told = judged_of(given, dict(given, slurm_hooks_gres_type="no type!"))[0]
    assert told[0] == [] and any("no type!" in text for text in told[1]), told

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits and settings that no check uses: refused where they are declared, a warning on the node."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils import health
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import thresholds
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import silences
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data import limit_names
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected

ROOT = Path(__file__).resolve().parents[6]
LOW = {"better": "lower", "warn": 1}


def judged(settings, profile=None):
    return silences.judge(None, Expected("p", profile or {}, {}, {}, {}, settings, 0.0)).findings


def test_each_limit_of_profiles_and_docs_is_known():
    given = set()
    for path in (ROOT / "roles/node_profile/files/profiles").iterdir():
        given |= set(yaml.safe_load(path.read_text()).get("thresholds") or {})
    assert len(given) > 10
    text = (ROOT / "docs/health_checks.md").read_text()
    text = text[text.index("### Limits") : text.index("## Everything but GPUs")]
    given |= {name for name in re.findall(r"`(gpu_[a-z_]+)`", text)}
    text = (ROOT / "docs/health_active.md").read_text()
    given |= set(re.findall(r"`([a-z_0-9]+_per_second)`", text))
    assert given - limit_names.names() == set()
    thresholds.declared({name: LOW for name in given})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("compute_f16_teraflop_per_second", "did you mean 'compute_f16_teraflops_per_second'"),
        ("gemm_share_of_siblings", "use compute_share_of_siblings"),
        ("no_such_thing_at_all", "take it out"),
    ],
)
def test_a_limit_that_no_check_uses_is_refused_before_it_is_declared(name, words):
    with pytest.raises(NodeError, match="no check measures a figure of this name") as caught:
        thresholds.declared({name: LOW})
    assert words in caught.value.remedy


def test_on_a_node_one_warning_names_all_that_no_check_uses():
    limits = {
        "gemm_teraflops_per_second": LOW,
        "swap_used_byte": LOW,
        "swap_used_bytes": LOW,
        "nvme_life_used_percent": 7,
    }
    given = {"thresholds": limits, "gemm_seconds": 10, "tools": {"python": "/usr/bin/python3"}, "compute_second": 3}
    (finding,) = judged(given)
    assert (finding.outcome.value, finding.code, finding.action.value) == ("warn", "not_used", "configure")
    for words in (
        "limit gemm_teraflops_per_second (use compute_f16_teraflops_per_second or",
        "limit swap_used_byte (did you mean 'swap_used_bytes'?)",
        "threshold nvme_life_used_percent (it has not the fields",
        "setting gemm_seconds (use compute_seconds)",
        "setting compute_second (did you mean 'compute_seconds'?)",
        "setting tools.python (use nothing:",
    ):
        assert words in finding.reason
    assert "swap_used_bytes (" not in finding.reason
    assert (
        judged({}, {"thresholds": {"gemm_teraflops_per_second": LOW, "our_own_figure": LOW}})[0].reason.count("(") == 1
    )


def test_what_checks_use_is_no_finding():
    given = {
        "thresholds": {"gpu_temperature_celsius": LOW, "infiniband_symbol_errors_per_second": LOW},
        "tools": {"fio": "/usr/bin/fio"},
        "compute_seconds": 10,
        "partition_keys": ["0x8012"],
        "observe": ["ib_*"],
        "without": ["gpu_gemm"],
        "silences": [],
        "overrules": [],
    }
    assert judged(given, {"thresholds": {"our_own_figure": LOW}}) == ()


@pytest.mark.parametrize(
    "without, words",
    [
        (["memory_swap", "gpu_gem"], "'gpu_gem' of without ("),
        ("memory_swap", "'memory_swap' of without (it is no name of a check)"),
        (7, "7 of without"),
        (["memory_swap", 7], "7 of without"),
    ],
)
@pytest.mark.parametrize("level", ["quick", "passive"])
def test_a_node_keeps_its_verdict_whatever_it_leaves_out(tmp_path, without, words, level):
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps({"health": {"without": without}}))
    only = ("silences", "memory_swap") if level == "passive" else ("scratch_*",)
    verdict = health.examine(Host(str(tmp_path)), "n1", health.Options(only=only, level=health.Cost(level)))
    ran = {one.id for one in verdict.results}
    if level == "passive":
        assert ("memory_swap" in ran) == (not isinstance(without, list)), "a name that is right still counts"
        (told,) = [one for check, one in verdict.findings if check == "silences"]
        assert told.code == "not_used" and words in told.reason
    else:
        assert verdict.level is health.Cost.QUICK


@pytest.mark.parametrize("limits", [7, {"swap_used_bytes": 7}, {"swap_used_bytes": {"warn": 1}}, {"swap": LOW}])
def test_a_node_keeps_its_verdict_whatever_its_limits_are(tmp_path, limits):
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps({"health": {"thresholds": limits}}))
    options = health.Options(only=("silences", "memory_swap"))
    verdict = health.examine(Host(str(tmp_path)), "n1", options)
    assert [one.code for check, one in verdict.findings if check == "silences"] == ["not_used"]
    assert {one.id for one in verdict.results} >= {"silences"}

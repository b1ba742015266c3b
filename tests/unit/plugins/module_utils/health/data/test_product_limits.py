# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits by product: the row that counts, and that an unproven one never fails a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data import product_limits
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome

MEMORY = "gpu_memory_gigabytes_per_second"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("Tesla V100-SXM2-32GB", 900),
        ("NVIDIA A100-SXM4-40GB", 1555),
        ("NVIDIA A100-PCIE-40GB", 1555),
        ("NVIDIA A100-SXM4-80GB", 2039),
        ("NVIDIA A100 80GB PCIe", 1935),
        ("NVIDIA H100 80GB HBM3", 3080),
        ("NVIDIA H100 PCIe", 2000),
        ("NVIDIA H100 NVL", 3938),
        ("NVIDIA H200", 4500),
        ("NVIDIA H200 NVL", 4800),
        ("NVIDIA B200", 8000),
    ],
)
def test_each_product_has_its_own_memory_bandwidth(kind, value):
    assert product_limits.row(kind, MEMORY).value == value


@pytest.mark.parametrize(("kind", "figure"), [("NVIDIA GeForce RTX 4090", MEMORY), ("NVIDIA H200", "no_such_figure")])
def test_an_unknown_product_has_no_limit(kind, figure):
    assert product_limits.threshold(kind, figure) is None and product_limits.limit_of(figure)(kind) is None


@pytest.mark.parametrize("one", product_limits.PRODUCTS, ids=lambda one: "{0}-{1}".format(one.kind, one.figure))
def test_only_a_proven_row_fails_and_each_names_its_source(one):
    limit = product_limits.threshold_of(one)
    assert limit.outcome(one.value) is Outcome.PASS and one.source in limit.source
    assert (limit.fail is not None) is one.proven and ("unproven" in limit.source) is not one.proven
    assert limit.outcome(0.001 * one.value) is (Outcome.FAIL if one.proven else Outcome.WARN)
    assert 0 < (limit.fail or 0.001) < limit.warn < one.value


def test_the_two_measured_gpus_pass_with_what_they_measured():
    for kind, measured in (("NVIDIA H100 80GB HBM3", 3080), ("NVIDIA H200", 4200)):
        assert product_limits.threshold(kind, MEMORY).outcome(measured) is Outcome.PASS


def test_every_gpu_of_a_profile_has_a_limit_for_arithmetic():
    folder = Path(__file__).resolve().parents[6] / "roles/node_profile/files/profiles"
    products = {name for path in folder.iterdir() for name in yaml.safe_load(path.read_text())["gpus"]["products"]}
    assert len(products) >= 8
    figure = "compute_f32_teraflops_per_second"
    assert [one for one in products if product_limits.threshold(one.replace("*", ""), figure) is None] == []


def test_what_the_two_measured_gpus_computed_passes():
    for kind, name, measured in (("NVIDIA H100 80GB HBM3", "f16", 541), ("NVIDIA H200", "bf16", 651)):
        limit = product_limits.threshold(kind, "compute_{0}_teraflops_per_second".format(name))
        assert limit.outcome(measured) is Outcome.PASS and limit.outcome(0.49 * measured) is Outcome.FAIL


@pytest.mark.parametrize(
    ("kind", "figure", "healthy", "slow"),
    [
        ("NVIDIA A100-SXM4-80GB", "compute_f16_teraflops_per_second", 250, 120),
        ("NVIDIA A100 80GB PCIe", "compute_bf16_teraflops_per_second", 200, 150),  # 300 W
        ("NVIDIA A100-SXM4-40GB", "compute_int8_teraops_per_second", 480, 300),
        ("Tesla V100-SXM2-32GB", "compute_f16_teraflops_per_second", 90, 45),
        ("NVIDIA H100 80GB HBM3", "compute_bf16_teraflops_per_second", 544, 340),  # 55 % of the data sheet
        ("NVIDIA H200", "compute_f16_teraflops_per_second", 544, 340),
    ],
)
def test_tensor_cores_are_held_against_what_these_kernels_reach_on_them(kind, figure, healthy, slow):
    limit = product_limits.threshold(kind, figure)
    assert limit.outcome(healthy) is Outcome.PASS and limit.outcome(slow) is Outcome.WARN


def test_what_is_proven_was_measured_with_the_first_version_of_the_kernels():
    """These kernels have not run on a real GPU yet; the one that runs them changes the value, the source and this."""
    assert {one.source for one in product_limits.PRODUCTS if one.proven} == {
        "measured on one GPU with a first version of these kernels, the same instructions"
    }

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
        ("NVIDIA H100 80GB HBM3", 3038),
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


# One H100 80GB HBM3 of 700 W, driver 580.159.04, 16 CPUs: three runs of the active checks.
MEASURED = {
    "compute_f16_teraflops_per_second": (442.3, 442.9, 444.1),
    "compute_bf16_teraflops_per_second": (452.2, 453.2, 453.6),
    "compute_int8_teraops_per_second": (914.2, 914.3, 915.3),
    "compute_f32_teraflops_per_second": (37.68, 37.69, 37.7),
    "compute_f64_teraflops_per_second": (19.76, 19.77, 19.77),
    "compute_int32_teraops_per_second": (29.52, 29.54, 29.55),
    MEMORY: (3038, 3039.6, 3039.7),
}


@pytest.mark.parametrize("figure", MEASURED)
def test_a_measured_gpu_passes_and_so_does_one_that_is_a_fifth_slower(figure):
    lowest = min(MEASURED[figure])
    limit = product_limits.threshold("NVIDIA H100 80GB HBM3", figure)
    assert {limit.outcome(value) for value in MEASURED[figure]} == {Outcome.PASS}
    assert limit.outcome((0.87 if figure == MEMORY else 0.8) * lowest) is Outcome.PASS
    assert limit.outcome(0.49 * lowest) is Outcome.FAIL
    # The chip and the power limit of an H200 are the same; its memory is faster.
    if figure != MEMORY:
        assert product_limits.threshold("NVIDIA H200", figure).outcome(0.8 * lowest) is Outcome.PASS


@pytest.mark.parametrize(
    ("kind", "figure", "healthy", "slow"),
    [
        ("NVIDIA A100-SXM4-80GB", "compute_f16_teraflops_per_second", 250, 120),
        ("NVIDIA A100 80GB PCIe", "compute_bf16_teraflops_per_second", 200, 150),  # 300 W
        ("NVIDIA A100-SXM4-40GB", "compute_int8_teraops_per_second", 480, 300),
        ("Tesla V100-SXM2-32GB", "compute_f16_teraflops_per_second", 90, 45),
        (
            "NVIDIA H100 80GB HBM3",
            "compute_bf16_teraflops_per_second",
            390,
            330,
        ),  # 14 % below the GPU that was measured
        ("NVIDIA H200", "compute_f16_teraflops_per_second", 390, 260),
        ("NVIDIA H100 PCIe", "compute_f16_teraflops_per_second", 270, 180),
    ],
)
def test_tensor_cores_are_held_against_what_these_kernels_reach_on_them(kind, figure, healthy, slow):
    limit = product_limits.threshold(kind, figure)
    assert limit.outcome(healthy) is Outcome.PASS and limit.outcome(slow) is Outcome.WARN


def test_what_is_proven_was_measured():
    assert {(one.kind, one.source) for one in product_limits.PRODUCTS if one.proven} == {
        ("NVIDIA H100 80GB HBM3", "measured on one GPU with these kernels, at its power limit of 700 W"),
        ("NVIDIA H200", "measured on one GPU with a first version of these kernels, the same instructions"),
    }

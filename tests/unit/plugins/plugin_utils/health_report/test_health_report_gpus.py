# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of active checks over a fleet: silent if it is uniform, and one slow GPU is named in a page of bounded
size."""

from __future__ import annotations

import json
import random
import re

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import plain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.samples import kinds_of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import PRODUCT, SCHEMA, Measured
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report import model, page, table

# Values of an H100, ../hardware and public measurements; what matters here is their number and their scatter.
FIGURES = {
    "gpu_memory_gigabytes_per_second": (3080, "higher"),
    "compute_f16_teraflops_per_second": (545, "higher"),
    "compute_bf16_teraflops_per_second": (650, "higher"),
    "compute_fp8_teraflops_per_second": (1300, "higher"),
    "compute_int8_teraops_per_second": (1300, "higher"),
    "compute_f32_teraflops_per_second": (51, "higher"),
    "compute_f64_teraflops_per_second": (57, "higher"),
    "compute_int32_teraops_per_second": (25, "higher"),
    "compute_graphics_clock_mhz": (1980, "higher"),
    "compute_power_watts": (530, ""),
    "compute_temperature_celsius": (60, "lower"),
    "host_to_device_gigabytes_per_second": (54.7, "higher"),
}
KEYS = ["000{0}:{1:02x}:00.0".format(1 + one // 4, one) for one in range(8)]
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"


def figure(name, value, key="", better="", **labels):
    return dict(plain(Measured(name, value, key, better=better)), labels=labels)


def verdict(host, chance, product=H100, profile="nd96isr_h100_v5", factor=1.0, slow=None, noise=0.005, names=None):
    """Eight GPUs; ``slow``: (figure, number of the GPU, factor)."""
    measured = [figure(PRODUCT, 1.0, key, product=product, index=str(index)) for index, key in enumerate(KEYS)]
    for name, (usual, better) in FIGURES.items():
        if name not in (names or FIGURES):
            continue
        for number, key in enumerate(KEYS):
            value = usual * factor * chance.gauss(1, noise)
            if slow is not None and (name, number) == slow[:2]:
                value *= slow[2]
            measured.append(figure(name, value, key, better))
    result = {
        "id": "gpu_compute",
        "title": "GPUs compute at full rate",
        "outcome": "pass",
        "seen": "all of it",
        "findings": [],
        "measured": measured,
        "seconds": 9.0,
    }
    return {
        "schema": SCHEMA,
        "node": host,
        "time": 1_790_000_000.0,
        "level": "active",
        "profile": profile,
        "outcome": "pass",
        "results": [result],
        "not_applicable": {},
        "silenced": [],
        "observed": [],
        "seconds": 30.0,
    }


def fleet(nodes, seed=1, names=None, **special):
    """``special``: by the name of a node, in which its verdict differs; ``names``: of the figures, all without it."""
    chance = random.Random(seed)
    hosts = ["gpu{0:05d}".format(one) for one in range(nodes)]
    return {host: verdict(host, chance, names=names, **special.get(host, {})) for host in hosts}


def odd(report):
    return [(one.node, one.key, one.name) for one in report.comparison.outliers]


@pytest.mark.parametrize("nodes", [5, 40])
@pytest.mark.parametrize("seed", [1, 2])
def test_half_a_percent_of_noise_is_no_outlier(nodes, seed):
    report = model.report(fleet(nodes, seed), {})
    assert odd(report) == [] and not report.comparison.groups and report.counts == {"pass": nodes}
    assert "No outlier." in page.page(report, "t")


@pytest.mark.parametrize(
    "name", ["gpu_memory_gigabytes_per_second", "compute_temperature_celsius", "compute_power_watts"]
)
def test_one_gpu_that_is_a_tenth_worse_is_named_with_its_node(name):
    worse = 1.2 if FIGURES[name][1] == "lower" else 0.85
    report = model.report(fleet(24, gpu00007={"slow": (name, 3, worse)}), {})
    assert odd(report) == [("gpu00007", KEYS[3], name)]
    assert [(node.host, node.outcome) for node in report.nodes if node.outcome != "pass"] == [("gpu00007", "warn")]
    text = page.page(report, "t")
    assert re.search(r"▲ <b>gpu00007</b> {0}: ".format(KEYS[3]), text) and text.count('class="mark"') == 1


def test_machines_without_a_profile_are_alike_if_their_gpus_have_the_same_products():
    """Also for figures of a node as a whole, such as its idle load."""
    verdicts = fleet(3, gpu00000={"profile": "unknown"}, gpu00001={"profile": "unknown"})
    verdicts["gpu00002"] = verdict("gpu00002", random.Random(1), product=A100, profile="unknown")
    kinds = kinds_of(verdicts)
    assert kinds["gpu00000"] == kinds["gpu00001"] != kinds["gpu00002"]


@pytest.mark.parametrize("profile", ["nd_mixed", "unknown"])
def test_two_products_are_never_compared_with_each_other(profile):
    """Twelve nodes with a product that is half as fast: no group, no outlier; and a slow one among them is found."""
    half = dict(product=A100, factor=0.5, profile=profile)
    special = {"gpu{0:05d}".format(one): dict(half) for one in range(12)}
    special.update({"gpu{0:05d}".format(one): {"profile": profile} for one in range(12, 40)})
    report = model.report(fleet(40, **special), {})
    assert odd(report) == [] and not report.comparison.groups
    kinds = {one.kind for one in report.comparison.distributions}
    assert len(kinds) == 2 and all(len({one.kind for one in report.comparison.distributions}) == 2 for dummy in kinds)
    special["gpu00003"] = dict(half, slow=("gpu_memory_gigabytes_per_second", 6, 0.85))
    assert odd(model.report(fleet(40, **special), {})) == [("gpu00003", KEYS[6], "gpu_memory_gigabytes_per_second")]


def test_two_products_in_one_node_are_compared_with_their_own():
    chance = random.Random(1)
    verdicts = {}
    for number in range(20):
        name = "gpu{0:05d}".format(number)
        one, other = verdict(name, chance), verdict(name, chance, product=A100, factor=0.5)
        # The fast GPUs are in other places in each node.
        fast = set(random.Random(number).sample(KEYS, 4))
        kept = [
            figure
            for content, wanted in ((one, True), (other, False))
            for figure in content["results"][0]["measured"]
            if (figure["key"] in fast) is wanted
        ]
        one["results"][0]["measured"] = kept
        verdicts[name] = one
    report = model.report(verdicts, {})
    assert odd(report) == [] and not report.comparison.groups
    assert {one.kind for one in report.comparison.distributions} == {
        "nd96isr_h100_v5, " + H100,
        "nd96isr_h100_v5, " + A100,
    }


def test_a_figure_has_its_median_its_percentiles_and_bins():
    verdicts = fleet(40, gpu00007={"slow": ("gpu_memory_gigabytes_per_second", 3, 0.85)})
    report = model.report(verdicts, {})
    (one,) = [one for one in report.comparison.distributions if one.name == "gpu_memory_gigabytes_per_second"]
    values = sorted(
        figure["value"]
        for content in verdicts.values()
        for figure in content["results"][0]["measured"]
        if figure["name"] == one.name
    )
    assert (one.low, one.high, one.nodes) == (values[15], values[303], 40)
    text = page.page(report, "t")
    assert (
        "median {0:.4g}, 5 % below {1:.4g}, 5 % above {2:.4g}; 320 values of 40 nodes".format(
            one.median, one.low, one.high
        )
        in text
    )


def test_the_size_of_the_drawings_does_not_depend_on_the_number_of_nodes():
    special = {"gpu00007": {"slow": ("compute_f16_teraflops_per_second", 3, 0.85)}}
    names = ("compute_f16_teraflops_per_second", "compute_power_watts")
    sizes = []
    for nodes in (100, page.FIGURES_NODES_MAX + 1):
        report = model.report(fleet(nodes, names=names, **special), {})
        text = page.page(report, "t")
        assert odd(report) == [("gpu00007", KEYS[3], "compute_f16_teraflops_per_second")]
        drawings = text[text.index("<h2>Figures</h2>") : text.index('<script type="application/json"')]
        sizes.append(len(drawings))
    assert max(sizes) < 10_000 and max(sizes) < 1.2 * min(sizes)
    # A healthy node of a large fleet has no figures of its own in the page, the one with the outlier has all.
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert [len(data["nodes"][host][4]) for host in ("gpu00006", "gpu00007")] == [0, 2]
    assert len(text) < len(report.nodes) * 300


HOSTILE = '</script><img src=x onerror="alert(1)">{{ lookup("pipe", "id") }}'


def hostile(change):
    content = verdict("gpu00003", random.Random(3))
    change(content["results"][0]["measured"])
    return content


@pytest.mark.parametrize(
    ("change", "believed"),
    [
        (lambda measured: measured[20].update(value=float("nan")), False),
        (lambda measured: measured[20].update(value=float("inf")), False),
        (lambda measured: measured[20].update(value="3080"), False),
        (lambda measured: measured[20].update(value=True), False),
        (lambda measured: measured[20].update(value=10**400), False),
        (lambda measured: measured[20].update(value=[1.0] * 10), False),
        (lambda measured: measured.extend([figure("x", 1.0)] * 20_000), False),
        (lambda measured: measured[0].update(labels={"product": ["a"]}), False),
        (lambda measured: measured[0].update(labels={"product": HOSTILE}), True),
        (lambda measured: measured[20].update(name=HOSTILE), True),
        (lambda measured: measured[20].update(key=HOSTILE), True),
        (lambda measured: measured.extend(figure("x{0}".format(one), 1.0) for one in range(5000)), True),
    ],
)
def test_hostile_figures_of_one_node_cost_that_node_and_stay_text(change, believed):
    verdicts = fleet(12)
    verdicts["gpu00003"] = hostile(change)
    report = model.report(verdicts, {})
    others = [node for node in report.nodes if node.host != "gpu00003"]
    assert {node.outcome for node in others} == {"pass"} and len(others) == 11
    (node,) = [node for node in report.nodes if node.host == "gpu00003"]
    assert (node.outcome != "none") is believed
    text = page.page(report, "t")
    assert "<img" not in text and text.count("</script>") == 2
    assert len(text) < 700_000


def test_a_node_with_a_product_for_each_figure_does_not_flood_the_report():
    def change(measured):
        for number in range(2000):
            key = "{0:04x}:00:00.0".format(number)
            measured.append(figure(PRODUCT, 1.0, key, product="P{0}".format(number)))
            measured.append(figure("compute_f16_teraflops_per_second", 1.0, key, "higher"))

    verdicts = dict(fleet(12), gpu00003=hostile(change))
    report = model.report(verdicts, {})
    assert len(report.comparison.alone) == 2000
    told = [line for dummy, line in table.rows(report) if "too few" in line]
    assert len(told) == model.TOO_FEW_MAX + 1 and told[-1].startswith("and 1980 more")
    assert page.page(report, "t").count("too few") == len(told)


@pytest.mark.parametrize(
    ("index", "named"), [("3", "GPU 3 (0001:03:00.0)"), ("<b>", "0001:03:00.0"), ("9999", "0001:03:00.0")]
)
def test_an_outlier_has_its_unit_and_the_number_of_its_gpu(index, named):
    name = "compute_f16_teraflops_per_second"
    dice = random.Random(3)
    verdicts = {
        "n{0}".format(node): verdict(
            "n{0}".format(node), dice, names=[name], slow=(name, 3, 0.8) if node == 5 else None
        )
        for node in range(12)
    }
    verdicts["n5"]["results"][0]["measured"][3]["labels"]["index"] = index
    (line,) = [line for node in model.report(verdicts, {}).nodes for line in node.lines]
    assert line.thing == "{0} of {1}".format(name, named)
    assert " Tflop/s is " in line.reason and "below the median" in line.reason
    assert "<b>{0}:</b> ".format(line.thing) in page.page(model.report(verdicts, {}), "t")

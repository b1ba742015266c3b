# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is published about a healthy ND96asr_v4 is silent in the checks that measure it; less is told."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import mounts
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import thresholds
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import host_device, linpack, scratch
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.readings import Reading, Readings, judge
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import filesystem_space
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected

FILES = pathlib.Path(__file__).resolve().parents[6] / "roles" / "node_profile" / "files" / "profiles"
PROFILE = yaml.safe_load((FILES / "nd96asr_v4.yml").read_text(encoding="utf-8"))
EXPECTED = Expected("nd96asr_v4", PROFILE, {}, thresholds.merged(LIMITS, PROFILE, {}), {}, {}, 0.0)


def outcomes(judgement):
    return [one.outcome.value for one in judgement.findings]


# Microsoft's article on this machine: bandwidthTest 26.1 and 25.0 GB/s, scratch about 8 GB/s, HPL about 95 TFLOP/s.
@pytest.mark.parametrize(
    "figures, name, published",
    [
        (host_device.FIGURES, host_device.TO, 26.1),
        (host_device.FIGURES, host_device.FROM, 25.0),
        (scratch.FIGURES, scratch.WRITE, 8.0),
        (scratch.FIGURES, scratch.READ, 8.0),
        (linpack.FIGURES, "hpl_gigaflops_per_second", 95000.0),
    ],
)
def test_a_published_figure_is_silent_and_less_is_told(figures, name, published):
    def judged(part):
        reading = Reading("x", "x", ((name, published * part),))
        return outcomes(judge(Readings("x", (reading,)), EXPECTED, figures))

    # A few percent between two healthy nodes are no news.
    assert judged(1.0) == judged(0.95) == []
    assert judged(0.9) == ["warn"] and judged(0.8) == ["fail"]


@pytest.mark.parametrize("gigabytes, told", [(7000, []), (7680, []), (6720, ["warn"])])
def test_a_scratch_of_seven_of_eight_disks_is_told(gigabytes, told):
    seen = filesystem_space.Filesystem("/scratch", mounts.Space(gigabytes * 10**9, 10**12, 10.0, 1.0))
    judgement = filesystem_space.judge_scratch(seen, EXPECTED)
    assert outcomes(judgement) == told
    for finding in judgement.findings:
        assert finding.reason == "it has 6720 GB (limit 6800 GB)" and "gpunode scratch status" in finding.remedy
    unknown = Expected("x", {}, {}, LIMITS, {}, {}, 0.0)
    assert outcomes(filesystem_space.judge_scratch(seen, unknown)) == []

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Utilisation that changes with time, and the activity between two samples (GPM)."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.asking import run

UTILISATION = "n.nvmlDeviceGetUtilizationRates(gpu(0)).gpu"
# Two samples some time apart, and what lies between them.
ACTIVITY = (
    "globals().update(time=__import__('time'), one=n.nvmlGpmSampleAlloc(), two=n.nvmlGpmSampleAlloc(), "
    "get=n.c_nvmlGpmMetricsGet_t())",
    "n.nvmlGpmSampleGet(gpu({gpu}), one) and None",
    "time.sleep({seconds})",
    "n.nvmlGpmSampleGet(gpu({gpu}), two) and None",
    "[setattr(get, name, value) for name, value in "
    "dict(version={version}, numMetrics=4, sample1=one, sample2=two).items()] and None",
    "[setattr(get.metrics[i], 'metricId', i + 1) for i in range(4)] and None",
    "n.nvmlGpmMetricsGet(get) and [(m.metricId, m.nvmlReturn, m.value) for m in get.metrics[0:4]]",
    "n.nvmlGpmSampleFree(one)",
)


def activity(simulator, gpu=0, seconds=0.05, version=1, **environment):
    asked = [line.format(gpu=gpu, seconds=seconds, version=version) for line in ACTIVITY]
    return run(simulator, *asked, **environment)


def test_a_single_number_is_told_each_time(nvml_simulator):
    simulator = nvml_simulator()
    assert run(simulator, UTILISATION) == [0]
    simulator.control("set", "gpu.0.utilization.gpu_percent", "42")
    assert run(simulator, *[UTILISATION] * 3) == [42] * 3


def test_a_list_is_run_through_over_and_over(nvml_simulator):
    simulator = nvml_simulator("nd96asr_v4", "gpu.0.utilization.gpu_percent=0,50,100", "gpu.course.step_ms=40")
    code = "[__import__('time').sleep(0.01) or {0} for _ in range(48)]".format(UTILISATION)
    told = run(simulator, code)[0]
    assert set(told) == {0, 50, 100}
    after = {(one, other) for one, other in zip(told, told[1:]) if one != other}
    assert after == {(0, 50), (50, 100), (100, 0)}


def test_a_gpu_that_works_at_times_has_the_clocks_of_one_that_works(nvml_simulator):
    simulator = nvml_simulator("nd96asr_v4", "gpu.0.utilization.gpu_percent=0,100", "gpu.course.step_ms=40")
    code = "[__import__('time').sleep(0.01) or n.nvmlDeviceGetClockInfo(gpu(0), 0) for _ in range(24)]"
    assert set(run(simulator, code)[0]) == {210, 1410}


def test_between_two_samples_the_mean_is_told(nvml_simulator):
    settings = ["utilization.gpu_percent=20", "gpm.sm_percent=0,100", "gpm.occupancy_percent=7.5", "course.step_ms=20"]
    simulator = nvml_simulator("nd96isr_h100_v5", *("gpu.0." + setting for setting in settings))
    assert run(simulator, "n.nvmlGpmQueryDeviceSupport(gpu(0)).isSupportedDevice") == [1]
    graphics, active, occupied, other = activity(simulator, seconds=0.5)[6]
    assert graphics == [1, 0, pytest.approx(20)] and occupied == [3, 0, pytest.approx(7.5)]
    assert active[:2] == [2, 0] and active[2] == pytest.approx(50, abs=4)
    assert other[:2] == [4, 3]


def test_gpm_begins_with_hopper_and_its_branch(nvml_simulator):
    a100 = nvml_simulator("nd96asr_v4")
    assert run(a100, "n.nvmlGpmQueryDeviceSupport(gpu(0)).isSupportedDevice") == [0]
    assert activity(a100)[1] == "E3"
    old = nvml_simulator("nd96isr_h100_v5", "driver.version=515.105.01")
    assert run(old, "n.nvmlGpmQueryDeviceSupport(gpu(0))") == ["E13"]


def test_wrong_samples_and_versions_are_refused(nvml_simulator):
    simulator = nvml_simulator("nd96isr_h100_v5")
    assert activity(simulator, version=2)[6] == "E25"
    simulator.control("fault", "gpu", "3", "lost")
    assert activity(simulator, gpu=3)[1] == "E15"
    assert activity(simulator, gpu=3)[6] == "E2"  # samples of nothing

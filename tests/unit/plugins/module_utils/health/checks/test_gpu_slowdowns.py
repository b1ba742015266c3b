# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judges of GPUs without a GPU: MIG, slowdowns that last, and storms of link errors."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import baseline
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import gpu_common, gpu_nvlink, gpu_pcie
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Origin, worst
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.gpus_judged import (
    HEALTHY,
    PROFILE,
    check_of,
    codes,
    expected,
    gpu,
    machine,
    mig,
    nvlinks,
    pcie,
)


def test_nvlinks_of_gpus_in_mig_mode_are_not_applicable():
    node = machine(*(gpu(at, nvlink=nvlinks(0), settings=mig(True)) for at in range(2)))
    judgement = gpu_nvlink.judge(node, expected(PROFILE))
    assert judgement.not_applicable == "all GPUs here are in MIG mode, in which NVML tells NVLinks as down"
    assert judgement.findings == ()
    assert gpu_nvlink.judge(node, expected()).not_applicable


def test_a_gpu_in_mig_mode_does_not_hide_the_links_of_another():
    node = machine(
        gpu(0, nvlink=nvlinks(0), settings=mig(True)),
        gpu(1, nvlink=nvlinks(11), settings=mig(False)),
        gpu(2, nvlink=nvlinks(12), settings=mig(False)),
    )
    judgement = gpu_nvlink.judge(node, expected(PROFILE))
    assert codes(judgement) == [("links", "fail", "1")]
    assert "1 in MIG mode are left out" in judgement.seen
    assert [one.key[6:7] for one in judgement.measured if one.name == "gpu_nvlink_active_links"] == ["1", "2"]


def test_links_that_are_down_are_unknown_where_the_mig_mode_is():
    lost = gpu(0, failed=["settings.mig_current"], nvlink=nvlinks(0))
    assert codes(gpu_nvlink.judge(machine(lost), expected(PROFILE))) == [("unread", "unknown", "0")]
    up = gpu(0, failed=["settings.mig_current"], nvlink=nvlinks(12))
    assert codes(gpu_nvlink.judge(machine(up), expected(PROFILE))) == []


# Slowdowns that last -----------------------------------------------------------------------------------------------

HEAT, BRAKE = "hardware_thermal_slowdown", "hardware_power_brake_slowdown"


def slowed(held, heat=None, brake=None):
    return dataclasses.replace(
        HEALTHY["clocks"],
        event_reasons=held,
        hardware_thermal_slowdown_seconds=heat,
        hardware_power_brake_slowdown_seconds=brake,
    )


@pytest.mark.parametrize(
    ("clocks", "origins", "told"),
    [
        # The driver does not count: one look is one.
        (slowed((HEAT,)), {}, [(HEAT, "warn", "0")]),
        (slowed(("hardware_slowdown",)), {}, [("hardware_slowdown", "warn", "0")]),
        # It counts, and there is nothing to compare with: since the driver was loaded, maybe months ago.
        (slowed((HEAT,), heat=1.0), {}, [(HEAT, "warn", "0")]),
        (slowed((HEAT,), heat=360.0), {}, [(HEAT, "warn", "0")]),
        (slowed((HEAT,), heat=361.0), {}, [(HEAT, "warn", "0")]),
        (slowed((HEAT, BRAKE), heat=361.0, brake=1.0), {HEAT: 0.0}, [(HEAT, "warn", "0"), (BRAKE, "warn", "0")]),
        # Within a day.
        (slowed((HEAT,), heat=5000.0), {HEAT: 4990.0}, [(HEAT, "warn", "0")]),
        (slowed((BRAKE,), brake=5000.0), {BRAKE: 4000.0}, [(BRAKE, "warn", "0")]),
        # Most of ten hours.
        (slowed((BRAKE,), brake=25600.0), {BRAKE: 4000.0}, [(BRAKE, "warn", "0")]),
        (slowed((BRAKE,), brake=25601.0), {BRAKE: 4000.0}, [(BRAKE, "fail", "0")]),
        # Not now.
        (slowed((), heat=5000.0), {}, []),
        (slowed((), heat=5000.0), {HEAT: 4990.0}, []),
        (slowed((), heat=5000.0), {HEAT: 4000.0}, [(HEAT + "_before", "warn", "0")]),
        (slowed(("gpu_idle",), brake=5000.0), {BRAKE: 4000.0}, [(BRAKE + "_before", "warn", "0")]),
    ],
)
def test_a_slowdown_fails_when_it_lasts(clocks, origins, told):
    seen = {("gpu_{0}_seconds".format(name), "0000:00:00.0"): Origin(value, 10.0) for name, value in origins.items()}
    judgement = check_of("gpu_slowdown").judge(machine(gpu(0, clocks=clocks)), expected(origins=seen))
    assert codes(judgement) == told


def looks(check, nodes, seconds):
    """The judgements of one look after another, each with what the ones before it left in the baseline."""
    points, now, told = {}, 1790000000.0, []
    for node in nodes:
        known = dataclasses.replace(expected(), origins=baseline.origins(points, now), now=now)
        told.append(check(node, known))
        points = baseline.updated(points, told[-1].measured, now)
        now += seconds
    return told


def outcomes(judgements):
    return [worst(tuple(found.outcome for found in one.findings)).value for one in judgements]


@pytest.mark.parametrize(
    ("seconds", "held", "told"),
    [
        (300, "x", "w"),
        (300, "xx", "ww"),
        (300, "xxx", "wwf"),
        (300, "xxxxx.x", "wwfff.w"),
        (300, "x.xx.xx.xx", "w.ww.ww.ww"),
        (60, "xxxxxxxx", "wwwwwwff"),
        (1, "xxxxxxxx", "wwwwwwww"),
        (900, "xxx", "wff"),
        (3600, "xxxxxxxx", "wwwwwwww"),  # nothing is known of the hours between
    ],
)
@pytest.mark.parametrize(
    ("name", "counts"), [("hardware_slowdown", (None, None)), ("hardware_slowdown", (7.0, 7.0)), (HEAT, (None, 0.0))]
)
def test_what_the_driver_does_not_count_fails_when_look_after_look_sees_it(name, counts, seconds, held, told):
    nodes = [machine(gpu(0, clocks=slowed((name,) if one == "x" else (), *counts))) for one in held]
    words = {"w": "warn", "f": "fail", ".": "pass"}
    assert outcomes(looks(check_of("gpu_slowdown").judge, nodes, seconds)) == [words[one] for one in told]


@pytest.mark.parametrize(
    ("times", "told"),
    [
        # 200 of 300 seconds, and half of them.
        ([0, 200, 400, 600, 800], ["warn", "warn", "fail", "fail", "fail"]),
        ([0, 150, 300, 450, 600], ["warn"] * 5),
        # After ten hours without.
        ([0] * 120 + [300, 600, 900], ["warn"] * 121 + ["fail", "fail"]),
        # The day has had more than six minutes, and the last ten have not.
        ([0, 300, 600, 900] + [900] * 12, ["warn", "warn", "fail", "fail"] + ["warn"] * 12),
    ],
)
def test_what_the_driver_counts_fails_when_it_is_most_of_ten_minutes(times, told):
    nodes = [machine(gpu(0, clocks=slowed((HEAT,), heat=float(time), brake=0.0))) for time in times]
    judgements = looks(check_of("gpu_slowdown").judge, nodes, 300)
    assert outcomes(judgements) == told
    assert "within 5 min" in judgements[1].findings[0].reason
    assert "within 10 min" in judgements[-1].findings[0].reason


# Storms, and links that do not always tell --------------------------------------------------------------------------


def crc(*counts, **more):
    links = tuple(
        dataclasses.replace(link, crc_errors=count) for link, count in zip(nvlinks(len(counts)).links, counts)
    )
    return gpu(0, nvlink=types.NvLinks(len(counts), len(counts), links), **more)


def test_a_storm_fails_while_it_lasts_however_long_it_was_quiet():
    totals = [0] * 276 + [1500000 * one for one in range(1, 5)] + [6000000] * 3  # 23 hours; 5000 a second
    judgements = looks(gpu_nvlink.judge, [machine(crc(total, 0)) for total in totals], 300)
    assert outcomes(judgements) == ["pass"] * 276 + ["fail"] * 4 + ["warn"] * 3
    assert "had 1500000 CRC errors within 5 min" in judgements[276].findings[0].reason
    assert "had 6000000 CRC errors within 24 h" in judgements[-1].findings[0].reason
    replays = [0] * 276 + [100, 200, 200]  # 20 a minute
    judgements = looks(gpu_pcie.judge, [machine(gpu(0, pcie=pcie(replays=total))) for total in replays], 300)
    assert outcomes(judgements) == ["pass"] * 276 + ["warn", "warn", "pass"]


def test_a_link_that_was_silent_in_a_look_brings_no_growth():
    past = 9000000
    assert outcomes(looks(gpu_nvlink.judge, [machine(crc(0, None)), machine(crc(0, past))], 300)) == ["pass", "pass"]
    # What the others had meanwhile is told, once all tell again.
    told = [machine(crc(0, past)), machine(crc(0, None)), machine(crc(0, past)), machine(crc(1, past))]
    assert outcomes(looks(gpu_nvlink.judge, told, 300)) == ["pass", "pass", "pass", "warn"]


@pytest.mark.parametrize(
    "counter",
    # DCGM 4.6.0, MonitorNVLink5Fields.
    [
        "malformed",
        "buffer_overruns",
        "receive_errors",
        "remote_errors",
        "general_errors",
        "integrity_errors",
        "effective_errors",
        "symbol_errors",
    ],
)
def test_every_packet_error_of_nvlink_5_is_told(counter):
    none = types.NvLinkPackets(*[0] * 13)
    links = [
        dataclasses.replace(nvlinks(1, 1).links[0], packets=packets)
        for packets in (none, dataclasses.replace(none, **{counter: 1}))
    ]
    nodes = [machine(gpu(0, nvlink=types.NvLinks(1, 1, (link,)))) for link in links]
    assert codes(looks(gpu_nvlink.judge, nodes, 300)[1]) == [("packet_errors", "warn", "0")]


def test_errors_of_nvlinks_count_in_mig_mode_too():
    beside = gpu(1, nvlink=nvlinks(2, 2), settings=mig(False))
    nodes = [machine(crc(total, 0, settings=mig(True)), beside) for total in (0, 1)]
    assert codes(looks(gpu_nvlink.judge, nodes, 300)[1]) == [("crc_errors", "warn", "0")]


@pytest.mark.parametrize(
    ("generation", "lanes", "limit"), [(None, None, 8), (0, 0, 8), (5, None, 31), (None, 8, 4), (None, 16, 8)]
)
def test_replays_of_a_link_that_does_not_tell_what_it_is(generation, lanes, limit):
    link = types.Pcie(None, None, None, generation, None, lanes, None, 0)
    nodes = [
        machine(gpu(0, pcie=dataclasses.replace(link, replay_count=count))) for count in (0, 10 * limit, 20 * limit + 1)
    ]
    assert outcomes(looks(gpu_pcie.judge, nodes, 600)) == ["pass", "pass", "warn"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (86400, "24 h"), (604800, "7 days")],
)
def test_times_are_in_a_unit_that_fits(seconds, words):
    assert gpu_common.lasted(seconds) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (9e6, "9000000"), (20000000.0, "20000000"), (0.5, "0.5"), (1234567.5, "1234568")]
)
def test_numbers_are_in_digits(value, words):
    assert gpu_common.digits(value) == words

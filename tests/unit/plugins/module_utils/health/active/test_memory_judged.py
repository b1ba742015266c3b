# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the memory test says of a GPU: wrong data, memory that was not covered, and the rate of its memory."""

from __future__ import annotations

import dataclasses
import os
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import apart, memory_on_gpu, memory_test
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.readings import Reading, Readings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import Entry, Fault
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    Cost,
    Expected,
    Machine,
    Outcome,
    Threshold,
)

H100, V100 = "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB"
WELL = memory_on_gpu.Tested(
    85_000_000_000, 84_500_000_000, 84_100_000_000, 84_100_000_000, 66, gigabytes_per_second=3080.0
)


def judged(*tested, kind=H100, settings=None, **limits):
    readings = tuple(
        Reading(
            "GPU {0}".format(number),
            "gpu{0}".format(number),
            () if one.gigabytes_per_second is None else ((memory_test.FIGURE, one.gigabytes_per_second),),
            kind=kind,
        )
        for number, one in enumerate(tested)
    )
    seen = memory_test.Seen(
        Readings("", readings), tuple((reading.thing, reading.key, one) for reading, one in zip(readings, tested))
    )
    declared = {} if settings is None else {"gpu_settings": settings}
    expected = Expected("p", {}, declared, {**LIMITS, **limits}, {}, {}, 0.0)
    return memory_test.judge(seen, expected)


def told(judgement):
    return [(one.outcome.value, one.code, one.key, one.action.value) for one in judgement.findings]


def at(rate):
    return dataclasses.replace(WELL, gigabytes_per_second=rate)


def test_healthy_gpus_give_no_finding_and_report_what_was_covered():
    judgement = judged(
        *[WELL] * 7, dataclasses.replace(WELL, both_ways_bytes=83_900_000_000, memory_bytes=83_900_000_000)
    )
    assert told(judgement) == []
    assert judgement.seen == (
        "every bit of 83.9 GB (98.7 % of all memory) of each of 8 GPUs read as 0 and as 1, 66 patterns, "
        "memory reads 3080 to 3080 GB/s"
    )
    assert {(one.name, one.key, one.value, one.better) for one in judgement.measured} == {
        (memory_test.FIGURE, "gpu{0}".format(number), 3080.0, "higher") for number in range(8)
    }


def test_one_wrong_read_condemns_the_gpu_and_names_the_place():
    wrong = dataclasses.replace(WELL, wrong=1, where="byte 0x2a3f1 bit 3 reads 1")
    judgement = judged(WELL, wrong, WELL)
    assert told(judgement) == [("fail", "memory_mismatch", "gpu1", "replace")]
    (finding,) = judgement.findings
    assert finding.certainty.value == "certain"
    assert finding.reason == "1 reads of its memory returned wrong data (byte 0x2a3f1 bit 3 reads 1)"


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"both_ways_bytes": 0}, "not_covered", "only 0% of its memory was read back as 0 and as 1 in the time"),
        ({"both_ways_bytes": 84_099_999_999}, "not_covered", "only 100% of its memory was read back"),
        (
            {"memory_bytes": 42_250_000_000, "both_ways_bytes": 42_250_000_000},
            "memory_not_allocated",
            "only 50% of its free memory",
        ),
    ],
)
def test_memory_that_was_not_covered_is_unknown(change, code, words):
    """For the gate, only ``not_covered`` is a lack of time, which lets the other checks of the verdict count."""
    judgement = judged(WELL, dataclasses.replace(WELL, **change))
    assert told(judgement) == [("unknown", code, "gpu1", "configure")] and words in judgement.findings[0].reason
    faults = tuple(Fault("gpu_memory_test", one.code, one.action.value) for one in judgement.findings)
    entry = Entry(0.0, Cost.ACTIVE, Outcome.UNKNOWN, faults=faults, passed=("gpu_compute",))
    assert entry.proves == (code == "not_covered")


def test_memory_that_is_not_free_is_no_gap_in_the_coverage():
    """The driver of a GPU with a display, or with less room for the driver, holds more."""
    assert told(judged(dataclasses.replace(WELL, total_bytes=100_000_000_000))) == []


@pytest.mark.parametrize(
    ("rates", "findings"),
    [
        ([3080.0] * 4, []),
        ([3080.0, 3080.0, 3080.0, 2800.0], []),  # 91 % of the others
        ([3080.0, 3080.0, 3080.0, 2740.0], [("warn", "low_gpu_memory", "gpu3", "look")]),
        ([2600.0] * 4, []),
        ([2570.0] * 4, [("warn", "low_gpu_memory", "gpu{0}".format(number), "watch") for number in range(4)]),
        ([1800.0] * 2, [("fail", "low_gpu_memory", "gpu{0}".format(number), "look") for number in range(2)]),
    ],
)
def test_a_rate_is_held_against_the_product_and_the_other_gpus(rates, findings):
    assert told(judged(*[at(rate) for rate in rates])) == findings


def test_an_unproven_limit_never_fails_and_a_limit_of_the_profile_takes_precedence():
    assert told(judged(at(100.0), kind=V100)) == [("warn", "low_gpu_memory", "gpu0", "watch")]
    limit = {memory_test.FIGURE: Threshold("higher", None, 90.0, "the profile")}
    assert told(judged(at(100.0), kind=V100, **limit)) == []
    assert told(judged(at(100.0), kind="NVIDIA GeForce RTX 4090")) == []


@pytest.mark.parametrize(
    ("settings", "outcome"),
    [
        ({"clocks": {"memory_mhz": 1593}}, "warn"),
        ({"power_limit_watts": 350}, "warn"),
        ({"clocks": "max", "overrides": [{"gpu": "0", "clocks": {"graphics_mhz": 900}}]}, "warn"),
        ({"clocks": "max", "power_limit_watts": "max", "overrides": [{"gpu": "0", "ecc": True}]}, "fail"),
        ({"persistence": True}, "fail"),
        (None, "fail"),
    ],
)
def test_the_limit_of_a_product_fails_no_gpu_whose_clocks_or_power_are_limited_as_declared(settings, outcome):
    assert told(judged(at(1800.0), settings=settings))[0][:2] == (outcome, "low_gpu_memory")
    limit = {memory_test.FIGURE: Threshold("higher", None, 1900.0, "the profile")}
    assert told(judged(at(1800.0), settings=settings, **limit))[0][0] == "fail"


def test_a_gpu_that_was_compared_on_the_host_has_no_rate_and_the_reason_is_reported():
    by_host = dataclasses.replace(WELL, gigabytes_per_second=None, by_host="the driver does not accept the PTX")
    judgement = judged(by_host)
    assert told(judgement) == [] and judgement.measured == ()
    assert judgement.seen.endswith("compared on the host, and no rate measured: the driver does not accept the PTX")


def test_the_span_covers_a_round_and_the_setting():
    machine = Machine(gpus=8, memory_bytes=85_000_000_000)
    assert memory_test.span(Machine()) is None
    assert memory_test.span(machine).least < memory_test.span(machine).usual == 7.0
    assert memory_test.span(Machine(gpus=1, settings={"memory_test_seconds": 60})).usual == 63.0


# Processes that do not end -----------------------------------------------------------------------------


def test_a_process_that_does_not_end_is_reported_with_what_it_did():
    def hangs():
        apart.doing("compare pattern 3 of 6", 0.5)
        time.sleep(60)

    answers = apart.side_by_side([apart.Task("GPU 3", hangs), apart.Task("GPU 4", lambda: 4)], 60.0)
    with pytest.raises(
        NodeError, match="^GPU 3: it did not end in time: compare pattern 3 of 6; look at the kernel log"
    ):
        answers[0]()
    assert answers[1]() == 4


def test_a_process_that_dies_is_reported_with_what_it_did():
    def dies():
        apart.doing("create a CUDA context", 5.0)
        os._exit(3)

    with pytest.raises(NodeError, match=r"^GPU 3: the process that measured it died \(create a CUDA context\)"):
        apart.measure("GPU 3", 60.0, dies, None, ())


def test_memory_that_nobody_seems_to_hold_is_told():
    """What a dead process left is not free, so it is not tested, and no job gets it."""
    held = dataclasses.replace(
        WELL, free_bytes=40_000_000_000, memory_bytes=39_800_000_000, both_ways_bytes=39_800_000_000
    )
    judgement = judged(WELL, held)
    assert told(judgement) == [("warn", "memory_held", "gpu1", "look")]
    assert "only 47% of its memory is free, and no process computes on it" in judgement.findings[0].reason

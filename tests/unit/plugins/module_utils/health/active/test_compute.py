# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arithmetic check: which SM and which GPU computes wrong or slowly, and which one does not."""

from __future__ import annotations

import dataclasses
import pickle
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import (
    compute,
    compute_on_gpu,
    equality,
    under_load,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.cuda import CudaError, PtxRefused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.ptx.arithmetic import KINDS, WARPS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.readings import Readings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected, Machine

F16, BF16, INT8, FP8, F32, F64, INT32 = KINDS
RIGHT, WRONG = bytes(range(128)), bytes(range(1, 129))
H100 = "NVIDIA H100 80GB HBM3"


def expected(**thresholds):
    return Expected("p", {}, {}, dict(LIMITS, **thresholds), {}, {}, 0.0)


def told(judgement):
    return [(one.outcome.value, one.code, one.key, one.action.value) for one in judgement.findings]


def launch_of(odd=(), result=RIGHT, multiprocessors=132, warps=WARPS):
    """(sums, SM of each warp) of a launch: the last warp of each odd SM has its own result."""
    sums, where = [], []
    for sm in range(multiprocessors):
        sums += [result] * (warps - 1) + [bytes(reversed(result)) if sm in odd else result]
        where += [sm] * warps
    return b"".join(sums), where


# Equal results ----------------------------------------------------------------------------------------


@given(some.integers(3, 40), some.sets(some.integers(0, 39)), some.integers(1, 4), some.randoms())
def test_the_sms_that_differ_are_named_in_any_order_of_warps(multiprocessors, odd, warps, order):
    odd = {sm for sm in odd if sm < multiprocessors}
    sums, where = launch_of(odd, multiprocessors=multiprocessors, warps=warps)
    pairs = [(sums[128 * n : 128 * n + 128], sm) for n, sm in enumerate(where)]
    order.shuffle(pairs)
    split = equality.split(b"".join(line for line, dummy in pairs), [sm for dummy, sm in pairs])
    wrong = len(odd)
    if 2 * wrong < len(where):
        assert split == equality.Split(RIGHT, tuple(sorted(odd)))
    elif 2 * wrong == len(where):
        assert split == equality.Split(None)


def test_without_a_majority_no_sm_is_named():
    lines = [bytes([n]) * 128 for n in range(8)]
    assert equality.split(b"".join(lines), range(8)) == equality.Split(None)
    assert equality.split(RIGHT + WRONG, [0, 1]) == equality.Split(None)


def test_the_comparison_of_a_healthy_launch_is_cheap():
    sums, where = launch_of()
    begun = time.process_time()
    for _launch in range(100):
        equality.split(sums, where)
    assert time.process_time() - begun < 0.5  # 30 ms of GPU time each; a loop over lanes needs 100 times this


@pytest.mark.parametrize(
    ("results", "odd"),
    [
        ({}, ()),
        ({"a": RIGHT}, ()),
        ({"a": RIGHT, "b": RIGHT}, ()),
        ({"a": RIGHT, "b": WRONG}, None),
        ({"a": RIGHT, "b": RIGHT, "c": WRONG}, None),
        ({"a": RIGHT, "b": RIGHT, "c": WRONG, "d": RIGHT}, ("c",)),
        ({**{str(n): RIGHT for n in range(6)}, "6": WRONG, "7": bytes(128)}, ("6", "7")),
        ({**{str(n): RIGHT for n in range(4)}, **{str(n): WRONG for n in range(4, 8)}}, None),
    ],
)
def test_a_gpu_is_named_by_a_majority_of_three_or_more(results, odd):
    assert equality.odd_gpus(results) == odd


# Equal times ------------------------------------------------------------------------------------------


def times_of(slow=(), spread=0.011, seed=1, base=30e6):
    """(SM, nanoseconds) of each warp: a healthy H100 spreads by up to 1.1 %."""
    source = random.Random(seed)
    where = [sm for sm in range(132) for dummy in range(WARPS)]
    times = {sm: base * (1 + spread * source.random()) * dict(slow).get(sm, 1) for sm in range(132)}
    return where, [int(times[sm] * (1 - 0.2 * source.random() * (n % WARPS > 0))) for n, sm in enumerate(where)]


@given(some.integers(0, 2**32))
def test_healthy_sms_are_not_slow(seed):
    launches = [equality.relative_times(*times_of(seed=seed + n, base=30e6 / (1 + n % 3))) for n in range(3)]
    times = equality.usual_times(launches)
    assert len(times) == 132 and 0.98 < min(times.values()) and max(times.values()) < 1.02


def test_a_slow_sm_is_found_whatever_the_clocks_do():
    launches = [
        equality.relative_times(*times_of(((17, 1.2),), seed=n, base=base)) for n, base in enumerate((30e6, 45e6, 31e6))
    ]
    times = equality.usual_times(launches)
    assert max(times, key=times.get) == 17 and 1.15 < times[17] < 1.25


def test_one_disturbed_launch_makes_no_sm_slow():
    slow = [((17, 3.0),), (), (), (), ()]
    times = equality.usual_times([equality.relative_times(*times_of(one, seed=n)) for n, one in enumerate(slow)])
    assert max(times.values()) < 1.02


def test_unequal_work_and_a_clock_without_time_are_not_compared():
    where, times = times_of()
    assert equality.relative_times([*where, 3], [*times, 60_000_000]) == {}
    assert equality.relative_times(where, [0] * len(where)) == {}
    assert equality.relative_times([], []) == {}
    once = [{1: 1.0, 2: 9.0}, {1: 1.0}, {1: 1.0}]
    assert equality.usual_times(once) == {1: 1.0}


# Launches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounds", "seconds", "wanted", "planned"),
    [
        (4096, 0.001, 0.03, 122880),
        (4096, 0.06, 0.03, 2048),
        (4096, 1e-9, 0.03, 2**26),
        (4096, 1000.0, 0.03, 1),
    ],
)
def test_the_rounds_of_a_launch_are_bounded(rounds, seconds, wanted, planned):
    assert compute_on_gpu.rounds_for(rounds, seconds, wanted) == planned


def taken(*launches):
    tally = compute_on_gpu.Tally()
    for rounds, odd, result in launches:
        sums, where = launch_of(odd, result, multiprocessors=8)
        tally.take(compute_on_gpu.Launch(0.03, sums, where, [1] * len(where)), rounds)
    return tally


def test_launches_are_compared_with_the_first_one_of_as_many_rounds():
    tally = taken((256, (), RIGHT), (4096, (), WRONG), (4096, (3,), WRONG), (4096, (), WRONG), (256, (), RIGHT))
    assert (tally.launches, dict(tally.wrong), tally.undecided, tally.changed) == (5, {3: 1}, 0, 0)
    assert taken((256, (), RIGHT), (256, (), WRONG)).changed == 1
    tally = taken((256, (), RIGHT))
    launch = compute_on_gpu.Launch(0.03, RIGHT + WRONG, [0, 1], [1, 1])
    assert tally.take(launch, 256) is None and tally.undecided == 1


# Judgement --------------------------------------------------------------------------------------------


def done_of(kind=F16, rate=545.0, **more):
    return compute_on_gpu.Done(kind, rate, 20, RIGHT, times={sm: 1 + 0.0001 * (sm % 60) for sm in range(132)}, **more)


def seen_of(*gpus, product=H100, loads=()):
    """Each GPU is a list of kinds."""
    answers = [compute_on_gpu.Answer(tuple(gpu)) if isinstance(gpu, (list, tuple)) else gpu for gpu in gpus]
    readings, computed = [], []
    for number, answer in enumerate(answers):
        thing, key = "GPU {0}".format(number), "gpu{0}".format(number)
        readings.append(compute.reading_of(thing, key, product, answer))
        computed.append(compute.Computed(thing, key, product, answer.done))
    return compute.Seen(Readings("all at once", tuple(readings)), tuple(computed), loads)


def judged(*gpus, **more):
    return compute.judge(seen_of(*gpus, **more), expected())


def test_a_healthy_node_is_silent_and_has_its_figures():
    judgement = judged(*[[done_of(), done_of(F32, 60.0)]] * 8)
    assert judgement.findings == () and "all at once" in judgement.seen
    figures = {(one.name, one.key): one.value for one in judgement.measured}
    assert figures[F16.figure, "gpu3"] == 545.0 and figures[F32.figure, "gpu7"] == 60.0
    assert figures[compute.SLOWEST, "gpu0"] == pytest.approx(0.59)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"wrong": ((17, 20),)}, "SM 17 differs from the majority in 20 of 20 launches"),
        ({"wrong": ((3, 1), (17, 2))}, "SM 3 differs from the majority in 1, SM 17 differs from the majority in 2 of"),
        ({"undecided": 2}, "the SMs differ in 2 of 20 launches, and no majority shows which ones are wrong"),
        ({"changed": 1}, "1 of 20 launches differ from the first one"),
    ],
)
def test_a_wrong_result_fails_the_gpu_and_names_kind_and_sm(kind, more, reason):
    rate = 1e5
    judgement = judged(*[[done_of(kind, rate)]] * 3, [done_of(kind, rate, **more)])
    assert told(judgement) == [("fail", "wrong_result", "gpu3", "replace")]
    (finding,) = judgement.findings
    assert finding.reason.startswith("it computes wrong: {0}: {1}".format(kind.title, reason))
    assert finding.certainty.value == "certain"


def test_a_gpu_that_differs_from_its_siblings_fails():
    odd = dataclasses.replace(done_of(), result=WRONG)
    assert told(judged(*[[done_of()]] * 7, [odd])) == [("fail", "wrong_result", "gpu7", "replace")]
    assert told(judged([done_of()], [odd])) == [("unknown", "different_results", "", "look")]
    # Another product may round in another way.
    one, other = seen_of(*[[done_of()]] * 4), seen_of([odd], product="NVIDIA H200")
    both = compute.Seen(
        Readings("", one.readings.readings + other.readings.readings),
        (*one.computed, *(dataclasses.replace(each, key="other") for each in other.computed)),
    )
    assert told(compute.judge(both, expected())) == []


def slow_of(percent):
    return dataclasses.replace(done_of(), times={**{sm: 1.0 for sm in range(131)}, 131: 1 + percent / 100})


def test_a_slow_sm_is_a_warning():
    judgement = judged([done_of()], [slow_of(30)])
    assert told(judgement) == [("warn", "slow_multiprocessor", "gpu1", "look")]
    assert "SM 131 takes 30 % longer than the median (FP16 tensor cores)" in judgement.findings[0].reason
    assert told(judged([slow_of(9.9)])) == []


def test_a_slow_sm_explains_that_its_gpu_is_slow_and_no_failure():
    slow = dataclasses.replace(slow_of(30), rate=545 / 1.3)
    assert told(judged(*[[done_of()]] * 7, [slow])) == [("warn", "slow_multiprocessor", "gpu7", "look")]
    failed = dataclasses.replace(slow, rate=100.0)
    codes = [one[:2] for one in told(judged(*[[done_of()]] * 7, [failed]))]
    assert codes == [("warn", "slow_multiprocessor"), ("fail", "low_compute_f16")]


def test_a_slow_sm_does_not_explain_that_its_gpu_is_slow_in_another_kind():
    slow = dataclasses.replace(slow_of(12), kind=F32, rate=60.0 / 1.12)
    codes = [one[:2] for one in told(judged([done_of(rate=300.0), slow]))]
    assert codes == [("warn", "slow_multiprocessor"), ("warn", "low_compute_f16")]


@pytest.mark.parametrize(
    ("product", "kind", "warn", "fail"),
    [
        (H100, F16, 331.5, 221),
        (H100, F64, 14.775, 9.85),
        ("NVIDIA H200", BF16, 271.2, None),
        ("Tesla V100-SXM2-32GB", F16, 62.4, None),
        ("NVIDIA A100-SXM4-80GB", BF16, 156, None),
        ("NVIDIA A100 80GB PCIe", F64, 3.88, None),
        ("NVIDIA A100-SXM4-40GB", INT8, 312, None),
        ("NVIDIA B200", F32, 30, None),
    ],
)
def test_a_node_with_equally_slow_gpus_is_reported(product, kind, warn, fail):
    def of(rate):
        return told(judged(*[[done_of(kind, rate)]] * 8, product=product))

    code = "low_compute_" + kind.name
    assert of(warn * 1.01) == []
    assert of(warn * 0.98) == [("warn", code, "gpu{0}".format(n), "watch") for n in range(8)]
    if fail is not None:
        assert of(fail * 0.98) == [("fail", code, "gpu{0}".format(n), "look") for n in range(8)]
    else:
        assert {one[0] for one in of(warn * 0.01)} == {"warn"}


def test_a_slow_gpu_among_siblings_is_a_warning():
    assert told(judged(*[[done_of()]] * 7, [done_of(rate=500.0)])) == [("warn", "low_compute_f16", "gpu7", "look")]
    assert told(judged(*[[done_of()]] * 7, [done_of(rate=510.0)])) == []


@pytest.mark.parametrize(("product", "kind"), [("NVIDIA GeForce RTX 4090", F64), ("NVIDIA B200", F16), (H100, FP8)])
def test_rates_that_nobody_published_have_no_limit(product, kind):
    assert told(judged([done_of(kind, 0.1)], product=product)) == []


# Faults -----------------------------------------------------------------------------------------------


def test_a_driver_that_refuses_one_kernel_covers_the_others():
    refused = compute_on_gpu.Done(FP8, refused=PtxRefused("cuModuleLoadDataEx", 222, "Unsupported .version 8.4"))
    judgement = judged(*[[done_of(), refused]] * 4)
    assert judgement.findings == ()
    assert "not covered: FP8 tensor cores on 4 GPUs (the driver does not accept the PTX" in judgement.seen
    assert "Unsupported .version 8.4" in judgement.seen


def test_sms_that_ran_no_block_are_not_covered():
    judgement = judged([done_of()], [done_of(), done_of(F32, 60.0, idle=2)])
    assert told(judgement) == [("warn", "multiprocessors_not_covered", "gpu1", "look")]
    assert judgement.findings[0].reason == "2 SMs ran nothing, so they are not tested"
    assert told(judged([done_of()], [done_of(), done_of(F32, 60.0)])) == []
    tally = taken((256, (), RIGHT), (256, (), RIGHT))
    assert tally.seen == set(range(8))


def test_a_driver_that_refuses_all_kernels_is_unknown_with_a_remedy():
    refused = [compute_on_gpu.Done(kind, refused=PtxRefused("cuModuleLoadDataEx", 222)) for kind in KINDS]
    judgement = judged(refused)
    assert told(judgement) == [("unknown", "", "gpu0", "look")]
    assert "newer NVIDIA driver" in judgement.findings[0].remedy


def test_a_fault_names_the_gpu_and_the_kind_and_keeps_the_figures_of_others():
    lost = compute_on_gpu.Answer((done_of(),), F32, CudaError("cuStreamSynchronize", 719))
    judgement = judged([done_of(), done_of(F32, 60.0)], lost)
    assert told(judgement) == [("fail", "cuda_719", "gpu1", "reset_gpu")]
    assert judgement.findings[0].reason.startswith("FP32: ")
    assert {one.key for one in judgement.measured if one.name == F16.figure} == {"gpu0", "gpu1"}
    silent = compute_on_gpu.Answer(
        (), F16, NodeError("CUDA", "a kernel ended without an error and wrote no result", "x")
    )
    assert told(judged(silent)) == [("unknown", "", "gpu0", "look")]


def test_an_answer_crosses_the_process_boundary():
    refused = compute_on_gpu.Done(FP8, refused=PtxRefused("cuModuleLoadDataEx", 222, "why"))
    answer = compute_on_gpu.Answer((done_of(), refused), F32, CudaError("cuStreamSynchronize", 700))
    back = pickle.loads(pickle.dumps(answer))
    assert back.done[0] == answer.done[0] and back.done[1].refused.log == "why"
    assert (back.error.code, back.error.fault) == ("cuda_700", "reset_gpu")


def test_the_expected_time_of_a_machine():
    assert compute.span(Machine()) is None
    assert compute.span(Machine(gpus=8)).usual == compute.span(Machine(gpus=1)).usual == 13.0
    assert compute.span(Machine(gpus=8, settings={"compute_seconds": 1})).least == 4.0


# Under load -------------------------------------------------------------------------------------------


def load_of(*reasons, clock=1410):
    samples = tuple(under_load.Sample(clock, 390.0 + n, 60 + n, one) for n, one in enumerate(reasons))
    return under_load.Load("GPU 1", "gpu1", samples)


@pytest.mark.parametrize(
    ("reasons", "findings"),
    [
        ([("software_power_cap",)] * 8, []),
        ([("hardware_slowdown", "hardware_thermal_slowdown")] * 8, [("fail", "hardware_thermal_slowdown", "replace")]),
        ([("hardware_power_brake_slowdown",)] + [()] * 7, [("warn", "hardware_power_brake_slowdown", "watch")]),
        ([("hardware_slowdown",)] * 3, [("warn", "hardware_slowdown", "watch")]),
        ([("software_thermal_slowdown",)] * 5, [("warn", "software_thermal_slowdown", "look")]),
        # A healthy H100 of 76 °C at its power limit, as measured.
        ([("software_power_cap",)] * 9 + [("software_power_cap", "software_thermal_slowdown")], []),
        ([("software_thermal_slowdown",)] * 2 + [()] * 8, [("warn", "software_thermal_slowdown", "watch")]),
        ([("software_thermal_slowdown",)] * 2 + [()] * 9, []),
        ([("hardware_thermal_slowdown",)] + [()] * 9, [("warn", "hardware_thermal_slowdown", "watch")]),
        ([], []),
    ],
)
def test_why_the_clocks_are_not_higher_under_load(reasons, findings):
    seen = compute.Seen(Readings("x"), (), (load_of(*reasons),))
    assert told(compute.judge(seen, expected())) == [
        (outcome, "under_load_" + code, "gpu1", action) for outcome, code, action in findings
    ]


BRAKE = "hardware_power_brake_slowdown"


@pytest.mark.parametrize(
    ("looks", "outcome"),
    [
        # Half of the time is FP16 and BF16 at 650 W; the brake halves the clocks, and with them the power.
        ([(650, "")] * 2 + [(350, BRAKE)] * 3 + [(400, "")] * 5, "fail"),
        ([(350, BRAKE)] * 3 + [(650, "")] * 5, "warn"),  # most looks at high power are without it
        ([(650, "")] * 2 + [(350, BRAKE)] * 2 + [(400, "")] * 6, "warn"),
        (
            [(650, "")] * 2 + [(350, "hardware_slowdown")] * 3 + [(400, "")] * 5,
            "warn",
        ),  # also reported at clock changes
        ([(None, BRAKE)] * 3 + [(None, "")] * 5, "warn"),  # NVML gives no power: all looks count
    ],
)
def test_a_reason_counts_in_the_looks_at_high_power(looks, outcome):
    samples = tuple(under_load.Sample(1400, power, 60, (name,) if name else ()) for power, name in looks)
    (finding,) = compute.judge(
        compute.Seen(Readings("x"), (), (under_load.Load("GPU 1", "gpu1", samples),)), expected()
    ).findings
    assert (finding.outcome.value, finding.key) == (outcome, "gpu1")
    assert ("in 3 of 5 looks at high power or slowed down" in finding.reason) == (outcome == "fail")


@pytest.mark.parametrize(
    ("braked", "looks", "expected_findings"),
    [
        (8, 8, [("fail", "", "look")]),
        (5, 8, [("fail", "", "look")]),
        (8, 1, [("warn", "", "watch")]),
        (4, 8, [("fail", "gpu{0}".format(gpu), "replace") for gpu in range(4)]),
        (1, 8, [("fail", "gpu0", "replace")]),
        (0, 8, []),
    ],
)
def test_a_power_brake_of_most_gpus_is_one_of_the_node(braked, looks, expected_findings):
    loads = []
    for gpu in range(8):
        reasons = [(BRAKE,) if gpu < braked and look < looks else () for look in range(8)]
        samples = tuple(under_load.Sample(1400, 390.0, 60, one) for one in reasons)
        loads.append(under_load.Load("GPU {0}".format(gpu), "gpu{0}".format(gpu), samples))
    found = compute.judge(compute.Seen(Readings("x"), (), tuple(loads)), expected()).findings
    assert [(one.outcome.value, one.key, one.action.value) for one in found] == expected_findings
    assert all(one.code == "under_load_" + BRAKE for one in found)
    if len(found) == 1 and not found[0].key:
        assert str(found[0]).startswith(
            "this node: the machine asserts the power brake of {0} of 8 GPUs".format(braked)
        )


@pytest.mark.parametrize("moments", [0, 2, 4, 7])
def test_brakes_of_a_moment_do_not_hide_one_gpu_that_brakes_all_the_time(moments):
    loads = []
    for gpu in range(8):
        looks = 8 if gpu == 0 else 1 if gpu <= moments else 0
        samples = tuple(under_load.Sample(1400, 390.0, 60, (BRAKE,) if look < looks else ()) for look in range(8))
        loads.append(under_load.Load("GPU {0}".format(gpu), "gpu{0}".format(gpu), samples))
    found = compute.judge(compute.Seen(Readings("x"), (), tuple(loads)), expected()).findings
    assert [(one.outcome.value, one.key) for one in found] == [
        ("fail", "gpu0"),
        *(("warn", "gpu{0}".format(gpu)) for gpu in range(1, moments + 1)),
    ]


def test_the_only_gpu_of_a_node_has_its_own_power_brake():
    load = load_of(*[(BRAKE,)] * 8)
    assert told(compute.judge(compute.Seen(Readings("x"), (), (load,)), expected())) == [
        ("fail", "under_load_" + BRAKE, "gpu1", "replace")
    ]


def test_what_was_seen_under_load_is_recorded():
    seen = compute.Seen(Readings("x"), (), (load_of((), ("software_power_cap",), ()),))
    judgement = compute.judge(seen, expected())
    assert [(one.name, one.value, one.key) for one in judgement.measured] == [
        ("compute_graphics_clock_mhz", 1410, "gpu1"),
        ("compute_power_watts", 391, "gpu1"),
        ("compute_temperature_celsius", 62, "gpu1"),
    ]
    assert judgement.seen.endswith("under load 1410 MHz, 391 W, 62 °C, software_power_cap")


class Idle:
    """A device whose launches do nothing, without an error."""

    multiprocessors = 2

    def __init__(self):
        self.memories = {}

    def memory(self, size):
        self.memories[len(self.memories) + 1] = bytearray(size)
        return len(self.memories)

    def fill(self, pointer, word, words):
        self.memories[pointer][:] = word.to_bytes(4, "little") * words

    def read(self, pointer, size):
        return bytes(self.memories[pointer][:size])

    def launch(self, *dummy):
        pass

    def seconds_of(self, work):
        work()
        return 0.03


def test_a_kernel_that_writes_nothing_proves_nothing():
    with pytest.raises(NodeError, match="ended without an error and wrote no result"):
        compute_on_gpu._Launcher(Idle()).launch(None, 256)

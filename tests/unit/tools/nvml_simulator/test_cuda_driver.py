# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated CUDA library as a driver: which GPUs it shows, what it refuses, and its clock."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.computing import compute

INIT = 'print(json.dumps([call("cuInit", 0), integer("cuDeviceGetCount") if call("cuInit", 0) == 0 else 0]))'
ADDRESSES = r"""
ok("cuInit", 0)
found = []
for index in range(integer("cuDeviceGetCount")):
    text = C.create_string_buffer(32)
    ok("cuDeviceGetPCIBusId", text, 32, index)
    found.append(text.value.decode())
print(json.dumps(found))
"""


def uuid(simulator, number):
    (line,) = [line for line in simulator.control("show").splitlines() if line.startswith("gpu.%d.uuid = " % number)]
    return line.split()[-1]


def test_it_shows_the_gpus_of_nvml_in_the_order_of_their_addresses(nvml_simulator):
    moved = nvml_simulator("nd96isr_h100_v5", "gpu.count=3", "gpu.0.pci_bus_id=0009:00:00.0")
    assert compute(moved, ADDRESSES) == ["0002:00:00.0", "0003:00:00.0", "0009:00:00.0"]
    moved.control("fault", "gpu", "1", "lost")
    assert compute(moved, ADDRESSES) == ["0003:00:00.0", "0009:00:00.0"]
    moved.control("clear")
    moved.control("fault", "gpu", "1", "not-in-cuda")
    assert compute(moved, ADDRESSES) == ["0003:00:00.0", "0009:00:00.0"]


def test_the_environment_chooses_gpus_and_their_order(nvml_simulator):
    simulator = nvml_simulator("nd96isr_h100_v5", "gpu.count=3")
    chosen = ",".join([uuid(simulator, 2), uuid(simulator, 0), "GPU-none", uuid(simulator, 1)])
    assert compute(simulator, ADDRESSES, CUDA_VISIBLE_DEVICES=chosen) == ["0003:00:00.0", "0001:00:00.0"]
    assert compute(simulator, ADDRESSES, CUDA_VISIBLE_DEVICES="1") == ["0002:00:00.0"]
    assert compute(simulator, INIT, CUDA_VISIBLE_DEVICES="") == [100, 0]


@pytest.mark.parametrize(
    ("settings", "fault", "answer"),
    [
        ((), (), [0, 2]),
        (("gpu.count=0",), (), [100, 0]),
        ((), ("driver", "not-loaded"), [100, 0]),
        ((), ("driver", "version-mismatch"), [803, 0]),
        (("gpu.fabric.state=2",), (), [802, 0]),
        (("gpu.mig_mode=1",), (), [100, 0]),
        (("gpu.0.mig_mode=1",), (), [0, 1]),
    ],
)
def test_when_it_can_be_initialised(nvml_simulator, settings, fault, answer):
    simulator = nvml_simulator("nd96isr_h100_v5", "gpu.count=2", *settings)
    if fault:
        simulator.control("fault", *fault)
    assert compute(simulator, INIT) == answer


def test_nothing_works_before_it_is_initialised_nor_in_a_child(nvml_simulator):
    code = r"""
import os
before = call("cuDeviceGetCount", C.byref(C.c_int()))
begin()
child = os.fork()
if child == 0:
    os._exit(call("cuCtxSynchronize"))
print(json.dumps([before, os.WEXITSTATUS(os.waitpid(child, 0)[1]), wait()]))
"""
    assert compute(nvml_simulator(), code) == [3, 3, 0]


MODULES = r"""
begin()
empty = ".version {0}\n.target {1}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
tried = [load(empty.format(*one)) for one in (("6.4", "sm_70"), (given, "sm_80"), ("6.4", "sm_99"), ("8.0", "sm_90a"))]
print(json.dumps([integer("cuDriverGetVersion"), [(one[0], one[2].strip()) for one in tried]]))
"""


@pytest.mark.parametrize(
    ("driver", "cuda", "known", "unknown"),
    [
        ("418.226.00", 10010, "6.4", "6.5"),
        ("470.256.02", 11040, "7.4", "7.5"),
        ("550.54.15", 12040, "8.4", "8.5"),
        ("580.95.05", 13000, "9.0", "9.1"),
    ],
)
def test_a_driver_accepts_ptx_up_to_its_own_version(nvml_simulator, driver, cuda, known, unknown):
    simulator = nvml_simulator("nd96asr_v4", "gpu.count=1", "driver.version=" + driver)
    version, tried = compute(simulator, MODULES, known)
    assert version == cuda and tried[0] == [0, ""] and tried[1][0] == 0
    assert compute(simulator, MODULES, unknown)[1][1][0] == 222
    assert tried[2][0] == 218 and "higher than default SM version" in tried[2][1]
    assert tried[3][0] == (222 if float(known) < 8 else 218)


def test_what_does_not_assemble_is_refused_with_its_line(nvml_simulator):
    bodies = {
        "frobnicate.u32 %r, %r;": "Not a name of any known instruction: 'frobnicate.u32'",
        "add.u32 %r, %r, %missing;": "Unknown symbol '%missing'",
        "add.u32 %r, %r, %wide;": "Arguments mismatch for instruction 'add.u32'",
        "add.u32 %r, %r;": "Arguments mismatch for instruction 'add.u32'",
        "add.f32 %f, %f, 1;": "Arguments mismatch for instruction 'add.f32'",
        "bra NOWHERE;": "Unknown symbol 'NOWHERE'",
        "ld.global.u32 %r, [%r];": "Arguments mismatch for instruction 'ld.global.u32'",
        "ld.param.u32 %r, [other];": "Unknown symbol 'other'",
        "cvt.s32.f32 %r, %f;": "Arguments mismatch for instruction 'cvt.s32.f32'",
        "mov.u32 %r, 1": "Parsing error near 'ret': syntax error",
    }
    code = r"""
begin()
answers = [load(module(".reg .u32 %r; .reg .u64 %wide; .reg .f32 %f;\n" + one))[::2] for one in given]
print(json.dumps(answers))
"""
    for (body, said), (number, log) in zip(bodies.items(), compute(nvml_simulator(), code, list(bodies))):
        line = 8 if body.endswith("1") else 7
        assert number == 218, body
        assert log.splitlines()[0] == "ptxas application ptx input, line {0}; error   : {1}".format(line, said)


BAD_ADDRESS = r"""
begin()
text = module('''.reg .u64 %a; .reg .u32 %r; ld.param.u64 %a, [a]; ld.global.u32 %r, [%a]; st.global.u32 [%a], %r;''',
    ".param .u64 a")
function, place = kernel(text), memory(1000)
address = {"inside": place + 996, "behind": place + 1000, "odd": place + 2, "null": 0}[given]
numbers = [launch(function, 1, 1, U64(address)), wait(), wait(), call("cuMemAlloc_v2", C.byref(U64()), SIZE(64))]
print(json.dumps(numbers))
"""


@pytest.mark.parametrize(("place", "number"), [("inside", 0), ("behind", 700), ("null", 700), ("odd", 716)])
def test_a_bad_address_is_told_later_and_for_ever(nvml_simulator, place, number):
    assert compute(nvml_simulator(), BAD_ADDRESS, place) == [0, number, number, number]


def test_values_that_are_refused(nvml_simulator):
    code = r"""
begin()
function, place, host = kernel(module("")), memory(4096), C.create_string_buffer(4096)
info = SIZE(), SIZE()
ok("cuMemGetInfo_v2", C.byref(info[0]), C.byref(info[1]))
print(json.dumps({
    "total": info[1].value, "free": info[0].value,
    "too much": call("cuMemAlloc_v2", C.byref(U64()), SIZE(info[0].value + 1)),
    "none": call("cuMemAlloc_v2", C.byref(U64()), SIZE(0)),
    "beyond": call("cuMemcpyDtoH_v2", host, U64(place + 8), SIZE(4096)),
    "not ours": call("cuMemFree_v2", U64(place + 8)),
    "twice": [call("cuMemFree_v2", U64(place)), call("cuMemFree_v2", U64(place))],
    "threads": launch(function, 1, 1025), "blocks": launch(function, 0, 32),
    "device": call("cuDeviceGet", C.byref(C.c_int()), 9),
    "kernel": call("cuModuleGetFunction", C.byref(P()), load(module(""))[1], b"other"),
}))
"""
    assert compute(nvml_simulator("nd96asr_v4", "gpu.count=1"), code) == {
        "total": 2 * 2**20,
        "free": 2 * 2**20 - 4096,
        "too much": 2,
        "none": 1,
        "beyond": 1,
        "not ours": 1,
        "twice": [0, 1],
        "threads": 1,
        "blocks": 1,
        "device": 101,
        "kernel": 500,
    }


def test_one_gpu_reads_another_after_it_was_allowed(nvml_simulator):
    code = r"""
one, other = begin(0), context(1)
there = memory(struct.pack("<I", 4711))
ok("cuCtxSetCurrent", one)
text = module('''.reg .u64 %a; .reg .u32 %r; ld.param.u64 %a, [a]; ld.global.u32 %r, [%a]; ld.param.u64 %a, [b];
st.global.u32 [%a], %r;''',
    ".param .u64 a, .param .u64 b")
function, here = kernel(text), memory(4)
allowed = [call("cuCtxEnablePeerAccess", other, 0), call("cuCtxEnablePeerAccess", other, 0)]
assert launch(function, 1, 1, U64(there), U64(here)) == 0
value = struct.unpack("<I", read(here, 4))[0]
taken = [call("cuCtxDisablePeerAccess", other), call("cuCtxDisablePeerAccess", other)]
assert launch(function, 1, 1, U64(there), U64(here)) == 0
print(json.dumps([integer("cuDeviceCanAccessPeer", 0, 1), allowed, value, taken, wait()]))
"""
    assert compute(nvml_simulator("nd96asr_v4", "gpu.count=2"), code) == [1, [0, 704], 4711, [0, 705], 700]


# The clock --------------------------------------------------------------------------------------------


CLOCK = r"""
begin()
N = 1 << 20
place, host = memory(N), C.create_string_buffer(N)
rates = {}
rates["to"] = N / seconds(lambda: ok("cuMemcpyHtoDAsync_v2", U64(place), host, SIZE(N), None)) / 1e9
rates["back"] = N / seconds(lambda: ok("cuMemcpyDtoHAsync_v2", host, U64(place), SIZE(N), None)) / 1e9
text = module('''.reg .u64 %a; .reg .u32 %t, %b, %n, %r<4>; ld.param.u64 %a, [a]; mov.u32 %t, %tid.x;
mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x;
mad.lo.u32 %t, %b, %n, %t; mad.wide.u32 %a, %t, 16, %a; ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%a];''', ".param .u64 a")
reading = kernel(text)
rates["memory"] = N / seconds(lambda: launch(reading, N // 16 // 256, 256, U64(place))) / 1e9


def loop(work):
    body = ".reg .pred %p; .reg .u32 %i, %n; .reg .b32 %a; .reg .f32 %f<8>; .reg .f64 %d<4>; .reg .u32 %u<4>;"
    body += "ld.param.u32 %n, [n]; mov.u32 %i, 0; L: " + work
    body += "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra L;"
    return kernel(module(body, ".param .u32 n", target="sm_89"))


def rate(work, operations, rounds=1000):
    warps, unrolled = 16 * integer("cuDeviceGetAttribute", 16, 0), 8 if "mma" in work else 64
    time = seconds(lambda: launch(loop(work * unrolled), warps // 16, 512, U32(rounds)))
    return warps * rounds * unrolled * operations / time / 1e12


MMA = "mma.sync.aligned.m16n8k{0}.row.col.f32.{1}.{1}.f32"
MMA += " {{%f0,%f1,%f2,%f3}},{{%a,%a,%a,%a}},{{%a,%a}},{{%f4,%f5,%f6,%f7}};"
rates["fp32"] = rate("fma.rn.f32 %f0, %f1, %f2, %f3;", 64)
rates["fp64"] = rate("fma.rn.f64 %d0, %d1, %d2, %d3;", 64)
rates["int32"] = rate("mad.lo.u32 %u0, %u1, %u2, %u3;", 64)
rates["f16"] = rate(MMA.format(16, "f16"), 4096)
rates["bf16"] = rate(MMA.format(16, "bf16"), 4096)
rates["fp8"] = rate(MMA.format(32, "e4m3"), 8192)
rates["twice"] = rate(MMA.format(16, "bf16"), 4096, 2000) / rates["bf16"]
print(json.dumps(rates))
"""


def test_the_clock_follows_the_rates_of_the_description(nvml_simulator):
    simulator = nvml_simulator("nd96isr_h100_v5", "gpu.count=1", "gpu.cuda.multiprocessors=2")
    rates = compute(simulator, CLOCK)
    expected = {
        "to": 55,
        "back": 55,
        "memory": 3080,
        "fp32": 61,
        "fp64": 31,
        "int32": 30,
        "f16": 545,
        "bf16": 651,
        "fp8": 1306,
        "twice": 1,
    }
    assert rates == {name: pytest.approx(rate, rel=0.03) for name, rate in expected.items()}
    assert compute(simulator, CLOCK) == rates  # equal in each process
    simulator.control("fault", "gpu", "0", "slow", "hbm", "20")
    simulator.control("fault", "gpu", "0", "slow", "tensor", "50")
    simulator.control("fault", "gpu", "0", "slow", "host_to_device", "40")
    slower = dict(expected, memory=2464, f16=272, bf16=325, fp8=653, to=33)
    assert compute(simulator, CLOCK) == {name: pytest.approx(rate, rel=0.03) for name, rate in slower.items()}


TIMES = r"""
begin()
sms = integer("cuDeviceGetAttribute", 16, 0)
text = module('''.reg .pred %p; .reg .u32 %i, %n, %t, %b, %s; .reg .u64 %a, %x, %y; .reg .f32 %f<4>;
ld.param.u32 %n, [n]; ld.param.u64 %a, [a]; mov.u64 %x, %globaltimer; mov.u32 %i, 0;
L: ''' + "fma.rn.f32 %f0, %f1, %f2, %f3;" * 16 + '''add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra L;
mov.u64 %y, %globaltimer; sub.u64 %y, %y, %x; mov.u32 %b, %ctaid.x; mov.u32 %s, %smid; mov.u32 %t, %tid.x;
mad.wide.u32 %a, %b, 16, %a; setp.eq.u32 %p, %t, 0; @!%p bra E; st.global.u64 [%a], %y;
st.global.v2.u32 [%a+8], {%i, %s}; E:''', ".param .u32 n, .param .u64 a")
out = memory(16 * sms)
took = seconds(lambda: launch(kernel(text), sms, 128, U32(100000), U64(out)))
print(json.dumps([took, struct.unpack("<" + "QII" * sms, read(out, 16 * sms))]))
"""


def test_each_sm_has_its_own_time_and_one_that_is_slow_shows(nvml_simulator):
    simulator = nvml_simulator("nd96isr_h100_v5", "gpu.count=1")
    took, times = compute(simulator, TIMES)
    assert times[1::3] == [100000] * 8 and times[2::3] == list(range(8))
    spread = max(times[::3]) / min(times[::3]) - 1
    assert 0.001 < spread < 0.006 and max(times[::3]) == pytest.approx(took * 1e9, rel=2e-3)
    simulator.control("fault", "gpu", "0", "sm", "5", "slow", "30")
    slow, times = compute(simulator, TIMES)
    assert slow / took == pytest.approx(1.3, rel=0.01)
    assert [place for place, time in enumerate(times[::3]) if time > 1.1 * min(times[::3])] == [5]


def test_streams_run_side_by_side_and_what_is_in_one_runs_in_a_row(nvml_simulator):
    code = r"""
begin()
N = 1 << 18
places, host = [memory(N) for _ in range(2)], C.create_string_buffer(N)
streams = [P(), P()]
for one in streams:
    ok("cuStreamCreate", C.byref(one), 1)
copy = lambda stream, place=places[0]: ok("cuMemcpyHtoDAsync_v2", U64(place), host, SIZE(N), stream)
alone = seconds(lambda: copy(streams[0]), streams[0])
both = seconds(lambda: (copy(streams[0]), copy(streams[1], places[1])), streams[0])
row = seconds(lambda: (copy(streams[0]), copy(streams[0])), streams[0])
event, end = P(), P()
for one in (event, end):
    ok("cuEventCreate", C.byref(one), 0)
ok("cuEventRecord", end, streams[1])
early = call("cuEventElapsedTime", C.byref(C.c_float()), event, end)
copy(streams[0])
ok("cuEventRecord", event, streams[0])
copy(streams[0])
print(json.dumps([both / alone, row / alone, early, call("cuEventElapsedTime", C.byref(C.c_float()), event, event)]))
"""
    assert compute(nvml_simulator(), code) == [pytest.approx(1), pytest.approx(2), 400, 600]


def test_nvml_shows_the_load_of_cuda(nvml_simulator):
    code = r"""
import time, pynvml as n
n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(index) for index in (0, 1)]
use, clock, power = n.nvmlDeviceGetUtilizationRates, n.nvmlDeviceGetClockInfo, n.nvmlDeviceGetPowerUsage
look = lambda: [[use(one).gpu, clock(one, 0), power(one)] for one in gpus]
idle = look()
begin(1)
launch(kernel(module("")), 1, 32)
busy = look()
time.sleep(0.6)
print(json.dumps([idle, busy, look()]))
"""
    idle, busy, after = compute(nvml_simulator("nd96isr_h100_v5", "gpu.count=2"), code)
    assert idle == after == [[0, 345, 70000]] * 2
    assert busy == [idle[0], [100, 1980, 560000]]


def test_the_calls_that_can_fail_are_those_that_the_library_has(nvml_simulator):
    simulator = nvml_simulator()
    named = simulator.control("calls", "cuda").split()
    there = compute(simulator, "print(json.dumps([hasattr(cuda, name) for name in given]))", [*named, "cuNone"])
    assert there == [True] * len(named) + [False]

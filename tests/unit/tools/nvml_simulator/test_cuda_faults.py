# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be broken in a simulated GPU that computes: memory, SMs, kernels, links, calls."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.computing import compute

# Each 32-bit word of 4 KiB gets its number, by a kernel; it is read back by a kernel (as sums) and by a copy.
WORDS = r"""
begin()
COUNT = 1024
writing = kernel(module('''.reg .u64 %a; .reg .u32 %t; ld.param.u64 %a, [a]; mov.u32 %t, %tid.x;
mad.wide.u32 %a, %t, 4, %a; st.global.u32 [%a], %t;''', ".param .u64 a"))
copying = kernel(module('''.reg .u64 %a, %b; .reg .u32 %t, %r; ld.param.u64 %a, [a]; ld.param.u64 %b, [b];
mov.u32 %t, %tid.x; mad.wide.u32 %a, %t, 4, %a;
mad.wide.u32 %b, %t, 4, %b; ld.global.u32 %r, [%a]; st.global.u32 [%b], %r;''', ".param .u64 a, .param .u64 b"))
place, other = memory(4 * COUNT), memory(4 * COUNT)


def wrong(content):
    return [[number, word] for number, word in enumerate(struct.unpack("<%dI" % COUNT, content)) if word != number]


assert launch(writing, 1, COUNT, U64(place)) == 0 and launch(copying, 1, COUNT, U64(place), U64(other)) == 0
print(json.dumps([wrong(read(other, 4 * COUNT)), wrong(read(place, 4 * COUNT)), place]))
"""


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("memory 400 stuck 9 1", [[100, 100 | 512]]),
        ("memory 404 stuck 0 0", [[101, 100]]),
        ("memory 400 stuck 2 1", []),  # that bit is 1 anyway
        ("memory 400 flip 31", [[100, 100 | 2**31]]),
        ("memory 0 alias 64", [[number, number + 16] for number in range(8)]),
        ("address-line 11 0", [[number, number + 512] for number in range(512)]),
    ],
)
def test_wrong_words_of_memory(nvml_simulator, fault, wrong):
    simulator = nvml_simulator("nd96asr_v4", "gpu.count=2")
    simulator.control("fault", "gpu", "0", *fault.split())
    by_kernel, by_copy, place = compute(simulator, WORDS)
    assert place == 0x7F0000000000 and by_copy == wrong
    if "address-line" not in fault:  # there the copy goes wrong in its turn
        assert by_kernel == wrong
    again = compute(simulator, WORDS)[1]
    assert again == ([] if "flip" in fault else wrong)  # it flips once
    simulator.control("clear", "gpu", "0")
    assert compute(simulator, WORDS)[:2] == [[], []]


UNITS = r"""
begin()
sms = integer("cuDeviceGetAttribute", 16, 0)
work = {
    "tensor": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
              "{%f0,%f1,%f2,%f3},{%a,%a,%a,%a},{%a,%a},{%f0,%f1,%f2,%f3};",
    "fp32": "fma.rn.f32 %f0, %f0, %f1, %f2;",
    "fp64": "fma.rn.f64 %d0, %d0, %d1, %d2;",
    "int": "mad.lo.u32 %u0, %u0, %u1, %u2;",
}[given]
result = {
    "tensor": "mov.b32 %r, %f0;",
    "fp32": "mov.b32 %r, %f0;",
    "fp64": "mov.b64 {%u3, %r}, %d0; xor.b32 %r, %r, %u3;",
    "int": "mov.u32 %r, %u0;",
}[given]
text = module('''.reg .pred %p; .reg .u32 %i, %n, %t, %b, %s, %w, %u<4>; .reg .b32 %a, %r; .reg .u64 %o;
.reg .f32 %f<4>; .reg .f64 %d<4>;
ld.param.u64 %o, [o]; mov.u32 %a, 0x3f803f80; mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f3F7FF000;
mov.f32 %f2, 0f3F000000; mov.f32 %f3, 0f00000000;
mov.f64 %d0, 0d3FF0000000000000; mov.f64 %d1, 0d3FEFF00000000000; mov.f64 %d2, 0d3FE0000000000000; mov.u32 %u0, 7;
mov.u32 %u1, 0x9E3779B1; mov.u32 %u2, 5;
mov.u32 %i, 0;
L: ''' + work + '''add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 500; @%p bra L;
''' + result + '''mov.u32 %b, %ctaid.x; mov.u32 %w, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %t, %b, %w, %t;
mad.wide.u32 %o, %t, 8, %o; mov.u32 %s, %smid;
st.global.v2.u32 [%o], {%r, %s};''', ".param .u64 o")
out, function, odd = memory(sms * 64 * 8), kernel(text), []
for _ in range(6):
    assert launch(function, sms, 64, U64(out)) == 0
    words = struct.unpack("<%dI" % (sms * 128), read(out, sms * 64 * 8))
    lanes = [words[0::2][n::32] for n in range(32)]
    usual = [max(set(one), key=one.count) for one in lanes]
    odd.append(sorted({words[2 * n + 1] for n in range(sms * 64) if words[2 * n] != usual[n % 32]}))
print(json.dumps(odd))
"""


@pytest.mark.parametrize("unit", ["tensor", "fp32", "fp64", "int"])
def test_an_sm_that_computes_wrong(nvml_simulator, unit):
    simulator = nvml_simulator("nd96isr_h100_v5", "gpu.count=1")
    assert compute(simulator, UNITS, unit) == [[]] * 6
    simulator.control("fault", "gpu", "0", "sm", "3", "wrong", unit)
    assert compute(simulator, UNITS, unit) == [[3]] * 6
    simulator.control("fault", "gpu", "0", "sm", "6", "wrong", unit, "every", "3")
    assert compute(simulator, UNITS, unit) == [[3], [3], [3, 6]] * 2
    if unit != "int":
        assert compute(simulator, UNITS, "int") == [[]] * 6  # its other units are right


def test_a_kernel_with_an_illegal_address(nvml_simulator):
    simulator = nvml_simulator("nd96asr_v4", "gpu.count=2")
    simulator.control("fault", "gpu", "1", "kernel", "illegal-address")
    code = "begin(given); print(json.dumps([launch(kernel(module('')), 1, 32), wait(), wait()]))"
    assert compute(simulator, code, 0) == [0, 0, 0]
    assert compute(simulator, code, 1) == [0, 700, 700]


@pytest.mark.parametrize("fault", ["gpu 1 kernel hang", "call cuCtxSynchronize gpu 1 hang"])
def test_a_kernel_that_never_ends(nvml_simulator, fault):
    simulator = nvml_simulator("nd96asr_v4", "gpu.count=2")
    simulator.control("fault", *fault.split())
    code = r"""
import os, signal
def alarm(*_):
    print(json.dumps(answer + ["hangs"]), flush=True)
    os._exit(0)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
answer = []
for index in (0, 1):
    child = os.fork()
    if child == 0:
        begin(index)
        launch(kernel(module("")), 1, 32)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        os._exit(wait())
    answer.append(os.waitpid(child, 0)[1])
print(json.dumps(answer))
"""
    assert compute(simulator, code) == [0, 14]  # SIGALRM


PEERS = r"""
begin()
count = integer("cuDeviceGetCount")
contexts = [context(index) for index in range(count)]
N, buffers, streams = 1 << 16, [], []
for one in contexts:
    ok("cuCtxSetCurrent", one)
    buffers.append([memory(bytes(range(256)) * (N // 256)), memory(N)])
    streams.append(P())
    ok("cuStreamCreate", C.byref(streams[-1]), 1)
    for other in contexts:
        if other is not one:
            call("cuCtxEnablePeerAccess", other, 0)


def copy(one, other):
    ok("cuCtxSetCurrent", contexts[one])
    to, source = (U64(buffers[other][1]), contexts[other]), (U64(buffers[one][0]), contexts[one])
    ok("cuMemcpyPeerAsync", *to, *source, SIZE(N), streams[one])


def alone(one, other):
    ok("cuCtxSetCurrent", contexts[one])
    return N / seconds(lambda: copy(one, other), streams[one]) / 1e9


def together(pairs):
    events = []
    for one, other in pairs:
        ok("cuCtxSetCurrent", contexts[one])
        begins, ends = P(), P()
        for event in (begins, ends):
            ok("cuEventCreate", C.byref(event), 0)
        ok("cuEventRecord", begins, streams[one])
        copy(one, other)
        ok("cuEventRecord", ends, streams[one])
        events.append((one, begins, ends))
    rates = []
    for one, begins, ends in events:
        ok("cuCtxSetCurrent", contexts[one])
        ok("cuEventSynchronize", ends)
        elapsed = C.c_float()
        ok("cuEventElapsedTime", C.byref(elapsed), begins, ends)
        rates.append(N / elapsed.value / 1e6)
    return rates


pairs = [(one, other) for one in range(count) for other in range(count) if one != other]
rates = [alone(*one) for one in pairs]
wrong = []
for one, other in pairs:
    copy(one, other)
    ok("cuStreamSynchronize", streams[one])
    ok("cuCtxSetCurrent", contexts[other])
    wrong += [[one, other]] if read(buffers[other][1], N) != bytes(range(256)) * (N // 256) else []
ring = together([(one, (one + 1) % count) for one in range(count)])
single = dict(("%d%d" % one, round(rate)) for one, rate in zip(pairs, rates))
print(json.dumps([single, [round(one) for one in ring], wrong]))
"""
RATE = 421  # 18 links of 26.562 GB/s, 88 %
ALL = {"01": RATE, "02": RATE, "10": RATE, "12": RATE, "20": RATE, "21": RATE}


@pytest.mark.parametrize(
    ("fault", "rates", "ring", "wrong"),
    [
        ("", {}, [RATE] * 3, []),
        ("gpu 0 to 2 slow 50", {"02": 210}, [RATE] * 3, []),
        ("gpu 0 to 1 slow 50 together", {}, [210, RATE, RATE], []),
        ("peers slow 60 together", {}, [168] * 3, []),
        ("gpu 2 slow peer 50", {"02": 210, "12": 210, "20": 210, "21": 210}, [RATE, 210, 210], []),
        ("gpu 1 to 2 wrong", {}, [RATE] * 3, [[1, 2]]),
        ("gpu 1 to 2 no-peer", {}, [RATE] * 3, []),  # the other one may still reach it
    ],
)
def test_copies_between_gpus(nvml_simulator, fault, rates, ring, wrong):
    simulator = nvml_simulator("nd96isr_h100_v5", "gpu.count=3")
    if fault:
        simulator.control("fault", *fault.split())
    seen, together, bad = compute(simulator, PEERS)
    if "no-peer" in fault:
        assert seen["12"] == together[1] == 27  # through memory of the host
        return
    assert seen == dict(ALL, **rates) and together == ring and bad == wrong


@pytest.mark.parametrize(
    ("machine", "settings", "rate"),
    [
        ("nd40rs_v2", (), {"01": 23, "02": 23, "10": 23, "12": 45, "20": 23, "21": 45}),  # one link, or two
        ("nd96asr_v4", (), dict.fromkeys(ALL, 272)),
        ("rtx_pro_6000", (), {"01": 44, "10": 44}),  # PCIe
        ("rtx_pro_6000", ("gpu.feature.pci_p2p=no",), {"01": 27, "10": 27}),
    ],
)
def test_what_connects_two_gpus_sets_their_rate(nvml_simulator, machine, settings, rate):
    count = () if machine == "rtx_pro_6000" else ("gpu.count=3",)
    assert compute(nvml_simulator(machine, *count, *settings), PEERS)[0] == rate


def test_calls_of_cuda_fail_as_calls_of_nvml_do(nvml_simulator):
    simulator = nvml_simulator("nd96asr_v4", "gpu.count=2")
    for words in (
        "call cuMemAlloc_v2 gpu 1 after 2 return 2",
        "call cuMemHostAlloc nth 2 return 304",
        "call cuStreamCreate delay 200",
    ):
        simulator.control("fault", *words.split())
    code = r"""
import time
begin(given)
pointer = P()
allocated = [call("cuMemAlloc_v2", C.byref(U64()), SIZE(512)) for _ in range(4)]
pinned = [call("cuMemHostAlloc", C.byref(pointer), SIZE(512), 0) for _ in range(3)]
before = time.monotonic()
ok("cuStreamCreate", C.byref(pointer), 1)
print(json.dumps([allocated, pinned, time.monotonic() - before >= 0.2]))
"""
    assert compute(simulator, code, 0) == [[0, 0, 0, 0], [0, 304, 0], True]
    assert compute(simulator, code, 1) == [[0, 0, 2, 2], [0, 304, 0], True]
    simulator.control("fault", "call", "cuDevicePrimaryCtxRetain", "gpu", "1", "return", "46")
    retain = (
        'ok("cuInit", 0); print(json.dumps([call("cuDevicePrimaryCtxRetain", C.byref(P()), one) for one in (0, 1)]))'
    )
    assert compute(simulator, retain) == [0, 46]
    assert compute(nvml_simulator("nd96asr_v4", "gpu.compute_mode=2"), retain) == [46, 46]

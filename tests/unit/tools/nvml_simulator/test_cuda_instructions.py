# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated CUDA library computes: instructions of PTX against Python's own arithmetic."""

from __future__ import annotations

import itertools
import math
import random
import struct
from fractions import Fraction

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.computing import compute

# One kernel for each instruction: thread t loads the t-th value of each source and stores the result. Letters as in the
# table of the simulator: w 32 bits, l 64, h 16, f f32, d f64.
INSTRUCTIONS = r"""
TYPES = {"w": ("b32", 4), "l": ("b64", 8), "h": ("b16", 2), "f": ("f32", 4), "d": ("f64", 8)}
begin()
answers = []
for opcode, shape, columns in given:
    lines = [".reg .pred %q; .reg .u32 %t; .reg .u64 %a, %w;"]
    lines += [".reg .{0} %v{1};".format(TYPES[letter][0], n) for n, letter in enumerate(shape)]
    lines.append("mov.u32 %t, %tid.x;")
    for n, letter in list(enumerate(shape))[1:] + [(0, shape[0])]:
        kind, size = TYPES[letter]
        lines.append("ld.param.u64 %a, [p{0}]; mad.wide.u32 %a, %t, {1}, %a;".format(n, size))
        lines.append("ld.global.{0} %v{1}, [%a];".format(kind, n) if n else "")
    lines.append("{0} {1};".format(opcode, ", ".join("%v{0}".format(n) for n in range(len(shape)))))
    lines.append("st.global.{0} [%a], %v0;".format(TYPES[shape[0]][0]))
    parameters = ", ".join(".param .u64 p{0}".format(n) for n in range(len(shape)))
    function = kernel(module("\n".join(lines), parameters))
    count = len(columns[0])
    addresses = [memory(TYPES[shape[0]][1] * count)]
    for letter, column in zip(shape[1:], columns):
        code = {2: "H", 4: "I", 8: "Q"}[TYPES[letter][1]]
        addresses.append(memory(struct.pack("<%d%s" % (count, code), *column)))
    assert launch(function, 1, count, *(U64(one) for one in addresses)) == 0
    size = TYPES[shape[0]][1]
    answers.append(struct.unpack("<%d%s" % (count, {2: "H", 4: "I", 8: "Q"}[size]), read(addresses[0], size * count)))
    for one in addresses:
        ok("cuMemFree_v2", U64(one))
print(json.dumps(answers))
"""

WORDS = [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xDEADBEEF, 0xFFFFFFFE, 0xFFFFFFFF]
LONGS = [0, 1, 63, 64, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**63 + 1, 0xDEADBEEFCAFEF00D, 2**64 - 2, 2**64 - 1]
BITS = {"w": 32, "l": 64, "h": 16}


def s(value, bits=32):
    return value - (1 << bits) if value >> (bits - 1) else value


def quotient(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def reversed_bits(x, bits):
    return int(format(x, "0{0}b".format(bits))[::-1], 2)


def permuted(x, y, select):
    data = (y << 32 | x).to_bytes(8, "little")
    picked = []
    for n in range(4):
        nibble = select >> 4 * n & 15
        byte = data[nibble & 7]
        picked.append((255 if byte & 128 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(picked), "little")


def looked_up(table):
    return lambda x, y, z: sum(
        (table >> ((x >> n & 1) << 2 | (y >> n & 1) << 1 | (z >> n & 1)) & 1) << n for n in range(32)
    )


INTEGERS = {
    ("add.u32", "www"): lambda x, y: x + y,
    ("sub.s32", "www"): lambda x, y: x - y,
    ("mul.lo.u32", "www"): lambda x, y: x * y,
    ("mul.hi.u32", "www"): lambda x, y: x * y >> 32,
    ("mul.hi.s32", "www"): lambda x, y: s(x) * s(y) >> 32,
    ("mul.wide.u32", "lww"): lambda x, y: x * y,
    ("mul.wide.s32", "lww"): lambda x, y: s(x) * s(y),
    ("mad.lo.s32", "wwww"): lambda x, y, z: x * y + z,
    ("mad.wide.u32", "lwwl"): lambda x, y, z: x * y + z,
    ("div.u32", "www"): lambda x, y: x // y if y else None,
    ("rem.u32", "www"): lambda x, y: x % y if y else None,
    ("div.s32", "www"): lambda x, y: quotient(s(x), s(y)) if y else None,
    ("rem.s32", "www"): lambda x, y: s(x) - s(y) * quotient(s(x), s(y)) if y else None,
    ("min.s32", "www"): lambda x, y: min(s(x), s(y)),
    ("max.u32", "www"): max,
    ("and.b32", "www"): lambda x, y: x & y,
    ("or.b32", "www"): lambda x, y: x | y,
    ("xor.b32", "www"): lambda x, y: x ^ y,
    ("not.b32", "ww"): lambda x: ~x,
    ("shl.b32", "www"): lambda x, y: x << y if y < 32 else 0,
    ("shr.u32", "www"): lambda x, y: x >> y if y < 32 else 0,
    ("shr.s32", "www"): lambda x, y: s(x) >> min(y, 31),
    ("popc.b32", "ww"): lambda x: bin(x).count("1"),
    ("clz.b32", "ww"): lambda x: 32 - x.bit_length(),
    ("brev.b32", "ww"): lambda x: reversed_bits(x, 32),
    ("shf.l.wrap.b32", "wwww"): lambda x, y, z: (y << 32 | x) << (z & 31) >> 32,
    ("shf.r.wrap.b32", "wwww"): lambda x, y, z: (y << 32 | x) >> (z & 31),
    ("prmt.b32", "wwww"): permuted,
    ("abs.s32", "ww"): lambda x: abs(s(x)),
    ("add.u64", "lll"): lambda x, y: x + y,
    ("sub.u64", "lll"): lambda x, y: x - y,
    ("mul.lo.u64", "lll"): lambda x, y: x * y,
    ("mul.hi.u64", "lll"): lambda x, y: x * y >> 64,
    ("mul.hi.s64", "lll"): lambda x, y: s(x, 64) * s(y, 64) >> 64,
    ("mad.lo.u64", "llll"): lambda x, y, z: x * y + z,
    ("div.s64", "lll"): lambda x, y: quotient(s(x, 64), s(y, 64)) if y else None,
    ("min.u64", "lll"): min,
    ("xor.b64", "lll"): lambda x, y: x ^ y,
    ("shl.b64", "llw"): lambda x, y: x << y if y < 64 else 0,
    ("shr.u64", "llw"): lambda x, y: x >> y if y < 64 else 0,
    ("shr.s64", "llw"): lambda x, y: s(x, 64) >> min(y, 63),
    ("cvt.u64.u32", "lw"): lambda x: x,
    ("cvt.s64.s32", "lw"): s,
    ("cvt.u32.u64", "wl"): lambda x: x,
    ("cvt.sat.u32.s32", "ww"): lambda x: max(s(x), 0),
}


def columns_of(shape, rows):
    values = list(itertools.product(*(WORDS if letter == "w" else LONGS for letter in shape[1:])))
    chosen = values if len(values) <= rows else random.Random(7).sample(values, rows)
    return [list(column) for column in zip(*chosen)]


def test_integers_at_their_corners(nvml_simulator):
    cases = [(opcode, shape, columns_of(shape, 640)) for opcode, shape in INTEGERS]
    for (opcode, shape, columns), answers in zip(cases, compute(nvml_simulator(), INSTRUCTIONS, cases)):
        for values, answer in zip(zip(*columns), answers):
            wanted = INTEGERS[opcode, shape](*values)
            if wanted is not None:  # a division by zero is undefined
                assert answer == wanted & ((1 << BITS[shape[0]]) - 1), (opcode, [hex(one) for one in values])


def test_logic_of_three_values_by_a_table(nvml_simulator):
    columns = columns_of("wwww", 200)
    cases = [("lop3.b32", "wwwww", [*columns, [table] * 200]) for table in (0x96, 0xE8, 0xCA)]
    for (_, _, given), answers in zip(cases, compute(nvml_simulator(), INSTRUCTIONS, cases)):
        assert list(answers) == [looked_up(given[3][0])(*values) for values in zip(*columns)]


# Floating point ---------------------------------------------------------------------------------------


def bits_of(value, code):
    return struct.unpack("<" + {"f": "I", "d": "Q", "e": "H"}[code], struct.pack("<" + code, value))[0]


def value_of(bits, code):
    return struct.unpack("<" + code, struct.pack("<" + {"f": "I", "d": "Q", "e": "H"}[code], bits))[0]


def rounded(value, mantissa, lowest, highest):
    """A fraction as the nearest number with so many bits; ties to even; ``lowest`` and ``highest`` exponent."""
    if value == 0:
        return 0.0
    power = max(math.frexp(float(value))[1] - 1, lowest)
    while Fraction(2) ** (power + 1) <= abs(value):
        power += 1
    unit = Fraction(2) ** (power - mantissa)
    result = round(value / unit) * unit  # Python rounds ties to even
    return math.copysign(math.inf, value) if abs(result) >= Fraction(2) ** (highest + 1) else float(result)


FORMATS = {"f": (23, -126, 127), "d": (52, -1022, 1023), "e": (10, -14, 15)}


def numbers(code, count, seed):
    """Some of each size, with subnormal ones and close neighbours."""
    made = random.Random(seed)
    low, high = {"f": (-130, 62), "d": (-1030, 500), "e": (-24, 14)}[code]
    values = [made.choice((-1, 1)) * (1 + made.random()) * 2.0 ** made.randint(low, high) for _ in range(count - 4)]
    return [bits_of(one, code) for one in [*values, 0.0, 1.0, -1.0, 2.0**-14]]


OPERATIONS = {
    ("add.rn.f32", "fff", "f"): lambda x, y: x + y,
    ("mul.f32", "fff", "f"): lambda x, y: x * y,
    ("fma.rn.f32", "ffff", "f"): lambda x, y, z: x * y + z,
    ("add.f64", "ddd", "d"): lambda x, y: x + y,
    ("fma.rn.f64", "dddd", "d"): lambda x, y, z: x * y + z,
    ("add.f16", "hhh", "e"): lambda x, y: x + y,
    ("mul.f16", "hhh", "e"): lambda x, y: x * y,
    ("fma.rn.f16", "hhhh", "e"): lambda x, y, z: x * y + z,
}


def test_floating_point_is_rounded_to_nearest(nvml_simulator):
    cases = []
    for number, (opcode, shape, code) in enumerate(OPERATIONS):
        near = [numbers(code, 300, 10 * number + place) for place in range(len(shape) - 1)]
        if len(near) == 3:  # a sum that nearly vanishes shows whether the product was rounded before
            exact = [Fraction(value_of(x, code)) * Fraction(value_of(y, code)) for x, y in zip(*near[:2])]
            near[2][:150] = [bits_of(rounded(-one, *FORMATS[code]), code) for one in exact[:150]]
            near[2] = [one if math.isfinite(value_of(one, code)) else 0 for one in near[2]]
        cases.append((opcode, shape, near))
    for (opcode, shape, columns), answers in zip(cases, compute(nvml_simulator(), INSTRUCTIONS, cases)):
        code = next(one for name, _, one in OPERATIONS if name == opcode)
        for values, answer in zip(zip(*columns), answers):
            real = [Fraction(value_of(one, code)) for one in values]
            wanted = rounded(OPERATIONS[opcode, shape, code](*real), *FORMATS[code])
            assert value_of(answer, code) == wanted, (opcode, [value_of(one, code) for one in values])


def test_conversions(nvml_simulator):
    reals = [
        0.0,
        -0.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        3e9,
        -3e9,
        1e20,
        65504.0,
        65519.0,
        65520.0,
        2.0**-24,
        2.0**-25,
        448.0,
    ]
    reals += [math.inf, -math.inf, math.nan, 1.00390625, 1.01171875]
    given = [bits_of(one, "f") for one in reals]
    longs = [0, 1, 2**24 + 1, 2**24 + 3, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
    cases = [
        ("cvt.rzi.s32.f32", "wf", [given]),
        ("cvt.rni.s32.f32", "wf", [given]),
        ("cvt.rzi.u32.f32", "wf", [given]),
        ("cvt.rn.f16.f32", "hf", [given]),
        ("cvt.rn.bf16.f32", "hf", [given]),
        ("cvt.rn.f32.s64", "fl", [longs]),
        ("cvt.f64.f32", "df", [given]),
    ]
    toward, nearest, unsigned, half, brain, single, double = compute(nvml_simulator(), INSTRUCTIONS, cases)

    def clamped(value, low, high, how):
        return 0 if math.isnan(value) else int(max(low, min(high, value if math.isinf(value) else how(value))))

    for place, value in enumerate(reals):
        assert s(toward[place]) == clamped(value, -(2**31), 2**31 - 1, math.trunc), value
        assert s(nearest[place]) == clamped(value, -(2**31), 2**31 - 1, round), value
        assert unsigned[place] == clamped(value, 0, 2**32 - 1, math.trunc), value
        if math.isfinite(value):
            assert value_of(half[place], "e") == rounded(Fraction(value), *FORMATS["e"]), value
            assert value_of(double[place], "d") == value_of(given[place], "f")
        else:
            assert math.isnan(value) == math.isnan(value_of(half[place], "e"))
    assert [brain[place] for place in (2, -2, -1)] == [0x3F00, 0x3F80, 0x3F82]  # ties to even
    assert [value_of(one, "f") for one in single] == [
        float(rounded(Fraction(s(one, 64)), 23, -126, 127)) for one in longs
    ]


# Lanes that part --------------------------------------------------------------------------------------


def steps_of_collatz(number):
    steps = 0
    while number != 1:
        number, steps = (3 * number + 1 if number % 2 else number // 2), steps + 1
    return steps


def test_lanes_that_part_come_together_again(nvml_simulator):
    answer = compute(
        nvml_simulator(),
        r'''
begin()
text = module("""
.reg .pred %odd, %more; .reg .u32 %n, %k, %t, %low, %active; .reg .u64 %out, %at;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; add.u32 %n, %t, 1; mov.u32 %k, 0;
setp.eq.u32 %more, %n, 1; @%more bra DONE;
LOOP:
  and.b32 %low, %n, 1; setp.eq.u32 %odd, %low, 1; @!%odd bra EVEN;
  mad.lo.u32 %n, %n, 3, 1; bra NEXT;
EVEN: shr.u32 %n, %n, 1;
NEXT: add.u32 %k, %k, 1; setp.ne.u32 %more, %n, 1; @%more bra LOOP;
DONE:
activemask.b32 %active;
mad.wide.u32 %at, %t, 8, %out; st.global.v2.u32 [%at], {%k, %active};
""", ".param .u64 out")
out = memory(100 * 8)
assert launch(kernel(text), 1, 100, U64(out)) == 0
print(json.dumps(struct.unpack("<200I", read(out, 800))))
''',
    )
    assert answer[::2] == [steps_of_collatz(number) for number in range(1, 101)]
    assert answer[1::2] == [2**32 - 1] * 96 + [15] * 4  # the last warp has four threads


def test_a_block_waits_counts_and_exchanges(nvml_simulator):
    answer = compute(
        nvml_simulator(),
        r'''
begin()
text = module("""
.shared .align 4 .b32 box[128];
.reg .pred %q, %all; .reg .u32 %t, %b, %v, %at, %other, %max, %votes; .reg .u64 %out, %count, %a, %one;
ld.param.u64 %out, [out]; ld.param.u64 %count, [count];
mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;
shl.b32 %at, %t, 2; mov.u32 %other, box; add.u32 %at, %at, %other; mad.lo.u32 %v, %b, 1000, %t;
st.shared.u32 [%at], %v;
bar.sync 0;
sub.u32 %other, 127, %t; shl.b32 %at, %other, 2; ld.shared.u32 %v, [%at];
shfl.sync.bfly.b32 %max, %v, 1, 0x1f, 0xffffffff;
setp.gt.u32 %q, %v, 63; vote.sync.ballot.b32 %votes, %q, 0xffffffff; popc.b32 %votes, %votes;
atom.global.add.u64 %one, [%count], 1; atom.global.max.u32 %other, [%count+8], %v;
red.global.add.u32 [%count+12], %votes;
mad.lo.u32 %at, %b, 128, %t; mad.wide.u32 %a, %at, 8, %out; st.global.v2.u32 [%a], {%v, %max};
""", ".param .u64 out, .param .u64 count")
out, count = memory(3 * 128 * 8), memory(bytes(16))
assert launch(kernel(text), 3, 128, U64(out), U64(count)) == 0
print(json.dumps([struct.unpack("<768I", read(out, 3072)), struct.unpack("<QII", read(count, 16))]))
''',
    )
    values = [1000 * block + 127 - thread for block in range(3) for thread in range(128)]
    assert answer[0][::2] == values
    assert answer[0][1::2] == [values[place ^ 1] for place in range(384)]
    assert answer[1] == [384, 2127, 64 * 32 + 2 * 128 * 32]


# Products of matrices ---------------------------------------------------------------------------------


def small(code, made):
    """A number that the format holds exactly, and its bits."""
    if code in ("s8", "u8"):
        value = made.randint(-128, 127) if code == "s8" else made.randint(0, 255)
        return value, value & 255
    value = made.randint(-8, 8)
    if code == "e4m3":
        sign, size = (128 if value < 0 else 0), abs(value)
        power = size.bit_length() - 1
        return value, sign if size == 0 else sign | power + 7 << 3 | (size << 3 >> power) & 7
    if code == "e5m2":
        return value, bits_of(float(value), "e") >> 8
    if code == "bf16":
        return value, bits_of(float(value), "f") >> 16
    return value, bits_of(float(value), {"f16": "e", "tf32": "f", "f64": "d"}[code])


# m, n, k, type of A and B, of C and D, registers of A, B, C
PRODUCTS = [
    (16, 8, 16, "f16", "f32", 4, 2, 4),
    (16, 8, 8, "f16", "f32", 2, 1, 4),
    (16, 8, 16, "bf16", "f32", 4, 2, 4),
    (16, 8, 8, "tf32", "f32", 4, 2, 4),
    (16, 8, 32, "s8", "s32", 4, 2, 4),
    (16, 8, 32, "u8", "s32", 4, 2, 4),
    (16, 8, 32, "e4m3", "f32", 4, 2, 4),
    (16, 8, 32, "e5m2", "f32", 4, 2, 4),
    (8, 8, 4, "f64", "f64", 1, 1, 2),
]
WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f64": 64}


def fragment(matrix, rows, registers, width, transposed):
    """The words of each lane, by the layout of the PTX manual: four lanes hold a row of A, or a column of B."""
    each = max(32 // width, 1)
    words = []
    for lane in range(32):
        for register in range(registers):
            word = 0
            for part in range(each):
                if transposed:
                    row, column = lane % 4 * each + part + register * 4 * each, lane // 4
                else:
                    high = 2 if rows == 16 else 1
                    row = lane // 4 + 8 * (register % high)
                    column = lane % 4 * each + part + register // high * 4 * each
                word |= matrix[row][column] << part * width
            words.append(word)
    return words


@pytest.mark.parametrize("shape", PRODUCTS, ids=lambda one: "m{0}n{1}k{2}.{3}".format(*one))
def test_a_product_of_a_warp(nvml_simulator_machine, shape):
    m, n, k, kind, sums, of_a, of_b, of_c = shape
    made = random.Random(k)
    a = [[small(kind, made) for _ in range(k)] for _ in range(m)]
    b = [[small(kind, made) for _ in range(n)] for _ in range(k)]
    c = [[made.randint(-50, 50) for _ in range(n)] for _ in range(m)]
    wide = kind == "f64"
    given = {
        "a": fragment([[one[1] for one in row] for row in a], m, of_a, WIDTH[kind], False),
        "b": fragment([[one[1] for one in row] for row in b], m, of_b, WIDTH[kind], True),
        "c": [c[lane // 4 + 8 * (part // 2)][lane % 4 * 2 + part % 2] for lane in range(32) for part in range(of_c)],
        "opcode": "mma.sync.aligned.m{0}n{1}k{2}.row.col.{3}.{4}.{4}.{3}".format(m, n, k, sums, kind),
        "registers": [of_a, of_b, of_c],
        "wide": wide,
        "sums": sums,
    }
    answer = compute(
        nvml_simulator_machine,
        r"""
begin()
kind, size = ("f64", 8) if given["wide"] else ("b32", 4)
sums = given["sums"]
lines = [".reg .u32 %t; .reg .u64 %p; .reg .{0} %a<4>, %b<4>; .reg .{1} %c<4>, %d<4>;".format(kind, sums)]
lines.append("mov.u32 %t, %laneid;")
groups = {}
for name, count in zip("abc", given["registers"]):
    lines.append("ld.param.u64 %p, [{0}]; mad.wide.u32 %p, %t, {1}, %p;".format(name, count * size))
    for n in range(count):
        lines.append("ld.global.{0} %{1}{2}, [%p+{3}];".format(sums if name == "c" else kind, name, n, n * size))
    groups[name] = "{" + ",".join("%{0}{1}".format(name, n) for n in range(count)) + "}"
operands = groups["c"].replace("%c", "%d"), groups["a"], groups["b"], groups["c"]
lines.append("{0} {1};".format(given["opcode"], ", ".join(operands)))
for n in range(given["registers"][2]):
    lines.append("st.global.{0} [%p+{1}], %d{2};".format(sums, n * size, n))
text = module("\n".join(lines), ".param .u64 a, .param .u64 b, .param .u64 c", target="sm_89")
code = "Q" if given["wide"] else "I"
c_code = {"f32": "f", "s32": "i", "f64": "d"}[sums]
codes = {"a": code, "b": code, "c": c_code}
place = [memory(struct.pack("<%d%s" % (len(given[name]), codes[name]), *given[name])) for name in "abc"]
assert launch(kernel(text), 1, 32, *(U64(one) for one in place)) == 0
print(json.dumps(struct.unpack("<%d%s" % (len(given["c"]), c_code), read(place[2], size * len(given["c"])))))
""",
        given,
    )
    for lane in range(32):
        for part in range(of_c):
            row, column = lane // 4 + 8 * (part // 2), lane % 4 * 2 + part % 2
            wanted = c[row][column] + sum(a[row][x][0] * b[x][column][0] for x in range(k))
            assert answer[lane * of_c + part] == wanted, (row, column)


@pytest.fixture(scope="module")
def nvml_simulator_machine(nvml_simulator_built, tmp_path_factory):
    """One machine for all products; its processes change nothing."""
    from ansible_collections.trainyard.gpu_node.tests.unit.conftest import Simulator

    simulator = Simulator(nvml_simulator_built, tmp_path_factory.mktemp("products"))
    simulator.control("init", "nd96isr_h100_v5")
    return simulator


@pytest.mark.parametrize("layout", ["row", "col"])
def test_a_product_of_matrices_in_memory(nvml_simulator, layout):
    made = random.Random(5)
    a, b, c = ([[float(made.randint(-16, 16)) for _ in range(16)] for _ in range(16)] for _ in range(3))
    turned = (lambda matrix: [list(row) for row in zip(*matrix)]) if layout == "col" else (lambda matrix: matrix)
    given = {"layout": layout, "a": sum(turned(a), []), "b": sum(turned(b), []), "c": sum(turned(c), [])}
    answer = compute(
        nvml_simulator(),
        r"""
begin()
L = given["layout"]
F = lambda name, count: "{" + ",".join("%{0}{1}".format(name, n) for n in range(count)) + "}"
text = module(".reg .u64 %p; .reg .b32 %a<8>, %b<8>; .reg .f32 %c<8>;" + "".join([
    "ld.param.u64 %p, [a]; wmma.load.a.sync.aligned." + L + ".m16n16k16.global.f16 " + F("a", 8) + ", [%p], 16;",
    "ld.param.u64 %p, [b]; wmma.load.b.sync.aligned." + L + ".m16n16k16.global.f16 " + F("b", 8) + ", [%p], 16;",
    "ld.param.u64 %p, [c]; wmma.load.c.sync.aligned." + L + ".m16n16k16.global.f32 " + F("c", 8) + ", [%p], 16;",
    "wmma.mma.sync.aligned." + L + "." + L + ".m16n16k16.f32.f32 ",
    ", ".join([F("c", 8), F("a", 8), F("b", 8), F("c", 8)]) + ";",
    "wmma.store.d.sync.aligned." + L + ".m16n16k16.global.f32 [%p], " + F("c", 8) + ", 16;"]),
    ".param .u64 a, .param .u64 b, .param .u64 c", "6.4", "sm_70")
place = [memory(struct.pack("<256" + ("f" if name == "c" else "e"), *given[name])) for name in "abc"]
assert launch(kernel(text), 1, 32, *(U64(one) for one in place)) == 0
print(json.dumps(struct.unpack("<256f", read(place[2], 1024))))
""",
        given,
    )
    wanted = [[c[i][j] + sum(a[i][x] * b[x][j] for x in range(16)) for j in range(16)] for i in range(16)]
    assert answer == sum(turned(wanted), [])

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PTX of the arithmetic check: every warp of a launch computes the same, in registers only. Pure.

A launch has one block of 512 threads for each multiprocessor. A thread holds 64 words of accumulators, so it needs
more than 64 registers, and a second block does not fit on a multiprocessor: each gets exactly one.

How an error becomes visible:

- Operands depend on the lane and the seed only, and change in each round by XOR with a pseudo-random mask. The masks
  keep sign and mantissa bits, so no value is 0, infinite or NaN. A wrong operand bit remains wrong in all later rounds.
- Accumulators move: tile ``j`` of a round continues tile ``j + 1`` of the round before. The first tile goes into the
  checksum and the last one starts again, so sums remain small and their lowest bits are not lost, and an integer is in
  the checksum before a second error can cancel the first one.
- ``checksum = rotated(checksum) * odd + word`` is one-to-one for each word and for each old checksum: a wrong word
  changes the checksum for good. Without the rotation, wrong highest bits of two words would cancel each other.

Only rounding can hide an error: a wrong last bit of one operand in one single multiplication changes the rounded sum in
some of the cases (FP32, FP64), and a wrong bit of a product below the last bit of a sum in none.
"""

from __future__ import annotations

import dataclasses
from typing import List, Sequence, Tuple

from . import ALL_TARGETS, Text, header

THREADS = 512
WARPS = THREADS // 32
_PRIME = 16777619  # of the hash FNV-1
# Two linear congruential generators with a full period: Numerical Recipes, and Borland C.
_MASKS = ((1664525, 1013904223), (22695477, 1))


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of arithmetic.

    ``least``: the lowest compute capability that has it. ``version``, ``target``: of the PTX text. ``operations``: of
    one warp in one round, a multiplication and an addition are two. ``share``: its part of the time, relative to the
    other kinds. ``keep``, ``fix``: bits of an operand word that vary, and bits that are always set. ``emulated``: major
    compute capabilities whose compiler replaces the instruction by others, so it would not test these units.
    """

    name: str
    title: str
    least: Tuple[int, int]
    version: str
    target: str
    operations: int
    share: float
    keep: int
    fix: int
    integer: bool = False
    emulated: Tuple[int, ...] = ()

    @property
    def figure(self) -> str:
        """``compute_f16_teraflops_per_second``."""
        return "compute_{0}_{1}_per_second".format(self.name, "teraops" if self.integer else "teraflops")


@dataclasses.dataclass(frozen=True)
class _Shape:
    """An instruction of the tensor cores: registers of one tile, tiles in a thread, and sets of operands."""

    opcode: str
    d: int
    a: int
    b: int
    a_sets: int
    b_sets: int
    type: str = "f32"


_SHAPES = {
    "f16": _Shape("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", 8, 8, 8, 2, 2),
    "bf16": _Shape("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 4, 2, 2, 4),
    "int8": _Shape("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 4, 2, 2, 4, "u32"),
    "fp8": _Shape("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 4, 2, 2, 4),
}
# ptxas of CUDA 12.9 makes QMMA from the FP8 instruction for sm_89 and sm_120, and FP16 products with conversions for
# sm_90, sm_100 and sm_103: there, only wgmma and tcgen05.mma reach the FP8 units, with operands in shared memory.
_WORDS = 64  # of accumulators in a thread
_FACTORS = 4  # of each side, in the kinds without tensor cores

# A float is kept at an exponent of -2 (f16, bf16, e4m3) or -1 (f32, f64): sums of many products remain small.
KINDS: Tuple[Kind, ...] = (
    Kind("f16", "FP16 tensor cores", (7, 0), "6.4", "sm_70", 8 * 8192, 0.3, 0x83FF83FF, 0x34003400),
    Kind("bf16", "BF16 tensor cores", (8, 0), "7.0", "sm_80", 16 * 4096, 0.25, 0x807F807F, 0x3E803E80),
    Kind("int8", "INT8 tensor cores", (8, 0), "7.0", "sm_80", 16 * 8192, 0.1, 0xFFFFFFFF, 0, True),
    Kind(
        "fp8", "FP8 tensor cores", (8, 9), "8.4", "sm_89", 16 * 8192, 0.1, 0x87878787, 0x28282828, emulated=(9, 10, 11)
    ),
    Kind("f32", "FP32", (7, 0), "6.4", "sm_70", 2 * _WORDS * 64, 0.1, 0x807FFFFF, 0x3F000000),
    Kind("f64", "FP64", (7, 0), "6.4", "sm_70", _WORDS * 64, 0.1, 0x800FFFFF, 0x3FE00000),
    Kind("int32", "32-bit integers", (7, 0), "6.4", "sm_70", 2 * _WORDS * 64, 0.05, 0xFFFFFFFE, 1, True),
)


def kinds_of(capability: Tuple[int, int]) -> Tuple[Kind, ...]:
    """The kinds that a GPU of this compute capability has, (9, 0) for Hopper."""
    return tuple(kind for kind in KINDS if kind.least <= capability and capability[0] not in kind.emulated)


def texts() -> Tuple[Text, ...]:
    """The text of each kind, for all GPUs that it runs on."""
    return tuple(
        Text("arithmetic_" + kind.name, text(kind), (kind.name,), targets)
        for kind in KINDS
        for targets in [tuple(one for one in ALL_TARGETS if kind in kinds_of((one // 10, one % 10)))]
    )


def text(kind: Kind) -> str:
    """The whole PTX with the entry ``kind.name``.

    Parameters: u32 rounds, u64 sums, u64 times, u32 seed. ``sums`` gets 128 bytes for each warp, the u32 checksums of
    its lanes; ``times`` gets 8 bytes for each warp: u32 number of the multiprocessor, u32 nanoseconds of the loop.
    """
    shape = _SHAPES.get(kind.name)
    if shape is not None:
        begin, body, words = _tensor(kind, shape)
    elif kind.name == "f64":
        begin, body, words = _f64(kind)
    else:
        begin, body, words = _scalar(kind)
    lines = [
        ".visible .entry {0}(.param .u32 rounds, .param .u64 sums, .param .u64 times, .param .u32 seed)".format(
            kind.name
        ),
        ".maxntid {0}, 1, 1".format(THREADS),
        "{",
        ".reg .pred %q; .reg .u64 %rd<12>; .reg .u32 %r<24>; .reg .b64 %k<4>;",
        ".reg .b32 %a<16>; .reg .b32 %b<16>; .reg .b64 %x<8>; .reg .b64 %y<8>;",
        ".reg .f32 %f<65>; .reg .u32 %u<65>; .reg .f64 %d<33>;",
        "ld.param.u32 %r0,[rounds]; ld.param.u64 %rd0,[sums]; ld.param.u64 %rd1,[times]; ld.param.u32 %r1,[seed];",
        "mov.u32 %r2,%laneid; mov.u32 %r3,%tid.x; mov.u32 %r4,%ctaid.x; mov.u32 %r5,%smid;",
        # %r6: round, %r7: checksum, %r8 and %r9: generators of masks, %r10 and %r11: masks, %r12 and %r13: temporary.
        "mov.u32 %r6,0; mov.u32 %r7,2166136261;",
        *_hash("%r8", 1),
        *_hash("%r9", 2),
        *begin,
        "mov.u64 %rd2,%globaltimer;",
        "LOOP:",
        *_masks(kind),
        *body,
        "add.u32 %r6,%r6,1; setp.lt.u32 %q,%r6,%r0; @%q bra LOOP;",
        "mov.u64 %rd3,%globaltimer; sub.u64 %rd3,%rd3,%rd2; cvt.u32.u64 %r14,%rd3;",
        *_folded(words),
        "shr.u32 %r15,%r3,5; mul.lo.u32 %r16,%r4,{0}; add.u32 %r15,%r15,%r16;".format(WARPS),
        "mul.wide.u32 %rd4,%r15,128; add.u64 %rd4,%rd0,%rd4; mul.wide.u32 %rd5,%r2,4; add.u64 %rd4,%rd4,%rd5;",
        "st.global.u32 [%rd4],%r7;",
        "setp.eq.u32 %q,%r2,0; @!%q bra END;",
        "mul.wide.u32 %rd6,%r15,8; add.u64 %rd6,%rd1,%rd6; st.global.v2.u32 [%rd6],{%r5,%r14};",
        "END: ret;",
        "}",
    ]
    return header(kind.version, kind.target) + "\n".join(lines) + "\n"


def _hash(register: str, number: int) -> List[str]:
    """A word that depends on lane, seed and number."""
    start = (number * 0x9E3779B9 + 0x7F4A7C15) & 0xFFFFFFFF
    return [
        "mad.lo.u32 %r12,%r2,0x9E3779B1,{0}; add.u32 %r12,%r12,%r1; mul.lo.u32 %r12,%r12,0x2C1B3C6D;".format(start),
        "shr.u32 %r13,%r12,13; xor.b32 %r12,%r12,%r13; mul.lo.u32 {0},%r12,0x297A2D39;".format(register),
    ]


def _operand(kind: Kind, register: str, number: int) -> List[str]:
    lines = _hash(register, number)
    if kind.fix or kind.keep != 0xFFFFFFFF:
        lines.append("and.b32 {0},{0},{1:#x}; or.b32 {0},{0},{2:#x};".format(register, kind.keep, kind.fix))
    return lines


def _masks(kind: Kind) -> List[str]:
    """The next masks into %r10 (left operands) and %r11 (right ones)."""
    lines = []
    for (factor, step), state, mask in zip(_MASKS, ("%r8", "%r9"), ("%r10", "%r11")):
        lines.append(
            "mad.lo.u32 {0},{0},{1},{2}; shr.u32 %r12,{0},15; xor.b32 {3},{0},%r12;".format(state, factor, step, mask)
        )
        if kind.name != "f64" and kind.keep != 0xFFFFFFFF:
            lines.append("and.b32 {0},{0},{1:#x};".format(mask, kind.keep))
    return lines


def _group(letter: str, first: int, count: int) -> str:
    return "{" + ",".join("%{0}{1}".format(letter, first + number) for number in range(count)) + "}"


def _tensor(kind: Kind, shape: _Shape) -> Tuple[List[str], List[str], List[str]]:
    """(before the loop, in a round, the words of accumulators). Operand sets are whole, so none has to be moved."""
    letter, zero = ("f", "mov.f32 %f64,0f00000000;") if shape.type == "f32" else ("u", "mov.u32 %u64,0;")
    tiles = _WORDS // shape.d
    lefts, rights = shape.a * shape.a_sets, shape.b * shape.b_sets
    begin, body = [zero], []
    for number in range(lefts):
        begin += _operand(kind, "%a{0}".format(number), 3 + number)
        body.append("xor.b32 %a{0},%a{0},%r10;".format(number))
    for number in range(rights):
        begin += _operand(kind, "%b{0}".format(number), 19 + number)
        body.append("xor.b32 %b{0},%b{0},%r11;".format(number))
    words = ["%{0}{1}".format(letter, number) for number in range(_WORDS)]
    start = "mov.f32 {0},%f64;" if shape.type == "f32" else "mov.u32 {0},0;"
    begin += [start.format(word) for word in words]
    for tile in range(tiles):
        last = tile == tiles - 1
        before = (
            "{" + ",".join(["%{0}64".format(letter)] * shape.d) + "}"
            if last
            else _group(letter, (tile + 1) * shape.d, shape.d)
        )
        body.append(
            "{0} {1},{2},{3},{4};".format(
                shape.opcode,
                _group(letter, tile * shape.d, shape.d),
                _group("a", tile % shape.a_sets * shape.a, shape.a),
                _group("b", tile // shape.a_sets % shape.b_sets * shape.b, shape.b),
                before,
            )
        )
    return begin, body + _folded(words[: shape.d]), words


def _scalar(kind: Kind) -> Tuple[List[str], List[str], List[str]]:
    """FP32 and integers: two multiplications and additions of each accumulator in a round."""
    begin, body = [], []
    for number in range(_FACTORS):
        for letter, mask, first in (("a", "%r10", 3), ("b", "%r11", 19)):
            begin += _operand(kind, "%{0}{1}".format(letter, number), first + number)
            body.append("xor.b32 %{0}{1},%{0}{1},{2};".format(letter, number, mask))
    if kind.integer:
        words = ["%u{0}".format(number) for number in range(_WORDS)]
        for number, word in enumerate([*words, "%u64"]):
            begin.append("mov.u32 {0},{1};".format(word, (number + 1) * 0x9E3779B1 & 0xFFFFFFFF))
        return begin, body + _moving("mad.lo.u32", words, "%u64", "%a", "%b"), words
    words = ["%f{0}".format(number) for number in range(_WORDS)]
    begin += ["mov.f32 {0},0f00000000;".format(word) for word in [*words, "%f64"]]
    # Numbers of the operands: registers of f32 that hold the words.
    begin.insert(0, ".reg .f32 %g<4>; .reg .f32 %h<4>;")
    for number in range(_FACTORS):
        body.append("mov.b32 %g{0},%a{0}; mov.b32 %h{0},%b{0};".format(number))
    body += _moving("fma.rn.f32", words, "%f64", "%g", "%h")
    return begin, body, words


def _f64(kind: Kind) -> Tuple[List[str], List[str], List[str]]:
    begin = [".reg .f64 %g<4>; .reg .f64 %h<4>;"]
    keep, fix = kind.keep << 32 | 0xFFFFFFFF, kind.fix << 32
    # A mask of 64 bits has the two of 32 bits in one order for left operands and in the other for right ones.
    body = [
        "mov.b64 %k0,{{%r10,%r11}}; mov.b64 %k1,{{%r11,%r10}}; and.b64 %k0,%k0,{0:#x}; and.b64 %k1,%k1,{0:#x};".format(
            keep
        )
    ]
    for number in range(_FACTORS):
        for letter, mask, half, first in (("x", "%k0", "g", 3), ("y", "%k1", "h", 19)):
            begin += _hash("%r14", first + number) + _hash("%r15", first + number + 8)
            begin.append(
                "mov.b64 %{0}{1},{{%r14,%r15}}; and.b64 %{0}{1},%{0}{1},{2:#x}; or.b64 %{0}{1},%{0}{1},{3:#x};".format(
                    letter, number, keep, fix
                )
            )
            body.append("xor.b64 %{0}{1},%{0}{1},{2}; mov.b64 %{3}{1},%{0}{1};".format(letter, number, mask, half))
    words = ["%d{0}".format(number) for number in range(_WORDS // 2)]
    begin += ["mov.f64 {0},0d0000000000000000;".format(word) for word in [*words, "%d32"]]
    return begin, body + _moving("fma.rn.f64", words, "%d32", "%g", "%h"), words


def _pair(number: int, turn: int) -> Tuple[int, int]:
    """Which two operands an accumulator takes: all 16 pairs, in another order at the second turn."""
    return (number + turn) % _FACTORS, (number // _FACTORS + 2 * turn) % _FACTORS


def _moving(opcode: str, words: Sequence[str], start: str, left: str, right: str) -> List[str]:
    """Two rounds over all accumulators. In the second one they move on by an eighth: the first eighth goes into the
    checksum, so each accumulator has 16 products when it does."""
    step = len(words) // 8
    lines = []
    for turn, sources in enumerate((words, [*words[step:], *[start] * step])):
        for number, (word, source) in enumerate(zip(words, sources)):
            one, other = _pair(number, turn)
            # An integer is a factor itself, so that the multiplier sees its bits.
            factors = (source, left + str(one), right + str(other))
            if not opcode.startswith("mad"):
                factors = (factors[1], factors[2], source)
            lines.append("{0} {1},{2},{3},{4};".format(opcode, word, *factors))
        if turn == 0:
            lines += _folded(words[:step])
    return lines


def _folded(words: Sequence[str]) -> List[str]:
    """Take the words into the checksum."""
    lines = []
    for word in words:
        if word.startswith("%d"):
            lines.append("mov.b64 %k2,{0}; mov.b64 {{%r12,%r13}},%k2;".format(word))
            lines += [_fold("%r12"), _fold("%r13")]
        elif word.startswith("%f"):
            lines += ["mov.b32 %r12,{0};".format(word), _fold("%r12")]
        else:
            lines.append(_fold(word))
    return lines


def _fold(word: str) -> str:
    return "shf.l.wrap.b32 %r7,%r7,%r7,5; mad.lo.u32 %r7,%r7,{0},{1};".format(_PRIME, word)

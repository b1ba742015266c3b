# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels of the memory test: write a pattern, compare it, and both in one pass.

A chunk of memory consists of words of 16 bytes. A word holds four 32-bit values that depend on its place (the number
of the word within all chunks, 64 bits), on a seed and on a mask: see :func:`pattern`. A thread has several loads under
way, because the memory of newer GPUs needs more than one for its full rate. Loads have ``.cv``, so no value is reused
from L1; that no value comes from L2 is up to the order of chunks.
"""

from __future__ import annotations

import struct
from typing import Dict, List, NamedTuple, Tuple

from . import Text, header

WORD_BYTES = 16
THREADS = 256  # of a block
OWN_ADDRESS = 0  # the seed of the pattern in which each half of a word holds its own place
INVERTED = 0xFFFFFFFF  # a mask
RECORDS = 64  # mismatches that a report has room for
_COUNT_BYTES, _RECORD = 16, struct.Struct("<Q2I4I4I")
REPORT_BYTES = _COUNT_BYTES + RECORDS * _RECORD.size
_UNROLLED = 2

# Odd, with about as many ones as zeros. _A and _B are large, so that the upper halves of products are, too.
_LOW, _HIGH, _MIX, _MORE = 0x9E3779B1, 0x85EBCA77, 0x2C1B3C6D, 0xAC4C1B51
_A, _B = 0xED5AD4BB, 0xF1BBCDCB
_32 = 0xFFFFFFFF
Values = Tuple[int, int, int, int]


class Mismatch(NamedTuple):
    """A read that returned something else than what was written. ``place``: the number of the word."""

    place: int
    seed: int
    mask: int
    wanted: Values
    got: Values


def pattern(place: int, seed: int, mask: int) -> Values:
    """What the kernels write into the word ``place``: four values of 32 bits, the lowest address first.

    Seed 0: each of the two halves of 64 bits holds its own place. Other seeds: a hash. Any two of its 128 bits differ
    in some word, so a bridge between two data lines shows. ``mask`` inverts.
    """
    low, high = place & _32, place >> 32 & _32
    if seed == OWN_ADDRESS:
        double = 2 * place
        values: Tuple[int, ...] = (double & _32, double >> 32 & _32, (double | 1) & _32, double >> 32 & _32)
    else:
        hashed = (low * _LOW + high * _HIGH + seed) & _32
        hashed = (hashed ^ hashed >> 15) * _MIX & _32
        one, other = (hashed ^ hashed >> 12) * _A, (hashed * _MORE & _32) * _B
        values = (one & _32, one >> 32, other & _32, other >> 32)
    first, second, third, fourth = (value ^ mask for value in values)
    return first, second, third, fourth


def place_of(values: Values, mask: int) -> int:
    """The word that holds ``values`` in the pattern with seed 0; -1: none does."""
    first, second, third, fourth = (value ^ mask for value in values)
    place = (first | second << 32) >> 1
    return place if pattern(place, OWN_ADDRESS, 0) == (first, second, third, fourth) else -1


def report(content: bytes) -> Tuple[int, List[Mismatch]]:
    """(how many reads were wrong, the recorded ones by place) from the ``REPORT_BYTES`` that kernels write."""
    count = int(struct.unpack_from("<Q", content)[0])
    found = []
    for number in range(min(count, RECORDS)):
        place, seed, mask, *values = _RECORD.unpack_from(content, _COUNT_BYTES + number * _RECORD.size)
        wanted, got = tuple(values[:4]), tuple(values[4:])
        found.append(Mismatch(place, seed, mask, wanted, got))
    return count, sorted(found)


# Parameters of all kernels: the address of the chunk, its words, the place of its first word, 0xffffffff to visit it
# downwards (0: upwards). Then what is expected, and what is written.
_CHUNK = ".param .u64 address, .param .u32 words, .param .u64 first, .param .u32 down"
_WANTED = ", .param .u32 seed, .param .u32 mask, .param .u64 report"
_NEXT = ", .param .u32 next_seed, .param .u32 next_mask"


def text() -> Text:
    """``write``, ``compare`` and ``step``, which compares and writes the next pattern in one pass."""
    kernels: Dict[str, str] = {
        "write": _kernel("write", compares=False, writes=True),
        "compare": _kernel("compare", compares=True, writes=False),
        "step": _kernel("step", compares=True, writes=True),
    }
    return Text("memory", header() + "".join(kernels.values()), tuple(kernels))


def _kernel(name: str, compares: bool, writes: bool) -> str:
    parameters = _CHUNK + (_WANTED if compares else "") + (_NEXT if writes else "")
    lines = [
        ".visible .entry {0}({1})".format(name, parameters),
        "{",
        ".reg .pred %own, %next_own, %more, %wrong, %kept;",
        ".reg .u64 %address, %first, %report, %slot, %at, %wide, %place<{0}>, %target<{0}>;".format(_UNROLLED),
        ".reg .u32 %index, %words, %ahead, %stride, %down, %turned, %seed, %mask, %next_seed, %next_mask, %low, %high;",
        ".reg .u32 %hash, %part, %slot_low, %difference, %other, %w<4>, %got<{0}>;".format(4 * _UNROLLED),
        "ld.param.u64 %address, [address];",
        "ld.param.u32 %words, [words];",
        "ld.param.u64 %first, [first];",
        "ld.param.u32 %down, [down];",
        # The place within the chunk: index, or words - 1 - index, which is ~index + words.
        "and.b32 %turned, %down, %words;",
    ]
    if compares:
        lines += [
            "ld.param.u32 %seed, [seed];",
            "ld.param.u32 %mask, [mask];",
            "ld.param.u64 %report, [report];",
            "setp.eq.u32 %own, %seed, {0};".format(OWN_ADDRESS),
        ]
    if writes:
        lines += [
            "ld.param.u32 %next_seed, [next_seed];",
            "ld.param.u32 %next_mask, [next_mask];",
            "setp.eq.u32 %next_own, %next_seed, {0};".format(OWN_ADDRESS),
        ]
    lines += [
        "mov.u32 %low, %ctaid.x;",
        "mov.u32 %high, %ntid.x;",
        "mov.u32 %part, %tid.x;",
        "mad.lo.u32 %index, %low, %high, %part;",
        "mov.u32 %low, %nctaid.x;",
        "mul.lo.u32 %stride, %low, %high;",
    ]
    # Several words at once while there are so many, then one by one.
    for at_once in (_UNROLLED, 1):
        lines += [
            "LOOP{0}:".format(at_once),
            "mad.lo.u32 %ahead, %stride, {0}, %index;".format(at_once - 1),
            "setp.ge.u32 %more, %ahead, %words;",
            "@%more bra DONE{0};".format(at_once),
        ]
        for number in range(at_once):
            lines += _address(number, compares)
        for number in range(at_once):
            label = "{0}_{1}".format(at_once, number)
            if compares:
                lines += _pattern(number, "", "wanted" + label) + _compare(number, label)
            if writes:
                lines += _pattern(number, "next_", "next" + label)
                lines.append("st.global.v4.u32 [%target{0}], {{%w0, %w1, %w2, %w3}};".format(number))
        lines += ["bra.uni LOOP{0};".format(at_once), "DONE{0}:".format(at_once)]
    return "\n".join([*lines, "ret;", "}", ""])


def _address(number: int, compares: bool) -> List[str]:
    """The place and the address of the next word, and its content."""
    lines = [
        "xor.b32 %part, %index, %down;",
        "add.u32 %part, %part, %turned;",
        "cvt.u64.u32 %wide, %part;",
        "add.u64 %place{0}, %first, %wide;".format(number),
        "mad.wide.u32 %target{0}, %part, {1}, %address;".format(number, WORD_BYTES),
        "add.u32 %index, %index, %stride;",
    ]
    if compares:
        got = ", ".join("%got{0}".format(4 * number + part) for part in range(4))
        lines.append("ld.global.cv.v4.u32 {{{0}}}, [%target{1}];".format(got, number))
    return lines


def _pattern(number: int, prefix: str, label: str) -> List[str]:
    """%w0 to %w3: what :func:`pattern` returns."""
    return [
        "cvt.u32.u64 %low, %place{0};".format(number),
        "shr.u64 %wide, %place{0}, 32;".format(number),
        "cvt.u32.u64 %high, %wide;",
        "@%{0}own bra {1}_own;".format(prefix, label),
        "mad.lo.u32 %hash, %low, {0:#x}, %{1}seed;".format(_LOW, prefix),
        "mad.lo.u32 %hash, %high, {0:#x}, %hash;".format(_HIGH),
        "shr.u32 %part, %hash, 15;",
        "xor.b32 %hash, %hash, %part;",
        "mul.lo.u32 %hash, %hash, {0:#x};".format(_MIX),
        "shr.u32 %part, %hash, 12;",
        "xor.b32 %part, %hash, %part;",
        "mul.wide.u32 %wide, %part, {0:#x};".format(_A),
        "mov.b64 {%w0, %w1}, %wide;",
        "mul.lo.u32 %hash, %hash, {0:#x};".format(_MORE),
        "mul.wide.u32 %wide, %hash, {0:#x};".format(_B),
        "mov.b64 {%w2, %w3}, %wide;",
        "bra.uni {0};".format(label),
        "{0}_own:".format(label),
        "shl.b64 %wide, %place{0}, 1;".format(number),
        "mov.b64 {%w0, %w1}, %wide;",
        "or.b32 %w2, %w0, 1;",
        "mov.u32 %w3, %w1;",
        "{0}:".format(label),
        *("xor.b32 %w{0}, %w{0}, %{1}mask;".format(part, prefix) for part in range(4)),
    ]


def _compare(number: int, label: str) -> List[str]:
    """Count a word that is not as wanted, and record it while the report has room."""
    got = ["%got{0}".format(4 * number + part) for part in range(4)]
    return [
        "xor.b32 %difference, %w0, {0};".format(got[0]),
        *(
            line.format(part, got[part])
            for part in range(1, 4)
            for line in ("xor.b32 %other, %w{0}, {1};", "or.b32 %difference, %difference, %other;")
        ),
        "setp.eq.u32 %wrong, %difference, 0;",
        "@%wrong bra right{0};".format(label),
        "atom.global.add.u64 %slot, [%report], 1;",
        "setp.ge.u64 %kept, %slot, {0};".format(RECORDS),
        "@%kept bra right{0};".format(label),
        "cvt.u32.u64 %slot_low, %slot;",
        "mad.wide.u32 %at, %slot_low, {0}, %report;".format(_RECORD.size),
        "st.global.v4.u32 [%at+{0}], {{%low, %high, %seed, %mask}};".format(_COUNT_BYTES),
        "st.global.v4.u32 [%at+{0}], {{%w0, %w1, %w2, %w3}};".format(_COUNT_BYTES + 16),
        "st.global.v4.u32 [%at+{0}], {{{1}}};".format(_COUNT_BYTES + 32, ", ".join(got)),
        "right{0}:".format(label),
    ]

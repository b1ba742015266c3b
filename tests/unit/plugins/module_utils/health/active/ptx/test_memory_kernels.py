# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The patterns of the memory kernels: each bit, each place and each pair of data lines is told apart."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.ptx import memory

PLACES = some.integers(0, 2**38)  # 4 TiB
SEEDS = some.integers(1, 2**32 - 1)


def bits(place, seed, mask):
    first, second, third, fourth = memory.pattern(place, seed, mask)
    return first | second << 32 | third << 64 | fourth << 96


@given(PLACES, some.integers(0, 2**32 - 1))
def test_the_inverse_differs_in_each_bit(place, seed):
    assert bits(place, seed, 0) ^ bits(place, seed, memory.INVERTED) == 2**128 - 1


@given(PLACES, some.sampled_from([0, memory.INVERTED]))
def test_a_word_of_the_own_address_pattern_holds_its_place_and_gives_it_back(place, mask):
    values = memory.pattern(place, memory.OWN_ADDRESS, mask)
    halves = struct.unpack("<2Q", struct.pack("<4I", *(value ^ mask for value in values)))
    assert halves == (2 * place, 2 * place + 1)
    assert memory.place_of(values, mask) == place


@given(PLACES, SEEDS)
def test_other_values_give_no_place(place, seed):
    assert memory.place_of(memory.pattern(place, seed, 0), 0) == -1


@given(PLACES, some.integers(0, 37), SEEDS)
def test_places_that_one_address_line_tells_apart_hold_different_words(place, line, seed):
    assert bits(place, seed, 0) != bits(place ^ 1 << line, seed, 0)


@pytest.mark.parametrize("seed", [1, 2, 20260522, 2**32 - 1])
def test_any_two_data_lines_differ_in_both_ways_within_a_few_words(seed):
    """A bridge between two lines makes both equal: it shows where they should differ."""
    words = [bits(place, seed, 0) for place in range(96)]
    lines = [sum((word >> line & 1) << place for place, word in enumerate(words)) for line in range(128)]
    assert [pair for pair in itertools.permutations(range(128), 2) if not lines[pair[0]] & ~lines[pair[1]]] == []


def test_a_report_is_read_by_place():
    record = struct.Struct("<Q2I4I4I")
    found = [(2**33 + 7, 5, 0, 1, 2, 3, 4, 1, 2, 3, 5), (9, 0, memory.INVERTED, *(0,) * 8)]
    content = struct.pack("<2Q", 2, 0) + b"".join(record.pack(*one) for one in found)
    count, mismatches = memory.report(content.ljust(memory.REPORT_BYTES, b"\0"))
    assert count == 2 and [one.place for one in mismatches] == [9, 2**33 + 7]
    assert mismatches[1] == memory.Mismatch(2**33 + 7, 5, 0, (1, 2, 3, 4), (1, 2, 3, 5))
    full = struct.pack("<2Q", 10**9, 0).ljust(memory.REPORT_BYTES, b"\0")
    assert memory.report(full)[0] == 10**9 and len(memory.report(full)[1]) == memory.RECORDS

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory test on simulated memory with a known fault: what docs/health_active.md says that it finds, it finds."""

from __future__ import annotations

import itertools
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import memory_patterns, memory_test
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Expected, Outcome
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.active import faulty_memory as faulty

CHUNK, WORDS = 1024, 2048  # 8 KiB, 11 address lines
BITS = 11


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """As CHUNK is to 256 MiB; what matters is that no power of two lies between chunks, see below."""
    monkeypatch.setattr(memory_patterns, "SHIFT", 17 * 4)


def run(memory):
    return memory_test.test(faulty.Device(memory), 3600.0, CHUNK, 0)


def found(memory):
    return run(memory).wrong > 0


def used():
    """The first word that is tested (the pattern itself lies before it), and the one after the last."""
    device = faulty.Device(faulty.Memory(WORDS))
    one = memory_test.test(device, 3600.0, CHUNK, 0)
    return (device.used - one.memory_bytes) // 4, device.used // 4


def test_sound_memory_is_well_and_every_bit_of_it_was_read_both_ways():
    one = run(faulty.Memory(WORDS))
    assert (one.wrong, one.first, one.patterns, one.share) == (0, "", 6, 1.0)
    assert one.memory_bytes == 6 * CHUNK  # the rest holds the pattern


@pytest.mark.parametrize("state", [0, 1])
def test_every_bit_that_is_stuck_is_found(state):
    first, end = used()
    for place in random.Random(1).sample(range(first, end), 40):
        for bit in (0, 7, 13, 31):
            assert found(faulty.StuckBit(WORDS, place, bit, state)), (place, bit)


@pytest.mark.parametrize("up", [True, False])
def test_every_bit_that_cannot_change_is_found(up):
    first, end = used()
    for place in random.Random(2).sample(range(first, end), 40):
        for bit in (0, 11, 31):
            assert found(faulty.NoTransition(WORDS, place, bit, up)), (place, bit)


@pytest.mark.parametrize("state", [0, 1])
@pytest.mark.parametrize("bit", range(BITS))
def test_every_address_line_that_is_stuck_is_found(bit, state):
    assert found(faulty.StuckAddressBit(WORDS, bit, state))


def test_every_two_address_lines_with_a_bridge_are_found():
    missed = [
        pair
        for pair in itertools.combinations(range(BITS), 2)
        if not found(faulty.SharedAddressBits(WORDS, pair[0], pair[1]))
    ]
    assert missed == []


@pytest.mark.parametrize("also", [True, False])
def test_addresses_that_reach_the_cell_of_another_are_found(also):
    first, end = used()
    source = random.Random(3)
    pairs = [source.sample(range(first, end), 2) for dummy in range(80)]
    assert [pair for pair in pairs if not found(faulty.Aliased(WORDS, *pair, also))] == []


def test_of_cells_that_disturb_another_one_most_are_found():
    """The figure that the documentation states is that of tests/bench/memory_test.py, over more of them."""
    first, end = used()
    source = random.Random(4)
    hits = 0
    for number in range(120):
        aggressor, victim = source.sample(range(first, end), 2)
        bits = (source.randrange(32), source.randrange(32))
        up, value = number % 2 == 0, (None, True, False)[number % 3]
        hits += found(faulty.Coupled(WORDS, (aggressor, bits[0]), (victim, bits[1]), up, value))
    assert hits >= 0.6 * 120


def test_it_says_where_the_first_wrong_byte_is():
    first, dummy = used()
    one = run(faulty.StuckBit(WORDS, first + 300, 9, 1))
    assert one.first.startswith("byte {0:#x} is 0x".format(300 * 4 + 1)) and one.wrong == 1


def test_a_time_that_is_over_is_told_with_what_was_covered():
    device = faulty.Device(faulty.Memory(WORDS))
    one = memory_test.test(device, -1.0, CHUNK, 0)
    assert (one.wrong, one.both_ways_bytes, one.patterns) == (0, 0, 0)
    seen = memory_test.Seen((("GPU 3", "gpu3", one),))
    (finding,) = memory_test.judge(seen, Expected("p", {}, {}, {}, {}, {}, 0.0)).findings
    assert (finding.outcome, finding.code, finding.key) == (Outcome.UNKNOWN, "not_covered", "gpu3")
    assert "only 0% of its memory" in finding.reason


def test_too_little_free_memory_is_told():
    with pytest.raises(NodeError, match="GPU memory: less than"):
        memory_test.test(faulty.Device(faulty.Memory(WORDS), used=WORDS * 4 - 1500), 1.0, CHUNK, 0)


# Patterns ---------------------------------------------------------------------------------------------


@given(some.integers(1, 5000))
def test_a_word_holds_its_own_place(count):
    words = struct.unpack("<{0}I".format(count), memory_patterns.own_address(4 * count))
    assert words == tuple(range(count))


def test_random_words_are_the_same_for_each_seed():
    assert memory_patterns.seeded(16, 1) == memory_patterns.seeded(2**20 + 8, 1)[:16] != memory_patterns.seeded(16, 2)
    assert memory_patterns.seeded(8, memory_test.SEED).hex() == "a6dbe431fc2b1722"


def test_from_one_pattern_to_the_next_every_bit_goes_up_and_down():
    patterns = [int.from_bytes(pattern, "little") for pattern in memory_patterns.in_turn(4096, 7)][:4]
    up = down = 0
    for before, after in zip(patterns, patterns[1:]):
        up |= ~before & after
        down |= before & ~after
    assert up == down == 2 ** (8 * 4096) - 1


def test_no_two_cells_that_one_address_line_tells_apart_hold_the_same_word(monkeypatch):
    """With the real sizes: places in the pattern are equal only where the distance is a multiple of this one."""
    monkeypatch.undo()
    assert memory_patterns.SHIFT % 256 == 0
    distance = (memory_test.CHUNK - memory_patterns.SHIFT) // 4
    apart = {times * distance for times in range(1, 4096)}  # 1 TiB
    assert not apart & {2**bit for bit in range(40)}

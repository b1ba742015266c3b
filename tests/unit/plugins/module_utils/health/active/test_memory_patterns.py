# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory test on simulated memory with a known fault: what docs/health_active.md says that it finds, it finds."""

from __future__ import annotations

import itertools
import random
import struct
import types

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import (
    memory_by_host,
    memory_kernels,
    memory_on_gpu,
    memory_patterns,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.ptx import memory as kernels
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.active import faulty_memory as faulty

CHUNK = 1024


class ByHost:
    """The host compares. The pattern itself is in front of the words that are tested."""

    words, bits = 2048, 11  # 8 KiB

    def run(self, memory, seconds=3600.0, most=3600.0):
        device = faulty.Device(memory)
        return memory_by_host.test(device, device, seconds, most, CHUNK, 0)

    def cells(self):
        device = faulty.Device(faulty.Memory(self.words))
        one = memory_by_host.test(device, device, 3600.0, 3600.0, CHUNK, 0)
        return range((device.used - one.memory_bytes) // 4, device.used // 4)


class OnGpu:
    """The kernels compare."""

    words, bits = 512, 9

    def run(self, memory, seconds=0.0, most=3600.0):
        return memory_on_gpu.test(faulty.Gpu(memory), seconds, most)

    def cells(self):
        return range(self.run(faulty.Memory(self.words)).memory_bytes // 4)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """As CHUNK is to 256 MiB; what matters is that no power of two lies between chunks, see below."""
    monkeypatch.setattr(memory_patterns, "SHIFT", 17 * 4)


@pytest.fixture(params=[ByHost, OnGpu])
def way(request):
    return request.param()


def found(way, memory):
    return way.run(memory).wrong > 0


def test_sound_memory_is_well_and_every_bit_of_it_was_read_both_ways(way):
    one = way.run(faulty.Memory(way.words))
    assert (one.wrong, one.where, one.patterns, one.both_ways_bytes) == (0, "", 6, one.memory_bytes)
    assert one.memory_bytes == len(way.cells()) * 4 == (6 * CHUNK if isinstance(way, ByHost) else 1792)


@pytest.mark.parametrize("state", [0, 1])
def test_every_bit_that_is_stuck_is_found(way, state):
    for place in random.Random(1).sample(way.cells(), 20):
        for bit in (0, 7, 13, 31):
            assert found(way, faulty.StuckBit(way.words, place, bit, state)), (place, bit)


@pytest.mark.parametrize("up", [True, False])
def test_every_bit_that_cannot_change_is_found(way, up):
    for place in random.Random(2).sample(way.cells(), 20):
        for bit in (0, 11, 31):
            assert found(way, faulty.NoTransition(way.words, place, bit, up)), (place, bit)


@pytest.mark.parametrize("state", [0, 1])
def test_every_address_line_that_is_stuck_is_found(way, state):
    for bit in range(way.bits):
        assert found(way, faulty.StuckAddressBit(way.words, bit, state)), bit


def test_every_two_address_lines_with_a_bridge_are_found(way):
    missed = [
        pair
        for pair in itertools.combinations(range(way.bits), 2)
        if not found(way, faulty.SharedAddressBits(way.words, pair[0], pair[1]))
    ]
    assert missed == []


@pytest.mark.parametrize("also", [True, False])
def test_addresses_that_reach_the_cell_of_another_are_found(way, also):
    source = random.Random(3)
    pairs = [source.sample(way.cells(), 2) for dummy in range(50)]
    assert [pair for pair in pairs if not found(way, faulty.Aliased(way.words, *pair, also))] == []


def test_of_cells_that_disturb_another_one_most_are_found(way):
    """The figure that the documentation states is that of tests/bench/memory_test.py, over more of them."""
    source = random.Random(4)
    hits = 0
    for number in range(120):
        aggressor, victim = source.sample(way.cells(), 2)
        bits = (source.randrange(32), source.randrange(32))
        up, value = number % 2 == 0, (None, True, False)[number % 3]
        hits += found(way, faulty.Coupled(way.words, (aggressor, bits[0]), (victim, bits[1]), up, value))
    assert hits >= 0.6 * 120


def test_the_host_reports_where_the_first_wrong_byte_is():
    way = ByHost()
    one = way.run(faulty.StuckBit(way.words, way.cells()[300], 9, 1))
    assert one.where.startswith("byte {0:#x} is 0x".format(300 * 4 + 1)) and one.wrong == 1


@pytest.mark.parametrize("place", [0, 1, 237, 447])
@pytest.mark.parametrize("state", [0, 1])
def test_the_kernels_report_the_byte_the_bit_and_its_value(place, state):
    one = OnGpu().run(faulty.StuckBit(512, place, 9, state))
    assert one.where == "byte {0:#x} bit 1 reads {1}".format(4 * place + 1, state) and one.wrong == 3


def test_the_kernels_report_whose_data_a_word_returns():
    memory = faulty.Memory(512)
    memory.places = lambda word: (word - 160,) if word // 4 == 100 else (word,)
    one = OnGpu().run(memory)
    # Word 100 reads the cell of word 60, which has the next data of either one when the other is visited.
    assert one.where == "byte 0x3c0 returns the data of byte 0x640; byte 0x640 returns the data of byte 0x3c0"


def test_a_bad_data_line_is_not_taken_for_a_wrong_address():
    """The same bit of both halves of a word is stuck, so own-address data is that of another word."""

    class Line(faulty.Memory):
        def store(self, place, value):
            self.cells[place] = value | 16 if place in (40, 42) else value

    assert OnGpu().run(Line(512)).where == "byte 0xa0 bit 4 and 1 more bits of 16 bytes read wrong"


def test_a_fault_that_comes_and_goes_has_no_value():
    class Flips(faulty.Memory):
        reads = 0

        def read(self, word):
            self.reads += word == 6
            return self.cells[word] ^ (2 if word == 6 and self.reads in (2, 3) else 0)

    one = OnGpu().run(Flips(512))
    assert (one.wrong, one.where) == (2, "byte 0x18 bit 1 reads wrong")


def test_the_first_places_are_reported_of_many():
    class Dead(faulty.Memory):
        def read(self, word):
            return 0

    one = OnGpu().run(Dead(512))
    assert one.wrong == 6 * 112  # each word, in each pattern
    assert one.where.count(";") == 2 and one.where.endswith(" and more") and "byte 0x0 " in one.where


def test_rounds_repeat_with_new_patterns_until_the_time_is_over():
    class Counting(faulty.Gpu):
        seeds = ()

        def launch(self, kernel, blocks, threads, *arguments):
            if kernel == "compare":
                self.seeds += (arguments[4].value,)
            super().launch(kernel, blocks, threads, *arguments)

    gpu = Counting(faulty.Memory(512))
    one = memory_on_gpu.test(gpu, 0.3, 3600.0)
    assert one.patterns >= 12 and one.patterns % 6 == 0
    assert len(set(gpu.seeds)) == one.patterns // 6


def test_a_time_that_is_over_is_reported_with_what_was_covered(way):
    one = way.run(faulty.Memory(way.words), seconds=-1.0, most=-1.0)
    assert (one.wrong, one.both_ways_bytes, one.patterns) == (0, 0, 0)


def test_one_compared_pattern_of_the_kernels_covers_nothing(monkeypatch):
    """It shows a bit as 0 or as 1 only. The clock of this test goes on by one second for each pass."""

    class Counting(faulty.Gpu):
        passes = 0

        def seconds_of(self, work):
            self.passes += 1
            return super().seconds_of(work)

    for most, patterns in ((1.5, 1), (2.5, 2)):
        gpu = Counting(faulty.Memory(512))
        monkeypatch.setattr(memory_on_gpu, "time", types.SimpleNamespace(monotonic=lambda gpu=gpu: float(gpu.passes)))
        one = memory_on_gpu.test(gpu, -1.0, most)
        assert (one.wrong, one.patterns) == (0, patterns)
        assert one.both_ways_bytes == (one.memory_bytes if patterns == 2 else 0)


def test_the_host_goes_on_until_each_bit_was_read_both_ways_within_its_most():
    way = ByHost()
    one = way.run(faulty.Memory(way.words), seconds=-1.0)
    assert (one.both_ways_bytes, one.patterns) == (one.memory_bytes, 2)


def test_too_little_free_memory_is_an_error():
    device = faulty.Device(faulty.Memory(2048), used=8192 - 1500)
    with pytest.raises(NodeError, match="GPU memory: less than"):
        memory_by_host.test(device, device, 1.0, 1.0, CHUNK, 0)
    with pytest.raises(NodeError, match="GPU memory: less than"):
        memory_on_gpu.test(faulty.Gpu(faulty.Memory(2048), used=8192 - 100), 1.0, 1.0)


# The plan of the kernels ------------------------------------------------------------------------------


@given(
    some.lists(some.integers(4, 10), min_size=1, max_size=12).map(lambda powers: sorted(powers, reverse=True)),
    some.integers(0, 400),
)
def test_no_pass_reads_from_the_cache_what_the_pass_before_it_left_there(powers, cache):
    """Lines of 16 bytes and a cache that keeps the last ones used; it is as large as half of the memory at the most."""
    sizes = [2**power for power in powers]
    lines = [(place, line) for place, size in enumerate(sizes) for line in range(size // 16)]
    used = []
    kept = cache // 16
    if 4 * kept > len(lines) or len(sizes) < 3:
        return
    for one in memory_on_gpu.passes(0):
        for place in memory_on_gpu.order(sizes, cache, one.down):
            inside = [line for line in lines if line[0] == place][:: -1 if one.down else 1]
            for line in inside:
                assert one.wanted is None or line not in used[-kept:] or not kept
                used.append(line)
        assert sorted(used[-len(lines) :]) == lines, "each line once"


@given(some.integers(0, 50))
def test_a_round_has_six_patterns_in_pairs_and_turns_each_time(number):
    first, *others = memory_on_gpu.passes(number)
    assert first.wanted is None and [one.written is None for one in others] == [False] * 5 + [True]
    assert [one.wanted for one in others] == [first.written, *(one.written for one in others[:-1])]
    assert [one.down for one in others] == [False, True] * 3
    for one, inverse in zip(others[::2], others[1::2]):
        assert one.wanted.seed == inverse.wanted.seed and one.wanted.mask ^ inverse.wanted.mask == 0xFFFFFFFF
    assert len({one.wanted for one in others}) == 6


@given(some.integers(0, 2**34), some.integers(0, 20))
def test_in_a_round_every_bit_goes_up_and_down_by_the_fourth_pattern(place, number):
    def bits(pattern):
        return int.from_bytes(struct.pack("<4I", *kernels.pattern(place, *pattern)), "little")

    values = [bits(one.wanted) for one in memory_on_gpu.passes(number)[1:5]]
    up = down = 0
    for before, after in zip(values, values[1:]):
        up |= ~before & after
        down |= before & ~after
    assert up == down == 2**128 - 1


# Patterns ---------------------------------------------------------------------------------------------


@given(some.integers(1, 5000))
def test_a_word_holds_its_own_place(count):
    words = struct.unpack("<{0}I".format(count), memory_patterns.own_address(4 * count))
    assert words == tuple(range(count))


def test_random_words_are_the_same_for_each_seed():
    assert memory_patterns.seeded(16, 1) == memory_patterns.seeded(2**20 + 8, 1)[:16] != memory_patterns.seeded(16, 2)
    assert memory_patterns.seeded(8, memory_on_gpu.SEED).hex() == "a6dbe431fc2b1722"


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
    distance = (memory_by_host.chunk_of(80 * 2**30) - memory_patterns.SHIFT) // 4
    apart = {times * distance for times in range(1, 4096)}  # 1 TiB
    assert not apart & {2**bit for bit in range(40)}


class Recorded:
    """Records the launches of a device."""

    multiprocessors = 1

    def __init__(self):
        self.launched = []

    def kernels(self, text, names):
        return names

    def memory(self, size):
        return 64

    def fill(self, *dummy):
        pass

    def launch(self, kernel, blocks, threads, *arguments):
        self.launched.append((kernel, blocks, *(one.value for one in arguments)))


@pytest.mark.parametrize("down, turned", [(False, 0), (True, 0xFFFFFFFF)])
def test_a_launch_has_the_parameters_in_the_order_of_the_text_and_its_direction(down, turned):
    device = Recorded()
    kernels = memory_kernels.MemoryKernels(device)
    kernels.launch(4096, 1600, memory_kernels.Pattern(1, 2), memory_kernels.Pattern(3, 4), 7, down)
    assert device.launched == [("step", 1, 4096, 100, 7, turned, 1, 2, 64, 3, 4)]

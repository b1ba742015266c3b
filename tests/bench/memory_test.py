# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What share of the faults of a memory `gpu_memory_test` finds: the test itself on simulated memories, each with one
known fault, drawn with a seed. docs/health_active.md states these figures. No GPU is needed.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".collections"))

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import memory_patterns, memory_test
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.active import (
    faulty_memory as faulty,
)

CHUNK, WORDS, EACH, SEED = 1024, 2048, 400, 20261122


def main() -> None:
    memory_patterns.SHIFT = 17 * 4
    device = faulty.Device(faulty.Memory(WORDS))
    one = memory_test.test(device, 3600.0, CHUNK, 0)
    source = random.Random(SEED)
    cells = range((device.used - one.memory_bytes) // 4, device.used // 4)

    def two(same):
        while True:
            pair = source.sample(cells, 2)
            if same is None or same == ((pair[0] - cells[0]) // (CHUNK // 4) == (pair[1] - cells[0]) // (CHUNK // 4)):
                return pair

    def coupled(same, value):
        one, other = two(same)
        place, bit = (one, source.randrange(32)), (other, source.randrange(32))
        return faulty.Coupled(WORDS, place, bit, source.random() < 0.5, value)

    lines = WORDS.bit_length() - 1
    faults = {
        "data bit stuck at 0 or 1": [
            faulty.StuckBit(WORDS, source.choice(cells), source.randrange(32), number % 2) for number in range(EACH)
        ],
        "data bit that cannot go up or down": [
            faulty.NoTransition(WORDS, source.choice(cells), source.randrange(32), number % 2 == 0)
            for number in range(EACH)
        ],
        "address line stuck at 0 or 1, each": [
            faulty.StuckAddressBit(WORDS, bit, state) for bit in range(lines) for state in (0, 1)
        ],
        "bridge between two address lines, each": [
            faulty.SharedAddressBits(WORDS, *pair) for pair in itertools.combinations(range(lines), 2)
        ],
        "address that reaches another cell, too": [faulty.Aliased(WORDS, *two(None), True) for dummy in range(EACH)],
        "address that reaches another cell instead": [
            faulty.Aliased(WORDS, *two(None), False) for dummy in range(EACH)
        ],
        "bit that inverts one of another chunk": [coupled(False, None) for dummy in range(EACH)],
        "bit that sets one of another chunk": [coupled(False, number % 2 == 0) for number in range(EACH)],
        "bit that inverts one of its own chunk": [coupled(True, None) for dummy in range(EACH)],
        "bit that sets one of its own chunk": [coupled(True, number % 2 == 0) for number in range(EACH)],
    }
    print("| fault of the memory | simulated | found |\n| --- | --- | --- |")
    for name, memories in faults.items():
        hits = sum(memory_test.test(faulty.Device(one), 3600.0, CHUNK, 0).wrong > 0 for one in memories)
        print("| {0} | {1} | {2:.1%} |".format(name, len(memories), hits / len(memories)), flush=True)


if __name__ == "__main__":
    main()

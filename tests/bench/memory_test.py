# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What share of the faults of a memory `gpu_memory_test` finds: the test itself on simulated memories, each with one
known fault, drawn with a seed. docs/health_active.md states these figures, of the kernels and of the host. No GPU is
needed: the kernels are a model in Python, which tests/unit compares with their PTX text.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".collections"))

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import (
    memory_by_host,
    memory_on_gpu,
    memory_patterns,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.active import (
    faulty_memory as faulty,
)

CHUNK, EACH, SEED = 1024, 400, 20261122
NEAR = faulty.Gpu.GROUP * 4  # cells that threads visit at the same time


def by_host(memory):
    device = faulty.Device(memory)
    return memory_by_host.test(device, device, 3600.0, 3600.0, CHUNK, 0)


def on_gpu(memory):
    return memory_on_gpu.test(faulty.Gpu(memory), 0.0, 3600.0)


def faults(words, cells, near):
    """Memories with a fault by its name. Cells of the same ``near`` words are visited together."""
    source = random.Random(SEED)

    def two(same):
        while True:
            pair = source.sample(cells, 2)
            if same is None or same == ((pair[0] - cells[0]) // near == (pair[1] - cells[0]) // near):
                return pair

    def coupled(same, value):
        one, other = two(same)
        place, bit = (one, source.randrange(32)), (other, source.randrange(32))
        return faulty.Coupled(words, place, bit, source.random() < 0.5, value)

    lines = range(words.bit_length() - 1)
    each = range(EACH)
    return {
        "data bit stuck at 0 or 1": [
            faulty.StuckBit(words, source.choice(cells), source.randrange(32), number % 2) for number in each
        ],
        "data bit that cannot go up or down": [
            faulty.NoTransition(words, source.choice(cells), source.randrange(32), number % 2 == 0) for number in each
        ],
        "address line stuck at 0 or 1, each": [
            faulty.StuckAddressBit(words, bit, state) for bit in lines for state in (0, 1)
        ],
        "bridge between two address lines, each": [
            faulty.SharedAddressBits(words, *pair) for pair in itertools.combinations(lines, 2)
        ],
        "address that reaches another cell, too": [faulty.Aliased(words, *two(None), True) for dummy in each],
        "address that reaches another cell instead": [faulty.Aliased(words, *two(None), False) for dummy in each],
        "bit that inverts one that is not visited with it": [coupled(False, None) for dummy in each],
        "bit that sets one that is not visited with it": [coupled(False, number % 2 == 0) for number in each],
        "bit that inverts one that is visited with it": [coupled(True, None) for dummy in each],
        "bit that sets one that is visited with it": [coupled(True, number % 2 == 0) for number in each],
    }


def main() -> None:
    memory_patterns.SHIFT = 17 * 4
    device = faulty.Device(faulty.Memory(2048))
    tested = memory_by_host.test(device, device, 3600.0, 3600.0, CHUNK, 0)
    host = range((device.used - tested.memory_bytes) // 4, device.used // 4)
    gpu = range(on_gpu(faulty.Memory(512)).memory_bytes // 4)
    ways = [(on_gpu, faults(512, gpu, NEAR)), (by_host, faults(2048, host, CHUNK // 4))]
    print("| fault of the memory | by the kernels | by the host |\n| --- | --- | --- |")
    for name in ways[0][1]:
        shares = [sum(test(one).wrong > 0 for one in kinds[name]) / len(kinds[name]) for test, kinds in ways]
        print("| {0} | {1:.1%} | {2:.1%} |".format(name, *shares), flush=True)


if __name__ == "__main__":
    main()

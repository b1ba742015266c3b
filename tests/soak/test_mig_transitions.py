# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MIG planner against its oracle, whole: from each of the 2,319 layouts of a GPU of seven slices to each of its 128
sets of profiles. tests/unit samples the same."""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ProcessPoolExecutor

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.transitions import (
    LAYOUTS,
    SETS,
    check_all,
)


def _from_everywhere(numbers):
    """All transitions to one set; how many."""
    chance = random.Random(repr(numbers))
    for there in LAYOUTS:
        check_all(numbers, there, chance)
    return len(LAYOUTS)


def test_each_layout_becomes_each_set():
    began = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        count = sum(pool.map(_from_everywhere, sorted(SETS)))
    assert count == 128 * 2319
    print("{0} transitions in {1:.0f} s".format(count, time.monotonic() - began))

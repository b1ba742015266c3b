# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dividing the cores of one NUMA node."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.machine import Core
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.shares import divide


def cores(*caches):
    """One core a CPU, in caches of these sizes."""
    numbers = [number for number, size in enumerate(caches) for dummy in range(size)]
    return [Core((cpu,), 0, number) for cpu, number in enumerate(numbers)]


@pytest.mark.parametrize(
    "caches, ranks, need, wanted",
    [
        ((4, 4, 4, 4, 4, 4), 2, None, [range(12), range(12, 24)]),  # three whole caches each
        ((8, 8, 6, 6), 4, None, [range(6), range(8, 14), range(16, 22), range(22, 28)]),  # a cache each
        ((4, 4, 4), 2, None, [range(6), range(6, 12)]),  # four would be clear and lose a third: shared caches it is
        ((2, 4), 1, 4, [range(2, 6)]),  # the one cache that is large enough, not pieces of two
        ((2, 2, 4), 2, 4, [range(4), range(4, 8)]),  # two small ones make one
        ((8,), 3, 2, [range(2), range(2, 4), range(4, 6)]),
        ((4, 4), 3, 1, [range(1), range(1, 2), range(4, 5)]),  # spread over the caches
        ((4, 4), 3, 3, None),
        ((1,), 2, None, None),
    ],
)  # fmt: skip
def test_shares(caches, ranks, need, wanted):
    found = divide(cores(*caches), ranks, need)
    if wanted is None:
        assert found is None
    else:
        assert [[core.cpus[0] for core in share] for share in found] == [list(one) for one in wanted]


def test_a_share_that_must_be_larger_than_a_clear_one_crosses_caches():
    assert [len(share) for share in divide(cores(8, 8, 8, 8, 6, 6), 6, None, at_least=7)] == [7] * 6

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU sets as texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import masks

sets = st.lists(st.sets(st.integers(0, 300), min_size=1).map(lambda one: tuple(sorted(one))), min_size=1, max_size=6)


def test_masks_are_hexadecimal_with_the_lowest_cpu_last():
    assert masks.mask(range(24, 48)) == "ffffff000000"
    assert masks.mask([0]) == "1" and masks.mask([]) == "0"
    assert masks.cpus_of_mask("0xFF0") == tuple(range(4, 12))


def test_damaged_masks_are_empty():
    for text in ("", "0x", "xyz", "-1", "ff,ff", "f" * 20000):
        assert masks.cpus_of_mask(text) == ()


@given(sets)
def test_every_form_reads_back(cpus):
    assert masks.cpus_of_masks(masks.masks(cpus)) == cpus
    assert masks.cpus_of_masks("[{0}]".format(masks.masks(cpus))) == cpus
    assert masks.cpus_of_ranges(masks.ranges(cpus)) == cpus
    for one in cpus:
        assert masks.parse_cpulist(masks.format_cpulist(one)) == one

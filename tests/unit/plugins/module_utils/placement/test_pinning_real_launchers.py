# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launchers themselves start ranks that have the masks of the placement, on machines of many shapes."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import Request, place
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.render import adapt, render
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.placement import real_launchers

FOUND = real_launchers.found()

#: Packages, NUMA nodes of each, level-3 caches of each, cores of each, threads, and the kernel's numbers.
SHAPES = {
    "in_order": (2, 2, 6, 4, 1, lambda core, thread, total: core),
    "sockets_in_turns": (2, 1, 1, 48, 1, lambda core, thread, total: core % 48 * 2 + core // 48),
    "second_threads_last": (2, 1, 1, 24, 2, lambda core, thread, total: core + thread * total),
    "threads_side_by_side": (2, 2, 2, 4, 2, lambda core, thread, total: core * 2 + thread),
    "sparse": (2, 1, 2, 8, 1, lambda core, thread, total: core * 3 + 1),
    "nps4_in_turns_with_smt": (
        2,
        4,
        2,
        4,
        2,
        lambda core, thread, total: (core % 32) * 2 + core // 32 + thread * total,
    ),
    "one_node": (1, 1, 2, 8, 1, lambda core, thread, total: core),
}
REQUESTS = [
    {"ranks": 4},
    {"ranks": 4, "bind": "numa"},
    {"ranks": 4, "smt": True},
    {"ranks": 3, "threads": 2},
    {"ranks": 1, "threads": 14},
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return real_launchers.prepare(tmp_path_factory.mktemp("recorder"))


@pytest.mark.skipif(real_launchers.LSTOPO is None or real_launchers.CC is None, reason="needs hwloc and a compiler")
@pytest.mark.skipif(not FOUND, reason="needs a launcher")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FOUND)
def test_the_kernel_is_given_the_masks_of_the_placement(name, shape, prepared, tmp_path):
    launcher = FOUND[name]
    file = real_launchers.describe(tmp_path, real_launchers.synthetic(*SHAPES[shape]))
    machine = real_launchers.topology_of(file)
    for asked in REQUESTS:
        placement = place(machine, adapt(launcher.form, Request(**asked)))
        rendered = render(launcher.form, placement, machine, str(tmp_path / "job"))
        given, told = real_launchers.masks(launcher, rendered, len(placement.ranks), file, *prepared, tmp_path)
        assert given == [set(rank.cpus) for rank in placement.ranks], (asked, rendered.command(), told)

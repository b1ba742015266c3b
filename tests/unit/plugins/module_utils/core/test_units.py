# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.units import sizes

GIB = 1024**3


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (80 * GIB, 40 * GIB, ("80.0 GiB", "40.0 GiB")),
        (80 * GIB, 80 * GIB, ("80.0 GiB", "80.0 GiB")),
        (80 * GIB, 80 * GIB - 32 * 1024**2, ("80.00 GiB", "79.97 GiB")),
        (80 * GIB, 80 * GIB - 1, ("85899345920 bytes", "85899345919 bytes")),
    ],
)
def test_two_sizes_that_differ_are_told_apart(one, other, told):
    assert sizes(one, other) == told

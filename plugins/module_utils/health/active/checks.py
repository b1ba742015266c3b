# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks that load a node: only for one without jobs. One after another, those first that tell most per second: a
budget leaves out the last ones."""

from __future__ import annotations

from typing import Tuple

from ..types import Check
from . import compute, dcgm, host_device, infiniband, linpack, memory_test, nccl, peers, scratch

CHECKS: Tuple[Check, ...] = (
    memory_test.CHECK,
    compute.CHECK,
    host_device.CHECK,
    peers.CHECK,
    nccl.CHECK,
    infiniband.CHECK,
    scratch.CHECK,
    dcgm.CHECK,
    linpack.CHECK,
)

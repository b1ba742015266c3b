# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks that load a node: only for one without jobs. One after another, what is cheap and tells most first."""

from __future__ import annotations

from typing import Tuple

from ..types import Check
from . import dcgm, gemm, host_device, infiniband, linpack, memory_test, nccl, peers, scratch

CHECKS: Tuple[Check, ...] = (
    host_device.CHECK,
    peers.CHECK,
    infiniband.CHECK,
    scratch.CHECK,
    nccl.CHECK,
    memory_test.CHECK,
    gemm.CHECK,
    dcgm.CHECK,
    linpack.CHECK,
)

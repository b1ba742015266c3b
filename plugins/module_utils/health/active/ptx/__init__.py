# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels for GPUs as PTX text, which the driver compiles: no toolkit is needed, and no file is read.

A text of ISA version 6.4 (CUDA 10.1, driver 418) for target sm_70 runs on each GPU from Volta on. What needs an
instruction of a newer GPU is a text of its own, with the lowest ISA version and target that have this instruction.
"""

from __future__ import annotations

import dataclasses
from typing import Tuple

# Volta, Turing, Ampere (A100; A10, RTX 30), Ada, Hopper, Blackwell (B200; B300; RTX 50).
ALL_TARGETS: Tuple[int, ...] = (70, 75, 80, 86, 89, 90, 100, 103, 120)


@dataclasses.dataclass(frozen=True)
class Text:
    """One PTX module. ``kernels``: its entries. ``targets``: the GPUs that it is for (70 is sm_70)."""

    name: str
    text: str
    kernels: Tuple[str, ...]
    targets: Tuple[int, ...] = ALL_TARGETS


def header(version: str = "6.4", target: str = "sm_70") -> str:
    """The first lines of a module."""
    return ".version {0}\n.target {1}\n.address_size 64\n".format(version, target)


def every() -> Tuple[Text, ...]:
    """All modules of the library. Tests assemble each one for each of its targets."""
    from . import arithmetic, memory

    return (memory.text(), *arithmetic.texts())

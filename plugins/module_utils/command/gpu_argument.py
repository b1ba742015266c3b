# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option ``--gpu`` and what it means, the same for every command that has it."""

from __future__ import annotations

import argparse
from typing import Optional, Sequence, Tuple

from ..core.resource import Misuse
from ..facts.nvml.identity import ALL


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpu",
        action="append",
        metavar="GPU",
        help="only this GPU: index, UUID or PCI address; may be given again, or as a list with commas",
    )


def selectors(given: Optional[Sequence[str]]) -> Tuple[str, ...]:
    """``--gpu 0,1 --gpu 0001:00:00.0`` as one list; all GPUs without it."""
    words = [word.strip() for text in given or () for word in text.split(",")]
    if "" in words:
        raise Misuse("--gpu " + ",".join(given or ()), "it names no GPU", "use an index, a UUID or a PCI address")
    return tuple(words) if words else (ALL,)

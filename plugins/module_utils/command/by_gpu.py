# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What commands about GPUs share: which are meant, those that do not answer, and one sentence for many alike."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import re
import sys
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, TypeVar

from ..facts.nvml.selectors import identity_of, matches_any, unmatched
from ..facts.sysfs import format_cpulist
from .output import painter

Gpu = TypeVar("Gpu")
Failed = TypeVar("Failed")


def selected(gpus: Sequence[Gpu], failed: Sequence[Failed], selectors: Sequence[str]) -> Tuple[List[Gpu], List[Failed]]:
    """Those that are meant, of the GPUs that answer and of the others.

    :raises Misuse: a selector means none of them.
    """
    identities = [identity_of(gpu) for gpu in [*gpus, *failed]]
    for error in unmatched(identities, selectors if identities else ()):
        raise error

    def wanted(gpu: Any) -> bool:
        return matches_any(identity_of(gpu), selectors)

    return [gpu for gpu in gpus if wanted(gpu)], [gpu for gpu in failed if wanted(gpu)]


def labelled(text: str) -> Tuple[Optional[str], str]:
    """``GPU 3 (0001:00:00.0): rest`` as ("3", rest); (None, text) for what is about no single GPU."""
    found = re.match(r"GPU (\d+) \([^)]*\): (.*)", text, re.DOTALL)
    return (found.group(1), found.group(2)) if found else (None, text)


def grouped(sentences: Iterable[Tuple[Optional[str], str]]) -> List[str]:
    """The same sentence about many GPUs is told once, with their numbers."""
    numbers: Dict[str, List[str]] = {}
    for number, text in sentences:
        numbers.setdefault(text, []).extend([number] if number is not None else [])
    return ["GPU {0}: {1}".format(ranges(found), text) if found else text for text, found in numbers.items()]


def ranges(numbers: Iterable[str]) -> str:
    return format_cpulist(int(number) for number in numbers)


def print_failed(failed: Sequence[Any]) -> None:
    sys.stdout.flush()
    paint = painter(sys.stderr)
    for message in grouped(labelled(gpu.message) for gpu in failed):
        print(paint("gpunode: " + message, "bad"), file=sys.stderr)


def plain_failed(failed: Sequence[Any]) -> List[Dict[str, Any]]:
    return [
        {"index": gpu.index, "uuid": gpu.uuid, "pci_address": gpu.pci_address, "message": gpu.message} for gpu in failed
    ]

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a launcher is given, and what the writers for launchers have in common."""

from __future__ import annotations

import shlex
from typing import List, Optional, Tuple

from ...core.frozen import frozen
from ..types import Placement, Rank


@frozen
class File:
    """A file that the command names; ``name`` is the path as it stands in the command."""

    name: str
    text: str
    executable: bool = False


@frozen
class Rendered:
    """A launcher's command: ``environment``, then ``program``, ``count``, ``arguments``, ``application``.

    ``count`` are the words that tell the number of ranks, kept apart because scripts set it themselves. Where
    ``lines`` is not empty, it stands for the command: what cannot be one (a line for each rank, a text).
    """

    launcher: str
    program: str = ""
    application: str = "PROGRAM"
    count: Tuple[str, ...] = ()
    arguments: Tuple[str, ...] = ()
    environment: Tuple[Tuple[str, str], ...] = ()
    files: Tuple[File, ...] = ()
    lines: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()

    def command(self) -> str:
        """As one line for a shell."""
        words = ["{0}={1}".format(name, shlex.quote(value)) for name, value in self.environment]
        words += [shlex.quote(word) for word in (self.program, *self.count, *self.arguments) if word]
        return " ".join([*words, self.application])


def gpus(placement: Placement) -> Tuple[int, ...]:
    """The GPU of each rank; empty where ranks have none."""
    return tuple(rank.gpu.index for rank in placement.ranks if rank.gpu is not None)


def cuda_devices(placement: Placement) -> Tuple[str, ...]:
    """What CUDA_VISIBLE_DEVICES calls the GPU of each rank; empty where ranks have none.

    UUIDs: which number a GPU has may change with a boot, with a GPU that is lost and with what a container shows. Where
    NVML told none, numbers by PCI address (CUDA numbers by speed unless :func:`device_order` tells it so).
    """
    found = [rank.gpu for rank in placement.ranks if rank.gpu is not None]
    uuids = [gpu.uuid for gpu in found if gpu.uuid]
    return tuple(uuids) if len(uuids) == len(found) else tuple(str(gpu.index) for gpu in found)


def device_order(placement: Placement) -> Tuple[Tuple[str, str], ...]:
    by_number = any(name.isdigit() for name in cuda_devices(placement))
    return (("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),) if by_number else ()


def visible_devices(placement: Placement) -> Tuple[Tuple[str, str], ...]:
    """The GPUs in the order of the ranks, for ranks that take the device of their local number."""
    names = list(dict.fromkeys(cuda_devices(placement)))
    return (*device_order(placement), ("CUDA_VISIBLE_DEVICES", ",".join(names))) if names else ()


def gpu_notes(placement: Placement) -> Tuple[str, ...]:
    """The notes that a launcher needs which gives all ranks one list of GPUs."""
    numbers = gpus(placement)
    notes: Tuple[str, ...] = ()
    if len(set(numbers)) < len(numbers):
        notes += (
            "several ranks have one GPU, and CUDA_VISIBLE_DEVICES cannot say so: let the program choose by its rank "
            "({0}), or use the launcher numactl".format(" ".join(str(number) for number in numbers)),
        )
    if numbers and not device_order(placement):
        notes += ("the UUIDs are those of this node's GPUs: on several nodes, each needs its own CUDA_VISIBLE_DEVICES",)
    return notes


def omp_threads(placement: Placement) -> Tuple[Tuple[str, str], ...]:
    """OMP_NUM_THREADS where a number of threads was asked for."""
    threads = placement.request.threads
    return (("OMP_NUM_THREADS", str(threads)),) if threads else ()


def fewest_threads(placement: Placement) -> int:
    """All ranks get one OMP_NUM_THREADS, so the poorest of them tells it."""
    return min(rank.threads for rank in placement.ranks)


def memory_node(rank: Rank) -> Optional[int]:
    """The one node to name where only one can be named."""
    if rank.home in rank.memory_nodes or not rank.memory_nodes:
        return rank.home if rank.memory_nodes else None
    return rank.memory_nodes[0]


def flat(words: List[Tuple[str, ...]]) -> Tuple[str, ...]:
    return tuple(word for group in words for word in group)

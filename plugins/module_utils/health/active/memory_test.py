# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write patterns into all free memory of each GPU and read them back, within a bounded time.

Moving inversions at the grain of a chunk: all of it holds one pattern before the first chunk is read, and each chunk
gets the next pattern right after it was read, upwards and downwards in turn. The patterns depend on the address
(:mod:`memory_patterns`), so what is stuck in an address line shows as well as what is stuck in a cell. They are made on
the host and spread by the copy engines: there is no kernel, and what is compared never comes from the GPU. A chunk is
several times its L2 cache, so what is read comes from the memory. ECC corrects one bad bit and reports two; this finds
what neither sees, and the checks of ECC, which are made again afterwards, tell what ECC saw of it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import time
from typing import Any, List, Optional, Tuple

from ...core.resource import NodeError
from ..evidence import Evidence
from ..settings import number
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Machine, Outcome, Remedy, Span
from . import apart, memory_patterns, survey
from .cuda import Cuda, Device
from .readings import Reading, of_silent, unmeasured, untold

SETTING = "memory_test_seconds"
_SETUP_SECONDS = 60.0
CHUNK = 256 * 2**20
# What the driver and a display want for themselves.
_KEEP_FREE = 512 * 2**20
_BLOCK = 4096
SEED = 20260522
PATTERNS = 2 * memory_patterns.PAIRS


@dataclasses.dataclass(frozen=True)
class Tested:
    """``memory_bytes`` were written to. ``both_ways_bytes`` of them were right with a pattern and with its inverse, so
    every bit was read as 0 and as 1. ``patterns`` of six were read back whole. ``wrong``: how many bytes differed,
    ``first``: what the first of them was."""

    memory_bytes: int
    both_ways_bytes: int
    patterns: int
    wrong: int
    first: str

    @property
    def share(self) -> float:
        return self.both_ways_bytes / self.memory_bytes


@dataclasses.dataclass(frozen=True)
class Seen:
    tested: Tuple[Tuple[str, str, Tested], ...] = ()
    untested: Tuple[Reading, ...] = ()
    not_applicable: Optional[str] = None


def look(evidence: Evidence) -> Seen:
    seconds = number(evidence.settings, SETTING)
    found = survey.gpus(evidence)
    if found is None or not (found.gpus or found.silent):
        return Seen(not_applicable="no GPU of this node is there to be tested as a whole")
    tested: List[Tuple[str, str, Tested]] = []
    untested = list(of_silent(found))
    for gpu in found.gpus:
        task = functools.partial(_one, gpu.uuid, seconds)
        try:
            answer = apart.measure(gpu.label, seconds + _SETUP_SECONDS, task, gpu.numa_node, gpu.cpus)
            tested.append((gpu.label, gpu.pci_address, answer))
        except NodeError as error:
            untested.append(unmeasured(gpu.label, gpu.pci_address, error))
    return Seen(tuple(tested), tuple(untested))


def _one(uuid: str, seconds: float) -> Tested:
    apart.become([uuid])
    return test(Cuda(), seconds)


def test(cuda: Cuda, seconds: float, chunk: int = CHUNK, keep_free: int = _KEEP_FREE) -> Tested:
    """The one device that this process sees. It ends early at the first wrong chunk, and when the time is over."""
    cuda.shows(1)
    device = cuda.open(0)
    # The pattern itself lies in the memory of the GPU, too: it is written and copied from as the rest is.
    size = memory_patterns.length(chunk, device.free_bytes() // chunk)
    if device.free_bytes() < size + chunk + keep_free:
        needed = (size + chunk + keep_free) >> 20
        raise NodeError("GPU memory", "less than {0} MiB is free".format(needed), "find who holds it")
    bench = _Bench(cuda, device, size, chunk)
    chunks = device.all_memory(chunk, keep_free)
    deadline = time.monotonic() + seconds
    patterns = memory_patterns.in_turn(size, SEED)
    written = next(patterns)
    bench.hold(written)
    for place, pointer in enumerate(chunks):
        bench.write(pointer, place)
    right = [0] * PATTERNS  # chunks that came back right, of each pattern
    for turn in range(PATTERNS):
        bench.expect(written)
        following = next(patterns, None)
        if following is not None:
            written = following
            bench.hold(written)
        # In turn: what a cell does to another one shows only where that one was written before it.
        for place in range(len(chunks)) if turn % 2 == 0 else reversed(range(len(chunks))):
            wrong, first = bench.difference(chunks[place], place)
            if wrong:
                return _tested(chunks, chunk, right, wrong, first)
            right[turn] += 1
            if time.monotonic() > deadline:
                return _tested(chunks, chunk, right, 0, "")
            if following is not None:
                bench.write(chunks[place], place)
    return _tested(chunks, chunk, right, 0, "")


def _tested(chunks: List[int], chunk: int, right: List[int], wrong: int, first: str) -> Tested:
    pairs = [min(right[place : place + 2]) for place in range(0, PATTERNS, 2)]
    whole = sum(count == len(chunks) for count in right)
    return Tested(len(chunks) * chunk, max(pairs) * chunk, whole, wrong, first)


class _Bench:
    """The pattern that is written (on the GPU) and the one that is expected (on the host), each longer than a chunk."""

    def __init__(self, cuda: Cuda, device: Device, size: int, chunk: int) -> None:
        self._device, self._size, self._chunk = device, size, chunk
        self._master = device.memory(size)
        self._expected, self._got = cuda.host_memory(size), cuda.host_memory(size)
        self._compare: Any = ctypes.CDLL(None).memcmp
        self._compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

    def hold(self, pattern: bytes) -> None:
        """Have this one on the GPU, to be written from."""
        ctypes.memmove(self._got, pattern, self._size)
        self._device.copy_to(self._master, self._got, self._size)

    def expect(self, pattern: bytes) -> None:
        ctypes.memmove(self._expected, pattern, self._size)

    def write(self, pointer: int, place: int) -> None:
        self._device.copy_within(pointer, self._master + place * memory_patterns.SHIFT, self._chunk)

    def difference(self, pointer: int, place: int) -> Tuple[int, str]:
        """(how many bytes of this chunk are wrong, the first of them in words)."""
        wanted = self._expected + place * memory_patterns.SHIFT
        self._device.copy_from(self._got, pointer, self._chunk)
        if not self._compare(self._got, wanted, self._chunk):
            return 0, ""
        got = ctypes.string_at(self._got, self._chunk)
        return _difference(got, ctypes.string_at(wanted, self._chunk), place * self._chunk)


def _difference(got: bytes, wanted: bytes, offset: int) -> Tuple[int, str]:
    wrong, first = 0, ""
    for start in range(0, len(got), _BLOCK):
        if got[start : start + _BLOCK] == wanted[start : start + _BLOCK]:
            continue
        for place in range(start, min(start + _BLOCK, len(got))):
            if got[place] != wanted[place]:
                wrong += 1
                first = first or "byte {0:#x} is {1:#04x} instead of {2:#04x}".format(
                    offset + place, got[place], wanted[place]
                )
    return wrong, first


def judge(seen: Seen, dummy: Expected) -> Judgement:
    """Pure. Memory of which not every bit was read both ways is not known to be well."""
    if seen.not_applicable is not None:
        return Judgement(not_applicable=seen.not_applicable)
    findings = [untold(reading) for reading in seen.untested]
    remedy = "let no job on it, and have the GPU replaced: its memory does not keep what is written"
    for thing, key, tested in seen.tested:
        if tested.wrong:
            reason = "{0} bytes read back wrong ({1} of its memory in use)".format(tested.wrong, tested.first)
            findings.append(
                Finding(Outcome.FAIL, thing, reason, remedy, Remedy.REPLACE, Certainty.CERTAIN, key, "memory_mismatch")
            )
        elif tested.share < 1:
            reason = "only {0:.0%} of its memory was read back as 0 and as 1 in the time".format(tested.share)
            more = "give setting {0} of section health more seconds".format(SETTING)
            findings.append(
                Finding(Outcome.UNKNOWN, thing, reason, more, Remedy.CONFIGURE, key=key, code="not_covered")
            )
    text = ""
    if seen.tested:
        least = min((tested for dummy1, dummy2, tested in seen.tested), key=lambda one: one.both_ways_bytes)
        text = "{0} GPUs, every bit of {1:.1f} GB and more of each read as 0 and as 1, {2} of {3} patterns".format(
            len(seen.tested), least.both_ways_bytes / 1e9, least.patterns, PATTERNS
        )
    return Judgement(text, tuple(findings))


def span(machine: Machine) -> Optional[Span]:
    """One GPU after another."""
    seconds = number(machine.settings, SETTING)
    return Span(machine.gpus * (1.0 + min(5.0, seconds)), machine.gpus * (1.0 + seconds)) if machine.gpus else None


CHECK = Check(
    id="gpu_memory_test",
    title="GPU memory keeps what is written",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    # Each GPU has a limit of its own, one after the other: 16 of them with the longest setting take 2,880 s at most.
    seconds=3600.0,
    span=span,
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write patterns into all free memory of each GPU and read them back, within a bounded time.

Every chunk has a pattern of its own, and all are written before the first is read, so a wrong address line shows as
well as a wrong cell. ECC corrects one bad bit and reports two; this finds what neither sees.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import time
from typing import List, Optional, Tuple

from ...resource import NodeError
from ..evidence import Evidence
from ..settings import number
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from . import apart, survey
from .cuda import Cuda
from .readings import Reading, of_silent, unmeasured

SETTING = "memory_test_seconds"
_SETUP_SECONDS = 60.0
CHUNK = 256 * 2**20
# What the driver and a display want for themselves.
_KEEP_FREE = 512 * 2**20
# All zeros and ones, both checkers, and a walking pattern: the classical ones of memory tests.
PATTERNS = (0x00000000, 0xFFFFFFFF, 0xAAAAAAAA, 0x55555555, 0x12480F87)
_BLOCK = 4096


@dataclasses.dataclass(frozen=True)
class Tested:
    """``wrong``: how many bytes differed, ``first``: what the first of them was."""

    bytes_tested: int
    passes: int
    wrong: int
    first: str


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
    """The first device that this process sees. Each pattern at least once begun; ends early at the first wrong byte."""
    if cuda.count() < 1:
        raise NodeError("CUDA", "it shows no GPU", "look at nvidia-smi and the kernel log")
    device = cuda.open(0)
    chunks = device.all_memory(chunk, keep_free)
    if not chunks:
        raise NodeError(
            "GPU memory", "less than {0} MiB is free".format((chunk + keep_free) >> 20), "find who holds it"
        )
    host = cuda.host_memory(chunk)
    got = (ctypes.c_char * chunk).from_address(host)
    compare = ctypes.CDLL(None).memcmp
    compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    deadline = time.monotonic() + seconds
    done = 0
    for round_number in range(len(PATTERNS)):
        words = [
            PATTERNS[(round_number + place) % len(PATTERNS)] ^ (place * 0x01000193) for place in range(len(chunks))
        ]
        for pointer, word in zip(chunks, words):
            device.fill(pointer, word & 0xFFFFFFFF, chunk)
        device.synchronize()
        for place, (pointer, word) in enumerate(zip(chunks, words)):
            device.copy_from(host, pointer, chunk)
            expected = (word & 0xFFFFFFFF).to_bytes(4, "little")
            done += chunk
            # All words are equal when the first is right and each is like the one before it: no second buffer to read.
            if ctypes.string_at(host, 4) != expected or compare(host, host + 4, chunk - 4):
                wrong, first = _difference(bytes(got), expected * (chunk // 4), place * chunk)
                return Tested(done, round_number, wrong, first)
            if time.monotonic() > deadline:
                return Tested(done, round_number, 0, "")
    return Tested(done, len(PATTERNS), 0, "")


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
    """Pure."""
    if seen.not_applicable is not None:
        return Judgement(not_applicable=seen.not_applicable)
    findings = []
    for reading in seen.untested:
        outcome, action = (Outcome.FAIL, Remedy(reading.fault)) if reading.fault else (Outcome.UNKNOWN, Remedy.LOOK)
        findings.append(
            Finding(outcome, reading.thing, reading.reason, reading.remedy, action, key=reading.key, code=reading.code)
        )
    remedy = "let no job on it, and have the GPU replaced: its memory does not keep what is written"
    for thing, key, tested in seen.tested:
        if tested.wrong:
            reason = "{0} bytes read back wrong ({1} of its memory in use)".format(tested.wrong, tested.first)
            findings.append(
                Finding(Outcome.FAIL, thing, reason, remedy, Remedy.REPLACE, Certainty.CERTAIN, key, "memory_mismatch")
            )
    text = ""
    if seen.tested:
        least = min(tested.bytes_tested for dummy1, dummy2, tested in seen.tested)
        text = "{0} GPUs, {1:.1f} GB and more written and read on each".format(len(seen.tested), least / 1e9)
    return Judgement(text, tuple(findings))


CHECK = Check(
    id="gpu_memory_test",
    title="GPU memory keeps what is written",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    seconds=1800.0,
)

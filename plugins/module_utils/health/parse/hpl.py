# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""High-Performance Linpack: HPL.out of Netlib's HPL, NVIDIA's HPL (with ``per GPU``) and NVIDIA's HPL-MxP.

Format from Netlib's sources (testing/ptest/HPL_pdtest.c) and NVIDIA's HPC benchmarks documentation. A run counts only
with its residual, which is ``PASSED`` or ``FAILED``: a fast wrong answer is a fault.
"""

from __future__ import annotations

import dataclasses
import re
from typing import List, Optional, Tuple

from .common import ParseError, number, same, untagged, whole

TOOL = "HPL"
_RUN = re.compile(r"(W[A-Z0-9]+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+)(?:\s+\(\s*(\S+?)\s*\))?", re.ASCII)
_RESIDUAL = re.compile(r"\|\|Ax-b\|\|_oo\s*/\s*\(.*\)\s*=\s*(\S+)\s*\.{3,}\s*(PASSED|FAILED)", re.IGNORECASE)
_FINISHED = re.compile(r"Finished\s+(\d+)\s+tests? with the following results", re.ASCII)
_MXP_SIZE = re.compile(r"N\s*=\s*(\d+),\s*NB\s*=\s*(\d+),\s*NPROW\s*=\s*(\d+),\s*NPCOL\s*=\s*(\d+)", re.ASCII)
_MXP_RATE = re.compile(r"GFLOPS\s*=\s*([^\s,]+)(?:\s*,\s*per GPU\s*=\s*(\S+))?")
Size = Tuple[int, int, int, int]  # N, NB, P, Q


@dataclasses.dataclass(frozen=True)
class Run:
    """``gigaflops`` of all processes together. ``seconds`` is None for HPL-MxP, which does not tell it."""

    kind: str  # "hpl" or "hpl-mxp"
    n: int
    processes: int
    seconds: Optional[float]
    gigaflops: float
    residual: float
    passed: bool


def parse(text: str) -> Tuple[Run, ...]:
    """Every run in an output.

    :raises ParseError: when it did not come to its end, or this is no output of HPL.
    """
    if not text.strip():
        raise ParseError(TOOL, "it is empty")
    text = untagged(text)
    mxp = "HPL MxP" in text or "HPL-MxP" in text or "HPL-AI" in text
    runs = _mixed(text) if mxp else _double(text)
    if not runs:
        raise ParseError(TOOL, "there is no result in it")
    return runs


def _double(text: str) -> Tuple[Run, ...]:
    runs: List[Run] = []
    waiting: Optional[Run] = None
    finished: Optional[int] = None
    for line in (line.strip() for line in text.splitlines()):
        found, residual, end = _RUN.fullmatch(line), _RESIDUAL.match(line), _FINISHED.match(line)
        if found:
            if waiting is not None:
                raise ParseError(TOOL, "a run in it has no residual")
            waiting = _timed(found.groups())
        elif residual and waiting is not None:
            passed = residual.group(2).upper() == "PASSED"
            runs.append(dataclasses.replace(waiting, residual=_residual(residual.group(1), passed), passed=passed))
            waiting = None
        elif end:
            finished = whole(TOOL, end.group(1))
    if waiting is not None or finished is None:
        raise ParseError(TOOL, "it ended before its summary")
    if finished != len(runs):
        raise ParseError(TOOL, "it tells of {0} runs and has {1}".format(finished, len(runs)))
    return tuple(runs)


def _timed(words: Tuple[Optional[str], ...]) -> Run:
    n, dummy, rows, columns = (whole(TOOL, word or "") for word in words[1:5])
    seconds, gigaflops = number(TOOL, words[5] or ""), number(TOOL, words[6] or "")
    per_gpu = None if words[7] is None else number(TOOL, words[7])
    # Netlib counts 2/3 n^3 + 3/2 n^2 operations; seconds carry two decimals, the rate four digits.
    counted = (2.0 / 3.0 * n**3 + 1.5 * n**2) / 1e9
    if seconds <= 0 or not same(counted / seconds, gigaflops, 0.002 + 0.006 / seconds):
        raise ParseError(TOOL, "its rate contradicts its size and its time")
    if per_gpu is not None and not same(per_gpu * rows * columns, gigaflops, 0.002):
        raise ParseError(TOOL, "its rate and that of each GPU contradict each other")
    return Run("hpl", n, rows * columns, seconds, gigaflops, 0.0, False)


def _mixed(text: str) -> Tuple[Run, ...]:
    runs: List[Run] = []
    residual: Optional[Tuple[float, bool]] = None
    size: Optional[Size] = None
    for line in (line.strip() for line in text.splitlines()):
        found, shape, rate = _RESIDUAL.match(line), _MXP_SIZE.match(line), _MXP_RATE.match(line)
        if found:
            passed = found.group(2).upper() == "PASSED"
            residual = _residual(found.group(1), passed), passed
        elif shape:
            n, block, rows, columns = (whole(TOOL, word) for word in shape.groups())
            size = n, block, rows, columns
        elif rate and residual is not None and size is not None:
            gigaflops, processes = number(TOOL, rate.group(1)), size[2] * size[3]
            if rate.group(2) is None or not same(number(TOOL, rate.group(2)) * processes, gigaflops, 0.002):
                raise ParseError(TOOL, "its rate and that of each GPU contradict each other")
            runs.append(Run("hpl-mxp", size[0], processes, None, gigaflops, *residual))
            residual = size = None
    if residual is not None or size is not None:
        raise ParseError(TOOL, "it ended before its rate")
    return tuple(runs)


def _residual(word: str, passed: bool) -> float:
    """A failed run may well have none that is a number."""
    if not passed and word.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return 1e30
    return number(TOOL, word)

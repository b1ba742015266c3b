# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest (ib_write_bw, ib_read_bw, ib_send_bw): its text of all versions, and the JSON file of 4.5 and later.

Format from its sources (linux-rdma/perftest: src/perftest_parameters.h). The head of the text names the unit: Gb/sec
with --report_gbits (10^9 bits), otherwise MiB/sec, which older versions call MB/sec and count in 2^20 bytes all the
same. The JSON names no unit; it follows from the rate of messages and their size, which also tells damaged text.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, List, Optional, Sequence, Tuple

from .common import ParseError, document, number, plain_number, same, whole

TOOL = "perftest"
_MIB_IN_GIGABITS = 2**20 * 8 / 1e9
_HEAD = re.compile(r"#bytes\s+#iterations\s+BW peak\[(\S+)\]\s+BW average\[(\S+)\]\s+MsgRate\[Mpps\]")
_UNITS = {"Gb/sec": 1.0, "MiB/sec": _MIB_IN_GIGABITS, "MB/sec": _MIB_IN_GIGABITS}


@dataclasses.dataclass(frozen=True)
class Row:
    """One message size. ``peak`` is 0 where it was not measured (--noPeak, many iterations, --duration)."""

    size_bytes: int
    iterations: int
    peak_gigabits_per_second: float
    average_gigabits_per_second: float


def parse(text: str) -> Tuple[Row, ...]:
    """The measurements, smallest message first.

    :raises ParseError: when the run did not come to its end, or this is no output of perftest.
    """
    return (_of_json(text),) if text.lstrip().startswith("{") else _of_text(text)


def _of_text(text: str) -> Tuple[Row, ...]:
    unit: Optional[float] = None
    ended = False
    rows: List[Row] = []
    for line in (line.strip() for line in text.splitlines()):
        head = _HEAD.match(line)
        if head:
            unit = _UNITS.get(head.group(2))
            if unit is None or head.group(1) != head.group(2):
                raise ParseError(TOOL, "its unit {0} is unknown".format(head.group(2)[:20]))
        elif unit is not None and re.fullmatch(r"-{20,}", line):
            ended = True
        elif unit is not None and not ended and re.match(r"\d", line, re.ASCII):
            rows.append(_row(line.split(), unit))
    if not rows or not ended:
        raise ParseError(TOOL, "it is empty" if not text.strip() else "it ended before its result" + _complaint(text))
    return tuple(sorted(rows, key=lambda row: row.size_bytes))


def _row(words: List[str], unit: float) -> Row:
    if len(words) < 5:
        raise ParseError(TOOL, "a row of it has {0} columns, not 5".format(len(words)))
    size, iterations = whole(TOOL, words[0]), whole(TOOL, words[1])
    peak, average, rate = (number(TOOL, word) for word in words[2:5])
    return _measured(size, iterations, peak, average, rate, (unit,))


def _measured(size: int, iterations: int, peak: float, average: float, rate: float, units: Sequence[float]) -> Row:
    """The row in the first unit in which its figures agree."""
    if iterations <= 0 or average <= 0:
        # It prints what its formula gives: 0 when no message was done in the time (src/perftest_parameters.c,
        # print_report_bw); rates below 0 were seen, too (issue 82).
        raise ParseError(TOOL, "it measured nothing ({0} messages, a rate of {1:g})".format(iterations, average))
    for unit in units:
        if _agrees(size, average * unit, rate, 0.006 * unit):
            return Row(size, iterations, peak * unit, average * unit)
    raise ParseError(TOOL, "its rate and its count of messages contradict each other")


def _agrees(size: int, gigabits: float, millions_of_messages: float, rounding: float) -> bool:
    # The rate of messages carries six decimals, of millions.
    one = size * 8 / 1e3
    return size > 0 and same(gigabits, millions_of_messages * one, 0.002, rounding + 0.51e-6 * one)


def _of_json(text: str) -> Row:
    results: Any = document(TOOL, text).get("results")
    if not isinstance(results, dict):
        raise ParseError(TOOL, "it has no results")
    size, iterations, peak, average, rate = (
        plain_number(TOOL, name, results.get(name))
        for name in ("MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate")
    )
    return _measured(int(size), int(iterations), peak, average, rate, (1.0, _MIB_IN_GIGABITS))


def _complaint(text: str) -> str:
    """What it says itself first: what follows are consequences."""
    wanted = re.compile(r"(?i)\b(fail|unable|couldn't|cannot|could not|error|mismatch|not found|refused)")
    lines = [line.strip() for line in text.splitlines() if wanted.search(line)]
    return " ({0})".format(lines[0][:160]) if lines else ""

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests (all_reduce_perf and its siblings): the text of 2.0 to 2.19, and the JSON (-J) of the newest.

Format from its sources (NVIDIA/nccl-tests: src/util.cu, src/common.cu). Rates are in GB/s (10^9), times in
microseconds. Versions before 2.13 name the last column ``error`` (the largest difference), later ones ``#wrong`` (the
count of wrong elements). In JSON truth values are texts, and the whole environment stands in it: it is never kept.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .common import ParseError, document, number, plain_number, same, untagged, whole, whole_lines

TOOL = "nccl-tests"
_OUT_OF_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d{1,18})\s+(OK|FAILED)\s*", re.ASCII)
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(\S+)\s*(OK|FAILED)?\s*")
_DEVICE = re.compile(r"#\s+Rank\s+(\d+)\b.*?\bon\s+(\S+)\s+device\s+\d+\s+\[\S+\].*", re.IGNORECASE)
# GB/s; own choice, more than twice what NVLink 6 carries, 3.6 TB/s a GPU (nvidia.com/en-us/data-center/nvlink).
_BUSBW_MOST = 10000.0
_TIMESTAMP = re.compile(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*$")


@dataclasses.dataclass(frozen=True)
class Timing:
    """``wrong`` is None where the data were not checked, or the version counts no wrong elements."""

    microseconds: float
    algorithm_gigabytes_per_second: float
    bus_gigabytes_per_second: float
    wrong: Optional[float]


@dataclasses.dataclass(frozen=True)
class Row:
    """One message size: out of place and in place, in the order of the output."""

    size_bytes: int
    timings: Tuple[Timing, ...]


@dataclasses.dataclass(frozen=True)
class Run:
    """``hosts``: how many machines its ranks were on; 0, as ``ranks``, where it does not say."""

    rows: Tuple[Row, ...]
    out_of_bounds: int
    average_busbw_gigabytes_per_second: float
    ranks: int
    hosts: int = 0

    @property
    def best_busbw_gigabytes_per_second(self) -> float:
        return max(one.bus_gigabytes_per_second for row in self.rows for one in row.timings)

    @property
    def wrong(self) -> float:
        """How many elements came out wrong."""
        return max(self.out_of_bounds, sum(one.wrong or 0 for row in self.rows for one in row.timings))


def parse(text: str) -> Run:
    """:raises ParseError: when the run did not come to its end, or this is no output of nccl-tests."""
    text = untagged(text)
    run = _of_json(text) if text.lstrip().startswith("{") else _of_text(text)
    busbw = [one.bus_gigabytes_per_second for row in run.rows for one in row.timings]
    if not busbw:
        raise ParseError(TOOL, "there is no measurement in it")
    for one in busbw:
        if not 0 <= one <= _BUSBW_MOST:
            raise ParseError(TOOL, "it tells a bus bandwidth of {0:.4g} GB/s, which no machine has".format(one))
    # Rows carry two decimals, fewer for large figures.
    if not same(run.average_busbw_gigabytes_per_second, sum(busbw) / len(busbw), 0.01, 0.01):
        raise ParseError(TOOL, "its rows and their average contradict each other")
    return run


def _of_text(text: str) -> Run:
    header: Optional[List[str]] = None
    rows: List[Row] = []
    ranks: Dict[str, str] = {}  # their hosts
    out_of_bounds: Optional[int] = None
    average: Optional[float] = None
    for stripped in whole_lines(text):
        footer, bandwidth = _OUT_OF_BOUNDS.fullmatch(stripped), _AVERAGE.fullmatch(stripped)
        device = _DEVICE.match(stripped)
        if footer:
            out_of_bounds = whole(TOOL, footer.group(1))
            if (out_of_bounds == 0) != (footer.group(2) == "OK"):
                raise ParseError(TOOL, "its count of wrong values and its verdict contradict each other")
        elif bandwidth:
            average = number(TOOL, bandwidth.group(1))
        elif device:
            if device.group(1) in ranks:  # each process for itself, and their rates say nothing of what is between them
                raise ParseError(TOOL, "several runs are in it, not one of all ranks: was it built with MPI=1?")
            ranks[device.group(1)] = device.group(2)
        elif stripped.startswith("#"):
            words = stripped.lstrip("#").split()
            if words[:2] == ["size", "count"]:
                header = words
        elif re.match(r"\d+\s", stripped, re.ASCII) and header is not None:
            rows.append(_row(header, _TIMESTAMP.sub("", stripped).split()))
    if out_of_bounds is None or average is None:
        raise ParseError(TOOL, "it is empty" if not text.strip() else "it ended before its summary")
    return Run(tuple(rows), out_of_bounds, average, len(ranks), len(set(ranks.values())))


def _row(header: Sequence[str], words: Sequence[str]) -> Row:
    """Counted from the right: an operation without a reduction leaves its columns on the left empty."""
    names = [name for name in header if name != "timestamp"]
    first = next((place for place, name in enumerate(names) if name in ("time", "cputime")), None)
    width = 0 if first is None else len(names) - first
    if first is None or width % 2 or width < 8 or len(words) < width + 3:
        raise ParseError(TOOL, "a row of it has {0} columns, its head {1}".format(len(words), len(names)))
    figures = words[-width:]
    timings = []
    for start in (0, width // 2):
        part = dict(zip(names[first + start : first + start + width // 2], figures[start : start + width // 2]))
        timings.append(_timing(part))
    size_bytes = whole(TOOL, words[0])
    for one in timings:
        if "time" in names and not _fits(one, size_bytes):
            raise ParseError(TOOL, "the rate of {0} bytes does not fit their time".format(size_bytes))
    return Row(size_bytes, tuple(timings))


def _fits(one: Timing, size_bytes: int) -> bool:
    """Times have three digits or more, rates two after the point."""
    thousands = size_bytes / 1e3  # bytes in a microsecond are megabytes in a second
    away = abs(one.algorithm_gigabytes_per_second * one.microseconds - thousands)
    return away <= 0.02 * thousands + 0.01 * one.microseconds


def _timing(part: Dict[str, str]) -> Timing:
    wrong = part.get("#wrong", "N/A")
    if wrong.startswith("-"):
        raise ParseError(TOOL, "it counts {0} wrong elements".format(wrong))
    if "error" in part and part["error"] != "N/A":
        number(TOOL, part["error"])
    return Timing(
        number(TOOL, part.get("time", part.get("cputime", ""))),
        number(TOOL, part.get("algbw", "")),
        number(TOOL, part.get("busbw", "")),
        None if wrong == "N/A" else number(TOOL, wrong),
    )


def _of_json(text: str) -> Run:
    content = document(TOOL, text)
    results = content.get("results")
    bounds, average = content.get("out_of_bounds"), content.get("average_bus_bandwidth")
    config = content.get("config")
    devices = config.get("devices") if isinstance(config, dict) else content.get("devices")
    devices = devices if isinstance(devices, list) else []
    if not isinstance(results, list) or not isinstance(bounds, dict) or not isinstance(average, dict):
        raise ParseError(TOOL, "it ended before its summary")
    count = plain_number(TOOL, "count of wrong values", bounds.get("count"))
    if count < 0 or (count == 0) != (bounds.get("okay") in ("true", True)):
        raise ParseError(TOOL, "its count of wrong values and its verdict contradict each other")
    return Run(
        tuple(_json_row(one) for one in results),
        int(count),
        plain_number(TOOL, "average bus bandwidth", average.get("bandwidth")),
        len(devices),
        len({str(one["hostname"]) for one in devices if isinstance(one, dict) and "hostname" in one}),
    )


def _json_row(one: Any) -> Row:
    if not isinstance(one, dict):
        raise ParseError(TOOL, "a result in it is no object")
    timings = []
    for name in ("out_of_place", "in_place"):
        part = one.get(name)
        if part is None:
            continue
        if not isinstance(part, dict):
            raise ParseError(TOOL, "its {0} is no object".format(name))
        wrong = part.get("nwrong")
        timings.append(
            Timing(
                plain_number(TOOL, "time", part.get("time", part.get("cpu_time"))),
                plain_number(TOOL, "alg_bw", part.get("alg_bw")),
                plain_number(TOOL, "bus_bw", part.get("bus_bw")),
                None if wrong is None else plain_number(TOOL, "nwrong", wrong),
            )
        )
    return Row(int(plain_number(TOOL, "size", one.get("size"))), tuple(timings))

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvbandwidth: the text of 0.2 to 0.8, and the JSON (-j) that there is since 0.5.

Format from its sources (NVIDIA/nvbandwidth: output.cpp, json_output.cpp, inline_common.h): a table for each test with
the devices of one side in rows and of the other in columns, then ``SUM name value``. Values are in GB/s (10^9), of
latency tests in ns. In JSON the values of the table are texts, and what was not measured is ``N/A`` in both. A test
that does not fit the machine is ``Waiving NAME.`` up to 0.4. From 0.5 on it is a line ``Waived:`` without its name and
without a ``Running`` before it: the name is in the JSON only.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, List, Optional, Tuple

from .common import ParseError, document, number, plain_number, same, untagged, whole_lines

TOOL = "nvbandwidth"
PASSED = "passed"
NAMELESS = ""  # the name of a waived test in the text of 0.5 and later
WAIVED = "waived"  # this machine has not what the test needs: a second GPU, peer access
_RUNNING = re.compile(r"Running (\S+?)\.?")
_STATUS = re.compile(r"(Waived|WAIVED|Not Found|NOT_FOUND|Error|ERROR)\b:?\s*(.*)", re.IGNORECASE)
_DEVICE = re.compile(r"^Device \d{1,4}: \S", re.MULTILINE | re.ASCII)
_WAIVING = re.compile(r"Waiving (\S+?)\.?")
_JSON_STATUS = {"passed": PASSED, "waived": WAIVED}
Table = Tuple[Tuple[Optional[float], ...], ...]


@dataclasses.dataclass(frozen=True)
class Test:
    """One test. ``rows`` is its table; None: not measured. ``status``: passed, waived, or what went wrong."""

    name: str
    status: str
    rows: Table = ()

    @property
    def values(self) -> Tuple[float, ...]:
        return tuple(value for row in self.rows for value in row if value is not None)


def parse(text: str) -> Tuple[Test, ...]:
    """Every test of a run, in its order.

    :raises ParseError: when the run did not end well or this is no output of nvbandwidth.
    """
    text = untagged(text)
    tests = _of_json(text) if _is_json(text) else _of_text(text)
    if not tests:
        raise ParseError(TOOL, "there is no test in it" if text.strip() else "it is empty")
    return tests


def devices(text: str) -> Optional[int]:
    """How many GPUs it saw; None: it does not say (a build for several nodes, or no output of it)."""
    text = untagged(text)
    if _is_json(text):
        content = document(TOOL, text).get("nvbandwidth")
        listed = content.get("GPU Device list") if isinstance(content, dict) else None
        return len(listed) if isinstance(listed, list) else None
    return len(_DEVICE.findall(text)) or None


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{") or '"nvbandwidth"' in text


def _of_json(text: str) -> Tuple[Test, ...]:
    content = document(TOOL, text).get("nvbandwidth")
    if not isinstance(content, dict):
        raise ParseError(TOOL, "it has no nvbandwidth section")
    if content.get("error"):
        raise ParseError(TOOL, "it ended with an error ({0})".format(_short(content["error"])))
    listed = content.get("testcases")
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise ParseError(TOOL, "it has no list of tests")
    return tuple(_json_test(one) for one in listed)


def _json_test(one: Any) -> Test:
    name, status = one.get("name"), one.get("status")
    if not isinstance(name, str) or not isinstance(status, str):
        raise ParseError(TOOL, "a test in it has no name or no status")
    if status.lower() != PASSED:
        return Test(name, _JSON_STATUS.get(status.lower(), _short(one.get("error") or status)))
    matrix = one.get("bandwidth_matrix")
    if not isinstance(matrix, list) or not all(isinstance(row, list) for row in matrix):
        raise ParseError(TOOL, "test {0} has no table".format(name))
    rows = tuple(tuple(_value(str(cell)) for cell in row) for row in matrix)
    if "device_to_device_bidirectional" in name and rows and len(rows) == 3 * len(rows[0]):
        rows = rows[2 * len(rows[0]) :]  # read 1, read 2 and the two together; the sum is that of the last
    return _whole(name, rows, plain_number(TOOL, "sum of " + name, one.get("sum")))


def _of_text(text: str) -> Tuple[Test, ...]:
    tests: List[Test] = []
    running: Optional[str] = None  # a test of which nothing is known yet
    table: Optional[_Table] = None
    for line in whole_lines(text):
        words = line.split()
        begun, waived, status = _RUNNING.fullmatch(line), _WAIVING.fullmatch(line), _STATUS.match(line)
        nameless = status is not None and running is None and status.group(1).lower() == WAIVED
        if (begun or waived or nameless) and (running is not None or (table is not None and table.rows)):
            break  # the one before has no end
        if begun:
            running, table = begun.group(1), _Table(begun.group(1))
        elif waived:
            tests.append(Test(waived.group(1), WAIVED))
        elif nameless:
            tests.append(Test(NAMELESS, WAIVED))
            table = None
        elif status:
            if running is None:
                raise ParseError(TOOL, "it ended with an error ({0})".format(_short(line)))
            tests.append(Test(running, WAIVED if status.group(1).lower() == WAIVED else _short(line)))
            running = table = None
        elif table is not None and words and words[0] == "SUM":
            tests.append(table.end(words))
            running, table = None, _Table(table.name)  # a bidirectional test has three tables
        elif table is not None and words:
            table.take(words)
    if running is not None or (table is not None and table.rows):
        raise ParseError(TOOL, "it ends in the middle of test {0}".format(running or (table and table.name)))
    return tuple(tests)


class _Table:
    """The table that is being read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: List[Tuple[Optional[float], ...]] = []
        self._columns: Optional[int] = None

    def take(self, words: List[str]) -> None:
        if self._columns is None:
            if words == [str(place) for place in range(len(words))]:
                self._columns = len(words)
            return
        if len(words) != self._columns + 1:
            reason = "a row of test {0} has {1} values, not {2}"
            raise ParseError(TOOL, reason.format(self.name, len(words) - 1, self._columns))
        self.rows.append(tuple(_value(word) for word in words[1:]))

    def end(self, words: List[str]) -> Test:
        if len(words) != 3 or not words[1].startswith(self.name):
            raise ParseError(TOOL, "the sum of test {0} is not whole".format(self.name))
        return _whole(words[1], tuple(self.rows), number(TOOL, words[2]))


def _whole(name: str, rows: Table, total: float) -> Test:
    """The test, when its table is a rectangle of figures that are as much as its sum."""
    test = Test(name, PASSED, rows)
    if not rows or len({len(row) for row in rows}) != 1 or not test.values:
        raise ParseError(TOOL, "the table of test {0} is not whole".format(name))
    # Two decimals in text; six digits in JSON.
    if not same(sum(test.values), total, 0.0005, 0.006 * (len(test.values) + 1)):
        raise ParseError(TOOL, "the table of test {0} and its sum contradict each other".format(name))
    return test


def _value(word: str) -> Optional[float]:
    return None if word == "N/A" else number(TOOL, word)


def _short(text: Any) -> str:
    return " ".join(str(text).split())[:200]

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table that ``dcgmi diag`` draws for people.

3.x has one row a test (``Pass - All``, ``Fail - GPU: 1``, ``Skip - GPUs: 0, 1``); 4.x has a row for the test and,
below it without a name, one for each GPU (``GPU0: Pass``). ``Warning`` and ``Info`` rows belong to what is above them,
and long ones go on in rows without a name.
"""

from __future__ import annotations

import dataclasses
import re
from typing import List, Optional, Tuple

from .common import ParseError

STATUSES = {
    "pass": "pass",
    "fail": "fail",
    "warn": "warn",
    "skip": "skip",
    "skipped": "skip",
    "not run": "not_run",
    "notrun": "not_run",
}
_ROW = re.compile(r"\|(.{1,200}?)\|(.*)\|")
_SECTION = re.compile(r"[+|]-+\s+(\w[\w ]*?)\s+-+\+-+[+|]")
_END = re.compile(r"\+-+\+-+\+")
_STATUS = re.compile(r"(Pass|Fail|Warn|Skip|Skipped|Not Run|NotRun)(?:\s*-\s*(.*))?")
_ENTITY = re.compile(r"([A-Za-z]+)\s?(\d{1,5}):\s+(Pass|Fail|Warn|Skip|Not Run)", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Row:
    test: str
    gpu: Optional[int]
    status: str
    messages: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Table:
    version: Optional[str]
    rows: Tuple[Row, ...]


def parse(tool: str, text: str) -> Table:
    """:raises ParseError: when there is no such table, or it has no end."""
    version: Optional[str] = None
    section = ""
    ended = False
    told = ""  # what the row above was: "test", "warning" or "info"
    rows: List[Row] = []
    for line in (line.strip() for line in text.splitlines()):
        head, cells = _SECTION.fullmatch(line), _ROW.fullmatch(line)
        if head:
            section, ended = head.group(1).lower(), False
        elif _END.fullmatch(line):
            ended = bool(rows)
        elif cells and section:
            name, value = cells.group(1).strip(), cells.group(2).strip()
            if section == "metadata":
                version = value if name == "DCGM Version" else version
                continue
            told = _take(tool, rows, name, value, told)
    if not rows:
        raise ParseError(tool, "there is no table of results in it" + _words(text))
    if not ended:
        raise ParseError(tool, "its table has no end")
    return Table(version, tuple(rows))


def _take(tool: str, rows: List[Row], name: str, value: str, told: str) -> str:
    """Add one row of the table; returns what it was."""
    status, entity = _STATUS.fullmatch(value), _ENTITY.fullmatch(value)
    if name in ("Warning", "Info", "Error"):
        if name != "Info":
            _tell(tool, rows, value, more=False)
        return name.lower()
    if name == "" and entity and rows:
        gpu = int(entity.group(2)) if entity.group(1) == "GPU" else None
        rows.append(Row(rows[-1].test, gpu, STATUSES[entity.group(3).lower()]))
        return "test"
    if name == "" and rows and status and status.group(2):
        name = rows[-1].test  # 3.x: another group of GPUs of the same test
    elif name == "" and rows:
        if told in ("warning", "error"):
            _tell(tool, rows, value, more=True)
        return told
    if status is None or not name:
        raise ParseError(tool, "the row of {0!r} has no known status".format(name[:60]))
    kind = STATUSES[status.group(1).lower()]
    numbers = re.findall(r"\d{1,5}", status.group(2) or "", re.ASCII)
    if numbers and "GPU" in (status.group(2) or ""):
        rows.extend(Row(name, int(one), kind) for one in numbers)
    else:
        rows.append(Row(name, None, kind))
    return "test"


def _tell(tool: str, rows: List[Row], value: str, more: bool) -> None:
    if not rows:
        raise ParseError(tool, "it begins in the middle")
    last = rows[-1]
    if more and last.messages:
        # Cut at a column, wherever that is in a word.
        messages = last.messages[:-1] + ((last.messages[-1] + " " + value)[:300],)
    else:
        messages = last.messages + (value[:300],)
    rows[-1] = dataclasses.replace(last, messages=messages)


def _words(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return " ({0})".format(first[:160]) if first else ""

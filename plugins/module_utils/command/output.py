# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain tables for a terminal of 80 columns, JSON for programs, and colour for terminals.

Colour is on a terminal only: not in a pipe, not with NO_COLOR (https://no-color.org), not on a dumb terminal.
"""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import json
import os
from typing import Any, Callable, List, Mapping, Optional, Sequence

from ..core import units

Paint = Callable[[str, str], str]

_CODES = {"good": "32", "warning": "33", "bad": "31", "observed": "36", "faint": "2", "strong": "1"}


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> List[str]:
    """Aligned lines; None is shown as a dash. The last cell of a shorter row runs on, aligned with nothing."""
    cells = [[_text(cell) for cell in row] for row in [head, *rows]]
    widths = [
        max(len(row[column]) for row in cells if len(row) == len(head) or column < len(row) - 1)
        for column in range(len(head))
    ]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]


def _text(cell: object) -> str:
    return "-" if cell is None or cell == "" else str(cell)


def size(size_bytes: Optional[int]) -> Optional[str]:
    """A cell with a size; None, as it is not known, stays None."""
    return None if size_bytes is None else units.size(size_bytes)


def wrapped(text: str, width: int = 80, indent: str = "  ") -> str:
    """A sentence for a terminal of 80 columns; what is longer than a line (a UUID, a path) is not broken."""
    import textwrap  # not wanted for JSON, as before each job

    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, sort_keys=True))


def wanted(stream: Any, environment: Optional[Mapping[str, str]] = None) -> bool:
    variables = os.environ if environment is None else environment
    return bool(stream.isatty()) and not variables.get("NO_COLOR") and variables.get("TERM") != "dumb"


def painter(stream: Any, environment: Optional[Mapping[str, str]] = None) -> Paint:
    """A function ``paint(text, kind)`` for this stream; kinds: good, warning, bad, observed, faint, strong.

    Colour never carries meaning alone: what is painted says the same without it.
    """
    if not wanted(stream, environment):
        return lambda text, kind: text
    return lambda text, kind: "\033[{0}m{1}\033[0m".format(_CODES[kind], text)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Colour, on a terminal only: not in a pipe, not with NO_COLOR (https://no-color.org), not on a dumb terminal."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Optional

Paint = Callable[[str, str], str]

_CODES = {"good": "32", "warning": "33", "bad": "31", "observed": "36", "faint": "2", "strong": "1"}


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

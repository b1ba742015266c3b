# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts that came from a machine or its users made safe for a line of output."""

from __future__ import annotations

import re

# Control characters, and what is no character at all: bytes that were no UTF-8, line separators, marks that turn the
# direction of the text round.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")


def line(text: str) -> str:
    """One line that any terminal and any encoder takes."""
    return " ".join(_UNFIT.sub(" ", text).split())

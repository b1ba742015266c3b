# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a misspelt word was meant to be."""

from __future__ import annotations

from typing import Iterable

# Two letters that changed places in a word of four are 0.75; names with only a prefix in common (gpu_...) are below.
_ALIKE = 0.7


def nearest(word: str, known: Iterable[str]) -> str:
    """``did you mean 'info'? ``, for the front of a remedy; nothing where no known word is like it."""
    import difflib

    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=_ALIKE)
    return "did you mean '{0}'? ".format(names[near[0]]) if near else ""

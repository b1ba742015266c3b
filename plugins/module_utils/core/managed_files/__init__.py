# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole text files that belong to this collection, in folders that it may have made; a part of other resources.

A resource that has such files keeps in its section of the declaration which ones it wrote and which folders it made
(:func:`remembered`), so that files of an earlier run with other paths go, and ``absent`` leaves what was found.
A file that is not ours, by its mark in one of the first lines, is never written or removed.
"""

from __future__ import annotations

from .apply import STEPS, apply, write_beside
from .observe import look, observe
from .plan import after, foreign_notes, refusals, remembered, remove, text, write
from .types import MARK, MARKER, Files, MakeFolder, RemoveFile, RemoveFolder, Seen, Wanted, WriteFile

__all__ = [
    "MARK",
    "MARKER",
    "STEPS",
    "Files",
    "MakeFolder",
    "RemoveFile",
    "RemoveFolder",
    "Seen",
    "Wanted",
    "WriteFile",
    "after",
    "apply",
    "foreign_notes",
    "look",
    "observe",
    "refusals",
    "remembered",
    "remove",
    "text",
    "write",
    "write_beside",
]

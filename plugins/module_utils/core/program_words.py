# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program of the site with its arguments, as a list of words that no shell reads. Pure."""

from __future__ import annotations

from typing import Sequence

from .resource import NodeError

EXAMPLE = "[/usr/bin/az, vm, deallocate]"


def check(thing: str, words: Sequence[str]) -> None:
    """:raises NodeError: they do not begin with the whole path of a program, or all stand in one word."""
    if not words:
        return
    if not words[0].startswith("/"):
        reason = "{0!r} is no absolute path, and a service has no search path to speak of".format(words[0])
        raise NodeError(thing, reason, "give the whole path of the program first")
    if len(words[0].split()) > 1:
        reason = "{0!r} is one word, and no program is called so".format(words[0])
        raise NodeError(thing, reason, "give each word by itself, as " + EXAMPLE)

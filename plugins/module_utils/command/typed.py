# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wrong value on the command line: wrong use, told by the words that were typed."""

from __future__ import annotations

import contextlib
from typing import Iterator, Tuple

from ..core.resource import Misuse, NodeError


@contextlib.contextmanager
def as_typed(*words: str) -> Iterator[None]:
    """:raises Misuse: of these words, for a NodeError inside, which has names that nobody typed."""
    try:
        yield
    except NodeError as error:
        raise Misuse("option " + " ".join(words), error.reason, error.remedy) from error


def within(option: str, value: float, bounds: Tuple[float, float], unit: str = "") -> None:
    """:raises Misuse: it is not."""
    least, most = bounds
    if not least <= value <= most:
        thing = "option {0} {1:g}".format(option, value)
        raise Misuse(thing, "it is out of range", "give {0:g} to {1:g} {2}".format(least, most, unit).strip())

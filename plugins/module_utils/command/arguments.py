# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments that several commands share, and errors about a value in the words that were typed."""

from __future__ import annotations

import argparse
import contextlib
import math
from typing import Callable, Iterator, Optional, Sequence, Tuple

from ..core.resource import Misuse, NodeError
from ..facts.nvml.selectors import parse

LEAST, MOST = 0.1, 86400


def add_gpu(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpu",
        action="append",
        metavar="GPU",
        help="only this GPU: index, UUID or PCI address; may be given again, or as a list with commas",
    )


def gpu_selectors(given: Optional[Sequence[str]]) -> Tuple[str, ...]:
    """``--gpu 0,1 --gpu 0001:00:00.0`` as one list; all GPUs without it."""
    return parse(given or None, "--gpu " + ",".join(given or ()))


def add_watch(parser: argparse.ArgumentParser, seconds: float) -> None:
    parser.add_argument(
        "--watch",
        nargs="?",
        type=seconds_from(LEAST, MOST),
        const=float(seconds),
        metavar="SECONDS",
        help="show it again every so many seconds ({0} without a number), until ^C".format(seconds),
    )


def seconds_from(least: float, most: float) -> Callable[[str], float]:
    """What argparse takes an argument by."""

    def convert(text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = least - 1
        if not least <= seconds <= most:
            told = "{0!r} is no number of seconds from {1:g} to {2:g}".format(text, least, most)
            raise argparse.ArgumentTypeError(told)
        return seconds

    return convert


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


def positive(option: str, value: Optional[float]) -> None:
    """:raises Misuse: it is given, and no length of time."""
    if value is not None and not 0 < value < math.inf:
        raise Misuse("option " + option, "{0:g} s is no length of time".format(value), "give a finite number above 0")

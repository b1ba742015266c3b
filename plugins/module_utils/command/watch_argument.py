# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option ``--watch``."""

from __future__ import annotations

import argparse
from typing import Callable

LEAST, MOST = 0.1, 86400


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


def add(parser: argparse.ArgumentParser, seconds: float) -> None:
    parser.add_argument(
        "--watch",
        nargs="?",
        type=seconds_from(LEAST, MOST),
        const=float(seconds),
        metavar="SECONDS",
        help="show it again every so many seconds ({0} without a number), until ^C".format(seconds),
    )

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option ``--watch``."""

from __future__ import annotations

import argparse

LEAST, MOST = 0.1, 86400


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not LEAST <= seconds <= MOST:
        raise argparse.ArgumentTypeError("{0!r} is no number of seconds from {1:g} to {2}".format(text, LEAST, MOST))
    return seconds


def add(parser: argparse.ArgumentParser, seconds: float) -> None:
    parser.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=float(seconds),
        metavar="SECONDS",
        help="show it again every so many seconds ({0} without a number), until ^C".format(seconds),
    )

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws the boards over a synthetic fleet: ``python -m tools.board_pictures [BOARD...]``.

Writes build/boards/NAME.png, and NAME.json with what is in each panel. Needs npm, Chromium and Prometheus
(CONTRIBUTING.md).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..setup.npm import NpmError
from . import draw
from .browser import BrowserError
from .prometheus import PrometheusError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.board_pictures")
    parser.add_argument("boards", nargs="*", metavar="BOARD", help="which of them; all by default")
    parser.add_argument("--boards-from", type=Path, default=draw.BOARDS, help="directory of the boards' JSON files")
    parser.add_argument("--out", type=Path, default=draw.OUT)
    parser.add_argument("--width", type=int, default=1600, help="of the pictures in pixels")
    given = parser.parse_args()
    try:
        draw.draw(given.boards, given.out, given.boards_from, given.width)
    except (BrowserError, NpmError, PrometheusError) as error:
        print("board_pictures: {0}".format(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

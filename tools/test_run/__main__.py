# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the tests: `python -m tools.test_run [--jobs N] [part or group ...]`, which `make test` calls."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import Dict

from .parts import LOGS, PARTS, ROOT, select
from .results import Count, closing_line, group_skips, slowest
from .run import Runner

# Tests that the summary names with their time.
SLOWEST = 12


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make test", description="Runs the parts of the test run side by side.")
    parser.add_argument("parts", nargs="*", help="names or groups of parts; all of them by default")
    # Each lane with a guest keeps about one core busy; more lanes at once than cores only make time limits tight.
    parser.add_argument("--jobs", type=int, default=max(2, min(3, os.cpu_count() or 2)), help="lanes at once")
    parser.add_argument("--list", action="store_true", help="list the parts and end")
    return parser.parse_args()


def listing() -> str:
    return "\n".join("{0:24} {1:10} {2}".format(part.name, part.group, part.lane) for part in PARTS)


def summary(count: Count, took: Dict[str, float], parts: int, seconds: float) -> str:
    """What is printed last; ``took`` has the seconds of each part."""
    lines = [
        "",
        "{0} parts in {1:.0f} min {2:02.0f} s; logs are in {3}/".format(
            parts, seconds // 60, seconds % 60, LOGS.relative_to(ROOT)
        ),
    ]
    if len(took) > 1:
        longest = sorted(took.items(), key=lambda item: -item[1])
        lines.append("took: " + ", ".join("{0} {1:.0f} s".format(*item) for item in longest))
        lines += ["slowest:"] + ["  " + line for line in slowest((LOGS / name for name in took), SLOWEST)]
    if count.skipped:
        lines.append("skipped:")
        lines += ["  " + line for line in group_skips(count.skipped)]
    if count.failed:
        lines.append("failed:")
        lines += ["  " + name for name in count.failed]
    return "\n".join(lines + [closing_line(count)])


def main() -> int:
    options = arguments()
    if options.list:
        print(listing())
        return 0
    try:
        chosen = select(options.parts)
    except ValueError as error:
        print("make test: {0}.".format(error), file=sys.stderr)
        return 2
    started = time.monotonic()
    runner = Runner(chosen, options.jobs)
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(which, runner.interrupt)
    count = runner.run()
    if runner.interrupted:
        print("make test: interrupted; nothing of it runs any more.", file=sys.stderr)
        return 130
    print(summary(count, runner.seconds, len(chosen), time.monotonic() - started), flush=True)
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())

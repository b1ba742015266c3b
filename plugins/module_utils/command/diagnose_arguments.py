# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode diagnose``."""

from __future__ import annotations

import argparse

HOURS, SECONDS, MEBIBYTES = 24.0, 420.0, 64
HOURS_RANGE, SECONDS_RANGE, MEBIBYTES_RANGE = (0.1, 8760.0), (10.0, 3600.0), (1, 1024)

DETAILS = """The archive has one folder with text files and index.html, which opens in a
browser and needs nothing else. Nothing on the node is changed, and no GPU is
loaded. What does not answer costs its own part and is told.

Passwords, tokens, access keys, private keys and the queries of URLs are
hidden, and the names of users' processes. No environment of a process is read.
Names and addresses of the node, serial numbers and paths are in it: look
through it before you give it away.

exit status:
  0  written, with all that this node has
  3  written; something could not be collected, and is told
  1  not written
  2  wrong usage

examples:
  gpunode diagnose -o /root/gpu07.tar.gz
  gpunode diagnose -o /root/gpu07.tar.gz --hours 72 --without bug_report
  gpunode diagnose --list            what is collected, with its time limits
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Collect what this node tells of itself into one archive, without secrets."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-o", "--output", metavar="FILE", help="the archive (.tar.gz); mode 0600")
    parser.add_argument(
        "--hours", type=float, default=HOURS, metavar="H", help="how far back logs are told (default: 24)"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="PART", help="leave this part out; patterns too"
    )
    parser.add_argument(
        "--most", type=int, default=MEBIBYTES, metavar="MIB", help="the most that the archive may have (default: 64)"
    )
    parser.add_argument(
        "--timeout", type=float, default=SECONDS, metavar="S", help="the time limit of all of it (default: 420)"
    )
    parser.add_argument("--list", action="store_true", help="list the parts")
    parser.set_defaults(function="diagnose.run")

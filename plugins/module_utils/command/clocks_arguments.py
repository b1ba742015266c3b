# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode clocks``."""

from __future__ import annotations

import argparse

from . import gpu_argument

TEMPORARY = """Temporary: nothing is declared. A reboot, a reload of the driver or
'gpunode clocks reset' ends it, and 'gpunode apply gpu_settings' brings back
what was declared for this node. Only the GPUs named by --gpu are touched, so
two jobs on one node do not undo each other's clocks.
"""

EXAMPLES = """examples:
  gpunode clocks list                 now, held at, by default, and at most
  gpunode clocks max                  all GPUs at their highest clocks
  gpunode clocks max --gpu 0,1        these two only, as for a job that has them
  gpunode clocks reset --gpu 0,1      these two back to the driver's default
  gpunode clocks set --graphics 1095  all GPUs at this graphics clock
"""


def _whole(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise ValueError
    return number


_whole.__name__ = "clock in MHz"  # argparse: "invalid clock in MHz value"


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the clocks of the GPUs, or set them for now."
    parser.epilog = EXAMPLES + "\n" + TEMPORARY
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="what", metavar="ACTION", required=True)
    for name, summary, function in (
        ("list", "clocks of each GPU: now, held at, default and maximum", "clocks.show"),
        ("max", "hold the graphics and memory clock at their maximum (temporary)", "clocks.change"),
        ("reset", "return the clocks to the driver's default (temporary)", "clocks.change"),
        ("set", "hold the clocks at these values (temporary)", "clocks.change"),
    ):
        one = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=None if name == "list" else TEMPORARY,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.set_defaults(function=function)
        gpu_argument.add(one)
        if name == "set":
            one.add_argument(
                "--graphics", type=_whole, metavar="MHZ", required=True, help="graphics (SM) clock to hold"
            )
            one.add_argument("--memory", type=_whole, metavar="MHZ", help="memory clock to hold; left alone without it")
            one.add_argument("--snap", action="store_true", help="take the nearest supported clock instead of refusing")
        if name != "list":
            one.add_argument("--check", action="store_true", help="tell what would be done; change nothing")

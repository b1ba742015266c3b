# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of ``gpunode health``."""

from __future__ import annotations

import argparse
from typing import Any

from . import watch_argument

DETAILS = """exit status:
  0  pass     every check that applies was made, and all is well
  3  warn     look at it when you can
  4  unknown  something could not be checked, the machine is not known, or no
              check was made: the declaration cannot be read, or a bug of ours
  1  fail     this node should take no job
  2  wrong usage, as a check that there is not

With --fail-on fail a verdict unknown ends with 0, too, and with --fail-on
unknown a warning does: for an init container, where all but 0 keeps a pod from
starting.

^C, SIGTERM and SIGHUP end active checks with all that they started, within two
seconds, without a verdict: 130, 143, 129.

With --nagios and --npd the statuses are those of these programs, and wrong
usage is unknown: 2 is critical to Nagios. Why no check was made is told in
the form that was asked for.

examples:
  gpunode health                    everything that needs no load, in seconds
  gpunode health --quick            what is worth its milliseconds before a job
  gpunode health --watch            the same every 30 seconds, until ^C
  gpunode health --active           measure links, GPUs, scratch, for minutes;
                                    only on a node without jobs
  gpunode health --active --seconds 60
                                    the same in a minute: what tells most per
                                    second first; the rest is "not_covered"
  gpunode health --only 'gpu_*'     some checks; --without leaves some out
  gpunode health --active --list    all checks, and what a pass of each means
  gpunode health --format prometheus > gpu_node.prom
"""
FORMATS = ("text", "json", "nagios", "npd", "prometheus", "nfd", "azure")
LEVEL = "passive"
FAIL_ON = ("warn", "unknown", "fail")


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "What is wrong with this node, how sure that is, and what to do."
    parser.epilog = DETAILS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_levels(parser.add_mutually_exclusive_group())
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="only this check; patterns too")
    parser.add_argument("--without", action="append", default=[], metavar="CHECK", help="leave this check out")
    parser.add_argument("--all", action="store_true", help="tell what passed as well")
    parser.add_argument("--list", action="store_true", help="list the checks of this level")
    parser.add_argument("--record", action="store_true", help="keep counters and verdict (root)")
    parser.add_argument(
        "--seconds", type=float, metavar="N", help="time for all active checks; what it does not cover is unknown"
    )
    add_fail_on(parser)
    watch_argument.add(parser, 30)
    parser.add_argument("--call-timeout", type=float, default=10.0, metavar="S", help="limit of one NVML call")
    add_forms(parser.add_mutually_exclusive_group(), "format")
    parser.set_defaults(function="health.run", level=LEVEL)


def add_levels(parser: Any) -> None:
    parser.add_argument("--quick", action="store_const", dest="level", const="quick", help="what is done before a job")
    parser.add_argument("--active", action="store_const", dest="level", const="active", help="measure too, for minutes")


def add_fail_on(parser: Any) -> None:
    parser.add_argument(
        "--fail-on", choices=FAIL_ON, metavar="OUTCOME", help="end with 0 but for this outcome and worse ones"
    )


def add_forms(parser: Any, name: str) -> None:
    """The arguments that choose a form, into the attribute ``name``."""
    parser.add_argument("--format", dest=name, choices=FORMATS, default="text", metavar="FORM", help=", ".join(FORMATS))
    for form, what in (("nagios", "Nagios and Icinga"), ("npd", "node-problem-detector")):
        parser.add_argument("--" + form, action="store_const", dest=name, const=form, help="for " + what)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode health``: the verdict on this node."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import sys
from typing import Any, List, Tuple

from .. import health
from ..core.host import Host
from ..core.resource import Misuse
from ..health import formats, registry
from ..health.course import Show
from ..health.types import Cost
from .arguments import add_watch
from .exit_status import LEVEL, add_fail_on, add_forms, add_levels, status_of
from .output import painter, print_json, table

# Of 80; the names of checks and levels take the others.
_TITLE_COLUMNS = 42
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "What is wrong with this node, how sure that is, and what to do."
    parser.epilog = DETAILS
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
    add_watch(parser, 30)
    parser.add_argument("--call-timeout", type=float, default=10.0, metavar="S", help="limit of one NVML call")
    add_forms(parser.add_mutually_exclusive_group(), "format")
    parser.set_defaults(level=LEVEL)


def run(host: Host, arguments: argparse.Namespace) -> int:
    options = health.Options(
        Cost(arguments.level),
        tuple(arguments.only),
        tuple(arguments.without),
        arguments.call_timeout,
        seconds=arguments.seconds,
    )
    if options.seconds is not None and options.level is not Cost.ACTIVE:
        reason = "it is the time of the active checks, and a run of level {0} makes none".format(options.level.value)
        raise Misuse("gpunode health --seconds", reason, "add --active, or leave it out")
    if arguments.list:
        return list_checks(options, arguments.json)
    form = "json" if arguments.json else arguments.format
    if arguments.watch is not None:
        return _watch(host, arguments, options, form)
    if options.level is Cost.ACTIVE:
        from . import active_progress  # only for these checks

        verdict = active_progress.run(lambda show: _examine(host, arguments, options, show), form == "text")
        if isinstance(verdict, int):
            return verdict
    else:
        verdict = _examine(host, arguments, options)
    if form == "text":
        print(_text(verdict, arguments.all))
    else:
        print(formats.render(form, verdict), end="")
    return status_of(verdict, arguments.fail_on, formats.exit_status(form, verdict))


def _examine(host: Host, arguments: argparse.Namespace, options: health.Options, show: Show = None) -> health.Verdict:
    verdict = health.examine(host, _node(host), options, show=show)
    if arguments.record:
        from ..health.gate import record  # also what the timer writes: verdict, metrics, labels

        for note in record.keep(host, verdict):
            print("gpunode: {0}".format(note), file=sys.stderr)
    return verdict


def _watch(host: Host, arguments: argparse.Namespace, options: health.Options, form: str) -> int:
    if form not in ("text", "json") or options.level is Cost.ACTIVE:
        what = "--active" if options.level is Cost.ACTIVE else "--format " + form
        raise Misuse("gpunode health --watch", "it does not go with " + what, "leave one of them out")
    from ..health.formats.json import document
    from .watch import watch

    def draw() -> Any:
        verdict = _examine(host, arguments, options)
        return document(verdict) if form == "json" else _text(verdict, arguments.all)

    return watch(arguments.watch, draw)


def _node(host: Host) -> str:
    """As Slurm has it, so that silences and the gate mean the same node."""
    from ..slurm import this_node

    return this_node.here(host).node_name


def _text(verdict: health.Verdict, every: bool) -> str:
    from ..health.formats import text

    paint = painter(sys.stdout)
    return "\n".join(paint(line, kind) for kind, line in text.lines(verdict, every))


def list_checks(options: health.Options, as_json: bool) -> int:
    """Those of the level that was asked for."""
    chosen = registry.chosen(options.level, options.only, options.without)
    if as_json:
        print_json([{"id": one.id, "title": one.title, "cost": one.cost.value} for one in chosen])
    else:
        rows = [row for one in chosen for row in _listed(one.id, one.cost.value, one.title)]
        print("\n".join(table(("CHECK", "COST", "A PASS MEANS"), rows)))
    return 0


def _listed(name: str, cost: str, title: str) -> List[Tuple[str, str, str]]:
    """Rows of one check for a terminal of 80 columns: a long title continues on the next row."""
    import textwrap  # only for people

    texts = textwrap.wrap(title, _TITLE_COLUMNS)
    return [(name, cost, texts[0]), *((" ", " ", text) for text in texts[1:])]

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode health``: the verdict on this node."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import sys
from typing import Any, List, Optional, Tuple

from .. import health
from ..core.host import Host
from ..core.resource import Misuse, NodeError
from ..health import formats, registry
from ..health.course import Show
from ..health.types import Cost
from .table import print_json, table

# Of 80; the names of checks and levels take the others.
_TITLE_COLUMNS = 42


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
        from . import load  # only for these checks

        verdict = load.run(lambda show: _examine(host, arguments, options, show), form == "text")
        if isinstance(verdict, int):
            return verdict
    else:
        verdict = _examine(host, arguments, options)
    if form == "text":
        print(_text(verdict, arguments.all))
    else:
        print(formats.render(form, verdict), end="")
    return _status(verdict, arguments.fail_on, formats.exit_status(form, verdict))


def _status(verdict: health.Verdict, fail_on: Optional[str], status: int) -> int:
    return status if fail_on is None or health.reached(verdict.outcome, fail_on) else 0


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


def print_undone(form: str, level: str, fail_on: Optional[str], error: NodeError, status: int) -> int:
    """No verdict could be made: told as one of which nothing is known but this, in the form that was asked for."""
    verdict = health.undone(_node(Host()), error, Cost(level))
    print(formats.render(form, verdict), end="")
    if form in formats.OF_PROGRAMS:
        status = formats.exit_status(form, verdict)
    elif form != "json":  # these have no place for a sentence
        print("gpunode: {0}".format(error), file=sys.stderr)
    return status if isinstance(error, Misuse) else _status(verdict, fail_on, status)


def _node(host: Host) -> str:
    """As Slurm has it, so that silences and the gate mean the same node."""
    from ..slurm import this_node

    return this_node.here(host).node_name


def _text(verdict: health.Verdict, every: bool) -> str:
    from ..health.formats import text
    from .color import painter

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

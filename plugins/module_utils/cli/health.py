# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode health``: the verdict on this node."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import sys

from .. import health
from ..health import formats, registry
from ..health.types import Cost
from ..host import Host
from ..resource import NodeError
from .table import print_json, table


def run(host: Host, arguments: argparse.Namespace) -> int:
    options = health.Options(
        Cost(arguments.level), tuple(arguments.only), tuple(arguments.without), arguments.call_timeout
    )
    if arguments.list:
        return list_checks(options, arguments.json)
    verdict = health.examine(host, _node(), options)
    if arguments.record:
        from ..health_gate import record  # also what the timer writes: verdict, metrics, labels

        for note in record.keep(host, verdict):
            print("gpunode: {0}".format(note), file=sys.stderr)
    form = "json" if arguments.json else arguments.format
    if form == "text":
        print_text(verdict, arguments.all)
    else:
        print(formats.render(form, verdict), end="")
    return formats.exit_status(form, verdict)


def print_undone(form: str, level: str, error: NodeError, status: int) -> int:
    """No verdict could be made: told as one of which nothing is known but this, in the form that was asked for."""
    verdict = health.undone(_node(), error, Cost(level))
    print(formats.render(form, verdict), end="")
    if form in formats.OF_PROGRAMS:
        return formats.exit_status(form, verdict)
    print("gpunode: {0}".format(error), file=sys.stderr)
    return status


def _node() -> str:
    return os.uname().nodename.split(".")[0]


def print_text(verdict: health.Verdict, every: bool) -> None:
    from ..health.formats import text
    from .color import painter

    paint = painter(sys.stdout)
    for kind, line in text.lines(verdict, every):
        print(paint(line, kind))


def list_checks(options: health.Options, as_json: bool) -> int:
    """Those of the level that was asked for."""
    chosen = registry.chosen(options.level, options.only, options.without)
    if as_json:
        print_json([{"id": one.id, "title": one.title, "cost": one.cost.value} for one in chosen])
    else:
        print(
            "\n".join(table(("CHECK", "COST", "A PASS MEANS"), [(one.id, one.cost.value, one.title) for one in chosen]))
        )
    return 0

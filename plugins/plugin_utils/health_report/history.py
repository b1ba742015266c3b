# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the fleet was at earlier runs: a small file for each, in a folder, and the lines of a picture made of them.

A folder of the site may hold anything: what is not as :func:`entry` writes it says nothing.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Iterable, Mapping

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import frozen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.samples import number

from .model import OUTCOMES, Report, mappings, text

SCHEMA = "trainyard.gpu_node/history/1"
#: Runs that are kept, and shown.
MOST, SHOWN = 1000, 90
_IN_USE = "gpus_in_use"
_MOST_BYTES = 4096
_NAME = "health-{0}.json"


@frozen
class Run:
    """``counts``: nodes by outcome. ``used`` of ``gpus``: those that a program had; both 0 where no node told it."""

    time: float
    counts: Mapping[str, int]
    used: int = 0
    gpus: int = 0

    @property
    def nodes(self) -> int:
        return sum(self.counts.values())


def of_report(report: Report) -> Run:
    used = gpus = 0
    for node in report.nodes:
        for result in node.results:
            for one in mappings(result.get("measured")):
                labels = one.get("labels")
                told = labels.get("gpus") if isinstance(labels, Mapping) else None
                value = number(one.get("value"))
                if one.get("name") == _IN_USE and value is not None and text(told).isdigit():
                    used, gpus = used + int(value), gpus + int(text(told)[:4])
    return Run(report.now or report.time, report.counts, used, gpus)


def entry(run: Run) -> str:
    content = {"schema": SCHEMA, "time": run.time, "counts": dict(run.counts), "used": run.used, "gpus": run.gpus}
    return json.dumps(content) + "\n"


def parse(words: str) -> Run | None:
    """None: it is no such file."""
    try:
        content: Any = json.loads(words)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, Mapping) or content.get("schema") != SCHEMA:
        return None
    counts = content.get("counts")
    when, used, gpus = (number(content.get(name)) for name in ("time", "used", "gpus"))
    if not isinstance(counts, Mapping) or when is None or used is None or gpus is None or not 0 < when < 1e11:
        return None
    told = {name: number(counts.get(name)) or 0 for name in OUTCOMES}
    if any(not 0 <= one <= 1e6 for one in (*told.values(), used, gpus)):
        return None
    return Run(when, {name: int(count) for name, count in told.items() if count}, int(used), int(gpus))


def read(folder: str) -> tuple[Run, ...]:
    """The runs that the folder has, oldest first.

    :raises OSError: the folder cannot be read.
    """
    found = []
    for name in sorted(_ours(os.listdir(folder)))[-MOST:]:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as stream:
                run = parse(stream.read(_MOST_BYTES))
        except OSError:
            continue
        if run is not None:
            found.append(run)
    return tuple(sorted(found, key=lambda one: one.time))


def keep(folder: str, run: Run) -> None:
    """Write this run, and take away the oldest beyond :data:`MOST`.

    :raises OSError: the folder cannot be made or written to.
    """
    os.makedirs(folder, exist_ok=True)
    name = _NAME.format(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(run.time)))
    path = os.path.join(folder, name)
    with open(path + ".new", "w", encoding="utf-8") as stream:
        stream.write(entry(run))
    os.replace(path + ".new", path)
    for old in sorted(_ours(os.listdir(folder)))[:-MOST]:
        os.unlink(os.path.join(folder, old))


def _ours(names: Iterable[str]) -> list[str]:
    return [one for one in names if one.startswith("health-") and one.endswith("Z.json") and len(one) == 28]


# The picture --------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _BASE = 720, 150, 120
_WORDS = {"none": "no verdict"}
_COLUMN = '<rect class="of-{0}" x="{1:.1f}" y="{2:.1f}" width="{3:.1f}" height="{4:.1f}"><title>{5}</title></rect>'


def picture(runs: tuple[Run, ...]) -> str:
    """A column a run, by the share of nodes of each outcome, and a line for the share of GPUs in use. Pure."""
    shown = [one for one in runs if one.nodes][-SHOWN:]
    if len(shown) < 2:
        return ""
    step = (_WIDTH - 16) / len(shown)
    columns, points = [], []
    for place, run in enumerate(shown):
        left, below = 8 + place * step, float(_BASE)
        title = "{0}: {1}".format(
            time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.time)),
            ", ".join("{0} {1}".format(count, _WORDS.get(name, name)) for name, count in run.counts.items()),
        )
        if run.gpus:
            title += "; {0} of {1} GPUs in use".format(run.used, run.gpus)
            points.append("{0:.1f},{1:.1f}".format(left + step / 2, _BASE - 100.0 * run.used / run.gpus))
        for name in OUTCOMES:
            high = 100.0 * run.counts.get(name, 0) / run.nodes
            if high:
                below -= high
                columns.append(_COLUMN.format(name, left, below, max(1.0, step - 1), high, title))
    line = '<polyline class="used" points="{0}"/>'.format(" ".join(points)) if len(points) > 1 else ""
    days = [time.strftime("%Y-%m-%d", time.gmtime(one.time)) for one in (shown[0], shown[-1])]
    axis = '<text x="8" y="{0}">{1}</text><text x="{2}" y="{0}" text-anchor="end">{3}</text>'.format(
        _HEIGHT - 10, days[0], _WIDTH - 8, days[1]
    )
    last = shown[-1]
    words = "{0} runs; {1} of {2} nodes are well now".format(len(shown), last.counts.get("pass", 0), last.nodes)
    words += ", {0} of {1} GPUs are in use".format(last.used, last.gpus) if last.gpus else ""
    return (
        "<h2>Over time</h2>\n<figure><figcaption>{0}. Columns: nodes by outcome{1}.</figcaption>"
        '<svg viewBox="0 0 {2} {3}" role="img" aria-label="{0}">{4}{5}{6}</svg></figure>\n'
    ).format(words, "; line: GPUs in use" if line else "", _WIDTH, _HEIGHT, "".join(columns), line, axis)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Usage: who uses how much."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from tools.monitoring import rules

from . import looks
from .board import Board
from .looks import Column
from .names import JOB, OWNER, owned

_CHOSEN = ("cluster",)
#: Seconds between two samples of each record.
_SECONDS = {rule.record: seconds for _name, seconds, group in rules.groups() for rule in group}


def _over_range(found: Board, metric: str, divisor: str) -> str:
    """The sum of a metric of jobs over the time range."""
    return "sum_over_time({0}[$__range]) * {1} / {2}".format(found.of(metric), _SECONDS[metric], divisor)


class _Use(NamedTuple):
    """What each job used in the time range."""

    hours: str
    energy: str
    idle: str


def make() -> Any:
    what = "Who uses how much in the time range: GPU hours, energy and unused share by user, account and namespace."
    found = Board("usage", "GPU usage", what, _CHOSEN, since="now-7d")
    hours = _over_range(found, "gpu_node:job_gpus", "3600")
    energy = _over_range(found, "gpu_node:job_power:watts", "3.6e6")
    unused = "(1 - avg_over_time({0}[$__range]))".format(found.of("gpu_node:job_busy:ratio"))
    use = _Use(hours, energy, "{0} * on ({1}) {2}".format(hours, JOB, unused))
    found.row("In the time range")
    for title, description, expr, unit, steps in (
        ("GPU hours", "GPU hours of all jobs and pods.", "sum({0})".format(hours), "suffix:h", looks.PLAIN),
        ("Energy", "Energy of the GPUs of all jobs and pods.", "sum({0})".format(energy), "kwatth", looks.PLAIN),
        (
            "Unused",
            "Share of the GPU hours in which no kernel ran.",
            "sum({0}) / sum({1})".format(use.idle, hours),
            "percentunit",
            looks.LESS_IS_BETTER,
        ),
        ("Jobs and pods", "Number of jobs and pods with a GPU.", "count({0})".format(hours), "none", looks.PLAIN),
    ):
        found.stat(title, description, expr, unit, steps, width=6, none="no jobs")
    found.row("By owner")
    _table(
        found,
        use,
        "Users",
        "Use of each user, and of jobs without a known owner.",
        ("user", "account"),
        'user!=""',
        rest=True,
    )
    _table(found, use, "Namespaces", "Use of each Kubernetes namespace.", ("namespace",), 'namespace!=""')
    _table(found, use, "Accounts", "Use of each Slurm account.", ("account",), 'account!=""', height=8)
    held = owned(found.of("gpu_node:job_gpus"), found.of("gpu_node:job_owner"))
    found.series(
        "GPUs by account and namespace",
        "GPUs held at each time.",
        [("sum by (account, namespace) ({0})".format(held), "{{account}}{{namespace}}")],
        "none",
        stacked=True,
        none="no jobs",
    )
    found.row("By job")
    largest = use._replace(hours="topk(100, {0})".format(hours))
    what = "The hundred largest jobs and pods by GPU hours."
    _table(found, largest, "Jobs and pods", what, ("cluster", "hpc_job", *OWNER), rest=True, width=24, height=8)
    return found.build()


def _table(
    found: Board,
    use: _Use,
    title: str,
    what: str,
    labels: Sequence[str],
    only: str = "",
    rest: bool = False,
    width: int = 12,
    height: int = 6,
) -> None:
    owner = "last_over_time({0}[$__range])"
    every, some = (
        owner.format(found.of("gpu_node:job_owner")),
        owner.format(found.of("gpu_node:job_owner", *filter(None, [only]))),
    )

    def total(expr: str) -> str:
        return "sum by ({0}) ({1})".format(", ".join(labels), owned(expr, every, some, rest))

    hours = total(use.hours)
    found.table(
        title,
        what,
        labels,
        (
            Column("GPU hours", hours, "suffix:h"),
            Column("energy", "{0} and {1}".format(total(use.energy), hours), "kwatth"),
            Column("unused", "{0} / {1}".format(total(use.idle), hours), "percentunit", looks.LESS_IS_BETTER),
        ),
        none="No job or pod of this kind had a GPU in the time range.",
        width=width,
        height=height,
    )

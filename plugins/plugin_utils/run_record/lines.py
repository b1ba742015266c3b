# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run in lines for people: how far it is, and in the end who is not done."""

from __future__ import annotations

from .record import NOT_DONE, Host, Run

_NAMES_MAX = 5
_REASONS_MAX = 20
# A task that runs shorter than this is not worth a name.
_SLOW_SECONDS = 5.0


def progress(run: Run, now: float, began: float) -> str:
    """[3:07] 200 hosts: 120 ready, 5 failed, 50 running, 25 waiting; slowest gpu0007, 41 s in TASK; gpu0003: WHY"""
    counts = run.counts
    waiting = sum(host.status == "unfinished" and host.began is None for host in run.hosts.values())
    parts = [
        (counts["ready"], "ready"),
        (counts["failed"], "failed"),
        (counts["unreachable"], "unreachable"),
        (counts["unfinished"] - waiting, "running"),
        (waiting, "waiting"),
        (counts["skipped"], "skipped"),
    ]
    seconds = int(now - began)
    words = "[{0}:{1:02d}] {2}: {3}".format(
        seconds // 60,
        seconds % 60,
        _hosts(len(run.hosts)),
        ", ".join("{0} {1}".format(*one) for one in parts if one[0]),
    )
    slowest = _slowest(run)
    if slowest:
        name, host = slowest
        passed = now - (host.task_began or now)
        if passed >= _SLOW_SECONDS:
            words += "; slowest {0}, {1:.0f} s in {2}".format(name, passed, host.task)
    told = run.of("failed")
    if told:
        words += "; {0}: {1}".format(told[-1], run.hosts[told[-1]].reason)
    return words


def summary(run: Run) -> list[tuple[str, str]]:
    """Lines with the status that they are about: those who are not done, by reason, then all others as a count."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in run.not_done:
        host = run.hosts[name]
        found.setdefault((host.status, host.reason), []).append(name)
    order = sorted(found.items(), key=lambda item: (NOT_DONE.index(item[0][0]), -len(item[1]), item[1]))
    lines = [
        (status, "{0:11} {1}{2}".format(status, names(hosts), ": " + reason if reason else ""))
        for (status, reason), hosts in order[:_REASONS_MAX]
    ]
    left = sum(len(hosts) for dummy, hosts in order[_REASONS_MAX:])
    if left:
        lines.append(
            ("failed", "{0} more are not done, for {1} further reasons".format(left, len(order) - _REASONS_MAX))
        )
    counted = ", ".join("{0} {1}".format(count, status) for status, count in run.counts.items() if count)
    lines.append(("failed" if run.not_done else "ready", "{0}: {1}".format(_hosts(len(run.hosts)), counted)))
    return lines


def names(hosts: list[str]) -> str:
    if len(hosts) <= _NAMES_MAX + 1:
        return ", ".join(hosts)
    return "{0} and {1} more".format(", ".join(hosts[:_NAMES_MAX]), len(hosts) - _NAMES_MAX)


def _slowest(run: Run) -> tuple[str, Host] | None:
    busy = [(host.task_began, name) for name, host in run.hosts.items() if host.task_began is not None]
    return (min(busy)[1], run.hosts[min(busy)[1]]) if busy else None


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else "{0} hosts".format(count)

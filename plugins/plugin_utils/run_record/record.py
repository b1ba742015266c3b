# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a run, host by host. No time is read here and nothing is written."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Iterable, Mapping

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.moment import moment
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.secrets import hide
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report.model import mappings, text

SCHEMA = "trainyard.gpu_node/run/1"
# ready: it went through to the end. skipped: no task was for it. The other three are not done.
STATUSES = ("failed", "unreachable", "unfinished", "ready", "skipped")
NOT_DONE = STATUSES[:3]
_REASON_MAX = 400
# What ansible-core says around the cause, and the address, with which no two hosts would have the same reason.
_AROUND = re.compile(
    r"^(?:.*can be reached over ssh: |(?:(?:Task|Action) failed: )*(?:Failed to connect to the host via ssh: )?)"
)
_ADDRESS = re.compile(r"^(ssh: )connect to host \S+ port \d+: |^(Data could not be sent to) remote host \S+(?=\.)")
_SENTENCE_END = re.compile(r"(?<=[^.\s]{2}\.)\s+(?=[A-Z])")


@dataclasses.dataclass
class Host:
    """Times in seconds of one clock. ``task``: what runs on it now. ``through``: it came to the end of the playbook."""

    status: str = "unfinished"
    reason: str = ""
    tasks: int = 0
    skipped: int = 0
    changed: int = 0
    began: float | None = None
    last: float | None = None
    task: str = ""
    task_began: float | None = None
    through: bool = False

    @property
    def seconds(self) -> float:
        return round(self.last - self.began, 3) if self.began is not None and self.last is not None else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "reason": self.reason or None,
            "changed": self.changed,
            "tasks": self.tasks,
            "seconds": self.seconds,
        }


@dataclasses.dataclass
class Run:
    """``started`` and ``ended`` in seconds since 1970."""

    run: str
    playbook: str
    check_mode: bool
    started: float
    ended: float | None = None
    hosts: dict[str, Host] = dataclasses.field(default_factory=dict)

    def expect(self, names: Iterable[str]) -> None:
        for name in names:
            self.hosts.setdefault(text(name), Host())

    def begin(self, name: str, task: str, now: float) -> None:
        host = self.hosts.setdefault(text(name), Host())
        host.began = now if host.began is None else host.began
        host.task, host.task_began = text(task), now

    def end(self, name: str, now: float, changed: bool = False, skipped: bool = False) -> Host:
        host = self.hosts.setdefault(text(name), Host())
        host.began = now if host.began is None else host.began
        host.last, host.task, host.task_began = now, "", None
        host.tasks += not skipped
        host.skipped += skipped
        host.changed += changed
        return host

    def fail(self, name: str, now: float, status: str, reason: str) -> None:
        """The first reason counts: what follows from it says less."""
        host = self.end(name, now)
        host.reason = host.reason if host.status == status else reason
        host.status = status

    def went_through(self, name: str) -> None:
        """The host came to the end of the playbook."""
        host = self.hosts[text(name)]
        host.through = True
        if host.status == "unfinished":
            host.status = "ready" if host.tasks else "skipped"

    def rescued(self, name: str) -> None:
        """What failed was rescued."""
        host = self.hosts[text(name)]
        host.status, host.reason = "unfinished", ""
        if host.through:
            self.went_through(name)

    @property
    def counts(self) -> dict[str, int]:
        return {status: len(self.of(status)) for status in STATUSES}

    def of(self, status: str) -> list[str]:
        return [name for name, host in self.hosts.items() if host.status == status]

    @property
    def not_done(self) -> list[str]:
        return sorted(name for name, host in self.hosts.items() if host.status in NOT_DONE)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "run": self.run,
            "playbook": text(self.playbook),
            "check_mode": self.check_mode,
            "started": moment(self.started),
            "ended": None if self.ended is None else moment(self.ended),
            "counts": self.counts,
            "hosts": {name: host.to_dict() for name, host in sorted(self.hosts.items())},
        }


def why(result: Mapping[str, Any], task: str) -> str:
    """The first sentence of what a task said when it failed. Nothing else of a result is ever kept."""
    failed = [one for one in mappings(result.get("results")) if one.get("failed") or one.get("unreachable")]
    for one in [*failed, result]:
        # A task with no_log has no message left; what it had is nobody's business here either.
        if one.get("_ansible_no_log") or "censored" in one:
            return "{0}: it failed, and its result is hidden (no_log)".format(text(task))
        words = _ADDRESS.sub(_without_address, _AROUND.sub("", text(one.get("msg"))))
        words = hide(_SENTENCE_END.split(words, maxsplit=1)[0])
        if words:
            return words if len(words) <= _REASON_MAX else words[: _REASON_MAX - 1] + "…"
    return "{0}: it failed without a word".format(text(task))


def _without_address(found: re.Match[str]) -> str:
    return found.group(1) or found.group(2) + " the host"

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A timer of systemd with the service that it starts, whose texts are managed files of a resource; a part of others."""

from __future__ import annotations

import os
from typing import Iterable, List, Mapping, Sequence

from .frozen import frozen
from .host import Host
from .managed_files import MARKER, RemoveFile, WriteFile
from .resource import Action, NodeError, Step

FOLDER = "/etc/systemd/system"
_RUNS = "/run/systemd/system"
_SECONDS = 10.0


@frozen
class Seen:
    """``running``: systemd runs here. ``enabled``: the timer starts with the machine. ``active``: it is started;
    ``stale``: systemd has read other texts than those that lie there."""

    running: bool = False
    enabled: bool = False
    active: bool = False
    stale: bool = False


def path(unit: str) -> str:
    return "{0}/{1}".format(FOLDER, unit)


def wants(timer: str) -> str:
    return "{0}/timers.target.wants/{1}".format(FOLDER, timer)


def head(unit: str) -> str:
    """The first line of its text. Pure."""
    return "{0} Changes of yours go into {1}.d/*.conf.".format(MARKER, path(unit))


def service(unit: str, description: str, program: str, rest: Sequence[str], after: str = "") -> str:
    """Of a service that runs once at a time. Without its ``program`` there is no failed unit. Pure."""
    lines = [head(unit), "[Unit]", "Description=" + description, "# The node command is gone: no failed unit."]
    lines += ["ConditionPathExists=" + program, *(["After=" + after] if after else [])]
    return "\n".join([*lines, "", "[Service]", "Type=oneshot", *rest]) + "\n"


def text(timer: str, description: str, interval_seconds: int) -> str:
    """Of a timer that starts its service half a minute after the boot and then so long after each end. Pure."""
    when = ["OnBootSec=30", "OnUnitInactiveSec={0}".format(interval_seconds), "AccuracySec=1"]
    return started_by(timer, description, when)


def calendar(timer: str, description: str, when: str, delay_seconds: int) -> str:
    """Of one that starts its service at a time of the day or week, up to so much later. Pure."""
    return started_by(timer, description, ["OnCalendar=" + when, "RandomizedDelaySec={0}".format(delay_seconds)])


def started_by(timer: str, description: str, when: Sequence[str]) -> str:
    """``when``: the lines of its section. Pure."""
    lines = [head(timer), "[Unit]", "Description=" + description, "", "[Timer]", *when, ""]
    return "\n".join([*lines, "[Install]", "WantedBy=timers.target"]) + "\n"


def runs(host: Host) -> bool:
    """Whether systemd runs here."""
    return host.root == "/" and host.exists(_RUNS)


def look(host: Host, timer: str, service: str) -> Seen:
    """One command for both units; no answer is none."""
    enabled = os.path.lexists(host.path(wants(timer)))
    if not runs(host):
        return Seen(enabled=enabled)
    try:
        done = host.run(["systemctl", "show", "--property=ActiveState,NeedDaemonReload", timer, service], _SECONDS)
    except NodeError:
        return Seen(True, enabled)
    lines = done.stdout.splitlines()
    first = done.stdout.split("\n\n")[0].splitlines()
    return Seen(True, enabled, "ActiveState=active" in first, "NeedDaemonReload=yes" in lines)


def touched(actions: Iterable[Action], paths: Sequence[str]) -> bool:
    """Whether one of these files is written or removed. Pure."""
    return any(isinstance(one, (WriteFile, RemoveFile)) and one.path in paths for one in actions)


def started(seen: Seen, timer: str, changed: bool) -> List[Action]:
    """After its texts were written. ``changed``: one of them was. Pure."""
    actions: List[Action] = [] if seen.enabled else [EnableTimer(timer)]
    if seen.running and (changed or seen.stale or not seen.enabled):
        actions.append(ReloadSystemd())
    if seen.running and (changed or not seen.active):
        actions.append(StartTimer(timer))
    return actions


def stopped(seen: Seen, timer: str) -> List[Action]:
    """Before its texts go. Pure."""
    actions: List[Action] = [StopTimer(timer)] if seen.active else []
    return actions + ([DisableTimer(timer)] if seen.enabled else [])


@frozen
class EnableTimer(Action):
    name: str

    def describe(self) -> str:
        return "enable {0}".format(self.name)


@frozen
class DisableTimer(Action):
    name: str

    def describe(self) -> str:
        return "disable {0}".format(self.name)


@frozen
class StartTimer(Action):
    """Started again, it takes a new interval too."""

    name: str

    def describe(self) -> str:
        return "start {0}".format(self.name)


@frozen
class StopTimer(Action):
    name: str

    def describe(self) -> str:
        return "stop {0}".format(self.name)


@frozen
class ReloadSystemd(Action):
    def describe(self) -> str:
        return "have systemd read its units again"


def _enable(host: Host, action: EnableTimer, other: object = None) -> None:
    """As `systemctl enable` does it for WantedBy=timers.target, in an image without a running systemd too."""
    link = wants(action.name)
    try:
        os.makedirs(host.path(os.path.dirname(link)), exist_ok=True)
        os.symlink(path(action.name), host.path(link))
    except OSError as error:
        raise NodeError(link, "it could not be made ({0})".format(error.strerror), "run it as root") from error


def _disable(host: Host, action: DisableTimer, other: object = None) -> None:
    host.remove(wants(action.name))


def _reload(host: Host, dummy: ReloadSystemd, other: object = None) -> None:
    host.run(["systemctl", "daemon-reload"])


def _start(host: Host, action: StartTimer, other: object = None) -> None:
    host.run(["systemctl", "restart", action.name])


def _stop(host: Host, action: StopTimer, other: object = None) -> None:
    host.run(["systemctl", "stop", action.name])


STEPS: Mapping[type, Step] = {
    EnableTimer: _enable,
    DisableTimer: _disable,
    ReloadSystemd: _reload,
    StartTimer: _start,
    StopTimer: _stop,
}

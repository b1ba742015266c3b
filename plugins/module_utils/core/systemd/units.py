# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a unit of ours, and the steps on units; a part of other resources."""

from __future__ import annotations

from typing import Mapping, Sequence

from .. import systemd
from ..frozen import frozen
from ..host import Host
from ..managed_files import MARKER
from ..resource import Action, Step
from . import MULTI_USER


def unit_text(unit: str, **sections: Sequence[str]) -> str:
    """The text of a unit, or of a drop-in of it; its first line is our mark. Pure."""
    head = "{0} Changes of yours go into {1}.d/*.conf.".format(MARKER, systemd.path(unit))
    parts = ["\n".join(["[{0}]".format(name), *lines]) for name, lines in sections.items()]
    return head + "\n" + "\n\n".join(parts) + "\n"


@frozen
class EnableUnit(Action):
    """``target`` starts it; so at each boot."""

    name: str
    target: str = MULTI_USER

    def describe(self) -> str:
        return "enable {0}".format(self.name)


@frozen
class DisableUnit(Action):
    name: str
    target: str = MULTI_USER

    def describe(self) -> str:
        return "disable {0}".format(self.name)


@frozen
class StartUnit(Action):
    """Started again, it takes a new text or interval too."""

    name: str

    def describe(self) -> str:
        return "start {0}".format(self.name)


@frozen
class StopUnit(Action):
    name: str

    def describe(self) -> str:
        return "stop {0}".format(self.name)


@frozen
class ReloadSystemd(Action):
    def describe(self) -> str:
        return "have systemd read its units again"


def _enable(host: Host, action: EnableUnit, dummy: object = None) -> None:
    systemd.enable(host, action.name, action.target)


def _disable(host: Host, action: DisableUnit, dummy: object = None) -> None:
    systemd.disable(host, action.name, action.target)


def _start(host: Host, action: StartUnit, dummy: object = None) -> None:
    systemd.restart(host, action.name)


def _stop(host: Host, action: StopUnit, dummy: object = None) -> None:
    systemd.stop(host, (action.name,))


def _reload(host: Host, action: ReloadSystemd, dummy: object = None) -> None:
    systemd.daemon_reload(host)


#: For the table of a resource that has units.
STEPS: Mapping[type, Step] = {
    EnableUnit: _enable,
    DisableUnit: _disable,
    StartUnit: _start,
    StopUnit: _stop,
    ReloadSystemd: _reload,
}

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's persistence daemon, which keeps the driver loaded: its unit as systemd has it, and the step to run it."""

from __future__ import annotations

from ...core import systemd
from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import Action, NodeError

UNIT = "nvidia-persistenced.service"


@frozen
class Daemon:
    """``enabled``: also where the unit has no [Install] section, as on Ubuntu, where udev starts it."""

    installed: bool = False
    enabled: bool = False
    active: bool = False


@frozen
class StartPersistenced(Action):
    enable: bool
    start: bool

    def then_look(self) -> bool:
        """It switches persistence mode on."""
        return True

    def describe(self) -> str:
        words = [word for word, wanted in (("enable", self.enable), ("start", self.start)) if wanted]
        return "{0} {1}".format(" and ".join(words), UNIT)


def look(host: Host) -> Daemon:
    if not systemd.running(host):
        return Daemon()
    (found,) = systemd.show(host, (UNIT,), ("LoadState", "UnitFileState", "ActiveState"))
    return Daemon(
        installed=found.get("LoadState") == "loaded",  # neither missing nor masked
        enabled=found.get("UnitFileState") != "disabled",
        active=found.get("ActiveState") in ("active", "activating", "reloading"),
    )


def start(host: Host, action: StartPersistenced, dummy: object) -> None:
    """:raises NodeError: it does not start."""
    try:
        if action.enable:
            systemd.enable_installed(host, UNIT)
        if action.start:
            systemd.start(host, (UNIT,))
    except NodeError as error:
        remedy = "look at 'journalctl -u {0}', or set persistenced to false".format(UNIT)
        raise NodeError(error.thing, error.reason, remedy) from error

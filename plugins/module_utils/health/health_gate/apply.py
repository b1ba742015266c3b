# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step."""

from __future__ import annotations

import os
from typing import Mapping

from ...core import declaration, managed_files
from ...core.host import Host
from ...core.resource import NodeError, Step
from .types import FOLDER, TIMER, WANTS, DisableTimer, EnableTimer, ReloadSystemd, StartTimer, StopTimer


def enable_timer(host: Host, dummy: EnableTimer, other: object = None) -> None:
    """As `systemctl enable` does it for WantedBy=timers.target, in an image without a running systemd too."""
    try:
        os.makedirs(host.path(os.path.dirname(WANTS)), exist_ok=True)
        os.symlink("{0}/{1}".format(FOLDER, TIMER), host.path(WANTS))
    except OSError as error:
        raise NodeError(WANTS, "it could not be made ({0})".format(error.strerror), "run it as root") from error


def disable_timer(host: Host, dummy: DisableTimer, other: object = None) -> None:
    host.remove(WANTS)


def reload_systemd(host: Host, dummy: ReloadSystemd, other: object = None) -> None:
    host.run(["systemctl", "daemon-reload"])


def start_timer(host: Host, dummy: StartTimer, other: object = None) -> None:
    # Started again, it takes a new interval too.
    host.run(["systemctl", "restart", TIMER])


def stop_timer(host: Host, dummy: StopTimer, other: object = None) -> None:
    host.run(["systemctl", "stop", TIMER])


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **managed_files.STEPS,
    EnableTimer: enable_timer,
    DisableTimer: disable_timer,
    ReloadSystemd: reload_systemd,
    StartTimer: start_timer,
    StopTimer: stop_timer,
}

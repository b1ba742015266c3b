# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step."""

from __future__ import annotations

import os

from ...core import declaration, managed_files
from ...core.host import Host
from ...core.resource import Action, NodeError
from .types import FOLDER, TIMER, WANTS, DisableTimer, EnableTimer, ReloadSystemd, StartTimer, StopTimer


def apply(host: Host, action: Action) -> None:
    if isinstance(action, declaration.Declare):
        declaration.apply(host, action)
    elif isinstance(action, EnableTimer):
        _enable(host)
    elif isinstance(action, DisableTimer):
        host.remove(WANTS)
    elif isinstance(action, ReloadSystemd):
        host.run(["systemctl", "daemon-reload"])
    elif isinstance(action, StartTimer):
        # Started again, it takes a new interval too.
        host.run(["systemctl", "restart", TIMER])
    elif isinstance(action, StopTimer):
        host.run(["systemctl", "stop", TIMER])
    else:
        managed_files.apply(host, action)


def _enable(host: Host) -> None:
    """As `systemctl enable` does it for WantedBy=timers.target, in an image without a running systemd too."""
    try:
        os.makedirs(host.path(os.path.dirname(WANTS)), exist_ok=True)
        os.symlink("{0}/{1}".format(FOLDER, TIMER), host.path(WANTS))
    except OSError as error:
        raise NodeError(WANTS, "it could not be made ({0})".format(error.strerror), "run it as root") from error

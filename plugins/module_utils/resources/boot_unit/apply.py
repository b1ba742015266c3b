# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on a boot unit."""

from __future__ import annotations

import os

from ...core.host import Host
from ...core.resource import Action, NodeError
from .observe import RUNS
from .types import FOLDER, WANTS, EnableUnit, ReloadSystemd, RemoveUnit, WriteUnit


def apply(host: Host, action: Action) -> None:
    if isinstance(action, WriteUnit):
        host.write("{0}/{1}".format(FOLDER, action.name), action.text)
    elif isinstance(action, EnableUnit):
        _enable(host, action.name)
    elif isinstance(action, RemoveUnit):
        host.remove("{0}/{1}".format(WANTS, action.name))
        host.remove("{0}/{1}".format(FOLDER, action.name), folder_too="/" in action.name)
    elif isinstance(action, ReloadSystemd) and host.exists(RUNS):
        host.run(["systemctl", "daemon-reload"])


def _enable(host: Host, name: str) -> None:
    """As `systemctl enable` does it for WantedBy=multi-user.target, in an image without a running systemd too."""
    link = "{0}/{1}".format(WANTS, name)
    try:
        os.makedirs(host.path(WANTS), exist_ok=True)
        os.symlink("{0}/{1}".format(FOLDER, name), host.path(link))
    except OSError as error:
        raise NodeError(link, "it could not be made ({0})".format(error.strerror), "run it as root") from error

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps on boot units."""

from __future__ import annotations

import os
from typing import Mapping

from ..host import Host
from ..resource import NodeError, Step
from .observe import RUNS
from .types import FOLDER, WANTS, EnableUnit, ReloadSystemd, RemoveUnit, WriteUnit


def _write(host: Host, action: WriteUnit, dummy: object) -> None:
    host.write("{0}/{1}".format(FOLDER, action.name), action.text)


def _enable(host: Host, action: EnableUnit, dummy: object) -> None:
    """As `systemctl enable` does it for WantedBy=multi-user.target, in an image without a running systemd too."""
    link = "{0}/{1}".format(WANTS, action.name)
    try:
        os.makedirs(host.path(WANTS), exist_ok=True)
        os.symlink("{0}/{1}".format(FOLDER, action.name), host.path(link))
    except OSError as error:
        raise NodeError(link, "it could not be made ({0})".format(error.strerror), "run it as root") from error


def _remove(host: Host, action: RemoveUnit, dummy: object) -> None:
    host.remove("{0}/{1}".format(WANTS, action.name))
    host.remove("{0}/{1}".format(FOLDER, action.name), folder_too="/" in action.name)


def _reload(host: Host, dummy: ReloadSystemd, dummy_options: object) -> None:
    if host.exists(RUNS):
        host.run(["systemctl", "daemon-reload"])


#: For the table of a resource that has a boot unit.
STEPS: Mapping[type, Step] = {WriteUnit: _write, EnableUnit: _enable, RemoveUnit: _remove, ReloadSystemd: _reload}

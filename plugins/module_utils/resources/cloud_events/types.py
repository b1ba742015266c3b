# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit of the service, and what is found of it on a node."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.folder_given import Folder
from ...core.frozen import frozen
from ...core.registry import AT_BOOT
from ...core.systemd import boot_unit
from ...core.systemd.boot_unit import BootUnit
from ...facts.nvml.binding import RUNTIME
from ...health.events.settings import SECTION

# Neither gpu-node-converge.service nor slurmd.service, which waits for it: a converge at boot that starts this one
# would wait for itself.
_AFTER = (*("gpu-node-{0}.service".format(name) for name in AT_BOOT), "network.target")


UNIT = BootUnit(
    SECTION,
    "Follow what the cloud announces for this machine",
    after=_AFTER,
    conditions=("# The node command is gone: no failed unit.", "ConditionPathExists=" + RUNTIME),
    service=(
        "SyslogIdentifier=gpu-node-cloud_events",
        "ExecStart={0} events follow".format(RUNTIME),
        "# It also ends when the node command was replaced, and the new one goes on.",
        "Restart=always",
        "RestartSec=10",
        "Nice=5",
    ),
)


@frozen
class State:
    """``declared``: section cloud_events of the declaration. ``azure``: the firmware says that this is a machine of it.

    ``running``: systemd runs here. ``active``: it has the service started. ``foreign``: something that is not ours lies
    where the metrics are to go, in ``folder``. ``left``: its state files. ``drained``: events that this
    node was drained for.
    """

    unit: boot_unit.BootUnitState = boot_unit.BootUnitState()
    declared: Mapping[str, Any] = {}
    azure: bool = False
    running: bool = False
    active: bool = False
    foreign: bool = False
    folder: Optional[Folder] = None
    metrics: Tuple[str, ...] = ()
    left: Tuple[str, ...] = ()
    drained: Tuple[str, ...] = ()

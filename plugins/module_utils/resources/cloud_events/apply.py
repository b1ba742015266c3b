# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step."""

from __future__ import annotations

from typing import Mapping

from ...core import boot_unit, declaration
from ...core.host import Host
from ...core.resource import Step
from .types import UNIT, RemoveState, StartService, StopService


def _start(host: Host, dummy: StartService, other: object = None) -> None:
    host.run(["systemctl", "restart", UNIT.name])


def _stop(host: Host, dummy: StopService, other: object = None) -> None:
    host.run(["systemctl", "stop", UNIT.name])


def _remove(host: Host, action: RemoveState, other: object = None) -> None:
    host.remove(action.path)


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **boot_unit.STEPS,
    StartService: _start,
    StopService: _stop,
    RemoveState: _remove,
}

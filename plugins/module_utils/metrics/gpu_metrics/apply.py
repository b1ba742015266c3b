# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step."""

from __future__ import annotations

import time
from typing import Mapping

from ...core import declaration, managed_files, timer_unit
from ...core.host import Host
from ...core.resource import NodeError, Step
from .observe import ask
from .types import StartExporter

# DCGM reads each field once before the exporter answers.
_STARTS_SECONDS = 30.0


def _start_exporter(host: Host, action: StartExporter, other: object = None) -> None:
    """It has to answer before this ends: one with a field that DCGM has none of, or without its host engine, ends at
    once, and systemd starts it again and again."""
    host.run(["systemctl", "enable", action.unit])
    host.run(["systemctl", "restart", action.unit])
    if not action.listen:
        return
    deadline, why = time.monotonic() + _STARTS_SECONDS, ""
    while time.monotonic() < deadline:
        state = host.run(["systemctl", "show", "--property=ActiveState", "--value", action.unit]).stdout.strip()
        if state == "active" and not action.answers:
            return
        if state == "active":
            try:
                ask(action.listen)
                return
            except NodeError as error:
                why = error.reason
        else:
            why = "it is {0}".format(state)
        time.sleep(0.5)
    last = host.run(["journalctl", "-q", "-n", "1", "-o", "cat", "_SYSTEMD_UNIT=" + action.unit]).stdout.strip()
    reason = "it did not answer at {0} within {1:g} s: {2}; its last line is {3!r}".format(
        action.listen, _STARTS_SECONDS, why, last[-300:]
    )
    remedy = (
        "look at 'journalctl -u {0}': nvidia-dcgm must run (or gpu_metrics_host_engine be empty), and this DCGM must "
        "know each of gpu_metrics_fields"
    )
    raise NodeError(action.unit, reason, remedy.format(action.unit))


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **managed_files.STEPS,
    **timer_unit.STEPS,
    StartExporter: _start_exporter,
}

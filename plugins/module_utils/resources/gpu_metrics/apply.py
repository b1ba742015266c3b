# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step."""

from __future__ import annotations

import time
from typing import Mapping, Tuple

from ...core import systemd
from ...core.host import Host
from ...core.resource import NodeError, Step
from ...core.systemd import timer
from .observe import ask
from .types import StartExporter

# DCGM reads each field once before the exporter answers.
_STARTS_SECONDS = 30.0
# One that cannot be asked has to have run for so long.
_SETTLES_SECONDS = 3.0


def _start_exporter(host: Host, action: StartExporter, other: object = None) -> None:
    """It has to answer before this ends: one with a field that DCGM has none of, or without its host engine, ends at
    once, and systemd starts it again and again. A host engine that is only just starting is there the second time."""
    systemd.enable_installed(host, action.unit)
    systemd.restart(host, action.unit)
    if not action.listen:
        return
    begun, why = time.monotonic(), ""
    while time.monotonic() - begun < _STARTS_SECONDS:
        state, restarts = _state(host, action.unit)
        if state == "active" and not action.answers and time.monotonic() - begun > _SETTLES_SECONDS:
            return
        if state == "active" and action.answers:
            try:
                ask(action.listen)
                return
            except NodeError as error:
                why = error.reason
        elif state != "active":
            why = "it is {0}".format(state)
            if restarts > 0 and state != "activating":
                break
        time.sleep(0.5)
    last = host.run(["journalctl", "-q", "-n", "1", "-o", "cat", "_SYSTEMD_UNIT=" + action.unit]).stdout.strip()
    reason = "it does not answer at {0}: {1}; its last line is {2!r}".format(action.listen, why, last[-300:])
    remedy = (
        "look at 'journalctl -u {0}': nvidia-dcgm must run (or gpu_metrics_host_engine be empty), and this DCGM must "
        "know each of gpu_metrics_fields"
    )
    raise NodeError(action.unit, reason, remedy.format(action.unit))


def _state(host: Host, unit: str) -> Tuple[str, int]:
    """The state of the unit, and how often systemd has started it again. One that waits for that is "ending again and
    again"."""
    (told,) = systemd.show(host, (unit,), ("ActiveState", "SubState", "NRestarts"))
    restarts = told.get("NRestarts", "")
    again = told.get("SubState", "").startswith("auto-restart")  # and -queued since systemd 254
    state = "ending again and again" if again else told.get("ActiveState", "unknown")
    return state, int(restarts) if restarts.isdigit() else 0


STEPS: Mapping[type, Step] = {**timer.STEPS, StartExporter: _start_exporter}

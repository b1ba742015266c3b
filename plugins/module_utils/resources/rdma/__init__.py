# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices of this node: what their ports are like, what they are called, and IPoIB. One resource.

No device is renamed and no module unloaded.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Dict, Mapping

from ...core import declaration, managed_files
from ...core.resource import Line, Outcome, Resource
from .compare import counted, differences
from .observe import observe
from .options import Desired
from .plan import given, plan, reboot_pending
from .types import SECTION, Device, State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: the devices, how they differ, and what waits for the next boot."""
    state = outcome.after
    return {
        "devices": [_device(one) for one in state.devices],
        "ports_counted": len(counted(state.devices, desired.link_layer)),
        "differences": [str(one) for one in differences(state.devices, desired)],
        "names": given(state, desired),
        "reboot_pending": reboot_pending(state, desired),
        "ipoib_loaded": state.ipoib_loaded,
        "relaxed_ordering": [dataclasses.asdict(one) for one in state.relaxed_ordering],
    }


def _device(device: Device) -> Dict[str, Any]:
    content: Dict[str, Any] = dataclasses.asdict(device)
    content["netdevs"] = list(device.netdevs)
    content["ports"] = list(content["ports"])
    return content


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    return managed_files.text(managed_files.after(outcome.before.files, outcome.plan.actions if planned else ()))


def _line(result: Mapping[str, Any]) -> str:
    ports = [port for device in result.get("devices") or [] for port in device.get("ports") or []]
    active = collections.Counter(
        (port.get("link_layer"), port.get("rate_gigabits_per_second"))
        for port in ports
        if port.get("state") == "ACTIVE"
    )
    kinds = ["{0} x {1}, {2:g} Gb/s".format(n, layer, rate or 0) for (layer, rate), n in active.items()]
    down = len(ports) - sum(active.values())
    return "; ".join(kinds + (["{0} port(s) not active".format(down)] if down else [])) or "no port"


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps={**declaration.STEPS, **managed_files.STEPS},
    facts=_facts,
    shown=_shown,
    title="RDMA files",
    line=Line("RDMA", _line),
)

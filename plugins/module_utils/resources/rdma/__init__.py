# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices of this node: what their ports are like, what they are called, and IPoIB. One resource.

Front ends use :func:`run`, and :func:`facts` and :func:`text` for results.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict

from ...core import declaration, managed_files
from ...core.host import Host
from ...core.resource import Action, NodeError, Outcome, converge
from .compare import counted, differences
from .observe import observe
from .plan import given, plan, reboot_pending
from .types import SECTION, Desired, Device, State

__all__ = ["Desired", "State", "facts", "run", "text"]


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Look at the ports, and bring the two files to what is desired. No device is renamed and no module unloaded.

    :raises NodeError: one sentence; a refusal changed nothing.
    """
    if check_mode:
        return _converged(host, desired, True)
    if os.geteuid() != 0:
        raise NodeError("rdma", "only root may write udev's and modprobe's files", "run it as root (become: true)")
    with host.lock(SECTION):
        return _converged(host, desired, False)


def _converged(host: Host, desired: Desired, check_mode: bool) -> Outcome[State]:
    return converge(
        lambda: observe(host, desired),
        lambda state: plan(state, desired),
        lambda action: _apply(host, action),
        check_mode,
    )


def _apply(host: Host, action: Action) -> None:
    if isinstance(action, declaration.Declare):
        declaration.apply(host, action)
    else:
        managed_files.apply(host, action)


def facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
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


def text(outcome: Outcome[State], planned: bool) -> str:
    """The files as diff mode shows them; ``planned``: as they will be."""
    return managed_files.text(managed_files.after(outcome.before.files, outcome.plan.actions if planned else ()))

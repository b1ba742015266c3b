# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL on a node: its settings, its topology file, and what the system must allow its processes. One resource.

Front ends use :func:`run`, and :func:`facts` and :func:`text` for results.
"""

from __future__ import annotations

import os
from typing import Any, Dict

from ...core import managed_files
from ...core.host import Host
from ...core.resource import NodeError, Outcome, converge
from .apply import apply
from .build_xml import build_xml, reasons
from .check_xml import check_graph, check_xml
from .desired import Desired, words
from .notes import restart_pending
from .observe import observe
from .plan import plan
from .topology_file import topology
from .types import SECTION, SetSysctl, State

__all__ = [
    "Desired",
    "State",
    "build_xml",
    "check_graph",
    "check_xml",
    "facts",
    "run",
    "text",
    "words",
]


def run(host: Host, desired: Desired, check_mode: bool = False) -> Outcome[State]:
    """Bring NCCL's surroundings on this node to what is desired; no service is restarted.

    :raises NodeError: one sentence; a refusal changed nothing.
    """
    if check_mode:
        return _converged(host, desired, True)
    if os.geteuid() != 0:
        raise NodeError("nccl_config", "only root may write these files", "run it as root (become: true)")
    with host.lock(SECTION):
        return _converged(host, desired, False)


def _converged(host: Host, desired: Desired, check_mode: bool) -> Outcome[State]:
    return converge(
        lambda: observe(host, desired),
        lambda state: plan(state, desired),
        lambda action: apply(host, action),
        check_mode,
    )


def facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: what NCCL will find, and what waits for a restart."""
    state = outcome.after
    path = topology(state, desired)[0] if desired.present else None
    why = reasons(state.machine, desired.switches, desired.link_speed) if desired.present else ()
    return {
        "topology_file": path,
        "topology_reasons": list(why),
        "libraries": [{"path": one.path, "version": one.version} for one in state.libraries],
        "plugins": list(state.plugins),
        "peermem": "loaded" if state.peermem.loaded else "installed" if state.peermem.installed else "missing",
        "slurmd_restart_pending": restart_pending(state, desired),
    }


def text(outcome: Outcome[State], planned: bool) -> str:
    """Files and settings of the kernel as diff mode shows them; ``planned``: as they will be."""
    actions = outcome.plan.actions if planned else ()
    values = {name: value for name, value in outcome.before.sysctl if value is not None}
    values.update({one.name: one.value for one in actions if isinstance(one, SetSysctl)})
    lines = ["{0} = {1}\n".format(*one) for one in sorted(values.items())]
    files = managed_files.text(managed_files.after(outcome.before.files, actions))
    return files + "".join(["==> settings of the kernel <==\n", *lines] if lines else [])

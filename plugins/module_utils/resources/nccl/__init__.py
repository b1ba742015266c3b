# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL on a node: its settings, its topology file, and what the system must allow its processes. One resource.

Of services, slurmd alone is restarted, while no job runs, for the limits that its jobs inherit.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ...core import managed_files
from ...core.resource import Line, Outcome, Resource, Unread
from .apply import STEPS
from .build_xml import build_xml, reasons
from .check_xml import check_graph, check_xml
from .notes import restart_pending
from .observe import observe
from .options import Desired
from .plan import plan
from .topology_file import topology
from .types import SECTION, SLURMD, SetSysctl, State

__all__ = ["RESOURCE", "Desired", "State", "build_xml", "check_graph", "check_xml"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
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
        "restart_pending": restart_pending(state, desired, outcome.plan.actions),
    }


def _shown(outcome: Outcome[State], dummy: Desired, planned: bool) -> str:
    """Files and settings of the kernel."""
    actions = outcome.plan.actions if planned else ()
    values = {name: value for name, value in outcome.before.sysctl if value is not None}
    values.update({one.name: one.value for one in actions if isinstance(one, SetSysctl)})
    lines = ["{0} = {1}\n".format(*one) for one in sorted(values.items())]
    files = managed_files.text(managed_files.after(outcome.before.files, actions))
    return files + "".join(["==> settings of the kernel <==\n", *lines] if lines else [])


def _line(result: Mapping[str, Any]) -> str:
    versions = sorted({one["version"] for one in result.get("libraries") or [] if one.get("version")})
    library = "libnccl " + ", ".join(versions) if versions else "no libnccl in the usual folders"
    topology = result.get("topology_file")
    return "{0}; {1}".format(library, "topology file " + topology if topology else "no topology file needed")


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="NCCL's files",
    line=Line("NCCL", _line),
    unread=Unread(lambda result: SLURMD if result["restart_pending"] else "", lambda dummy: {"restart_pending": False}),
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease of a node: until when it may be used, and what becomes of it then. One resource."""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping

from ...core import declaration, lease, machine
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import Line, Outcome, Resource, Step
from ...core.systemd import timer
from ...slurm import on_node
from ...slurm.commands import NoAnswer, NotInstalled
from .observe import observe
from .options import Desired
from .plan import plan
from .types import UNIT, EndReservation, Forget, Remember, State

__all__ = ["RESOURCE", "Desired", "State"]


def _remember(host: Host, action: Remember, dummy: object = None) -> None:
    """How far an earlier end came stays known: an extended lease resumes the node."""
    here, before = machine.identity(host) or "", lease.read(host)
    before = before if before.machine == here else lease.Memory(here)
    now = time.time()
    before = lease.ticked(before, lease.clocks(host, now))
    lease.write(host, replaced(before, until=action.until, seen=now, warned=()))


def _end_reservation(host: Host, action: EndReservation, dummy: object = None) -> None:
    """A reservation is forgotten only where Slurm is gone: nobody else would know its name."""
    slurm = on_node.slurm_of(host, declaration.read(host))
    try:
        slurm.unreserve(action.name)
    except (NoAnswer, NotInstalled):
        if on_node.has_slurm(host, slurm):
            raise
    lease.write(host, replaced(lease.read(host), reserved=""))


def _forget(host: Host, dummy_action: Forget, dummy: object = None) -> None:
    lease.FILE.remove(host)


_STEPS: Mapping[type, Step] = {
    **timer.STEPS,
    Remember: _remember,
    EndReservation: _end_reservation,
    Forget: _forget,
}


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    """Beside the actions: when it ends."""
    until = lease.utc(desired.ends) if desired.present and desired.until else None
    return {"until": until, "phase": outcome.after.memory.phase.value or None}


def _line(result: Mapping[str, Any]) -> str:
    return "until {0}".format(result["until"]) if result.get("until") else "none"


RESOURCE = Resource(
    name=lease.SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=_STEPS,
    facts=_facts,
    shown=UNIT.shown,
    title="the units of the lease and the section of {0}".format(declaration.PATH),
    needs_command=True,
    line=Line("lease", _line, foresees=True),
)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core import lease
from ...core.frozen import replaced
from ...core.lease import Phase
from ...core.managed_files import RemoveFile, Wanted
from ...core.options import as_section, private
from ...core.resource import Action, Plan, Refusal
from ...core.systemd.timer import after_each_end
from ...facts.nvml.binding import RUNTIME
from ...jobs.lease.follow import MOTD
from .options import Desired
from .types import UNIT, EndReservation, Forget, Remember, State

INTERVAL_SECONDS = 300
_NO_LEASE = "no lease is wanted (node_lease_until)"
_NO_IDENTITY = (
    "this machine has neither a UUID of its firmware nor a machine-id, so nobody can say at the end that it ran under "
    "the lease: it will not be reset then"
)
_MISSING = (
    "{0}, which node_lease_on_expiry runs at the end of the lease, is no program on this node; install it before then, "
    "or correct the path"
)
_DRAINED = (
    "the node was drained at the end of its lease, and stays so: run 'scontrol update NodeName=... State=UNDRAIN'"
)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present or not desired.until:
        return _gone(state, desired)
    if desired.ends <= state.now:
        if _same(lease.declared(state.declared), desired):
            note = "the lease ended at {0}; 'gpunode lease' tells how far the hand-back is"
            return Plan(notes=(note.format(lease.utc(desired.ends)),))
        reason = "it is over already, and this machine would be taken out of service at once"
        return Plan(refusals=(Refusal("option until: " + desired.until, reason, "give a later time"),))
    found = UNIT.present(
        state.files,
        state.declared,
        state.timer,
        wanted(),
        as_section(lease.Settings, desired),
        private=private(Desired),
    )
    if found.refusals:
        return found
    if state.missing:
        found = replaced(found, notes=(*found.notes, _MISSING.format(state.missing)))
    if not state.machine:
        return replaced(found, notes=(*found.notes, _NO_IDENTITY))
    memory = state.memory
    if memory.machine == state.machine and memory.until == desired.ends and memory.seen:
        return found
    # Before the timer: its first look may be the first one after the end.
    return replaced(found, actions=(Remember(desired.ends), *found.actions))


def _same(declared: Optional[lease.Settings], desired: Desired) -> bool:
    """The same moment may be written with another zone."""
    if declared is None or declared.ends != desired.ends:
        return False
    wanted = as_section(lease.Settings, replaced(desired, until=declared.until))
    return as_section(lease.Settings, declared) == wanted


def _gone(state: State, desired: Desired) -> Plan:
    more: List[Action] = [RemoveFile(MOTD)] if state.motd else []
    if state.memory.reserved and state.memory.machine == state.machine:
        more.append(EndReservation(state.memory.reserved))
    more += [Forget()] if state.remembered else []
    found = UNIT.absent(state.files, state.declared, state.timer, more)
    ended = state.memory.phase is not Phase.NONE and state.memory.machine == state.machine
    found = replaced(found, notes=(*found.notes, _DRAINED)) if ended else found
    if desired.present and not found.actions and not found.notes:
        return Plan(skipped=_NO_LEASE)
    return found


def wanted() -> Tuple[Wanted, ...]:
    text = UNIT.timer_text("Lease of this GPU node, looked at again and again", after_each_end(INTERVAL_SECONDS))
    return UNIT.wanted(service(), text)


def service() -> str:
    rest = [
        "ExecStart={0} lease follow".format(RUNTIME),
        "# A reset and the program of the site, at the end.",
        "TimeoutStartSec=7200",
        "# What was done is told; starts and ends are not.",
        "SyslogLevel=notice",
        "LogLevelMax=notice",
    ]
    after = "slurmd.service time-sync.target"
    return UNIT.service_text("Lease of this GPU node", RUNTIME, rest, after)

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at the lease of this node, and what it asks for; a timer has it looked at every few minutes.

Until the end: users are warned, and a reservation of Slurm lets no job outlive it. At the end: the node is drained,
and when no job is on it any more what converges made is taken away, the program of the site is run, and what is left
of the lease goes last. Each step can be repeated, and what was reached is written down after it, so a run that was
killed is continued by the next one.
"""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ...core import declaration, machine, managed_files, secrets
from ...core import lease as leases
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.lease import Memory, Phase, Settings, Stage
from ...core.managed_files import MARK
from ...core.resource import NodeError
from ...health.checks import clock_synchronised
from ...health.container import contained
from ...slurm import drain, on_node
from ...slurm.client import Slurm
from .. import out_of_service

LOCK = "node_lease_run"
MOTD = "/etc/motd.d/50-gpu-node-lease"
_LOCK_SECONDS, _WALL_SECONDS, _PROGRAM_SECONDS = 5.0, 10.0, 900.0
# A start that is about to pass is refused by the time that slurmctld reads it.
_SOON_SECONDS = 30.0
_NEVER_RAN = "it ended at {0}, before this machine was seen to run under it: nothing is reset"
_UNSURE = (
    "it ended at {0} by the clock of this machine, which is not synchronised, or which stepped or was set by a start "
    "of the machine less than a day ago: no action is taken"
)
Tell = Callable[[str], None]
#: Take away what converges made: with True all but the lease, with False all of it. What failed, or "".
Reset = Callable[[bool], str]


@frozen
class Report:
    stage: str
    memory: Memory
    notes: Tuple[str, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        told = {"stage": self.stage, "phase": self.memory.phase.value, "waits": self.memory.why}
        return dict(told, reservation=self.memory.reserved, notes=list(self.notes))


def reservation_name(node: str) -> str:
    return "gpu_node_lease_" + re.sub(r"[^A-Za-z0-9_.-]", "_", node)


def motd(lease: Settings) -> str:
    """A managed file has its mark in one of the first lines."""
    text = "The lease of this GPU node ends at {0}; no job outlives that.\n({1})\n"
    return text.format(leases.utc(lease.ends), MARK)


def clock_is_right(host: Host) -> bool:
    """Whether something disciplines the clock; that of a container is its host's."""
    if host.root != "/" or contained(host):
        return True
    try:
        return clock_synchronised.read().synchronised
    except NodeError:
        return False


class Follower:
    """``reset`` takes away what converges made; ``clock``, ``right`` (whether it is right) and ``running``
    are for tests."""

    def __init__(
        self,
        host: Host,
        tell: Tell,
        reset: Reset,
        clock: Callable[[], float] = time.time,
        right: Callable[[Host], bool] = clock_is_right,
        pause: Callable[[float], None] = time.sleep,
        running: Callable[[], float] = leases.running_seconds,
    ) -> None:
        self.host, self._tell, self._reset, self._clock, self._right = host, tell, reset, clock, right
        self._pause, self._running = pause, running
        self._notes: List[str] = []

    def _say(self, text: str) -> None:
        self._notes.append(text)
        self._tell(text)

    def once(self) -> Report:
        """:raises NodeError: the declaration cannot be read, or nothing can be written down."""
        with self.host.lock(LOCK, _LOCK_SECONDS):
            declared = declaration.read(self.host)
            lease = leases.declared(declared.get(leases.SECTION))
            memory = leases.read(self.host)
            if lease is None:
                return Report("none", memory)
            here = machine.identity(self.host) or ""
            now = self._clock()
            clocks = leases.clocks(self.host, now, self._running)
            if memory.machine == here and memory.seen:
                memory = self._keep(leases.ticked(memory, clocks), memory)
            right = self._right(self.host) and leases.confirmed(memory, clocks)
            stage = leases.stage(lease, memory, here, now, right)
            slurm = self._slurm(declared, lease)
            end = leases.utc(lease.ends)
            if stage is Stage.RUNS:
                memory = self._runs(lease, memory, here, slurm)
            elif stage is Stage.ENDED or (stage is Stage.HANDED_BACK and lease.reset):
                memory = self._ends(lease, memory, slurm)
            elif stage is not Stage.HANDED_BACK:  # nothing is left to do, and who resumes the node keeps it
                self._say((_NEVER_RAN if stage is Stage.NEVER_RAN else _UNSURE).format(end))
            return Report(stage.value, memory, tuple(self._notes))

    def _slurm(self, declared: Mapping[str, Mapping[str, Any]], lease: Settings) -> Slurm:
        found = on_node.slurm_of(self.host, declared)
        return Slurm(self.host, lease.slurm_node or found.node, found.program, self._pause)

    def _keep(self, memory: Memory, before: Memory) -> Memory:
        if memory != before:
            leases.write(self.host, memory)
        return memory

    # Until the end ----------------------------------------------------------------------------------------

    def _runs(self, lease: Settings, before: Memory, here: str, slurm: Slurm) -> Memory:
        now = self._clock()
        memory = before if before.machine == here else Memory(here)
        if not memory.clock.boot:
            memory = leases.ticked(memory, leases.clocks(self.host, now, self._running))
        if memory.until != lease.ends:
            memory = replaced(memory, until=lease.ends, warned=())
        if memory.phase is not Phase.NONE:  # it was extended after its end
            memory = self._resumed(memory, slurm)
        # What was seen a moment ago need not be written again.
        if not 0 <= now - memory.seen < leases.DAY_SECONDS / 24:
            memory = replaced(memory, seen=now)
        memory = self._keep(memory, before)
        return self._keep(self._warned(lease, self._reserved(lease, memory, slurm, now), now), memory)

    def _reserved(self, lease: Settings, memory: Memory, slurm: Slurm, now: float) -> Memory:
        try:
            if out_of_service.node_of(self.host, slurm) is None:
                return replaced(memory, reserved="")
            name = reservation_name(slurm.node)
            if not lease.reservation:
                if memory.reserved:
                    slurm.unreserve(memory.reserved)
                return replaced(memory, reserved="")
            told = slurm.reservation(name)
            if told is not None and not is_ours(told, slurm.node):
                self._say("reservation {0}: it is not of this lease, and stays as it is".format(name))
                return replaced(memory, reserved="")
            if lease.ends - now > _SOON_SECONDS and (told is None or starts(told) != int(lease.ends)):
                slurm.reserve(name, lease.ends, told is None)
                self._say("reservation {0} of Slurm: from {1} on".format(name, leases.utc(lease.ends)))
            return replaced(memory, reserved=name, why="")
        except NodeError as error:
            self._say(str(error))
            return replaced(memory, why="the reservation of Slurm is missing: {0}".format(error.reason))

    def _warned(self, lease: Settings, memory: Memory, now: float) -> Memory:
        days = leases.threshold(lease, now)
        if days is None or not lease.motd:
            if managed_files.look(self.host, MOTD).ours:
                self.host.remove(MOTD)
        else:
            problem = managed_files.write_beside(self.host, MOTD, motd(lease))
            if problem:
                self._say(problem)
        if days is None or days in memory.warned:
            return memory
        text = "the lease of this GPU node ends in {0}, at {1}; no job outlives that"
        self._wall(text.format(leases.left(lease, now), leases.utc(lease.ends)))
        return replaced(memory, warned=tuple(one for one in leases.WARN_DAYS if one >= days))

    def _wall(self, text: str) -> None:
        self._say(text)
        if self.host.root == "/" and self.host.which("wall"):
            try:
                self.host.run(["wall", text], _WALL_SECONDS)
            except NodeError:
                pass  # nobody is logged in, or no terminal takes it

    def _resumed(self, memory: Memory, slurm: Slurm) -> Memory:
        try:
            if out_of_service.node_of(self.host, slurm) is not None and slurm.undrain(drain.LEASE):
                self._say("the lease was extended: the node is resumed")
        except NodeError as error:
            self._say(str(error))
            return memory
        return replaced(memory, phase=Phase.NONE, why="")

    # At the end -------------------------------------------------------------------------------------------

    def _ends(self, lease: Settings, memory: Memory, slurm: Slurm) -> Memory:
        try:
            return self._steps(lease, memory, slurm)
        except NodeError as error:
            return self._waits(leases.read(self.host), str(error))  # some of the steps were done

    def _steps(self, lease: Settings, memory: Memory, slurm: Slurm) -> Memory:
        # Also in a later run: somebody may have resumed the node.
        reason = drain.reason_text("{0}it ended at {1}".format(drain.LEASE, leases.utc(lease.ends)))
        out = out_of_service.take_out(self.host, slurm, reason)
        if out.drained:
            self._say("the lease ended: the node is drained")
        if memory.phase is Phase.NONE:
            self._wall("the lease of this GPU node ended at {0}".format(leases.utc(lease.ends)))
            memory = self._keep(replaced(memory, phase=Phase.ENDED), memory)
        if out.why:
            return self._waits(memory, out.why)
        if memory.reserved:
            slurm.unreserve(memory.reserved)  # the drain keeps jobs away from here on
            memory = self._keep(replaced(memory, reserved=""), memory)
        if memory.phase is Phase.ENDED:
            failed = self._reset(True) if lease.reset else ""
            if failed:
                return self._waits(memory, failed)
            self._say("what converges made is taken away" if lease.reset else "what converges made stays, as declared")
            memory = self._keep(replaced(memory, phase=Phase.RESET, why=""), memory)
        if memory.phase is Phase.RESET:
            if lease.on_expiry:
                self._hand_back(lease.on_expiry)
                self._say("{0} has ended well".format(lease.on_expiry[0]))
            memory = self._keep(replaced(memory, phase=Phase.HANDED_BACK, why=""), memory)
        if lease.reset:
            failed = self._reset(False)
            if failed:
                return self._waits(memory, failed)
        return memory

    def _hand_back(self, program: Tuple[str, ...]) -> None:
        """:raises NodeError: it failed. Its arguments may hold a secret, and all users read why a lease waits."""
        try:
            secrets.run(self.host, program, _PROGRAM_SECONDS)
        except NodeError as error:
            raise NodeError("option on_expiry: " + program[0], error.reason, error.remedy) from error

    def _waits(self, memory: Memory, why: str) -> Memory:
        if memory.why != why:
            self._say("the hand-back waits: {0}".format(why))
        return self._keep(replaced(memory, why=why), memory)


def starts(told: str) -> Optional[int]:
    """The start of a reservation, by what scontrol prints with SLURM_TIME_FORMAT=%s. Pure."""
    found = re.search(r"\bStartTime=(\d+)\b", told)
    return int(found.group(1)) if found else None


def is_ours(told: str, node: str) -> bool:
    """Whether a reservation with our name is of this node alone, and for maintenance. Pure."""
    nodes, flags = (re.search(r"\b{0}=(\S*)".format(one), told) for one in ("Nodes", "Flags"))
    return bool(nodes and flags) and nodes.group(1) == node and "MAINT" in flags.group(1).split(",")  # type: ignore[union-attr]

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out what :mod:`.plan` decides: the calls to slurmctld, and the history on this node.

A healthy node asks slurmctld once an hour, about itself only, and the first time after its history was lost: a
thousand nodes run this within a minute.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from ...core import declaration, machine, processes
from ...core.host import Host, LockHeld
from ...core.options import of_section
from ...core.resource import NodeError
from ...slurm import drain, states
from ...slurm.client import TAKEN, Slurm
from ...slurm.drain import DRAIN, LEAVE, RESUME
from ...slurm.types import SlurmNode
from ..types import Verdict
from . import history, plan
from .settings import REMEDY_LOCK, SECTION, Settings, applied

_LOCK_SECONDS = 20.0
_KEEPALIVE_SECONDS = 10.0
Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Report:
    """``in_service``: whether jobs may still come here; None where slurmctld was not asked."""

    decision: plan.Decision
    in_service: Optional[bool] = None

    def to_dict(self) -> Dict[str, Any]:
        return dataclasses.asdict(self)


class Gate:
    """This node before slurmctld. ``pause`` waits; tests hand in one that does not."""

    def __init__(self, host: Host, node: str, tell: Tell, pause: Callable[[float], None] = time.sleep) -> None:
        self.host = host
        self.node = node
        self._declared = declaration.read(host)
        self.settings = of_section(Settings, self._declared.get(SECTION))
        self._slurm = Slurm(host, node, self.settings.scontrol, pause)
        self._tell = tell
        self._unwritten = ""  # why the history cannot be written

    def settle(self, verdict: Verdict, at_once: bool = False) -> Report:
        """``at_once``: one failing verdict is enough, as before a job.

        A gate that cannot write its state drains at the first failing verdict, and resumes and proves nothing.

        :raises NodeError: slurmctld does not answer or refuses; the history contains the verdict anyway.
        """
        settings = applied(self.settings, self._declared, self.node, verdict.time)
        if at_once:
            settings = dataclasses.replace(settings, drain_after=1)
        with self._alone():
            found, damage = history.taken(self.host)
            if damage:
                self._tell(damage)
            known = found.of(machine.fingerprint(self.host)).added(history.Entry.of(verdict))
            known = plan.charged(known, settings)
            self._keep(known)
            if self._unwritten:
                settings = dataclasses.replace(settings, drain_after=1)
            # Who settles a debt must know that the node is in service still.
            quiet = known.in_service(verdict.time) and not (known.debt.faults and verdict.outcome in plan.CLEAN)
            if quiet and plan.sick(known, settings) is None:
                return Report(plan.Decision(LEAVE, "nothing is wrong with it"))
            if not self._slurm.installed:
                return Report(plan.Decision(LEAVE, "there is no Slurm on this node"))
            return self._settle(known, settings, verdict.time)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Holds the lock if it can be created: a full /run must not keep a node in service.

        :raises LockHeld: another run of the gate works on it.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self.host.lock("health_gate_run", _LOCK_SECONDS))
            except LockHeld:
                raise
            except NodeError as error:
                self._tell(str(error))
            yield

    def _keep(self, known: history.History) -> None:
        try:
            history.write(self.host, known)
        except NodeError as error:
            if not self._unwritten:
                self._tell(str(error))
            self._unwritten = error.reason

    def _writable(self, decision: plan.Decision) -> plan.Decision:
        """Limited actions are not taken if they cannot be counted."""
        if not self._unwritten or (decision.action != RESUME and not decision.prove):
            return decision
        why = "{0}, but {1}: {2}".format(decision.why, history.PATH, self._unwritten)
        return plan.Decision(LEAVE, why, person=True, owes=decision.owes)

    def _settle(self, known: history.History, settings: Settings, now: float) -> Report:
        boot = processes.boot_id(self.host)
        state = self._slurm.look()
        known = plan.recalled(state, known)
        decision = plan.decide(state, known, settings, now, boot)
        if decision.action == LEAVE and known.debt.faults:
            decision = self._with_overrule(decision, now)
        decision = self._writable(decision)
        if decision.action == RESUME and self.host.locked(REMEDY_LOCK):
            decision = plan.Decision(LEAVE, "a remedy runs on it")
        drained: Optional[bool] = drain.is_for_health(state)
        in_service = not drain.out_of_service(state)
        if decision.action == DRAIN:
            # Written first: whatever happens next, this node has to be looked at again.
            self._keep(known.acted(DRAIN, known.drained or None, known.boot))
            held = self._slurm.drain(state, decision.reason or "", settings.drained_percent)
            drained, in_service = held is None, held not in (None, TAKEN)
            if held is None:
                self._keep_alive()
            else:
                decision = plan.Decision(LEAVE, "{0} ({1})".format(held, decision.why), person=held != TAKEN)
                drained, boot = known.drained, known.boot  # what it owes it owes still
        elif decision.action == RESUME:
            if (self._slurm.resume if decision.down else self._slurm.undrain)(drain.HEALTH):
                drained, in_service = False, True
            else:
                decision = plan.Decision(LEAVE, TAKEN)
        elif plan.away(state) or plan.returning(state):
            # Its drain may be gone with its power, or with a start that took too long, which was nobody's decision.
            drained, boot = drained or known.drained, ""
        elif plan.refused(state, known):
            # Nobody decided that either: Slurm's words stand where ours did.
            drained = True
            reason = plan.given_back(state, known, settings)
            if reason is not None and self._slurm.reword(state, "State=DRAIN", "Reason=" + reason):
                decision = plan.Decision(LEAVE, "it registers well again, and is drained for its health as before")
        elif drain.is_for_rolling(state):
            # A play that works on it puts it back as it was, and what it owes it owes still.
            drained, boot = known.drained, known.boot
        elif plan.settles(state, known):
            if known.drained is True and known.debt.faults:
                self._overruled(now, boot)
            known = dataclasses.replace(known, debt=history.Debt())
        jobs = self._jobs() if decision.prove else None
        if jobs is not None:
            decision = plan.Decision(LEAVE, "{0}; {1}".format(decision.why, jobs))
        if decision.prove:
            # Counted first: what takes the machine down with it must not be tried for ever.
            tried = dataclasses.replace(known.debt, attempts=known.debt.attempts + 1, tried=now)
            known = dataclasses.replace(known, debt=tried)
        if drained and plan.is_up(state):
            known = dataclasses.replace(known, up=processes.boot_id(self.host))
        in_sight = in_service and not plan.away(state) and not plan.returning(state)
        known = dataclasses.replace(known, serving=in_sight)
        known = known.acted("" if decision.action == LEAVE else decision.action, drained, boot)
        self._keep(known)
        if in_sight and decision.action == LEAVE and drain.is_stale(state):
            self._forget_reason(state)
        if settings.keep_powered or known.kept:
            self._keep(dataclasses.replace(known, kept=self._kept(known, drained is True)))
        return Report(decision, in_service)

    def _forget_reason(self, state: SlurmNode) -> None:
        """Slurm may drain this node under our words of an earlier time, and that drain would be taken for ours."""
        try:
            self._slurm.reword(state, "Reason=" + drain.RESUMED)
        except NodeError as error:
            self._tell(str(error))

    def _with_overrule(self, decision: plan.Decision, now: float) -> plan.Decision:
        """That an overrule has ended is told where it waits for its proof again."""
        section = self._declared.get("health", {})
        if not decision.owes or not section.get("overrules"):
            return decision
        from .. import overrules  # seldom wanted

        lapsed = overrules.lapsed(section, self.node, now)
        return dataclasses.replace(decision, why="{0}; {1}".format(decision.why, lapsed)) if lapsed else decision

    def _overruled(self, now: float, boot: str) -> None:
        """A person put this node back before it had proved well, which the journal remembers."""
        from .. import journal, remember
        from ..parts import NODE

        try:
            remember.note(self.host, journal.Event(journal.OVERRULED, NODE, now, now, boot, node=self.node))
        except NodeError as error:
            self._tell(str(error))

    def to_prove(self, now: float) -> Tuple[str, ...]:
        """The active checks that this node owes now; none, where it owes none.

        :raises NotOurs: it is not ours to load: it has jobs, or somebody else has it.
        :raises NotKnown: slurmctld does not tell.
        """
        from ...slurm import slurmd
        from . import owing

        if not self._slurm.installed:
            reason = "there is no Slurm on this node"
            raise owing.NotKnown("Slurm", reason, "run 'gpunode health --active' by hand")
        try:
            state = self._slurm.look()
        except NodeError as error:
            raise owing.NotKnown(error.thing, error.reason, error.remedy) from error
        thing = "node " + self.node
        if not drain.is_for_health(state) or plan.away(state) or states.busy(state.flags):
            reason = "it is not drained for its health and without jobs ({0})".format(" ".join(sorted(state.flags)))
            raise owing.NotOurs(thing, reason, "drain it first, or run 'gpunode health --active' by hand")
        jobs = self._jobs()
        if jobs is not None and jobs.startswith(slurmd.UNTOLD):
            raise owing.NotKnown(thing, jobs, "look at 'scontrol ping', and run it again")
        if jobs is not None:
            raise owing.NotOurs(thing, jobs, "wait until its jobs are over, and run it again")
        return owing.checks(self.host, self.node, now)

    def _jobs(self) -> Optional[str]:
        """Why active checks would come between a job and its GPUs, or that nobody tells; None: no job is here."""
        from ...slurm import slurmd  # not wanted before a job

        jobs = slurmd.asked(self._slurm)[0]
        return None if jobs == slurmd.IDLE else jobs

    def _kept(self, known: history.History, wanted: bool) -> bool:
        """Whether Slurm leaves this node powered on by our wish, as long as it is drained.

        ``scontrol update SuspendExcNodes+=NAME`` is known since Slurm 23.02, and does no harm where the name is there.
        It is asked again with each look: ``scontrol reconfigure`` forgets it (but for KeepPowerSaveSettings of
        ReconfigFlags), and so may a restart of slurmctld. That it fails changes nothing here.
        """
        wanted = wanted and self.settings.keep_powered
        if not wanted and not known.kept:
            return False
        try:
            self._slurm.keep_powered(wanted)
        except NodeError as error:
            self._tell(str(error))
            return known.kept
        return wanted

    def _keep_alive(self) -> None:
        """What keeps a machine for repair that its cloud would take away. That it fails changes nothing here."""
        if self.settings.keepalive:
            from ...core import secrets  # seldom wanted

            try:
                secrets.run(self.host, self.settings.keepalive, _KEEPALIVE_SECONDS)
            except NodeError as error:
                self._tell(str(error))

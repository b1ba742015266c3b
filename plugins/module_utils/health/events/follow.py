# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow the events of this node: ask, decide, act, again and again. The only place with effects in Slurm.

Slurm is changed first and written down then: a run that is killed between the two finds its own reason there. Nothing
that goes wrong here ends the service, and each thing is told once, not every few seconds.
"""

from __future__ import annotations

import time
from typing import Callable, Dict, Optional, Tuple

from ...core import declaration, machine, managed_files, processes
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.machine import short_name
from ...core.options import of_section
from ...core.resource import NodeError, printable
from ...slurm import drain, slurmd, this_node
from ...slurm.client import TAKEN, Slurm
from ...slurm.commands import Commands
from ...slurm.types import SlurmNode
from ..gate import owing
from ..gate.settings import SECTION as GATE
from ..gate.settings import Settings as Gate
from . import ask, memory, metrics, plan, settle
from .memory import Memory
from .settings import AZURE, NONE, SECTION, Settings
from .types import Answer

LOCK = "cloud_events_run"
_LOCK_SECONDS = 5.0
# slurmctld is asked so often while something is pending, and a full circuit breaker again after a minute.
_SLURM_SECONDS, _HELD_SECONDS = 15.0, 60.0
# Where nothing is, and the one look at the start had no answer: a machine may have Slurm's commands and be none of its
# nodes.
_SLURM_IDLE_SECONDS = 300.0
# Where nobody answers, less and less often.
_SILENT_MOST_SECONDS = 60.0
_METRICS_SECONDS = 60.0
Tell = Callable[[str], None]


@frozen
class Round:
    """What one look came to. ``answer``: None where nobody answered, and ``error`` says why."""

    answer: Optional[Answer] = None
    error: str = ""
    action: str = plan.LEAVE
    why: str = ""


class Follower:
    """``place`` is where Azure's service is; tests hand in another one, and nothing else can change it. ``patient``:
    there is time to wait for a service that has yet to be switched on. ``clock``, ``pause`` and ``prove`` are for
    tests."""

    def __init__(
        self,
        host: Host,
        tell: Tell,
        node: str = "",
        patient: bool = False,
        place: ask.Place = ask.AZURE,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
        prove: settle.Prove = settle.prove,
    ) -> None:
        self.host, self._tell, self._node, self._patient, self._place = host, tell, node, patient, place
        self._clock, self._pause, self._prove = clock, pause, prove
        self._said: Dict[str, str] = {}
        self._answered = self._looked = False
        self._silent = 0
        self._slurm_at = self._held_at = self._metrics_at = float("-inf")
        self._metrics = self._held = ""
        self._drained: Optional[bool] = None

    def follow(self, ended: Callable[[], bool]) -> None:
        """Until ``ended`` says so, which is asked after each look."""
        while not ended():
            seconds = 60.0
            try:
                settings = self.settings()
                seconds = float(settings.interval_seconds)
                self.once(settings)
                if self._silent and not self._answered:
                    seconds = min(seconds * 2 ** min(self._silent, 10), max(seconds, _SILENT_MOST_SECONDS))
            except NodeError as error:
                self._once("error", str(error))
            except Exception as error:  # a bug of ours must not leave the node without a watch
                self._once("error", "{0}: {1}; report this as a bug.".format(type(error).__name__, error))
            else:
                self._said.pop("error", None)
            self._pause(seconds)

    def settings(self) -> Settings:
        """:raises NodeError: the declaration cannot be read."""
        return of_section(Settings, declaration.read(self.host).get(SECTION))

    def once(self, settings: Settings) -> Round:
        """One look, and what it asks for.

        :raises NodeError: another run is at it, slurmctld refuses, or something cannot be written.
        """
        if settings.provider == NONE:
            return Round(why="nobody is to be asked")
        try:
            answer = self._ask(settings)
        except NodeError as error:
            self._silent += 1
            self._once("answer", str(error))
            self._write_metrics(settings, False)
            return Round(error=str(error))
        with self.host.lock(LOCK, _LOCK_SECONDS):
            done = self._answer(answer, settings, self._clock())
        self._write_metrics(settings, True)
        return done

    def _ask(self, settings: Settings) -> Answer:
        if settings.provider != AZURE:
            return ask.program(self.host, settings.command)
        seconds = ask.ANSWER_SECONDS
        if self._patient:
            seconds = ask.LATER_SECONDS if self._answered else ask.FIRST_SECONDS
        return ask.azure(self._place, seconds)

    def _answer(self, answer: Answer, settings: Settings, now: float) -> Round:
        if self._silent and self._said.get("answer"):
            self._tell("the events can be asked for again")
        self._answered, self._silent = True, 0
        self._said.pop("answer", None)
        self._once("notes", " ".join(answer.notes))
        stored, damaged = memory.taken(self.host)
        self._once("memory", damaged)
        here, before = self._here(answer, stored, settings)
        if damaged:
            before = before.noted(now, (damaged,))
        noticed = plan.notice(answer, before, settings, here, now)
        for text in noticed.tells:
            self._tell(text)
        self._keep(stored, noticed.memory)
        gate = of_section(Gate, declaration.read(self.host).get(GATE))
        if not Commands(self.host, gate.scontrol).installed:
            self._keep(noticed.memory, noticed.memory.settled())
            return Round(answer, why="there is no Slurm on this node, so events are told only")
        # A drain of ours that nothing is remembered of has to end, too.
        wanted = self._drained or plan.wants_slurm(noticed, settings, now)
        if self._looked and not wanted:
            return Round(answer, why="nothing is to be done")
        clock = time.monotonic()
        if not noticed.tells and clock - self._slurm_at < (_SLURM_SECONDS if wanted else _SLURM_IDLE_SECONDS):
            return Round(answer, why="slurmctld was asked a moment ago")
        self._slurm_at = clock
        name = self._node or settings.slurm_node or this_node.here(self.host).node_name
        return self._act(answer, noticed, settings, gate, Slurm(self.host, name, gate.scontrol, self._pause), here, now)

    def _here(self, answer: Answer, known: Memory, settings: Settings) -> Tuple[plan.Here, Memory]:
        """The name of a machine is asked for once, when the first event comes."""
        identity, boot = machine.fingerprint(self.host), processes.boot_id(self.host)
        name = settings.machine_name
        if not name and settings.provider == AZURE:
            if known.name and known.machine == identity:
                name = known.name
            elif any(one.resources for one in answer.events):
                name = ask.machine_name(self._place) or ""
                known = replaced(known, name=name)
                if not name:
                    self._once("name", "the cloud does not say what it calls this machine; its host name is taken")
        # A cloud does not know the names of Slurm: they are one more, where both are the same.
        known_as = dict.fromkeys((name, short_name(), this_node.here(self.host).node_name))
        names = tuple(one.lower() for one in known_as if one)
        return plan.Here(identity, boot, names), known

    def _act(
        self,
        answer: Answer,
        noticed: plan.Noticed,
        settings: Settings,
        gate: Gate,
        slurm: Slurm,
        here: plan.Here,
        now: float,
    ) -> Round:
        node = slurm.look()
        self._looked = True
        held = owing.held(self.host, slurm.node, now) if drain.is_for_event(node) else owing.FREE
        decision = plan.decide(noticed, node, settings, here, now, held)
        self._drained = drain.is_for_event(node)
        after, why, action = decision.memory, decision.why, decision.action
        if action == plan.DRAINS:
            after, why, action = self._drain(slurm, node, decision, noticed.memory, gate, now)
        elif action in (plan.RENAME, plan.GATE):
            slurm.update("State=DRAIN", "Reason=" + decision.reason)
            self._drained = action == plan.RENAME
        elif action == plan.RESUME:
            if not (slurm.resume if decision.down else slurm.undrain)(drain.EVENT):
                after, why, action = noticed.memory, TAKEN, plan.LEAVE
            self._drained = False
        elif action == plan.PROVE:
            return self._proved(answer, decision, slurm, here)
        if action in (plan.DRAINS, plan.RENAME, plan.GATE, plan.RESUME):
            self._tell("{0}: {1}".format(action, why))
            self._said.pop("why", None)
            after = after.noted(now, ("{0}: {1}".format(action, why),))
        elif not decision.quiet:
            self._once("why", "the node is left as it is: {0}".format(why))
        if decision.approve and settings.provider == AZURE and self._empty(slurm):
            after = self._approve(decision.approve, after, now)
        self._keep(noticed.memory, after)
        return Round(answer, action=action, why=why)

    def _drain(
        self, slurm: Slurm, node: SlurmNode, decision: plan.Decision, before: Memory, gate: Gate, now: float
    ) -> Tuple[Memory, str, str]:
        if time.monotonic() - self._held_at < _HELD_SECONDS:
            return before, self._held, plan.LEAVE
        held = slurm.drain(node, decision.reason, gate.drained_percent)
        if held is None:
            self._drained = True
            return decision.memory, decision.why, decision.action
        self._held_at = time.monotonic()
        self._held = "{0} ({1})".format(held, decision.why)
        return before, self._held, plan.LEAVE

    def _proved(self, answer: Answer, decision: plan.Decision, slurm: Slurm, here: plan.Here) -> Round:
        """The node is resumed with the next look: until then something new may have been announced."""
        before = decision.memory
        if before.another:
            self._tell("another machine came back; it is converged and checked")
        proof = self._prove(self.host, decision.converge, before.another)
        now = self._clock()
        self._slurm_at = float("-inf")
        if proof.well:
            self._keep(before, replaced(before, proved=here.boot, tries=0, why=""))
            return Round(answer, action=plan.PROVE, why="it has proved well")
        why = printable(" ".join(proof.why.split()))[:300]
        after = replaced(before, tries=before.tries + 1, tried=now, why=why)
        told = "its events are over, and it is not resumed: {0}".format(why)
        self._once("why", told)
        self._keep(before, after.noted(now, (told,)))
        node = slurm.look()
        reason = plan.unwell(node, why)
        if drain.is_for_event(node) and drain.bare(node.reason or "") != reason:
            slurm.update("State=DRAIN", "Reason=" + reason)
        return Round(answer, action=plan.PROVE, why=why)

    def _empty(self, slurm: Slurm) -> bool:
        jobs = slurmd.asked(slurm)[0]
        if jobs != slurmd.IDLE:
            self._once("approve", "the cloud is not told that it may start: {0}".format(jobs))
        return jobs == slurmd.IDLE

    def _approve(self, ids: Tuple[str, ...], after: Memory, now: float) -> Memory:
        try:
            ask.approve(ids, self._place)
        except NodeError as error:
            self._once("approve", str(error))
            return after
        told = "the cloud was told that it may start: {0}".format(", ".join(ids))
        self._tell(told)
        known = tuple(replaced(one, asked=now) if one.id in ids else one for one in after.known)
        return replaced(after, known=known).noted(now, (told,))

    def _keep(self, before: Memory, after: Memory) -> None:
        known = after.known or after.drained or after.notes
        if after != before and (known or replaced(after, machine=before.machine) != before):
            memory.write(self.host, after)

    def _write_metrics(self, settings: Settings, answered: bool) -> None:
        if not settings.textfile:
            return
        text = metrics.render(memory.read(self.host), answered, self._drained, self._clock())
        shown = text.rpartition("\n# HELP")[0]  # all but the time of it
        if shown == self._metrics and time.monotonic() - self._metrics_at < _METRICS_SECONDS:
            return
        self._metrics, self._metrics_at = shown, time.monotonic()
        self._once("metrics", managed_files.write_beside(self.host, settings.textfile, text) or "")

    def _once(self, what: str, text: str) -> None:
        """Tell it when it is something else than the last time."""
        if text and self._said.get(what) != text:
            self._tell(text)
        self._said[what] = text

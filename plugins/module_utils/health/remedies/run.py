# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Go through a remedy: look, plan, write down what is begun, and carry it out."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ...core import declaration, systemd
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.moment import moment
from ...core.options import of_section
from ...core.resource import Action, NodeError, printable
from ...slurm import drain, slurmd, states
from ...slurm.client import Slurm
from .. import attempts, journal, parts, remember
from ..attempts import Attempt, Record
from ..gate.owing import NotOurs
from ..gate.settings import PROOF_LOCK, REBOOT, REMEDY_LOCK, REMEDY_UNIT, RESTART_SERVICE, SECTION, Settings, applied
from ..journal import Event
from ..parts import NODE, SERVICE, Part
from .apply import STEPS, Context, Tripped
from .observe import World, ask, observe
from .plan import decide
from .types import Disrupting, Gpu, Persistence, Planned, ResetGpus, StartUnits

_LOCK_SECONDS = 2.0
Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Report:
    """``outcome``: what became of it; "" where nothing was begun."""

    planned: Planned
    outcome: str = ""
    failed: bool = False

    def to_dict(self) -> Dict[str, Any]:
        return dict(self.planned.to_dict(), outcome=self.outcome or None, failed=self.failed)


def start(host: Host, settings: Settings, sick: bool) -> bool:
    """Have systemd run a remedy, and do not wait for it: a hook has a minute, and a remedy takes its time.

    :raises NodeError: systemd does not take it.
    """
    if not settings.remedies or host.locked(REMEDY_LOCK) or host.locked(PROOF_LOCK):
        return False
    if not sick and attempts.read(host).unfinished is None:
        return False
    systemd.start(host, (REMEDY_UNIT,), wait=False)
    return True


def run(host: Host, node: str, tell: Tell, check: bool = False, pause: Callable[[float], None] = time.sleep) -> Report:
    """:raises NodeError: the declaration cannot be read, another remedy runs, or nothing can be written down."""
    declared = declaration.read(host)
    # Where a person lets the node back without a proof, none would follow.
    settings = applied(of_section(Settings, declared.get(SECTION)), declared, node, time.time())
    slurm = Slurm(host, node, settings.scontrol, pause)
    if check:
        return Report(decide(observe(host, node, slurm, settings).state, settings))
    with host.lock(REMEDY_LOCK, _LOCK_SECONDS):
        if host.locked(PROOF_LOCK):
            raise NodeError("node " + node, "the active checks run that it owes", "run it again when they have ended")
        world = observe(host, node, slurm, settings)
        planned = decide(world.state, settings)
        if planned.unfinished is not None:
            world = _put_in_order(Context(host, slurm, world, tell, pause), planned)
            planned = decide(world.state, settings)
        if planned.latch:
            _latch(host, slurm, world.state.record, planned.latch, tell)
        if not planned.remedy:
            return Report(planned)
        return _carry_out(Context(host, slurm, world, tell, pause), planned)


def _put_in_order(here: Context, planned: Planned) -> World:
    attempt = planned.unfinished
    if attempt is None:
        raise ValueError("there is nothing to put in order")
    here.tell(planned.why)
    outcome = "; ".join([planned.why, *_each(here, planned.after)])
    now = time.time()
    record = here.world.state.record.ended(attempt, now, outcome)
    attempts.write(here.host, record)
    # The verdict is older than the end of this attempt, so it says nothing of what that did.
    return replaced(here.world, state=replaced(here.world.state, record=record, now=now))


def _carry_out(here: Context, planned: Planned) -> Report:
    state = here.world.state
    attempt = Attempt(
        planned.remedy,
        planned.part,
        state.now,
        state.boot,
        printable(planned.finding)[:300],
        units=tuple(unit for one in planned.after if isinstance(one, StartUnits) for unit in one.units),
        persistent=tuple(gpu for one in planned.after if isinstance(one, Persistence) for gpu in one.gpus),
        gpus=tuple(gpu for one in planned.steps if isinstance(one, ResetGpus) for gpu in one.gpus),
    )
    record = state.record.added(attempt)
    attempts.write(here.host, record)
    here.tell("{0} of {1}: {2}".format(planned.remedy, planned.part, planned.finding))
    error: Optional[NodeError] = None
    wrong: List[str] = []
    begun = False
    try:
        for step in planned.steps:
            if isinstance(step, Disrupting):
                confirm(here)
                begun = True
            here.tell(step.describe())
            if step is planned.steps[-1]:
                _into_journal(here, planned)
            STEPS[type(step)](here, step)
    except NodeError as caught:
        error = caught
    finally:
        if begun:
            wrong = _each(here, planned.after)
    if error is None and planned.remedy == REBOOT:
        return Report(planned, "Slurm was asked to reboot this node")  # the next start of it ends this attempt
    outcome = "; ".join(([] if error is None else [str(error)]) + wrong) or "it was carried out"
    record = record.ended(attempt, time.time(), outcome, not isinstance(error, NotOurs), here.log_seconds)
    if isinstance(error, Tripped):
        record = record.latch(error.reason, time.time())
    attempts.write(here.host, record)
    if isinstance(error, Tripped):
        _mark_latched(here.slurm, error.reason, here.tell)
    here.tell(outcome)
    return Report(planned, outcome, error is not None or bool(wrong))


def _into_journal(here: Context, planned: Planned) -> None:
    """Just before the remedy itself, which may take the machine away. The record of attempts is what limits them, so
    that a journal cannot be written is told and stops nothing."""
    now, state = time.time(), here.world.state
    sick = component(planned, state.gpus, parts.look(here.host))
    event = Event(journal.REMEDY, sick, now, now, state.boot, code=planned.remedy, node=state.node[: journal.WORD])
    try:
        remember.note(here.host, event)
    except NodeError as error:
        here.tell(str(error))


def component(planned: Planned, gpus: Sequence[Gpu], known: Mapping[str, Part]) -> Part:
    """What a remedy is for, as the journal names it: a reboot may be for a GPU. Pure."""
    if planned.remedy == RESTART_SERVICE:
        return Part(SERVICE, planned.part)
    part = journal.part_of(planned.key, known)
    # The kernel module tells no GPUs, as in a container; NVML has told them.
    named = [one.name for one in gpus if part == NODE and planned.key in (one.pci_address, one.name)]
    named = [one for one in named if one not in [gpu.pci_address for gpu in gpus]]
    return Part("gpu", named[0][: journal.WORD]) if named else part


def _each(here: Context, steps: Tuple[Action, ...]) -> List[str]:
    """Carry out all of them; returns what went wrong."""
    wrong = []
    for step in steps:
        try:
            here.tell(step.describe())
            STEPS[type(step)](here, step)
        except NodeError as error:
            here.tell(str(error))
            wrong.append(str(error))
    return wrong


def confirm(here: Context) -> None:
    """Once more before what takes something away: the node may have changed hands since it was looked at.

    :raises NodeError: it has, has a job, or nobody knows.
    """
    node = here.slurm.look()
    flags = states.normalised(node.flags)
    if not drain.is_for_health(node) or "IDLE" not in flags:
        reason = "it is no more drained for its health and idle ({0})".format("+".join(sorted(flags)))
        raise NotOurs("node " + here.slurm.node, reason, "nothing more is done to it")
    jobs = slurmd.asked(here.slurm)[0]
    if jobs != slurmd.IDLE:
        raise NotOurs("node " + here.slurm.node, jobs, "nothing more is done to it")


def _latch(host: Host, slurm: Slurm, record: Record, why: str, tell: Tell) -> None:
    attempts.write(host, record.latch(why, time.time()))
    _mark_latched(slurm, why, tell)


def _mark_latched(slurm: Slurm, why: str, tell: Tell) -> None:
    """In Slurm, so that others hold, and people see it. The file holds this node, slurmctld or not."""
    tell("the breaker is latched: {0}; {1}".format(why, attempts.RELEASE))
    try:
        node = slurm.look()
        if drain.is_for_health(node):
            text = drain.HEALTH + drain.LATCHED + drain.finding(node.reason or "")
            slurm.update("State=DRAIN", "Reason=" + drain.reason_text(text))
    except NodeError as error:
        tell(str(error))


@frozen
class Released:
    """``was``: why it was latched, or "". ``changed``: whether there was anything to release."""

    record: Record
    was: str = ""
    changed: bool = True


def release(host: Host, node: str, by: str, tell: Tell) -> Released:
    """A person has looked: attempts start anew, and the word goes out of Slurm's reason. Where nothing is latched and
    no attempt counts, nothing is written.

    :raises NodeError: a remedy runs, or it cannot be written.
    """
    settings = of_section(Settings, declaration.read(host).get(SECTION))
    with host.lock(REMEDY_LOCK, _LOCK_SECONDS):
        when = moment(time.time())
        before = record = attempts.read(host)
        changed = bool(before.held) or any(one.counts for one in before.attempts)
        if changed:
            record = before.release("{0}, {1}".format(by, when))
            attempts.write(host, record)
            tell("the breaker of remedies was released by {0}".format(by))
        slurm = Slurm(host, node, settings.scontrol)
        try:
            found = slurm.look()
            if drain.is_for_health(found) and drain.LATCHED in (found.reason or ""):
                text = drain.HEALTH + drain.finding(found.reason or "")
                slurm.update("State=DRAIN", "Reason=" + drain.reason_text(text))
                changed = True
        except NodeError as error:
            tell(str(error))
    return Released(record, before.held, changed)


def seen(host: Host, node: str) -> Tuple[Record, Settings, str]:
    """(what was tried here, what is on, what slurmctld tells of the breakers of others or why it does not)."""
    settings = of_section(Settings, declaration.read(host).get(SECTION))
    try:
        cluster = ask(Slurm(host, node, settings.scontrol))
        names = sorted({name for one in cluster.latched for name in one.ours})
        told = "latched in Slurm: {0}".format(", ".join(names) or "none")
    except NodeError as error:
        told = "slurmctld does not tell: {0}".format(error.reason)
    return attempts.read(host), settings, told

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What slurmd runs of the gate: before and after a job the quick checks, between jobs the passive ones.

Each step has a time limit of its caller. A bug of ours, a look that hangs and a slurmctld that does not answer drain
nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ... import health
from ...core import declaration, machine, processes, systemd
from ...core.host import Host
from ...core.options import of_section
from ...core.resource import Misuse, NodeError
from ...health import Cost, Options, Outcome, Verdict
from ...health.checks.gpu_fabric import JOINING
from ...health.gate import gate, history, plan, record
from ...health.gate.settings import PROOF_LOCK, REMEDY_LOCK, SECTION, Settings, applied
from ...slurm.drain import DRAIN, LEAVE, RESUME, Decision
from .hook import time_limit

# HealthCheckProgram is ended by slurmd after 60 s (slurm.conf(5)), in which Python has to start and to end as well: so
# all steps share WATCH_SECONDS, and each has its own limit within.
WATCH_SECONDS = 50.0
EXAMINE_SECONDS = 35.0
_GATE_SECONDS = 20.0
_START_SECONDS = 10.0
_KEEP_SECONDS = 15.0
_REMEDY_SECONDS = 10.0
# Within HEALTH_SECONDS of the hook.
_JOINING_SECONDS, _POLL_SECONDS = 12.0, 2.0
# slurmctld that restarts is back within this.
_ASKS, _ASK_AGAIN_SECONDS = 4, 5.0
# One that does not tell is asked so much later again while checks run.
_SILENT_SECONDS = 20.0
PROOF_UNIT = "gpu-node-health-proof.service"
Tell = Callable[[str], None]


def examined(host: Host, node: str, tell: Tell, level: Cost = Cost.QUICK) -> Verdict:
    """With the quick checks a job waits: GPUs that still register with their fabric after a boot get a moment, and fail
    then, since no CUDA program starts on them.

    :raises NodeError: the declaration cannot be read.
    """
    until = time.monotonic() + _JOINING_SECONDS
    verdict = health.examine(host, node, Options(level=level))
    while level is Cost.QUICK and _joining(verdict):
        time.sleep(_POLL_SECONDS)
        verdict = health.examine(host, node, Options(level=level, patient=time.monotonic() < until))
    if verdict.outcome is Outcome.UNKNOWN:
        tell(verdict.in_one_line())
    return verdict


def _joining(verdict: Verdict) -> bool:
    return any(finding.code == JOINING for result in verdict.results for finding in result.findings)


def failure(verdict: Verdict) -> Optional[str]:
    """Why this node can take no job; None where nothing failed. What could not be checked holds no job."""
    return verdict.in_one_line() if verdict.outcome is Outcome.FAIL else None


def owed(host: Host, node: str) -> Optional[str]:
    """What this machine was drained for before it was started anew, and has not disproved; see :func:`.plan.owed`.

    :raises NodeError: the declaration cannot be read.
    """
    known = history.read(host).of(machine.fingerprint(host))
    if known.drained is not True:
        return None
    declared, now = declaration.read(host), time.time()
    settings = applied(of_section(Settings, declared.get(SECTION)), declared, node, now)
    return plan.owed(known, settings, now, processes.boot_id(host))


def settled(host: Host, node: str, verdict: Verdict, tell: Tell) -> Tuple[Decision, bool]:
    """(what was done in Slurm, whether the node is in service still), after a failing verdict before or after a job.

    :raises NodeError: slurmctld cannot be asked.
    """
    report = gate.Gate(host, node, tell).settle(verdict, at_once=True)
    decision = report.decision
    if decision.action == LEAVE:
        tell("the node is left as it is: {0}".format(decision.why))
    return Decision(decision.action, decision.why, decision.reason), report.in_service is not False


@dataclasses.dataclass
class Watch:
    """What HealthCheckProgram did: the verdict in a line, what the gate decided, and what was told."""

    verdict: str
    outcome: str
    decision: Optional[Dict[str, Any]]
    notes: List[str]

    def to_dict(self) -> Dict[str, Any]:
        return dataclasses.asdict(self)


def _remedy(host: Host, node: str, report: gate.Report, verdict: Verdict, say: Tell) -> None:
    """For what this look tells, or what active checks have told before: what these found is measured once more first
    where the gate starts that now.

    :raises NodeError: the declaration cannot be read, or systemd takes no unit.
    """
    declared = declaration.read(host)
    settings = of_section(Settings, declared.get(SECTION))
    if settings.remedies:
        from ...health import attempts  # seldom wanted
        from ...health.gate import kept
        from ...health.remedies import run

        sick = verdict.outcome is Outcome.FAIL
        if not sick and not report.decision.prove:
            section = declared.get(health.SECTION, {})
            sick = bool(kept.now_counting(host, node, section, attempts.read(host), verdict.time))
        sick = sick and report.in_service is False
        if run.start(host, settings, sick):
            say("a remedy is looked for, see 'gpunode remedy status'")


@contextlib.contextmanager
def _within(deadline: float, seconds: float, what: str) -> Iterator[None]:
    """:raises NodeError: it takes longer than this, or than what is left of all."""
    left = min(seconds, deadline - time.monotonic())
    if left <= 0:
        reason = "no time is left of the {0:.3g} s that all steps have".format(WATCH_SECONDS)
        raise NodeError(what, reason, "look at the kernel log of the node")
    with time_limit(left, what):
        yield


def watch(host: Host, node: str, tell: Tell) -> Watch:
    """The passive checks, their files, and what they mean for this node in Slurm.

    :raises NodeError: the declaration cannot be read, or looking took too long.
    """
    if host.locked(PROOF_LOCK):
        # What it loads would be a finding here, and what a look takes would be missing there.
        return Watch("the proof of this node runs, which looks at all of it", Outcome.UNKNOWN.value, None, [])
    deadline = time.monotonic() + WATCH_SECONDS
    notes: List[str] = []

    def say(text: str) -> None:
        notes.append(text)
        tell(text)

    with _within(deadline, EXAMINE_SECONDS, "checking the health"):
        verdict = examined(host, node, say, Cost.PASSIVE)
    decision = report = None
    # First: nothing that is written for other programs may delay a drain, or prevent it.
    try:
        with _within(deadline, _GATE_SECONDS, "settling the node's state in Slurm"):
            report = gate.Gate(host, node, say).settle(verdict)
        decision = report.to_dict()
    except NodeError as error:
        say(str(error))
    try:
        with _within(deadline, _KEEP_SECONDS, "keeping the verdict"):
            for note in record.keep(host, verdict):
                say(note)
    except NodeError as error:
        say(str(error))
    if report is None:
        return Watch(verdict.in_one_line(), verdict.outcome.value, decision, notes)
    try:
        if report.decision.action in (DRAIN, RESUME):
            say("{0}: {1}".format(report.decision.action, report.decision.why))
        elif report.decision.person or verdict.outcome is Outcome.FAIL:
            say("the node is left as it is: {0}".format(report.decision.why))
        if report.decision.prove:
            say("{0}: it is started now".format(report.decision.why))
            with _within(deadline, _START_SECONDS, "starting the proof"):
                systemd.start(host, (PROOF_UNIT,), wait=False)
        with _within(deadline, _REMEDY_SECONDS, "starting a remedy"):
            _remedy(host, node, report, verdict, say)
    except NodeError as error:
        say(str(error))
    return Watch(verdict.in_one_line(), verdict.outcome.value, decision, notes)


def prove(
    host: Host,
    node: str,
    tell: Tell,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Watch:
    """The active checks that this node owes, with all the others, and what they mean for it in Slurm. They end when
    somebody else takes the node meanwhile; that slurmctld does not tell for a while ends nothing, as nobody else starts
    a job.

    :raises NodeError: the node is not ours to load, owes nothing, or the declaration cannot be read.
    """
    from ...health.gate import owing as owes

    notes: List[str] = []

    def say(text: str) -> None:
        notes.append(text)
        tell(text)

    with host.lock(PROOF_LOCK, 1.0):
        if host.locked(REMEDY_LOCK):
            raise NodeError(
                "node " + node, "a remedy runs on it", "run it again when 'gpunode remedy status' tells the end"
            )
        owing = gate.Gate(host, node, say)
        wanted = _told(owing, pause)
        if not wanted:
            raise NodeError("node " + node, "it owes no active check", "run 'gpunode health --active' to measure it")

        silent: List[float] = []

        def still(check: str) -> None:
            # Each question to a silent slurmctld takes its time limit, in which nobody looks after the checks.
            if silent and clock() - silent[-1] < _SILENT_SECONDS:
                return
            try:
                owing.to_prove(time.time())
            except owes.NotOurs:
                raise
            except NodeError as error:
                if not silent:
                    say("after {0}: {1} The proof goes on, and it is asked again.".format(check, error))
                silent.append(clock())

        seconds = owing.settings.proof_seconds or None
        options = Options(level=Cost.ACTIVE, without=owes.others(wanted), seconds=seconds)
        try:
            verdict = health.examine(host, node, options, tell=still)
        except Misuse as error:
            # The attempt counts, so its reason must be where people look for it.
            verdict = health.undone(node, _too_short(owing.settings.proof_seconds, error), Cost.ACTIVE)
            say(str(verdict.findings[0][1]))
        report = None
        try:
            report = gate.Gate(host, node, say).settle(verdict)
        except NodeError as error:
            say("{0} What was measured counts, and the gate decides at its next look.".format(error))
        for note in record.keep(host, verdict):
            say(note)
        if report is None:
            return Watch(verdict.in_one_line(), verdict.outcome.value, None, notes)
    say("{0}: {1}".format(report.decision.action, report.decision.why))
    return Watch(verdict.in_one_line(), verdict.outcome.value, report.to_dict(), notes)


def _too_short(seconds: float, error: Misuse) -> NodeError:
    """What a caller of the command can correct is a setting of the gate here."""
    if not seconds:
        return error
    thing = "setting proof_seconds of section {0}, {1:g}".format(SECTION, seconds)
    return NodeError(
        thing, error.reason, "{0} as health_gate_proof_seconds, then converge the node".format(error.remedy)
    )


def _told(owing: gate.Gate, pause: Callable[[float], None]) -> Tuple[str, ...]:
    """What is owed now; slurmctld is asked again where it does not tell.

    :raises NodeError: as :meth:`.gate.Gate.to_prove`.
    """
    from ...health.gate.owing import NotKnown

    for _ask in range(_ASKS - 1):
        try:
            return owing.to_prove(time.time())
        except NotKnown:
            pause(_ASK_AGAIN_SECONDS)
    return owing.to_prove(time.time())

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run of a whole converge: one at a time, within a time limit, and with a record where this node converges itself
at each boot. The record (core/converge_record.py) says ``running`` before the first change, so that a run that was
killed never looks ready; slurmd asks it before it starts.
"""

from __future__ import annotations

import contextlib
import signal
import time
from typing import Any, Callable, Iterator, Optional, Tuple

from ..core import converge_record as record
from ..core import processes, systemd
from ..core.converge_record import Record, Standing
from ..core.host import Host
from ..core.moment import moment
from ..core.resource import NodeError
from ..facts.nvml.binding import RUNTIME as INSTALLED
from . import unit, wish
from .converge import Ended, Report, Request, converge, runtime
from .restart import SLURMD

#: Emulated machines and slow package mirrors take minutes, a hang takes for ever.
LIMIT_SECONDS = 3600
_LOCK_SECONDS = 5.0
_SLURMD_UNIT = "slurmd.service"
_REFUSED = "its converge was refused: {0}"


def run(
    host: Host, request: Request, version: str, install: bool = False, limit_seconds: int = LIMIT_SECONDS
) -> Report:
    """The converge of ``request`` by the node command of this ``version``. ``install``: also converge at each later
    boot.

    :raises LockHeld: another converge of this node runs.
    :raises NodeError: the declaration contradicts the machine's profile.
    """
    if request.check_mode:
        with _ending(limit_seconds):
            return converge(host, request)
    with host.lock(record.LOCK, _LOCK_SECONDS):
        if install:
            _install(host, request)
        kept = request.whole and not request.undo and (request.boot or record.each_boot(host))
        note = _notes(host, version) if kept else _nothing
        note("running", "", None)
        try:
            with _ending(limit_seconds):
                report = converge(host, request)
        except NodeError as error:
            note("not_ready", _REFUSED.format(error), None)
            raise
        if kept:  # an undo has taken the file away that more of the library would be loaded from
            why = reason(report, request, but=(SLURMD,))  # the record lets slurmd start, which then reads all
            note("not_ready" if why else "ready", why, report.health.get("outcome"))
        if request.undo and request.whole and not report.failures:
            remove(host)
        return report


def refused(host: Host, version: str, error: NodeError) -> None:
    """Put on record why a boot could not even begin: slurmd had nothing to tell but the record of another boot."""
    with contextlib.suppress(NodeError):
        _notes(host, version)("not_ready", _REFUSED.format(error), None)


def reason(report: Report, request: Request, but: Tuple[str, ...] = ()) -> str:
    """Pure. Why a run did not come to its end as it was meant to, in its text, its JSON and its exit status; empty: it
    did. A whole converge is meant to make the node ready, any other run to do what it does without a failure. What
    the node waits for counts then, except after a boot, where nobody is there to do it; ``but``: without these.
    """
    if request.whole and not request.undo and not request.check_mode:
        waits = [] if request.boot else [one for one in report.waits if one["for"] not in but]
        told = ["it waits for {0}: {1}".format(one["for"], one["why"]) for one in waits]
        return unready(report, request.sections) or "; ".join(told)
    return " ".join(report.failures)


def unready(report: Report, sections: wish.Sections) -> str:
    """Pure. Why a node does not take jobs after this; empty: it may. Unless the declaration says from which verdict on
    a converge fails, an ``unknown`` one is none to take jobs with."""
    from ..health import reached  # half of the library, and not every converge asks for it
    from ..health.types import Outcome

    outcome = report.health.get("outcome")
    if report.failures:
        return " ".join(report.failures)
    if outcome is None:
        return "no verdict was given on it"
    limit = sections.get(wish.HEALTH, {}).get("fail_on") or "unknown"
    if outcome == "fail" or reached(Outcome(outcome), limit):
        return "the verdict on it is {0}; 'gpunode health' tells why".format(outcome)
    return ""


def _notes(host: Host, version: str) -> Callable[[str, str, Optional[str]], None]:
    started, in_service = time.time(), _runs(host, _SLURMD_UNIT)

    def note(state: str, reason: str, outcome: Optional[str]) -> None:
        ended = None if state == "running" else time.time()
        text = " ".join(reason.split()).rstrip(".")
        record.write(host, Record(state, text, started, ended, processes.boot_id(host), version, outcome, in_service))

    return note


def _nothing(dummy_state: str, dummy_reason: str, dummy_outcome: Optional[str]) -> None:
    """No record is kept."""


def _install(host: Host, request: Request) -> None:
    """What each boot needs, before the first change of the node: the declaration, the command and the unit.

    :raises NodeError: one of them cannot be written, or something of others is in its place.
    """
    wish.write(host, wish.text(request.sections))
    if request.command is not None:
        part = runtime(host, request.command, False)
        if part.get("failed"):
            raise NodeError(INSTALLED, part["msg"], "correct that, then run it again")
    unit.have(host)


def remove(host: Host) -> None:
    """Take the unit of each boot and the record away; what was made of the node stays."""
    unit.have(host, wanted=False)
    record.FILE.remove(host)


def status(host: Host) -> Tuple[Standing, str]:
    """What the record says, in one sentence."""
    known = record.known(host)
    if known.standing is Standing.READY and known.record is not None and known.record.ended is not None:
        when = moment(known.record.ended)
        told = "ready: a converge ended at {0}, verdict {1}.".format(when, known.record.outcome)
        return known.standing, told
    begin = "running" if known.standing is Standing.RUNNING else "not ready"
    return known.standing, "{0}: {1}.".format(begin, known.reason.rstrip("."))


def admitted(host: Host) -> bool:
    """Whether slurmd may start."""
    return record.admits(record.known(host), record.each_boot(host))


def _runs(host: Host, name: str) -> bool:
    """Not one that is refused: it has no process, however often it is tried."""
    try:
        (found,) = systemd.show(host, (name,), ("MainPID",))
    except NodeError:
        return False
    return found.get("MainPID", "0") != "0"


@contextlib.contextmanager
def _ending(limit_seconds: int) -> Iterator[None]:
    """A run that is told to end, or takes too long, says so; one that is killed cannot, and counts as interrupted."""

    def end(number: int, dummy: Any) -> None:
        if number == signal.SIGALRM:
            raise Ended("it did not end within {0} s; see what hangs, then run it again".format(limit_seconds))
        raise Ended("it was ended by signal {0}".format(signal.Signals(number).name))

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)
    kept = {number: signal.signal(number, end) for number in numbers}
    signal.alarm(limit_seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in kept.items():
            signal.signal(number, handler)

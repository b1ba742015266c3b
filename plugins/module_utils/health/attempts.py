# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which remedies were tried on this machine, and whether its breaker is latched: what must not be forgotten.

An attempt is written before anything is done, so a run that is killed leaves one that has not ended, and a full disk
leaves a machine without remedies. A record that cannot be read counts as a latched breaker: nobody knows what was
tried. A person releases it, and the damaged file is kept aside then. The record of another machine (a copied disk)
says nothing of this one.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Optional, Sequence, Tuple

from ..core import machine, safe_files
from ..core.frozen import frozen, plain, replaced
from ..core.host import Host
from ..core.resource import printable
from ..core.state_file import StateFile, document

PATH = "/var/lib/gpu_node/health/remedies.json"
DAMAGED = PATH + safe_files.DAMAGED
RESET_GPU = "reset_gpu"
RELEASE = "look at what was tried with 'gpunode remedy status', then run 'gpunode remedy release --by NAME'"
LONGEST = 100
DAY_SECONDS = 86400.0
WEEK_SECONDS = 7 * DAY_SECONDS
_TEXT = 300


@frozen
class Attempt:
    """``part``: a unit, ``gpu:`` with the UUID of a GPU, or ``node``. ``boot``: the start of the machine it began in.

    ``units`` were stopped for it, and ``persistent`` GPUs were taken out of persistence mode: both are put back after
    it. ``ended`` None: it runs, it was killed, or the reboot is still to come. ``counts``: until a person releases the
    breaker. ``log_seconds``: of a reset that was carried out, the time of the last line in the kernel log before it, in
    seconds from the boot: by the clock of the log, which is no other's. ``gpus``: the GPUs that it resets, by UUID or
    else PCI address.
    """

    remedy: str
    part: str
    time: float
    boot: str
    finding: str = ""
    units: Tuple[str, ...] = ()
    persistent: Tuple[str, ...] = ()
    ended: Optional[float] = None
    outcome: str = ""
    counts: bool = True
    log_seconds: Optional[float] = None
    gpus: Tuple[str, ...] = ()


@frozen
class Record:
    """``attempts``: oldest first. ``latched``: why none is tried until a person releases it; "" where it is not."""

    attempts: Tuple[Attempt, ...] = ()
    latched: str = ""
    latched_at: float = 0.0
    released: str = ""
    machine: str = ""
    unreadable: str = ""

    @property
    def held(self) -> str:
        return self.unreadable or self.latched

    @property
    def unfinished(self) -> Optional[Attempt]:
        return next((one for one in self.attempts if one.ended is None), None)

    def within(self, seconds: float, now: float) -> Tuple[Attempt, ...]:
        """Those that count. One of the future is among them: a clock that was set back gives no new attempts."""
        return tuple(one for one in self.attempts if one.counts and now - one.time < seconds)

    def added(self, attempt: Attempt) -> Record:
        return replaced(self, attempts=(*self.attempts, attempt)[-LONGEST:])

    def ended(
        self, attempt: Attempt, now: float, outcome: str, counts: bool = True, log_seconds: Optional[float] = None
    ) -> Record:
        text = printable(outcome)[:_TEXT]
        done = replaced(attempt, ended=now, outcome=text, counts=counts, log_seconds=log_seconds)
        return replaced(self, attempts=tuple(done if one == attempt else one for one in self.attempts))

    def latch(self, why: str, now: float) -> Record:
        return replaced(self, latched=printable(why)[:_TEXT], latched_at=now)

    def release(self, by: str) -> Record:
        """Everything starts anew; what was tried stays to be read, but for a record that could not be."""
        attempts = tuple(replaced(one, counts=False) for one in self.attempts)
        return Record(attempts, released=by, machine=self.machine)


def resets(tried: Sequence[Attempt], boot: str) -> Tuple[Tuple[float, FrozenSet[str]], ...]:
    """(``log_seconds``, ``gpus``) of each reset that was carried out since the boot. Pure."""
    return tuple(
        (one.log_seconds, frozenset(one.gpus))
        for one in tried
        if boot and one.boot == boot and one.log_seconds is not None
    )


def _parse(content: Dict[str, Any]) -> Record:
    record = document(Record, content, ("unreadable",))
    attempts = tuple(
        # An older release did not record the GPUs: the GPU it was for, perhaps not all.
        replaced(one, gpus=(one.part.partition(":")[2],)) if one.remedy == RESET_GPU and "gpus" not in given else one
        for one, given in zip(record.attempts, content["attempts"])
    )
    return replaced(record, attempts=attempts[-LONGEST:])


FILE = StateFile("remedies", PATH, _parse)


def read(host: Host) -> Record:
    here = machine.hardware(host) or ""
    record, damage = FILE.read(host)
    if damage:
        why = "{0}: the record of remedies cannot be read: {1}".format(PATH, damage)
        return Record(machine=here, unreadable=why)
    if record is None:
        return Record(machine=here)
    if here and record.machine and record.machine != here:
        return Record(machine=here)
    return replaced(record, machine=here or record.machine)


def write(host: Host, record: Record) -> None:
    """:raises NodeError: it cannot be written, so nothing may be begun."""
    content = plain(record)
    del content["unreadable"]
    FILE.write(host, content)

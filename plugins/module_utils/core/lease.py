# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Until when a node may be used, and what this machine knows of that: ``/var/lib/gpu_node/node_lease.json``.

A lease that ended is no reason to reset a machine that never ran under it: an image, or a date of last year in a
file, would. So the machine writes down that it saw the lease in force, and by which machine that was.
"""

from __future__ import annotations

import datetime
import enum
import time
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from . import moment, processes, program_words
from .frozen import frozen, replaced
from .host import Host
from .options import of_section, option, options
from .resource import NodeError
from .state_file import StateFile, document

SECTION = "node_lease"
MEMORY = "/var/lib/gpu_node/node_lease.json"
#: So many days before the end the users are told.
WARN_DAYS = (7, 3, 1)
DAY_SECONDS = 86400.0
#: So long a wall clock that made a step, or that a start of the machine set, must advance correctly before it ends a
#: lease.
CONFIRM_SECONDS = DAY_SECONDS
# A synchronisation may correct this much; the kernel slews by 500 ppm at most (ntp_adjtime(2)).
_CORRECTION_SECONDS, _DRIFT = 300.0, 500e-6
_REMEDY = "give a time with its zone, such as 2026-12-01T18:00Z or 2026-12-01T19:00+01:00"


def seconds(text: str) -> float:
    """A time with its zone, in seconds since 1970.

    :raises NodeError: it is none.
    """
    found = moment.read(text)
    if found is None or not found.zone:
        raise NodeError("option until", "{0!r} is no time with a zone".format(text), _REMEDY)
    return found.seconds


@options
class Settings:
    """The options that the node needs. What a section does not ask for is not done: a reset least of all."""

    until: str = option(
        "",
        [
            "Until when this node may be used, with the time zone, such as V(2026-12-01T18:00Z). Quote it in YAML.",
            "Empty is no lease: one that was declared before is taken away.",
        ],
    )
    reset: bool = option(
        True,
        "Take away at the end what converges made, as C(reset.yml) does. The data on the scratch are lost then.",
        unset=False,
    )
    on_expiry: Tuple[str, ...] = option(
        (),
        "Program with its arguments that is run as root at the end, without a shell, after the reset. It is run again "
        "until it ends with status 0.",
        form=(
            r"[^\x00-\x1f\x7f]+",
            "word of a command",
            "give each word by itself, as " + program_words.EXAMPLE,
        ),
        example=["/usr/bin/jetpack", "shutdown"],
        private=True,
    )
    reservation: bool = option(
        True,
        "Reserve the node in Slurm from the end on (flag MAINT), so that no job starts that would outlive the lease.",
        unset=False,
    )
    motd: bool = option(True, "Tell users at login (C(/etc/motd.d)) during the last 7 days.", unset=False)
    slurm_node: str = option(
        "",
        "Its NodeName, where that is not the name of slurm.conf for this host.",
        form=(r"|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", "NodeName of Slurm", "give one node"),
    )

    @property
    def ends(self) -> float:
        """:raises NodeError: it is no time with a zone."""
        return seconds(self.until)


def declared(section: Optional[Mapping[str, Any]]) -> Optional[Settings]:
    """Pure. None: there is no lease, or its end is no time; an administrator may have edited it."""
    found = of_section(Settings, section)
    try:
        seconds(found.until)
    except NodeError:
        return None
    return found


class Phase(enum.Enum):
    """How far the end of a lease has come. Each is written down after it was reached, so a run that was killed goes on
    where it was."""

    NONE = ""
    ENDED = "ended"  # users were told, and the node is drained
    RESET = "reset"  # what a converge made is gone but for the lease itself
    HANDED_BACK = "handed_back"  # the program of the site has ended well


@frozen
class Clock:
    """The wall clock (``time``) and the seconds since this start of the machine (``boot``), including suspended
    time."""

    time: float = 0.0
    running: float = 0.0
    boot: str = ""

    def agrees(self, later: Clock) -> bool:
        """Whether both clocks advanced by the same time since, within what a synchronisation may correct."""
        if not self.boot or self.boot != later.boot or later.running < self.running:
            return False
        elapsed = later.running - self.running
        return abs(later.time - self.time - elapsed) <= _CORRECTION_SECONDS + elapsed * _DRIFT


def running_seconds() -> float:
    """Since the start of this machine, suspended or not: nothing steps this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def clocks(host: Host, now: float, running: Callable[[], float] = running_seconds) -> Clock:
    return Clock(now, running(), processes.boot_id(host) or "unknown")


@frozen
class Memory:
    """``machine`` wrote it; ``until`` identifies the lease; ``seen``: the last time at which it was active; ``warned``:
    the days for which users were warned; ``reserved``: the reservation that was created. ``clock``: the clocks when the
    wall clock was last trusted; ``doubt``: when a wall clock that disagrees with it was first seen in this start of the
    machine. Since then it has advanced correctly for ``agreed`` seconds, and for ``carried`` seconds in earlier
    starts."""

    machine: str = ""
    until: float = 0.0
    seen: float = 0.0
    warned: Tuple[int, ...] = ()
    reserved: str = ""
    phase: Phase = Phase.NONE
    why: str = ""
    clock: Clock = Clock()
    doubt: Clock = Clock()
    agreed: float = 0.0
    carried: float = 0.0


def ticked(memory: Memory, now: Clock) -> Memory:
    """With a reading of the clocks: whether the wall clock advanced as fast as the uptime. Pure.

    A step of it, or a start of the machine, leaves a doubt. The new time counts after it has advanced correctly for
    :data:`CONFIRM_SECONDS` of running, which may be spread over several starts: some machines are switched off each
    day. A step restarts this period, and so does a start with an earlier time than the last one.
    """
    # The file of a version without these clocks does not show whether the first one is right: it ends no lease at once.
    if not memory.clock.boot and not (memory.seen and now.time >= memory.until):
        return _trusted(memory, now)
    if memory.clock.agrees(now):
        return replaced(memory, doubt=Clock(), agreed=0.0, carried=0.0)
    doubt = memory.doubt
    if not doubt.agrees(now):
        last = doubt.time + memory.agreed
        goes_on = bool(doubt.boot) and doubt.boot != now.boot and now.time >= last - _CORRECTION_SECONDS
        return replaced(memory, doubt=now, agreed=0.0, carried=memory.carried + memory.agreed if goes_on else 0.0)
    agreed = now.running - doubt.running
    if memory.carried + agreed >= CONFIRM_SECONDS:
        return _trusted(memory, now)
    return replaced(memory, agreed=agreed)


def _trusted(memory: Memory, now: Clock) -> Memory:
    return replaced(memory, clock=now, doubt=Clock(), agreed=0.0, carried=0.0)


def confirmed(memory: Memory, now: Clock) -> bool:
    """Pure."""
    return ticked(memory, now).clock.agrees(now)


def read(host: Host) -> Memory:
    """A damaged one counts as none: then nothing is reset."""
    return FILE.read(host)[0] or Memory()


def _parse(content: Dict[str, Any]) -> Memory:
    found = document(Memory, content, ("clock", "doubt", "agreed", "carried"))
    if found.agreed < 0 or found.carried < 0:
        raise ValueError("no time")
    return found


FILE = StateFile("node_lease", MEMORY, _parse, mode=0o644)


def write(host: Host, memory: Memory) -> str:
    """Returns the sentence about a damaged file that was in its place.

    :raises NodeError: it cannot be written.
    """
    return FILE.write(host, memory)


class Stage(enum.Enum):
    """What a lease means for a machine now."""

    RUNS = "runs"
    ENDED = "ended"
    NEVER_RAN = "never_ran"
    UNSURE = "unsure"  # the clock of this machine is not to be trusted
    HANDED_BACK = "handed_back"


def stage(lease: Settings, memory: Memory, machine: Optional[str], now: float, clock_is_right: bool) -> Stage:
    """A lease that ended stays ended, whatever the clock says later: only a new end extends it. Pure."""
    known = bool(machine) and memory.machine == machine and memory.until == lease.ends
    if now < lease.ends and not (known and memory.phase is not Phase.NONE):
        return Stage.RUNS
    if not known or not 0 < memory.seen < lease.ends:
        return Stage.NEVER_RAN
    if memory.phase is Phase.HANDED_BACK:
        return Stage.HANDED_BACK
    return Stage.ENDED if clock_is_right or memory.phase is not Phase.NONE else Stage.UNSURE


def threshold(lease: Settings, now: float) -> Optional[int]:
    """The least number of days of ``WARN_DAYS`` that are left or fewer; None: there are more. Pure."""
    left = (lease.ends - now) / DAY_SECONDS
    return min((one for one in WARN_DAYS if left <= one), default=None)


def utc(when: float) -> str:
    """As a person reads it."""
    found = datetime.datetime.fromtimestamp(int(when), datetime.timezone.utc)
    return found.strftime("%Y-%m-%d %H:%M UTC")


def left(lease: Settings, now: float) -> str:
    """How long it still is, in words. Pure."""
    hours = int((lease.ends - now) // 3600)
    if hours < 0:
        return "it is over"
    days, hours = divmod(hours, 24)
    if days:
        return "{0} day{1}".format(days, "" if days == 1 else "s")
    return "{0} hour{1}".format(hours, "" if hours == 1 else "s") if hours else "less than an hour"

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
import json
from typing import Any, Dict, Mapping, Optional, Tuple

from . import moment
from .frozen import frozen, plain
from .host import Host
from .resource import NodeError

SECTION = "node_lease"
MEMORY = "/var/lib/gpu_node/node_lease.json"
#: So many days before the end the users are told.
WARN_DAYS = (7, 3, 1)
DAY_SECONDS = 86400.0
_VERSION = 1
_REMEDY = "give a time with its zone, such as 2026-12-01T18:00Z or 2026-12-01T19:00+01:00"


def seconds(text: str) -> float:
    """A time with its zone, in seconds since 1970.

    :raises NodeError: it is none.
    """
    found = moment.read(text)
    if found is None or not found.zone:
        raise NodeError("option until", "{0!r} is no time with a zone".format(text), _REMEDY)
    return found.seconds


@frozen
class Lease:
    """What was declared. ``on_expiry``: a program with its arguments, run at the end."""

    until: float
    reset: bool = True
    on_expiry: Tuple[str, ...] = ()
    reservation: bool = True
    motd: bool = True
    slurm_node: str = ""

    @classmethod
    def from_section(cls, section: Optional[Mapping[str, Any]]) -> Optional[Lease]:
        """None: there is no lease, or none that can be understood; a person may have edited it."""
        given = section or {}
        try:
            until = seconds(str(given.get("until") or ""))
        except NodeError:
            return None
        words = given.get("on_expiry")
        program = tuple(str(one) for one in words) if isinstance(words, (list, tuple)) else ()
        # What is not told is not done: a reset least of all.
        switches = {name: given.get(name) is True for name in ("reset", "reservation", "motd")}
        return cls(until, on_expiry=program, slurm_node=str(given.get("slurm_node") or ""), **switches)


class Phase(enum.Enum):
    """How far the end of a lease has come. Each is written down after it was reached, so a run that was killed goes on
    where it was."""

    NONE = ""
    ENDED = "ended"  # users were told, and the node is drained
    RESET = "reset"  # what a converge made is gone but for the lease itself
    HANDED_BACK = "handed_back"  # the program of the site has ended well


@frozen
class Memory:
    """``machine`` is who wrote it; ``until`` the lease that it is about; ``seen``: when that was last seen in force;
    ``warned``: the days of which users were told; ``reserved``: the reservation that was made."""

    machine: str = ""
    until: float = 0.0
    seen: float = 0.0
    warned: Tuple[int, ...] = ()
    reserved: str = ""
    phase: Phase = Phase.NONE
    why: str = ""


def read(host: Host) -> Memory:
    """One that cannot be understood counts as none: then nothing is reset."""
    try:
        content = json.loads(host.read(MEMORY) or "")
        if content.get("version") != _VERSION:
            return Memory()
        return Memory(
            machine=str(content["machine"]),
            until=float(content["until"]),
            seen=float(content["seen"]),
            warned=tuple(int(one) for one in content["warned"]),
            reserved=str(content["reserved"]),
            phase=Phase(content["phase"]),
            why=str(content["why"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Memory()


def write(host: Host, memory: Memory) -> None:
    """:raises NodeError: it cannot be written."""
    content: Dict[str, Any] = dict(plain(memory), version=_VERSION, phase=memory.phase.value)
    host.write(MEMORY, json.dumps(content, indent=2, sort_keys=True) + "\n")


class Stage(enum.Enum):
    """What a lease means for a machine now."""

    RUNS = "runs"
    ENDED = "ended"
    NEVER_RAN = "never_ran"
    UNSURE = "unsure"  # the clock of this machine is not to be trusted
    HANDED_BACK = "handed_back"


def stage(lease: Lease, memory: Memory, machine: Optional[str], now: float, clock_is_right: bool) -> Stage:
    """Pure."""
    if now < lease.until:
        return Stage.RUNS
    if not machine or memory.machine != machine or memory.until != lease.until or not 0 < memory.seen < lease.until:
        return Stage.NEVER_RAN
    if memory.phase is Phase.HANDED_BACK:
        return Stage.HANDED_BACK
    return Stage.ENDED if clock_is_right or memory.phase is not Phase.NONE else Stage.UNSURE


def threshold(lease: Lease, now: float) -> Optional[int]:
    """The least number of days of ``WARN_DAYS`` that are left or fewer; None: there are more. Pure."""
    left = (lease.until - now) / DAY_SECONDS
    return min((one for one in WARN_DAYS if left <= one), default=None)


def utc(when: float) -> str:
    """As a person reads it."""
    found = datetime.datetime.fromtimestamp(int(when), datetime.timezone.utc)
    return found.strftime("%Y-%m-%d %H:%M UTC")


def left(lease: Lease, now: float) -> str:
    """How long it still is, in words. Pure."""
    hours = int((lease.until - now) // 3600)
    if hours < 0:
        return "it is over"
    days, hours = divmod(hours, 24)
    if days:
        return "{0} day{1}".format(days, "" if days == 1 else "s")
    return "{0} hour{1}".format(hours, "" if hours == 1 else "s") if hours else "less than an hour"

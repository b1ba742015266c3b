# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last verdicts on this machine, and whether it is drained for its health: what hysteresis needs to know."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Optional, Tuple

from ...core.host import Host
from ..types import Cost, Outcome, Verdict

PATH = "/var/lib/gpu_node/health/history.json"
LONGEST = 100
_DAY_SECONDS = 86400.0
_ASK_SECONDS = 3600.0
_FINDING = 300


@dataclasses.dataclass(frozen=True)
class Entry:
    """One verdict, and what it did: ``drain``, ``resume`` or "". ``finding`` is its worst, ``remedy`` the word for what
    may help with that (:class:`..types.Remedy`)."""

    time: float
    level: Cost
    outcome: Outcome
    finding: str = ""
    action: str = ""
    remedy: str = ""

    @classmethod
    def of(cls, verdict: Verdict) -> Entry:
        finding = remedy = ""
        if verdict.findings:
            worst = verdict.findings[0][1]
            finding, remedy = "{0}: {1}".format(worst.thing, worst.reason)[:_FINDING], worst.action.value
        return cls(verdict.time, verdict.level, verdict.outcome, finding, remedy=remedy)


@dataclasses.dataclass(frozen=True)
class History:
    """``entries``: oldest first. ``drained``: whether slurmctld, when it was last ``asked`` (seconds since 1970), had
    this node drained for its health by us; None: nobody knows, so it has to be asked.

    ``machine``: the one that this was found on. ``boot``: the start of it that was drained; "": Slurm has powered it
    down since. ``kept``: it is in SuspendExcNodes by us.
    """

    entries: Tuple[Entry, ...] = ()
    drained: Optional[bool] = None
    asked: float = 0.0
    machine: str = ""
    boot: str = ""
    kept: bool = False

    def of(self, machine: str) -> History:
        """What is known of this machine: nothing, where the record is another one's (a copied or moved disk).

        A machine whose firmware tells no identity is taken for the same: so a sick one stays out.
        """
        if machine and self.machine and machine != self.machine:
            return History(machine=machine)
        return dataclasses.replace(self, machine=machine or self.machine)

    def in_service(self, now: float) -> bool:
        """Whether slurmctld need not be asked about a healthy node. Once an hour it is, whatever is remembered."""
        return self.drained is False and 0 <= now - self.asked < _ASK_SECONDS

    def added(self, entry: Entry) -> History:
        """Bounded: the last hundred, and of what is older the last drain and the resumes of a day."""
        entries = (*self.entries, entry)
        older, recent = entries[:-LONGEST], entries[-LONGEST:]
        drains = [one for one in older if one.action == "drain"][-1:]
        resumes = [one for one in older if one.action == "resume" and entry.time - one.time < _DAY_SECONDS]
        kept = sorted(drains + resumes[-LONGEST:], key=older.index)
        return dataclasses.replace(self, entries=(*kept, *recent))

    def acted(self, action: str, drained: Optional[bool], boot: str) -> History:
        """With what the last verdict did."""
        last = dataclasses.replace(self.entries[-1], action=action)
        entries = (*self.entries[:-1], last)
        return dataclasses.replace(self, entries=entries, drained=drained, asked=last.time, boot=boot)


def read(host: Host) -> History:
    """Empty where there is none. What was edited or cut short counts as none: it is then made anew."""
    try:
        content: Any = json.loads(host.read(PATH) or "{}")
        entries = tuple(_entry(one) for one in content.get("entries", []))
        drained, asked = content.get("drained"), float(content.get("asked", 0.0))
        machine, boot = str(content.get("machine", "")), str(content.get("boot", ""))
        kept = content.get("kept") is True
    except (ValueError, TypeError, KeyError, AttributeError):
        return History()
    drained = drained if isinstance(drained, bool) else None
    return History(entries[-2 * LONGEST - 1 :], drained, asked, machine, boot, kept)


def _entry(one: Any) -> Entry:
    time = float(one["time"])
    if not math.isfinite(time):
        raise ValueError("no time")
    action = one["action"] if one["action"] in ("drain", "resume") else ""
    remedy = str(one.get("remedy", ""))  # an older version wrote none
    return Entry(time, Cost(one["level"]), Outcome(one["outcome"]), str(one["finding"]), action, remedy)


def write(host: Host, history: History) -> None:
    """:raises NodeError: when it cannot be written."""
    entries = [
        dict(dataclasses.asdict(one), level=one.level.value, outcome=one.outcome.value) for one in history.entries
    ]
    content = {
        "drained": history.drained,
        "asked": history.asked,
        "machine": history.machine,
        "boot": history.boot,
        "kept": history.kept,
        "entries": entries,
    }
    host.write(PATH, json.dumps(content, sort_keys=True) + "\n", mode=0o600)

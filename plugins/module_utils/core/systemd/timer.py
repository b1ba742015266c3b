# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A systemd timer with the service that it starts, whose texts are managed files of a resource; a part of others."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from .. import declaration, managed_files, systemd
from ..frozen import frozen
from ..host import Host
from ..managed_files import Files, RemoveFile, Wanted, WriteFile
from ..resource import Action, NodeError, Outcome, Plan, Refusal, Step
from . import TIMERS, units
from .units import DisableUnit, EnableUnit, ReloadSystemd, StartUnit, StopUnit, unit_text

#: For the table of a resource that has a timer.
STEPS: Mapping[type, Step] = {**declaration.STEPS, **managed_files.STEPS, **units.STEPS}


@frozen
class TimerState:
    """``running``: systemd runs here. ``enabled``: the timer starts with the machine. ``active``: it is started;
    ``stale``: systemd has read other texts than those that lie there."""

    running: bool = False
    enabled: bool = False
    active: bool = False
    stale: bool = False


@frozen
class Timer:
    """A resource that is a timer with its service, and a section of the declaration. ``unit``: the name in those of the
    units, where it is not the section's. ``others``: services that it has beside the one that the timer starts."""

    section: str
    unit: str = ""
    others: Tuple[str, ...] = ()

    @property
    def service(self) -> str:
        return "gpu-node-{0}.service".format(self.unit or self.section)

    @property
    def timer(self) -> str:
        return "gpu-node-{0}.timer".format(self.unit or self.section)

    @property
    def paths(self) -> Tuple[str, ...]:
        """The files of its units."""
        return tuple(systemd.path(one) for one in (self.service, self.timer, *self.others))

    def look(self, host: Host) -> TimerState:
        """One command for both units; no answer is none."""
        enabled, runs = systemd.is_enabled(host, self.timer, TIMERS), systemd.running(host)
        if not runs:
            return TimerState(enabled=enabled)
        try:
            shown = systemd.show(host, (self.timer, self.service), ("ActiveState", "NeedDaemonReload"))
        except NodeError:
            return TimerState(True, enabled)
        stale = any(one.get("NeedDaemonReload") == "yes" for one in shown)
        return TimerState(True, enabled, shown[0].get("ActiveState") == "active", stale)

    def service_text(self, description: str, program: str, rest: Sequence[str], after: str = "") -> str:
        """A service that runs once at a time. Without its ``program`` there is no failed unit. Pure."""
        unit = ["Description=" + description, "# The node command is gone: no failed unit."]
        unit += ["ConditionPathExists=" + program, *(["After=" + after] if after else [])]
        return unit_text(self.service, Unit=unit, Service=["Type=oneshot", *rest])

    def timer_text(self, description: str, when: Sequence[str]) -> str:
        """``when``: the lines of its section Timer. Pure."""
        unit = ["Description=" + description]
        return unit_text(self.timer, Unit=unit, Timer=when, Install=["WantedBy=" + TIMERS])

    def wanted(self, service: str, timer: str) -> Tuple[Wanted, ...]:
        """The files with these texts. Pure."""
        return Wanted(systemd.path(self.service), service), Wanted(systemd.path(self.timer), timer)

    def touched(self, actions: Iterable[Action], more: Sequence[str] = ()) -> bool:
        """Whether the file of one of its units, or of ``more``, is written or removed. Pure."""
        return touched(actions, (*self.paths, *more))

    def started(self, seen: TimerState, changed: bool) -> List[Action]:
        """After its texts were written. ``changed``: one of them was. Pure."""
        actions: List[Action] = [] if seen.enabled else [EnableUnit(self.timer, TIMERS)]
        if seen.running and (changed or seen.stale or not seen.enabled):
            actions.append(ReloadSystemd())
        if seen.running and (changed or not seen.active):
            actions.append(StartUnit(self.timer))
        return actions

    def stopped(self, seen: TimerState) -> List[Action]:
        """Before its texts go. Pure."""
        actions: List[Action] = [StopUnit(self.timer)] if seen.active else []
        return actions + ([DisableUnit(self.timer, TIMERS)] if seen.enabled else [])

    def present(
        self,
        files: Files,
        declared: Mapping[str, Any],
        seen: TimerState,
        wanted: Sequence[Wanted],
        section: Mapping[str, Any],
        refusals: Sequence[Refusal] = (),
        more: Sequence[Action] = (),
        private: Sequence[str] = (),
    ) -> Plan:
        """``section`` is what the service goes by; it is declared first. ``refusals``: beside those of files of others.
        ``more``: steps before the files are written. ``private``: its options that only root may read. Pure."""
        refusals = (*managed_files.refusals(files, wanted, "move it away"), *refusals)
        if refusals:
            return Plan(refusals=refusals)
        actions = self.declare(files, declared, wanted, section, private)
        actions += [*more, *managed_files.write(files, wanted)]
        return Plan((*actions, *self.started(seen, self.touched(actions))))

    def declare(
        self,
        files: Files,
        declared: Mapping[str, Any],
        wanted: Sequence[Wanted],
        section: Mapping[str, Any],
        private: Sequence[str] = (),
    ) -> List[Action]:
        """Pure."""
        content: Dict[str, Any] = dict(section)
        content.update(managed_files.remembered(files, [each.path for each in wanted]))
        step = declaration.plan({self.section: declared}, self.section, content, private)
        return [] if step is None else [step]

    def absent(
        self,
        files: Files,
        declared: Mapping[str, Any],
        seen: TimerState,
        more: Sequence[Action] = (),
        paths: Sequence[str] = (),
    ) -> Plan:
        """``more``: steps before the section goes. ``paths``: of its files that are no units. Pure."""
        paths = (*self.paths, *paths)
        ours = all(not files.seen(path).foreign for path in self.paths)
        actions: List[Action] = self.stopped(seen) if ours else []
        gone = managed_files.remove(files, paths)
        actions += gone
        if seen.running and (seen.stale or self.touched(gone)):
            actions.append(ReloadSystemd())
        actions += more
        if declared:
            actions.append(declaration.Declare(self.section, None))
        return Plan(tuple(actions), notes=managed_files.foreign_notes(files, paths))

    def shown(self, outcome: Outcome[Any], dummy: object, planned: bool) -> str:
        """Its section and its files, for diff mode; the state has them as ``declared`` and ``files``."""
        before, actions = outcome.before, outcome.plan.actions if planned else ()
        files = managed_files.text(managed_files.after(before.files, actions))
        return declaration.text({self.section: before.declared or None}, (self.section,), actions) + files


def touched(actions: Iterable[Action], paths: Sequence[str]) -> bool:
    """Whether one of these files is written or removed. Pure."""
    return any(isinstance(one, (WriteFile, RemoveFile)) and one.path in paths for one in actions)


def after_each_end(seconds: int) -> Tuple[str, ...]:
    """Half a minute after the boot, and then so long after each end of the service. Pure."""
    return "OnBootSec=30", "OnUnitInactiveSec={0}".format(seconds), "AccuracySec=1"


def on_calendar(when: str, delay_seconds: int) -> Tuple[str, ...]:
    """At a time of the day or week, up to so much later. Pure."""
    return "OnCalendar=" + when, "RandomizedDelaySec={0}".format(delay_seconds)

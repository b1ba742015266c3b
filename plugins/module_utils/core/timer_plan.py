# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a resource that is a timer with its service, and a section of the declaration. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from . import declaration, managed_files, timer_unit
from .frozen import frozen
from .managed_files import Files, Wanted
from .resource import Action, Outcome, Plan, Refusal, Step

STEPS: Mapping[type, Step] = {**declaration.STEPS, **managed_files.STEPS, **timer_unit.STEPS}


@frozen
class Timer:
    """``others``: services that it has beside the one that the timer starts."""

    section: str
    service: str
    timer: str
    others: Tuple[str, ...] = ()

    @property
    def units(self) -> Tuple[str, ...]:
        return tuple(timer_unit.path(one) for one in (self.service, self.timer, *self.others))

    def shown(self, outcome: Outcome[Any], dummy: object, planned: bool) -> str:
        """Its section and its files, for diff mode; the state has them as ``declared`` and ``files``."""
        before, actions = outcome.before, outcome.plan.actions if planned else ()
        files = managed_files.text(managed_files.after(before.files, actions))
        return declaration.text({self.section: before.declared or None}, (self.section,), actions) + files


def present(
    one: Timer,
    files: Files,
    declared: Mapping[str, Any],
    seen: timer_unit.Seen,
    wanted: Sequence[Wanted],
    section: Mapping[str, Any],
    refusals: Sequence[Refusal] = (),
    more: Sequence[Action] = (),
    private: Sequence[str] = (),
) -> Plan:
    """``section`` is what the service goes by; it is declared first. ``refusals``: beside those of files of others.
    ``more``: steps before the files are written. ``private``: the names of its options that only root may read."""
    refusals = (*managed_files.refusals(files, wanted, "move it away"), *refusals)
    if refusals:
        return Plan(refusals=refusals)
    actions = [*declare(one, files, declared, wanted, section, private), *more, *managed_files.write(files, wanted)]
    actions += timer_unit.started(seen, one.timer, timer_unit.touched(actions, one.units))
    return Plan(tuple(actions))


def declare(
    one: Timer,
    files: Files,
    declared: Mapping[str, Any],
    wanted: Sequence[Wanted],
    section: Mapping[str, Any],
    private: Sequence[str] = (),
) -> List[Action]:
    content: Dict[str, Any] = dict(section)
    content.update(managed_files.remembered(files, [each.path for each in wanted]))
    step = declaration.plan({one.section: declared}, one.section, content, private)
    return [] if step is None else [step]


def absent(
    one: Timer,
    files: Files,
    declared: Mapping[str, Any],
    seen: timer_unit.Seen,
    more: Sequence[Action] = (),
    paths: Sequence[str] = (),
) -> Plan:
    """``more``: steps before the section goes. ``paths``: of its files that are no units."""
    paths = (*one.units, *paths)
    ours = all(not files.seen(path).foreign for path in one.units)
    actions: List[Action] = timer_unit.stopped(seen, one.timer) if ours else []
    gone = managed_files.remove(files, paths)
    actions += gone
    if seen.running and (seen.stale or timer_unit.touched(gone, one.units)):
        actions.append(timer_unit.ReloadSystemd())
    actions += more
    if declared:
        actions.append(declaration.Declare(one.section, None))
    return Plan(tuple(actions), notes=managed_files.foreign_notes(files, paths))

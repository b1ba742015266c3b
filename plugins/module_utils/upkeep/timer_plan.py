# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a resource that is a timer with its service, and a section of the declaration. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..core import declaration, managed_files, timer_unit
from ..core.frozen import frozen
from ..core.managed_files import Files, Wanted
from ..core.resource import Action, Plan


@frozen
class Timer:
    section: str
    service: str
    timer: str

    @property
    def units(self) -> Tuple[str, str]:
        return timer_unit.path(self.service), timer_unit.path(self.timer)


def present(
    one: Timer,
    files: Files,
    declared: Mapping[str, Any],
    seen: timer_unit.Seen,
    wanted: Sequence[Wanted],
    section: Mapping[str, Any],
) -> Plan:
    """``section`` is what the service goes by; it is declared first."""
    refusals = managed_files.refusals(files, wanted, "move it away")
    if refusals:
        return Plan(refusals=refusals)
    content: Dict[str, Any] = dict(section)
    content.update(managed_files.remembered(files, [one.path for one in wanted]))
    step = declaration.plan({one.section: declared}, one.section, content)
    actions: List[Action] = [] if step is None else [step]
    actions += managed_files.write(files, wanted)
    actions += timer_unit.started(seen, one.timer, timer_unit.touched(actions, one.units))
    return Plan(tuple(actions))


def absent(
    one: Timer,
    files: Files,
    declared: Mapping[str, Any],
    seen: timer_unit.Seen,
    more: Sequence[Action] = (),
) -> Plan:
    """``more``: steps before the section goes."""
    ours = all(not files.seen(path).foreign for path in one.units)
    actions: List[Action] = timer_unit.stopped(seen, one.timer) if ours else []
    gone = managed_files.remove(files, one.units)
    actions += gone
    if seen.running and timer_unit.touched(gone, one.units):
        actions.append(timer_unit.ReloadSystemd())
    actions += more
    if declared:
        actions.append(declaration.Declare(one.section, None))
    return Plan(tuple(actions), notes=managed_files.foreign_notes(files, one.units))
